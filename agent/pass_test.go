package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

const (
	scheduler  = "/sys/block/sda/queue/scheduler"
	nrRequests = "/sys/block/sda/queue/nr_requests"
)

// base is the machine of the scenarios with its pods.
func base(t *testing.T, opts iopriotest.Options) *iopriotest.Node {
	t.Helper()
	n, err := iopriotest.NewBase(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.StartPods(); err != nil {
		t.Fatal(err)
	}
	n.Mark()
	return n
}

// written are the agent's own writes and what it asked of systemd.
func written(n *iopriotest.Node) []string {
	var list []string
	for _, w := range n.Writes() {
		if w.By == iopriotest.Agent {
			list = append(list, fmt.Sprintf("%s = %s", w.Path, w.Value))
		}
	}
	return append(list, n.Calls()...)
}

// Each row lets one thing go wrong and names all that may still be written, and what the report must then say.
func TestApplyFailsClosed(t *testing.T) {
	weights := []string{"SetIOWeight system.slice 10000", "SetIOWeight k3s.service 10000", "SetIOWeight kubepods.slice 100"}
	for _, tt := range []struct {
		name    string
		broken  func(n *iopriotest.Node) error
		written []string
		finding string // "subject setting status", and a part of the reason behind a colon
	}{
		{
			"nothing goes wrong", func(*iopriotest.Node) error { return nil },
			append([]string{scheduler + " = bfq", nrRequests + " = 32", "LoadModule bfq"}, weights...), "",
		},
		{
			"T6 the switch is refused: nr_requests is not written",
			func(n *iopriotest.Node) error { return n.Fail(scheduler, unix.EINVAL) },
			append([]string{scheduler + " = bfq", "LoadModule bfq"}, weights...),
			"sda scheduler drift: invalid argument",
		},
		{
			"T5 the switch is accepted and ignored: nr_requests is not written",
			func(n *iopriotest.Node) error { return n.Ignore(scheduler) },
			append([]string{scheduler + " = bfq", "LoadModule bfq"}, weights...),
			"sda scheduler drift: the kernel took bfq and has mq-deadline",
		},
		{
			"T35 the switch fails half-way and leaves none",
			func(n *iopriotest.Node) error { n.BreakSwitch("sda"); return nil },
			append([]string{scheduler + " = bfq", "LoadModule bfq"}, weights...),
			"sda scheduler drift",
		},
		{
			"T8 nr_requests is accepted and ignored",
			func(n *iopriotest.Node) error { return n.Ignore(nrRequests) },
			append([]string{scheduler + " = bfq", nrRequests + " = 32", "LoadModule bfq"}, weights...),
			"sda nr_requests drift: the kernel took 32 and has 64",
		},
		{
			"the module cannot be loaded: nothing else is touched",
			func(n *iopriotest.Node) error { n.AllowModule("bfq", false); return nil },
			[]string{"LoadModule bfq"},
			"sda scheduler drift: module bfq could not be loaded",
		},
		{
			"systemd does not answer, so nobody can load the module: nothing is touched",
			func(n *iopriotest.Node) error { n.BreakSystemd(errors.New("the bus is gone")); return nil },
			nil,
			"k3s.service main_process unreadable: the bus is gone",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := base(t, iopriotest.Options{})
			if err := tt.broken(n); err != nil {
				t.Fatal(err)
			}
			r, err := agent.Enforce(t.Context(), n.Host(), ioprio.DefaultPolicy(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.written, written(n)); diff != "" {
				t.Errorf("written (-want +got)\n%s", diff)
			}
			if tt.finding == "" {
				if r.Verdict != ioprio.VerdictPass {
					t.Errorf("verdict %s: %+v", r.Verdict, r.Findings)
				}
				return
			}
			if r.Verdict != ioprio.VerdictFail {
				t.Errorf("verdict %s, want fail", r.Verdict)
			}
			want, reason, _ := strings.Cut(tt.finding, ": ")
			for _, f := range r.Findings {
				if fmt.Sprintf("%s %s %s", f.Subject, f.Setting, f.Status) == want && strings.Contains(f.Reason, reason) {
					return
				}
			}
			t.Errorf("no finding %q in %+v", tt.finding, r.Findings)
		})
	}
}

// A unit that stopped between the look and the write must not get its cgroup back as a decoy.
func TestApplyLeavesAStoppedUnitAlone(t *testing.T) {
	n := base(t, iopriotest.Options{})
	h, p := n.Host(), ioprio.DefaultPolicy()
	s, err := ioprio.Observe(t.Context(), h, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Stop("kubepods.slice"); err != nil {
		t.Fatal(err)
	}
	n.Mark()
	if errs := ioprio.Apply(t.Context(), h, ioprio.Check(p, s).Changes()); len(errs) > 0 {
		t.Errorf("got %v", errs)
	}
	for _, call := range n.Calls() {
		if strings.Contains(call, "kubepods") {
			t.Errorf("systemd was asked: %s", call)
		}
	}
	r, err := agent.Verify(t.Context(), h, p)
	if err != nil || r.Verdict != ioprio.VerdictPending {
		t.Errorf("verdict %s, %v, want pending", r.Verdict, err)
	}
}

// A write that the kernel never ends must not hold apply beyond its context.
func TestApplyEndsWithItsContext(t *testing.T) {
	n := base(t, iopriotest.Options{})
	release, err := n.Hang(nrRequests)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	h, p := n.Host(), ioprio.DefaultPolicy()
	s, err := ioprio.Observe(t.Context(), h, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	write := h.Write
	h.Write = func(path, value string) error {
		if strings.HasSuffix(path, "nr_requests") {
			cancel()
		}
		return write(path, value)
	}
	errs := ioprio.Apply(ctx, h, ioprio.Check(p, s).Changes())
	if len(errs) == 0 || errs[0].Setting != ioprio.SettingNrRequests || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("got %v, want nr_requests cancelled", errs)
	}
}

// The second pass on a node that is right writes nothing, in every generation of systemd and kernel.
func TestApplyIsIdempotent(t *testing.T) {
	for _, opts := range []iopriotest.Options{
		{}, {Kernel: iopriotest.Linux612, SystemdVersion: "257.8-1"}, {Generation: ioprio.Tenth}, {Generation: ioprio.Raw}, {BuiltinBFQ: true},
	} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			n := base(t, opts)
			for pass := range 2 {
				n.Mark()
				r, err := agent.Enforce(t.Context(), n.Host(), ioprio.DefaultPolicy(), nil)
				if err != nil || r.Verdict != ioprio.VerdictPass {
					t.Fatalf("pass %d: %v, %+v", pass, err, r.Findings)
				}
			}
			if w := written(n); len(w) > 0 {
				t.Errorf("the second pass wrote %v", w)
			}
		})
	}
}

