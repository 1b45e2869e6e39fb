package ioprio_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

func newBase(t *testing.T, opts iopriotest.Options) *node {
	t.Helper()
	n, err := iopriotest.NewBase(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// put writes a file of the node.
func put(n *node, path, text string) error {
	at := n.Path(path)
	return cmp.Or(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
}

var rke2 = iopriotest.Unit{Name: "rke2-server.service", Content: "[Service]\nExecStart=/usr/local/bin/rke2 server\n"}

func TestObserveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(n *node) error
		want  string
	}{
		{"A09 LXC", func(n *node) error { return put(n, "/run/systemd/container", "lxc\n") }, "this is a container (/run/systemd/container exists)"},
		{"A30 docker", func(n *node) error { return put(n, "/.dockerenv", "") }, "this is a container (/.dockerenv exists)"},
		{"podman", func(n *node) error { return put(n, "/run/.containerenv", "") }, "this is a container (/run/.containerenv exists)"},
		{"T17 RKE2 alone", func(n *node) error {
			return cmp.Or(n.Stop("k3s.service"), n.RemoveUnit("k3s.service"), n.AddUnit(rke2))
		}, "this is an RKE2 node (rke2-server.service)"},
		{"T17 RKE2 beside a k3s that is installed", func(n *node) error {
			return cmp.Or(n.Stop("k3s.service"), n.AddUnit(rke2), n.Start(rke2.Name))
		}, "this is an RKE2 node (rke2-server.service)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newBase(t, iopriotest.Options{})
			if err := tt.build(n); err != nil {
				t.Fatal(err)
			}
			hosts := []ioprio.Host{n.Host()}
			if !strings.Contains(tt.name, "beside") { // a captured tree does not tell which unit runs
				hosts = append(hosts, captured(n))
			}
			for _, host := range hosts {
				_, err := ioprio.Observe(t.Context(), host, ioprio.DefaultPolicy())
				var refused *ioprio.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.want) {
					t.Errorf("got %v, want a refusal with %q", err, tt.want)
				}
			}
		})
	}
}

// captured is the node's tree without its systemd.
func captured(n *node) ioprio.Host {
	h := n.Host()
	h.Systemd, h.Write = nil, nil
	return h
}

