package iopriotest

import (
	"fmt"
	"path"
	"strings"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// Unit is what a test says of a unit. Its cgroup follows from its name and slice, as in systemd.
type Unit struct {
	Name      string
	Content   string   // of the unit file at /etc/systemd/system; without it the unit lives in memory only
	Slice     string   // "system.slice" for a service if empty; for a slice its name says it
	Delegate  bool     // gets every controller, io among them
	Transient bool     // made by StartTransientUnit, with IOAccounting as kubelet asks: gone once stopped
	Main      *Process // of a service that runs; its PID and Cgroup are filled in
}

// unit is a unit in systemd's memory.
type unit struct {
	Unit
	active  bool
	weight  uint64 // IOWeight
	dropins []string
	applied bool // the io settings were written to the cgroup since it was made or the unit was reloaded
	pid     int
}

const (
	runtimeDropins   = "/run/systemd/system.control/"
	transientDropins = "/run/systemd/transient/"
	weightDropin     = ".d/50-IOWeight.conf"
)

func (n *Node) bootUnits() {
	for _, name := range []string{"init.scope", "system.slice", "user.slice", "dbus.service"} {
		n.units[name] = &unit{Unit: Unit{Name: name}, active: true, weight: ioprio.WeightUnset}
		n.makeGroup(n.cgroupOf(n.units[name]))
	}
}

// cgroupOf is where systemd puts a unit: a-b.slice lies in a.slice.
func (n *Node) cgroupOf(u *unit) string {
	switch stem, isSlice := strings.CutSuffix(u.Name, ".slice"); {
	case u.Name == "-.slice":
		return "/"
	case u.Name == "init.scope":
		return "/init.scope"
	case isSlice:
		return slicePath(stem)
	case u.Slice != "":
		return path.Join(slicePath(strings.TrimSuffix(u.Slice, ".slice")), u.Name)
	}
	return "/system.slice/" + u.Name
}

func slicePath(stem string) string {
	dir := "/"
	for i := range len(stem) + 1 {
		if i == len(stem) || stem[i] == '-' {
			dir = path.Join(dir, stem[:i]+".slice")
		}
	}
	return dir
}

// AddUnit makes a unit known, not yet started.
func (n *Node) AddUnit(u Unit) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.units[u.Name] = &unit{Unit: u, weight: ioprio.WeightUnset, dropins: n.leftovers(u.Name)}
	if u.Content != "" {
		n.tree.file(n.fragment(n.units[u.Name]), u.Content)
	}
	return n.tree.failed()
}

// RemoveUnit forgets a unit that does not run, with its file.
func (n *Node) RemoveUnit(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.units[name]
	if u == nil || u.active {
		return fmt.Errorf("removing %s: not there, or it runs", name)
	}
	n.tree.drop(n.fragment(u))
	delete(n.units, name)
	return n.tree.failed()
}

func (n *Node) fragment(u *unit) string {
	switch {
	case u.Transient:
		return transientDropins + u.Name
	case u.Content != "":
		return "/etc/systemd/system/" + u.Name
	}
	return ""
}

// leftovers are the drop-ins that lie on disk for a unit that systemd forgot.
func (n *Node) leftovers(name string) []string {
	if file := runtimeDropins + name + weightDropin; n.has(file) {
		return []string{file}
	}
	return nil
}

func (n *Node) has(file string) bool {
	_, err := n.tree.real(file)
	return err == nil
}

// Start starts a unit that is known.
func (n *Node) Start(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.units[name]
	if u == nil {
		return fmt.Errorf("starting %s: Unit %s not found", name, name)
	}
	n.start(u)
	return n.tree.failed()
}

func (n *Node) start(u *unit) {
	if u.active {
		return
	}
	u.active = true
	if u.Transient {
		n.tree.file(n.fragment(u), "# This is a transient unit file, created programmatically via the systemd API. Do not edit.\n[Slice]\nIOAccounting=yes\n")
	}
	if u.Main != nil {
		n.nextPID++
		main := *u.Main
		main.PID, main.Cgroup = n.nextPID, n.cgroupOf(u)
		n.addProcess(main)
		u.pid = main.PID
	}
	n.realize(u)
}

// StartTransient is runc's StartTransientUnit: on a systemd that counts drop-ins as a unit, a left-over one for the name
// makes it fail (src/core/unit.c unit_is_pristine, fixed in 252, 251.8 and 250.9).
func (n *Node) StartTransient(u Unit) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := n.leftovers(u.Name)
	counted := n.systemdBefore(250, 9) || n.systemdBefore(251, 8) && !n.systemdBefore(251, 0) // 250.9 and later 250 are right
	if old := n.units[u.Name]; old != nil && old.active || left != nil && counted {
		return fmt.Errorf("starting %s: Unit %s already exists", u.Name, u.Name)
	}
	u.Transient = true
	n.units[u.Name] = &unit{Unit: u, weight: ioprio.WeightUnset, dropins: left}
	if left != nil {
		n.units[u.Name].weight = n.leftoverWeight(left[0])
	}
	n.start(n.units[u.Name])
	return n.tree.failed()
}

// StartPods starts kubepods.slice the way kubelet and runc do, with one burstable pod whose container runs.
func (n *Node) StartPods() error {
	const pod = "kubepods-burstable-pod0b0e0e0e_0000_4000_8000_000000000001.slice"
	for _, u := range []Unit{
		{Name: "kubepods.slice"},
		{Name: "kubepods-burstable.slice"},
		{Name: "kubepods-besteffort.slice"},
		{Name: pod},
		{Name: "cri-containerd-0123456789abcdef.scope", Slice: pod, Delegate: true, Main: &Process{Command: "/pause"}},
	} {
		if err := n.StartTransient(u); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops a unit and what lies below it: the cgroups go, and transient units are forgotten with their drop-ins.
func (n *Node) Stop(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.units[name]
	if u == nil {
		return fmt.Errorf("stopping %s: Unit %s not loaded", name, name)
	}
	cgroup := n.cgroupOf(u)
	for _, each := range n.units {
		if in := n.cgroupOf(each); in != cgroup && !strings.HasPrefix(in, cgroup+"/") {
			continue
		}
		each.active, each.applied = false, false
		if each.pid != 0 {
			n.removeProcess(each.pid)
			each.pid = 0
		}
		if each.Transient {
			n.tree.drop(n.fragment(each), transientDropins+each.Name+".d")
			delete(n.units, each.Name)
		}
	}
	n.removeGroup(cgroup)
	return n.tree.failed()
}

// SetWeight is systemctl set-property --runtime UNIT IOWeight=WEIGHT.
func (n *Node) SetWeight(name string, weight uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.setWeight(name, weight); err != nil {
		return err
	}
	return n.tree.failed()
}
