package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

// Each row is a node that was brought to the policy and then does not protect etcd in a way that is easy to overlook. verify
// must not pass, and must name the disk or the setting.
func TestVerifyDoesNotLie(t *testing.T) {
	restart := func(n *iopriotest.Node, content string, files ...string) error {
		return errors.Join(n.Stop("k3s.service"), n.AddUnit(iopriotest.Unit{
			Name: "k3s.service", Content: content, Delegate: true, Main: &iopriotest.Process{Command: "k3s server", Files: files},
		}), n.Start("k3s.service"))
	}
	onSDB := func(n *iopriotest.Node, point string) error {
		return n.Mount(iopriotest.Mount{Dev: "8:16", Point: point, Type: "ext4"})
	}
	for _, tt := range []struct {
		name   string
		opts   iopriotest.Options
		policy func(p *ioprio.Policy)
		broken func(n *iopriotest.Node) error
		want   string // "subject setting status", or a part of the error
	}{
		{
			name:   "T24 slice_idle 0 turns weights off",
			broken: func(n *iopriotest.Node) error { return n.WriteAttr("/sys/block/sda/queue/iosched/slice_idle", "0") },
			want:   "sda slice_idle drift",
		},
		{
			name: "raw systemd lands 10000 and 1000 at the same", opts: iopriotest.Options{Generation: ioprio.Raw},
			policy: func(p *ioprio.Policy) { p.Weights.Kubepods = 1000 },
			want:   "system.slice:kubepods.slice weight_ratio unsupported",
		},
		{
			name: "tenth lands 10 and 1 at the same", opts: iopriotest.Options{Generation: ioprio.Tenth},
			policy: func(p *ioprio.Policy) { p.Weights = ioprio.Weights{System: 10, K3s: 10, Kubepods: 1} },
			want:   "system.slice:kubepods.slice weight_ratio unsupported",
		},
		{
			name: "T19 etcd --wal-dir on another disk, known by its open file alone",
			broken: func(n *iopriotest.Node) error {
				return errors.Join(onSDB(n, "/wal"), restart(n, iopriotest.K3sUnit, "/wal/0000000000000000-0000000000000000.wal"))
			},
			want: "sdb scheduler drift",
		},
		{
			name: "T18 kine's sqlite on another disk, known by its open file alone",
			broken: func(n *iopriotest.Node) error {
				return errors.Join(onSDB(n, "/ds"), restart(n, iopriotest.K3sUnit, "/ds/kine.db", "/ds/kine.db-wal"))
			},
			want: "sdb scheduler drift",
		},
		{
			name: "a shell around k3s: the WAL is open in its child",
			broken: func(n *iopriotest.Node) error {
				_, err := n.AddProcess(iopriotest.Process{Cgroup: "/system.slice/k3s.service", Files: []string{"/wal/0000000000000000-0000000000000000.wal"}})
				return errors.Join(onSDB(n, "/wal"), err)
			},
			want: "sdb scheduler drift",
		},
		{
			name: "raw systemd lands a contrast of 11 as 1.1", opts: iopriotest.Options{Generation: ioprio.Raw},
			policy: func(p *ioprio.Policy) { p.Weights.Kubepods = 900 },
			want:   "system.slice:kubepods.slice weight_ratio unsupported",
		},
		{
			name: "a disk's number cannot be read, so its own weight would be missed",
			broken: func(n *iopriotest.Node) error {
				return errors.Join(n.WriteAttr("/sys/fs/cgroup/kubepods.slice/io.bfq.weight", "8:0 1000"), n.Unreadable("/sys/block/sda/dev"))
			},
			want: "sda scheduler unsupported",
		},
		{
			name: "k3s in a mount namespace of its own",
			broken: func(n *iopriotest.Node) error {
				own, err := os.ReadFile(n.Path("/proc/self/mountinfo"))
				if err != nil {
					return err
				}
				u, err := n.Host().Systemd.Unit(context.Background(), "k3s.service")
				if err != nil {
					return err
				}
				theirs := n.Path(fmt.Sprintf("/proc/%d/mountinfo", u.MainPID))
				if err := os.Remove(theirs); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				return os.WriteFile(theirs, append(own, "900 22 8:16 / /var/lib/rancher rw - ext4 /dev/sdb rw\n901 28 8:16 / /var/lib/rancher rw - ext4 /dev/sdb rw\n"...), 0o600)
			},
			want: "sdb scheduler drift",
		},
		{
			name: "a member of the stripe is gone",
			broken: func(n *iopriotest.Node) error {
				return errors.Join(n.Stack("striped", "/var/lib/rancher", "sdb", "sdc"), n.RemoveDisk("sdc"))
			},
			want: "its member sdc is gone",
		},
		{
			name:   "k3s_unit names a unit that does not exist",
			policy: func(p *ioprio.Policy) { p.Unit = "k3s-sever.service" },
			want:   "k3s-sever.service io_weight drift",
		},
		{
			name: "k3s below kubepods.slice",
			broken: func(n *iopriotest.Node) error {
				return errors.Join(n.Stop("k3s.service"), n.AddUnit(iopriotest.Unit{
					Name: "k3s.service", Slice: "kubepods.slice", Content: iopriotest.K3sUnit, Delegate: true, Main: &iopriotest.Process{Command: "k3s server"},
				}), n.Start("k3s.service"))
			},
			want: "k3s.service lives below kubepods.slice",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, p := base(t, tt.opts), ioprio.DefaultPolicy()
			if _, err := agent.Enforce(t.Context(), n.Host(), p, nil); err != nil {
				t.Fatal(err)
			}
			if tt.policy != nil {
				tt.policy(&p)
				if _, err := agent.Enforce(t.Context(), n.Host(), p, nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.broken != nil {
				if err := tt.broken(n); err != nil {
					t.Fatal(err)
				}
			}
			r, err := agent.Verify(t.Context(), n.Host(), p)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if r.Verdict == ioprio.VerdictPass || r.Startup().Verdict == ioprio.VerdictPass {
				t.Errorf("verdict %s", r.Verdict)
			}
			for _, f := range r.Findings {
				if fmt.Sprintf("%s %s %s", f.Subject, f.Setting, f.Status) == tt.want {
					return
				}
			}
			t.Errorf("no finding %q in %+v", tt.want, r.Findings)
		})
	}
}

// answers lets a test change what systemd says of a unit and which units it lists.
type answers struct {
	ioprio.Systemd
	units func([]string) []string
	unit  func(ioprio.Unit) ioprio.Unit
}

func (a answers) Units(ctx context.Context, patterns ...string) ([]string, error) {
	names, err := a.Systemd.Units(ctx, patterns...)
	if a.units != nil {
		names = a.units(names)
	}
	return names, err
}

func (a answers) Unit(ctx context.Context, name string) (ioprio.Unit, error) {
	if strings.Contains(name, "@") {
		return ioprio.Unit{}, fmt.Errorf("unit name %s is missing the instance name", name)
	}
	u, err := a.Systemd.Unit(ctx, name)
	if a.unit != nil && name == "k3s.service" {
		u = a.unit(u)
	}
	return u, err
}

// What systemd lists and says beside the plain case must neither hide k3s nor break the node.
func TestUnitsThatAreNotPlain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change answers
	}{
		{"a template is listed", answers{units: func(l []string) []string { return append(l, "k3s-backup@.service") }}},
		{"masked while it runs", answers{unit: func(u ioprio.Unit) ioprio.Unit { u.LoadState = "masked"; return u }}},
		{"its file was removed while it runs", answers{unit: func(u ioprio.Unit) ioprio.Unit { u.LoadState, u.FragmentPath = "not-found", ""; return u }}},
		{"its file was broken while it runs", answers{unit: func(u ioprio.Unit) ioprio.Unit { u.LoadState = "bad-setting"; return u }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := base(t, iopriotest.Options{})
			h := n.Host()
			tt.change.Systemd = h.Systemd
			h.Systemd = tt.change
			r, err := agent.Enforce(t.Context(), h, ioprio.DefaultPolicy(), nil)
			if err != nil || r.Verdict != ioprio.VerdictPass {
				t.Errorf("%v: %+v", err, r.Findings)
			}
			if got, err := n.BFQWeight("/system.slice/k3s.service"); strings.TrimSpace(got) != "default 1000" {
				t.Errorf("k3s has %q, %v", got, err)
			}
		})
	}
}

