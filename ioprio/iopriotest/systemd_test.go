package iopriotest

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func base(t *testing.T, opts Options) *Node {
	t.Helper()
	n, err := NewBase(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Node) want(t *testing.T, cgroup, weight string) {
	t.Helper()
	if got := n.reads(t, cgroupfs+cgroup+"/io.bfq.weight"); got != weight {
		t.Errorf("io.bfq.weight of %s is %q, want %q", cgroup, got, weight)
	}
}

// TestWeights is facts 1.1 to 1.3: what each generation makes of IOWeight.
func TestWeights(t *testing.T) {
	for _, tc := range []struct {
		gen      ioprio.Generation
		ioWeight uint64
		want     string
	}{
		{ioprio.Piecewise, 1, "default 1"},
		{ioprio.Piecewise, 50, "default 50"},
		{ioprio.Piecewise, 100, "default 100"},
		{ioprio.Piecewise, 200, "default 109"},
		{ioprio.Piecewise, 500, "default 136"},
		{ioprio.Piecewise, 666, "default 151"},
		{ioprio.Piecewise, 1000, "default 181"},
		{ioprio.Piecewise, 5000, "default 545"},
		{ioprio.Piecewise, 10000, "default 1000"},
		{ioprio.Tenth, 1, "default 1"},
		{ioprio.Tenth, 50, "default 5"},
		{ioprio.Tenth, 100, "default 10"},
		{ioprio.Tenth, 666, "default 67"},
		{ioprio.Tenth, 1000, "default 100"},
		{ioprio.Tenth, 10000, "default 1000"},
		{ioprio.Raw, 100, "default 100"},
		{ioprio.Raw, 1000, "default 1000"},
		{ioprio.Raw, 1001, "default 77"},
		{ioprio.Raw, 10000, "default 77"}, // ERANGE, and nobody hears of it
	} {
		n := base(t, Options{Generation: tc.gen})
		if err := errors.Join(n.LoadModule("bfq"), n.WriteAttr(cgroupfs+"/system.slice/io.bfq.weight", "77")); err != nil {
			t.Fatal(err)
		}
		if err := n.Host().Systemd.SetIOWeight(t.Context(), "system.slice", tc.ioWeight); err != nil {
			t.Errorf("generation %d: IOWeight=%d: %v", tc.gen, tc.ioWeight, err)
		}
		n.want(t, "/system.slice", tc.want)
		if got := n.IOWeight("system.slice"); got != tc.ioWeight {
			t.Errorf("generation %d: the property is %d, want %d", tc.gen, got, tc.ioWeight)
		}
	}
}

// TestStoreBFQWeight is fact 5.1, and C05.
func TestStoreBFQWeight(t *testing.T) {
	n := base(t, Options{})
	if err := n.WriteAttr("/sys/block/sda/queue/scheduler", "bfq"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		value string
		err   error
		want  string
	}{
		{"0", unix.ERANGE, "default 100"},
		{"1001", unix.ERANGE, "default 100"},
		{"heavy", unix.EINVAL, "default 100"},
		{"default 200", nil, "default 200"},
		{"300\n", nil, "default 300"},
		{"8:0 500", nil, "default 300\n8:0 500"},
		{"8:0 1001", unix.EINVAL, "default 300\n8:0 500"},
		{"8:16 500", unix.EOPNOTSUPP, "default 300\n8:0 500"}, // sdb is not on bfq
		{"8:99 500", unix.ENODEV, "default 300\n8:0 500"},
		{"8:0 default", nil, "default 300"},
		{"8:0 500", nil, "default 300\n8:0 500"},
		{"200", nil, "default 200"}, // clears the devices'
	} {
		if err := n.WriteAttr(cgroupfs+"/system.slice/io.bfq.weight", s.value); !errors.Is(err, s.err) {
			t.Errorf("%q: %v, want %v", s.value, err, s.err)
		}
		n.want(t, "/system.slice", s.want)
	}
	if err := n.WriteAttr(cgroupfs+"/io.bfq.weight", "100"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the root cgroup has a weight: %v", err)
	}
}

// TestLateBFQ is C08: systemd has no eye on the module.
func TestLateBFQ(t *testing.T) {
	n := base(t, Options{})
	sd := n.Host().Systemd
	if err := sd.SetIOWeight(t.Context(), "system.slice", 10000); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "ENOENT")
	if got := n.reads(t, cgroupfs+"/system.slice/io.weight"); got != "default 10000" {
		t.Errorf("io.weight is %q", got)
	}
	if err := sd.LoadModule(t.Context(), "bfq"); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "default 100")
	if err := sd.SetIOWeight(t.Context(), "system.slice", 10000); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "default 1000")

	// 1.10: daemon-reload undoes what was written past systemd; C12.
	if err := errors.Join(n.WriteAttr(cgroupfs+"/system.slice/io.bfq.weight", "5"), n.Reload()); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "default 1000")
	if err := errors.Join(n.UnloadModule("bfq"), n.LoadModule("bfq")); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "default 100")
}

