package ioprio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	kubepodsSlice  = "kubepods.slice" // the systemd cgroup driver's parent of all pods
	kubepodsCgroup = "/kubepods"      // the cgroupfs driver's; systemd does not know it
)

// observeGroups reads the weights from the root down: every slice above k3s, k3s itself, the pods.
func observeGroups(ctx context.Context, h Host, units []Unit, s *State) []Group {
	var groups []Group
	add := func(g Group) {
		if !slices.ContainsFunc(groups, func(o Group) bool { return o.Name == g.Name }) {
			groups = append(groups, g)
		}
	}
	above := units
	if len(above) == 0 {
		above = []Unit{{}}
	}
	for _, u := range above {
		for _, slice := range prefixes(filepath.Dir(u.place()))[1:] { // the root has no weight
			add(observeGroup(ctx, h, s, GroupSlice, Unit{Name: filepath.Base(slice), ControlGroup: slice}))
		}
	}
	for _, u := range units {
		g := newGroup(h, GroupK3s, u)
		g.MainCgroup = Attr{Source: filepath.Join(h.Rootfs, u.FragmentPath)}
		if u.MainPID > 0 {
			g.MainCgroup = mainCgroup(h, u.MainPID)
		}
		add(g)
	}
	pods := observeGroup(ctx, h, s, GroupPods, Unit{Name: kubepodsSlice, ControlGroup: "/" + kubepodsSlice})
	cgroupfs := newGroup(h, GroupPods, Unit{Name: kubepodsCgroup, ControlGroup: kubepodsCgroup})
	cgroupfs.Unit = Unit{}
	if pods.Exists || !cgroupfs.Exists {
		add(pods)
	}
	if cgroupfs.Exists {
		add(cgroupfs)
	}
	return groups
}

// observeSiblings reads the weights of units that every node has below the root, and asks systemd for those that are not
// the kernel's default.
func observeSiblings(ctx context.Context, h Host, s *State) []Group {
	var siblings []Group
	if !s.Asked {
		return nil
	}
	for _, name := range []string{"init.scope", "user.slice"} {
		w, err := parseBFQWeights(readAttr(h.cgroup(name, "io.bfq.weight")).Value)
		if err == nil && w.Default != defaultBFQWeight {
			siblings = append(siblings, observeGroup(ctx, h, s, "", Unit{Name: name, ControlGroup: "/" + name}))
		}
	}
	return siblings
}

// observeGroup asks systemd for a slice, and falls back on where its cgroup must be when systemd does not answer.
func observeGroup(ctx context.Context, h Host, s *State, role GroupRole, known Unit) Group {
	if !s.Asked || s.BusError != nil {
		known.IOWeight = WeightUnset
		return newGroup(h, role, known)
	}
	u, err := h.Systemd.Unit(ctx, known.Name)
	if err != nil {
		s.BusError = err
		known.IOWeight = WeightUnset
		return newGroup(h, role, known)
	}
	return newGroup(h, role, u.withoutDecoy())
}

// withoutDecoy forgets the control group of a unit that does not run. systemd may name one, and the kernel may have it:
// SetUnitProperties makes it for a unit that was never started (src/core/cgroup.c, unit_realize_cgroup).
func (u Unit) withoutDecoy() Unit {
	if !u.Active() {
		u.ControlGroup = ""
	}
	return u
}

// newGroup reads a unit's cgroup, if the kernel has it.
func newGroup(h Host, role GroupRole, u Unit) Group {
	g := Group{Name: u.Name, Role: role, Unit: u, Cgroup: u.place()}
	g.Exists = u.ControlGroup != "" && isDir(h.cgroup(g.Cgroup))
	g.Weight = readAttr(h.cgroup(g.Cgroup, "io.bfq.weight"))
	if g.Weight.Absent() {
		g.NoIO = levelWithoutIO(h, g.Cgroup)
		g.Exists = g.Exists && isDir(h.cgroup(g.Cgroup)) // it may have gone since the first look
	}
	return g
}

// place is the cgroup of a unit, where it is or will be.
func (u Unit) place() string {
	switch {
	case u.ControlGroup != "":
		return u.ControlGroup
	case strings.HasSuffix(u.Name, ".slice"):
		return sliceCgroup(u.Name)
	}
	return filepath.Join(sliceCgroup(u.Slice), u.Name)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// levelWithoutIO is the first control file from the root down that does not hand the io controller on to the cgroup, or
// empty.
func levelWithoutIO(h Host, cgroup string) string {
	for _, parent := range prefixes(filepath.Dir(cgroup)) {
		control := readAttr(h.cgroup(parent, "cgroup.subtree_control"))
		if control.Err != nil || !slices.Contains(strings.Fields(control.Value), "io") {
			return control.Source
		}
	}
	return ""
}

var errNoCgroup = errors.New("no cgroup v2 row")

// mainCgroup is where the kernel says a process lives (cgroups(7), /proc/PID/cgroup: "0::" is cgroup v2).
func mainCgroup(h Host, pid int) Attr {
	a := readAttr(h.proc(strconv.Itoa(pid), "cgroup"))
	if a.Err != nil {
		return a
	}
	for line := range strings.Lines(a.Value) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			a.Value = path
			return a
		}
	}
	a.Value, a.Err = "", errNoCgroup
	return a
}