// The configuration may call k3s by an alias.
func TestUnitNamedByAnAlias(t *testing.T) {
	n := base(t, iopriotest.Options{})
	h := n.Host()
	h.Systemd = aliased{h.Systemd}
	p := ioprio.DefaultPolicy()
	p.Unit = "kubernetes.service"
	r, err := agent.Enforce(t.Context(), h, p, nil)
	if err != nil || r.Verdict != ioprio.VerdictPass {
		t.Errorf("%v: %+v", err, r.Findings)
	}
}

// aliased knows k3s.service as kubernetes.service, too, and answers with its own name as systemd does (property Id).
type aliased struct{ ioprio.Systemd }

func (a aliased) Units(context.Context, ...string) ([]string, error) {
	return []string{"kubernetes.service"}, nil
}

func (a aliased) Unit(ctx context.Context, name string) (ioprio.Unit, error) {
	if name == "kubernetes.service" {
		name = "k3s.service"
	}
	return a.Systemd.Unit(ctx, name)
}

// The agent itself writes the cgroup of the cgroupfs driver: what it wants there must not move with what it learns of systemd.
func TestCgroupfsDriverOnEveryGeneration(t *testing.T) {
	for _, g := range []ioprio.Generation{ioprio.Piecewise, ioprio.Tenth, ioprio.Raw} {
		n, err := iopriotest.NewBase(t.TempDir(), iopriotest.Options{Generation: g})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.MakeCgroup("/kubepods"); err != nil {
			t.Fatal(err)
		}
		for pass := range 2 {
			n.Mark()
			r, err := agent.Enforce(t.Context(), n.Host(), ioprio.DefaultPolicy(), nil)
			if err != nil || r.Verdict != ioprio.VerdictPass {
				t.Errorf("generation %d, pass %d: %v, %+v", g, pass, err, r.Findings)
			}
		}
		if w := written(n); len(w) > 0 {
			t.Errorf("generation %d: the second pass wrote %v", g, w)
		}
	}
}