// TestSiblings is fact 1.4 and 1.8: who gets io, and what systemd writes to those that nobody asked about.
func TestSiblings(t *testing.T) {
	for gen, want := range map[ioprio.Generation]string{ioprio.Piecewise: "default 100", ioprio.Tenth: "default 10", ioprio.Raw: "default 100"} {
		n := newNode(t, Options{Generation: gen}) // no unit has io yet; C09
		if err := n.LoadModule("bfq"); err != nil {
			t.Fatal(err)
		}
		n.want(t, "/user.slice", "ENOENT")
		if got := n.reads(t, cgroupfs+"/cgroup.subtree_control"); got != "cpu memory pids" {
			t.Errorf("subtree_control is %q", got)
		}
		if err := n.SetWeight("system.slice", 10000); err != nil {
			t.Fatal(err)
		}
		n.want(t, "/user.slice", want)
		n.want(t, "/system.slice/dbus.service", "ENOENT") // a child needs io in its parent's subtree_control
		if got := n.reads(t, cgroupfs+"/user.slice/cgroup.controllers"); got != "cpu memory pids io" {
			t.Errorf("generation %d: controllers of user.slice are %q", gen, got)
		}
	}
	n := newNode(t, Options{Controllers: "cpu memory pids"}) // C11
	if err := errors.Join(n.LoadModule("bfq"), n.SetWeight("system.slice", 10000)); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/system.slice", "ENOENT")
}

// TestInactiveSlice is facts 2.1 and 2.5: what a weight for a slice that does not run leaves behind.
func TestInactiveSlice(t *testing.T) {
	for version, poisoned := range map[string]bool{
		"247.3-7+deb11u6": true, "249.11": true, "250.8": true, "250.9": false, "251.7": true,
		"251.8": false, "252.39-1~deb12u1": false, "257.9": false,
	} {
		n := base(t, Options{SystemdVersion: version})
		if err := n.Host().Systemd.SetIOWeight(t.Context(), "kubepods.slice", 100); err != nil {
			t.Fatal(err)
		}
		if n.reads(t, cgroupfs+"/kubepods.slice/cgroup.procs") == "ENOENT" {
			t.Error("no decoy cgroup")
		}
		if n.reads(t, "/run/systemd/system.control/kubepods.slice.d/50-IOWeight.conf") == "ENOENT" {
			t.Error("no drop-in")
		}
		u, err := n.Host().Systemd.Unit(t.Context(), "kubepods.slice")
		if err != nil || u.Active() || u.ControlGroup != "" {
			t.Errorf("the slice came to life: %+v, %v", u, err)
		}
		if err := n.StartPods(); (err != nil) != poisoned {
			t.Errorf("systemd %s: starting the pods: %v, want an error: %v", version, err, poisoned)
		}
	}
	err := base(t, Options{}).Host().Systemd.SetIOWeight(t.Context(), "k3s-agent.service", 100)
	if err == nil {
		t.Error("a service that does not exist took a weight")
	}
}

func TestUnits(t *testing.T) {
	n := base(t, Options{})
	sd := n.Host().Systemd
	if err := n.StartPods(); err != nil {
		t.Fatal(err)
	}
	names, err := sd.Units(t.Context(), "k3s*.service", "kubepods.slice")
	if want := []string{"k3s.service", "kubepods.slice"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("units %q, want %q (%v)", names, want, err)
	}
	for name, want := range map[string]ioprio.Unit{
		"k3s.service":    {LoadState: "loaded", ActiveState: "active", FragmentPath: "/etc/systemd/system/k3s.service", ControlGroup: "/system.slice/k3s.service", MainPID: 401},
		"kubepods.slice": {LoadState: "loaded", ActiveState: "active", FragmentPath: "/run/systemd/transient/kubepods.slice", ControlGroup: "/kubepods.slice"},
		"kubepods-burstable.slice": {
			LoadState: "loaded", ActiveState: "active", FragmentPath: "/run/systemd/transient/kubepods-burstable.slice",
			ControlGroup: "/kubepods.slice/kubepods-burstable.slice",
		},
		"other.slice":   {LoadState: "loaded", ActiveState: "inactive"},
		"other.service": {LoadState: "not-found", ActiveState: "inactive"},
	} {
		got, err := sd.Unit(t.Context(), name)
		want.Name, want.IOWeight = name, ioprio.WeightUnset
		if err != nil || got.LoadState != want.LoadState || got.ActiveState != want.ActiveState || got.FragmentPath != want.FragmentPath ||
			got.ControlGroup != want.ControlGroup || got.MainPID != want.MainPID || got.IOWeight != want.IOWeight {
			t.Errorf("%s is %+v, want %+v (%v)", name, got, want, err)
		}
	}
	// 2.6: the weight of a transient unit goes with it; that of a service with a file stays.
	for _, name := range []string{"kubepods.slice", "k3s.service"} {
		if err := errors.Join(n.SetWeight(name, 50), n.Stop(name)); err != nil {
			t.Fatal(err)
		}
	}
	if n.reads(t, cgroupfs+"/kubepods.slice/cgroup.procs") != "ENOENT" || n.reads(t, "/run/systemd/transient/kubepods.slice.d/50-IOWeight.conf") != "ENOENT" {
		t.Error("kubepods.slice left something behind")
	}
	if err := errors.Join(n.LoadModule("bfq"), n.StartPods(), n.Start("k3s.service")); err != nil {
		t.Fatal(err)
	}
	n.want(t, "/kubepods.slice", "default 100")
	n.want(t, "/system.slice/k3s.service", "default 50")
	n.BreakSystemd(unix.ECONNRESET)
	if _, err := sd.Version(t.Context()); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("BreakSystemd: %v", err)
	}
}
