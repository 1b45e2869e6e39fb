package iopriotest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupfs = "/sys/fs/cgroup"

// defaultWeight of io.weight and io.bfq.weight (CGROUP_WEIGHT_DFL, BFQ_WEIGHT_LEGACY_DFL).
const defaultWeight = 100

// group is a control group of the unified hierarchy.
type group struct {
	name     string // "/system.slice"
	subtree  []string
	io       bool // has the io controller
	ioWeight uint64
	bfq      uint64
	devices  map[string]uint64
}

func (n *Node) bootCgroups() {
	n.groups["/"] = &group{name: "/", subtree: []string{"cpu", "memory", "pids"}}
	n.renderGroup(n.groups["/"])
	n.tree.attrs(cgroupfs, map[string]string{"cgroup.controllers": n.opts.Controllers})
	n.tree.file(cgroupfs+"/io.cost.qos", "")
	n.tree.file(cgroupfs+"/io.cost.model", "")
}

// MakeCgroup makes a control group and those above it as a program that bypasses systemd does; as kubelet with the
// cgroupfs driver, it enables every controller on the way.
func (n *Node) MakeCgroup(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.makeGroup(name)
	n.enableIO(name)
	return n.tree.failed()
}

// RemoveCgroup removes a control group with all below it.
func (n *Node) RemoveCgroup(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeGroup(name)
	return n.tree.failed()
}

func (n *Node) makeGroup(name string) *group {
	if g := n.groups[name]; g != nil {
		return g
	}
	parent := n.makeGroup(path.Dir(name))
	g := &group{name: name, io: slices.Contains(parent.subtree, "io"), ioWeight: defaultWeight, bfq: defaultWeight}
	n.groups[name] = g
	n.renderGroup(g)
	return g
}

func (n *Node) removeGroup(name string) {
	for each, g := range n.groups {
		if each == name || strings.HasPrefix(each, name+"/") {
			delete(n.groups, g.name)
		}
	}
	n.tree.drop(cgroupfs + name)
}

// enableIO puts io into cgroup.subtree_control of every cgroup above, so that their other children get it, too.
func (n *Node) enableIO(name string) {
	if !slices.Contains(strings.Fields(n.opts.Controllers), "io") {
		return
	}
	if parent := path.Dir(name); name != "/" {
		n.enableIO(parent)
		g := n.groups[parent]
		if !slices.Contains(g.subtree, "io") {
			g.subtree = append(g.subtree, "io")
			n.renderGroup(g)
		}
		for _, child := range n.groups {
			if child.name != "/" && path.Dir(child.name) == parent && !child.io {
				child.io, child.ioWeight, child.bfq = true, defaultWeight, defaultWeight
				n.renderGroup(child)
			}
		}
	}
}

func (n *Node) renderGroup(g *group) {
	dir := path.Join(cgroupfs, g.name)
	n.tree.attrs(dir, map[string]string{
		"cgroup.subtree_control": strings.Join(g.subtree, " "),
		"io.pressure":            "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
	})
	var pids strings.Builder
	for pid, p := range n.procs {
		if p.Cgroup == g.name {
			fmt.Fprintln(&pids, pid)
		}
	}
	n.tree.file(dir+"/cgroup.procs", pids.String())
	if g.name == "/" {
		return
	}
	n.tree.attrs(dir, map[string]string{
		"cgroup.controllers": strings.Join(n.groups[path.Dir(g.name)].subtree, " "),
		"cgroup.type":        "domain",
	})
	if g.io {
		n.tree.attrs(dir, map[string]string{"io.weight": fmt.Sprintf("default %d", g.ioWeight)})
	}
	switch file := dir + "/io.bfq.weight"; {
	case g.io && n.bfq.loaded:
		n.tree.file(file, g.weights())
	case !n.tree.veil[file]:
		n.tree.drop(file)
	}
}

// weights is io.bfq.weight (block/bfq-cgroup.c bfq_io_show_weight).
func (g *group) weights() string {
	var b strings.Builder
	fmt.Fprintf(&b, "default %d\n", g.bfq)
	for dev, w := range g.devices {
		fmt.Fprintf(&b, "%s %d\n", dev, w)
	}
	return b.String()
}

// storeBFQWeight is block/bfq-cgroup.c bfq_io_set_weight.
func (n *Node) storeBFQWeight(g *group, value string) error {
	defer n.renderGroup(g)
	fields := strings.Fields(value)
	if len(fields) == 0 || len(fields) > 2 {
		return unix.EINVAL
	}
	word := fields[len(fields)-1]
	w, err := strconv.ParseUint(word, 10, 64)
	if len(fields) == 1 || fields[0] == "default" {
		switch {
		case err != nil:
			return unix.EINVAL
		case w < 1 || w > 1000:
			return unix.ERANGE
		}
		g.bfq, g.devices = w, nil // the default clears the weights of devices
		return nil
	}
	q := n.queueOfDev(fields[0])
	switch {
	case q == nil:
		return unix.ENODEV
	case q.active != bfqName:
		return unix.EOPNOTSUPP
	case word == "default":
		delete(g.devices, fields[0])
		return nil
	case err == nil && w == 0:
		return unix.ERANGE
	case err != nil || w > 1000:
		return unix.EINVAL
	}
	if g.devices == nil {
		g.devices = map[string]uint64{}
	}
	g.devices[fields[0]] = w
	return nil
}

// storeIOWeight is the default of block/blk-iocost.c ioc_weight_write: it says nothing about BFQ.
func (n *Node) storeIOWeight(g *group, value string) error {
	w, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(value), "default")), 10, 64)
	if err != nil || w < 1 || w > 10000 {
		return unix.EINVAL
	}
	g.ioWeight = w
	n.renderGroup(g)
	return nil
}

func (n *Node) queueOfDev(dev string) *queue {
	for name, b := range n.blocks {
		if b.dev == dev {
			return n.queues[name]
		}
	}
	return nil
}