// A queue whose lock is held by a stuck write answers no read at all: each attribute is a fifo here.
func TestVerifyEndsWithItsContextOnAHungQueue(t *testing.T) {
	n := base(t, iopriotest.Options{})
	for _, attr := range []string{"scheduler", "nr_requests", "zoned"} {
		real, err := filepath.EvalSymlinks(n.Path("/sys/block/sda/queue/" + attr))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(real), unix.Mkfifo(real, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := agent.Verify(ctx, n.Host(), ioprio.DefaultPolicy())
	if err == nil {
		t.Error("it passed over a queue that does not answer")
	}
}

// nr_requests under none is the depth of the driver's tags, which the whole host adapter shares and which do not come
// back by themselves: it must never be written there.
func TestDriverTagsAreLeftAlone(t *testing.T) {
	p := ioprio.DefaultPolicy()
	p.NrRequests = 16
	t.Run("T6 scheduler unreadable", func(t *testing.T) {
		n := base(t, iopriotest.Options{})
		if err := errors.Join(n.WriteAttr(scheduler, "none"), n.LoadModule("bfq"), n.Unreadable(scheduler)); err != nil {
			t.Fatal(err)
		}
		tagsStay(t, n, func() error { _, err := agent.Enforce(t.Context(), n.Host(), p, nil); return err })
	})
	t.Run("T6 somebody switches to none after the look", func(t *testing.T) {
		n := base(t, iopriotest.Options{})
		if _, err := agent.Enforce(t.Context(), n.Host(), p, nil); err != nil {
			t.Fatal(err)
		}
		if err := n.WriteAttr(nrRequests, "64"); err != nil {
			t.Fatal(err)
		}
		tagsStay(t, n, func() error {
			var foreign error
			_, err := agent.Enforce(t.Context(), n.Host(), p, func([]ioprio.Change) { foreign = n.WriteAttr(scheduler, "none") })
			return errors.Join(err, foreign)
		})
	})
}

func tagsStay(t *testing.T, n *iopriotest.Node, act func() error) {
	t.Helper()
	before := n.DriverTags("sda")
	if err := act(); err != nil {
		t.Fatal(err)
	}
	if after := n.DriverTags("sda"); after != before {
		t.Errorf("the driver's tags went from %d to %d", before, after)
	}
}