// After a module that could not be loaded nothing was written, so no finding may advise to apply again as it is.
func TestEnforceNamesTheFirstCause(t *testing.T) {
	n := base(t, iopriotest.Options{})
	n.AllowModule("bfq", false)
	r, err := agent.Enforce(t.Context(), n.Host(), ioprio.DefaultPolicy(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Status == ioprio.StatusDrift && f.Setting != ioprio.SettingScheduler && !strings.HasPrefix(f.Fix, "mend the module of bfq first (module bfq could not be loaded") {
			t.Errorf("%s %s: %s", f.Subject, f.Setting, f.Fix)
		}
		if f.Setting == ioprio.SettingScheduler && !strings.Contains(f.Fix, "modprobe bfq") {
			t.Errorf("%s %s: %s", f.Subject, f.Setting, f.Fix)
		}
	}
}

// A node that was changed and then cannot be observed is not a node that nothing was done to.
func TestEnforceTellsThatItChanged(t *testing.T) {
	n := base(t, iopriotest.Options{})
	h := n.Host()
	write := h.Write
	h.Write = func(path, value string) error {
		if strings.HasSuffix(path, "nr_requests") {
			return errors.Join(n.Unmount("/var/lib/rancher"), n.Mount(iopriotest.Mount{Point: "/var/lib/rancher", Type: "tmpfs"}), write(path, value))
		}
		return write(path, value)
	}
	_, err := agent.Enforce(t.Context(), h, ioprio.DefaultPolicy(), nil)
	changed, ok := errors.AsType[*agent.ChangedError](err)
	if !ok || !strings.Contains(err.Error(), "the node was changed, and then: ") || changed.Unwrap() == nil {
		t.Errorf("got %v, want a ChangedError", err)
	}
}

// The units that nobody gave a weight tell the generation when k3s and the pods do not.
func TestSiblingsTellTheGeneration(t *testing.T) {
	n := base(t, iopriotest.Options{Generation: ioprio.Tenth})
	p := ioprio.DefaultPolicy()
	p.Weights = ioprio.Weights{System: 1000, K3s: 1000, Kubepods: 1000}
	if err := errors.Join(n.LoadModule("bfq"), n.Reload()); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Enforce(t.Context(), n.Host(), p, nil); err != nil {
		t.Fatal(err)
	}
	n.Mark()
	r, err := agent.Enforce(t.Context(), n.Host(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings { // all land at 100, so there is no ratio; but each is what this systemd writes
		if f.Setting == ioprio.SettingIOWeight && f.Status != ioprio.StatusOK {
			t.Errorf("%+v", f)
		}
	}
	if w := written(n); len(w) > 0 {
		t.Errorf("the second pass wrote %v", w)
	}
}