// Each row names the paths with their roles and disks, as "path: roles: disks".
func TestObservePaths(t *testing.T) {
	const (
		data    = "/var/lib/rancher/k3s"
		etcd    = data + "/server/db/etcd"
		wal     = etcd + "/member/wal"
		openWAL = wal + ": wal: sda" // the fake's etcd has it open
	)
	for _, tt := range []struct {
		name  string
		build func(n *node) error
		want  []string
	}{
		{"as installed", func(*node) error { return nil }, []string{data + ": data: sda", etcd + ": datastore: sda", openWAL}},
		{"A21 the datastore on a disk of its own", func(n *node) error {
			return n.Mount(mount{Dev: "8:16", Point: data + "/server/db", Type: "ext4"})
		}, []string{data + ": data: sda", etcd + ": datastore: sdb", wal + ": wal: sdb"}},
		{"the WAL on a disk of its own, below the datastore", func(n *node) error {
			return n.Mount(mount{Dev: "8:32", Point: wal, Type: "ext4"})
		}, []string{data + ": data: sda", etcd + ": datastore: sda", wal + ": wal: sdc"}},
		{"T19 the open file is the last word", func(n *node) error {
			_, err := n.AddProcess(iopriotest.Process{PID: mainPID(n), Cgroup: "/system.slice/k3s.service", Files: []string{"/fast/member/wal/1.wal"}})
			return cmp.Or(err, n.Mount(mount{Dev: "8:48", Point: "/fast", Type: "ext4"}), os.MkdirAll(n.Path("/fast/member/wal"), 0o755))
		}, []string{data + ": data: sda", etcd + ": datastore: sda", wal + ": wal: sda", "/fast/member/wal: wal: sdd"}},
		{"T18 sqlite", func(n *node) error {
			_, err := n.AddProcess(iopriotest.Process{PID: mainPID(n), Cgroup: "/system.slice/k3s.service", Files: []string{data + "/server/db/state.db-wal"}})
			return cmp.Or(err, os.RemoveAll(n.Path(etcd)))
		}, []string{data + ": data: sda", data + "/server/db: datastore,wal: sda"}},
		{"T18 agent node", func(n *node) error {
			_, err := n.AddProcess(iopriotest.Process{PID: mainPID(n), Cgroup: "/system.slice/k3s.service"})
			return cmp.Or(err, os.RemoveAll(n.Path(data+"/server")))
		}, []string{data + ": data: sda"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newBase(t, iopriotest.Options{})
			if err := tt.build(n); err != nil {
				t.Fatal(err)
			}
			s, err := ioprio.Observe(t.Context(), n.Host(), ioprio.DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range s.Paths {
				got = append(got, p.Path+": "+strings.Join(p.Roles, ",")+": "+strings.Join(p.Disks, ","))
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// mainPID is that of the base machine's k3s.service.
func mainPID(n *node) int {
	u, err := n.Host().Systemd.Unit(context.Background(), "k3s.service")
	if err != nil {
		panic(err)
	}
	return u.MainPID
}

// Each row names the cgroups from the root down, as "name role cgroup".
func TestObserveGroups(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(n *node) error
		want  []string
	}{
		{"no pods yet", func(*node) error { return nil }, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service", "kubepods.slice pods /kubepods.slice absent",
		}},
		{"pods", func(n *node) error { return n.StartPods() }, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service", "kubepods.slice pods /kubepods.slice",
		}},
		{"C15 cgroupfs driver", func(n *node) error { return n.MakeCgroup("/kubepods") }, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service", "/kubepods pods /kubepods",
		}},
		{"T15 both", func(n *node) error { return cmp.Or(n.StartPods(), n.MakeCgroup("/kubepods")) }, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service", "kubepods.slice pods /kubepods.slice", "/kubepods pods /kubepods",
		}},
		{"a second unit that does not run", func(n *node) error {
			return n.AddUnit(iopriotest.Unit{Name: "k3s-agent.service", Content: "[Service]\nExecStart=/usr/local/bin/k3s agent\n"})
		}, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service", "kubepods.slice pods /kubepods.slice absent",
		}},
		{"k3s stopped", func(n *node) error { return n.Stop("k3s.service") }, []string{
			"system.slice slice /system.slice", "k3s.service k3s /system.slice/k3s.service absent", "kubepods.slice pods /kubepods.slice absent",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newBase(t, iopriotest.Options{})
			if err := tt.build(n); err != nil {
				t.Fatal(err)
			}
			s, err := ioprio.Observe(t.Context(), n.Host(), ioprio.DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range s.Groups {
				line := g.Name + " " + string(g.Role) + " " + g.Cgroup
				if !g.Exists {
					line += " absent"
				}
				got = append(got, line)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// k3s in a slice of its own: that slice, not system.slice, competes with the pods.
func TestObserveGroupsInAnotherSlice(t *testing.T) {
	n, err := iopriotest.New(t.TempDir(), iopriotest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/var/lib/rancher", Type: "ext4"}),
		n.AddUnit(iopriotest.Unit{Name: "infra.slice"}), n.AddUnit(iopriotest.Unit{Name: "infra-k3s.slice"}), n.Start("infra.slice"), n.Start("infra-k3s.slice"),
		n.AddUnit(iopriotest.Unit{Name: "k3s.service", Content: iopriotest.K3sUnit, Slice: "infra-k3s.slice", Delegate: true, Main: &iopriotest.Process{Command: "etcd"}}),
		n.Start("k3s.service"), n.StartPods())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ioprio.Observe(t.Context(), n.Host(), ioprio.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range ioprio.Check(ioprio.DefaultPolicy(), s).Findings {
		if f.Setting == ioprio.SettingIOWeight || f.Setting == ioprio.SettingWeightRatio {
			got = append(got, f.Subject)
		}
	}
	want := []string{"infra.slice", "infra-k3s.slice", "k3s.service", "kubepods.slice", "infra.slice:kubepods.slice"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
