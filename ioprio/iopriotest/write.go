package iopriotest

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The writers that the log of writes tells apart.
const (
	Agent   = "agent"   // through Host.Write
	Systemd = "systemd" // by the fake systemd
	Foreign = "foreign" // by the test
)

// Write is a write(2) that reached the kernel, whatever became of it.
type Write struct {
	Path  string // as /sys names it: /sys/block/sda/queue/scheduler
	Value string
	By    string // Agent, Systemd, Foreign
	Err   error  // the kernel's answer
}

// WriteAttr writes an attribute as another program on the node would. The path may be the node's or the directory's.
func (n *Node) WriteAttr(path, value string) error { return n.write(Foreign, path, value) }

// Mark forgets the writes and calls so far.
func (n *Node) Mark() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes, n.calls = nil, nil
}

// Writes are those since the last Mark, from every writer.
func (n *Node) Writes() []Write {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.writes)
}

// Calls are the changes asked of systemd since the last Mark: "SetIOWeight k3s.service 10000", "LoadModule bfq".
func (n *Node) Calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

func (n *Node) write(by, path, value string) error {
	inside := n.tree.inside(path)
	n.wait(inside)
	n.mu.Lock()
	defer n.mu.Unlock()
	real, err := n.tree.real(inside)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	if err := n.store(by, real, value); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return n.tree.failed()
}

// store hands a write to the attribute that a path without symbolic links names.
func (n *Node) store(by, real, value string) error {
	dir, attr := filepath.Dir(real), filepath.Base(real)
	name, do := real, func() error { return unix.EACCES } // an attribute that is not played is read-only
	switch q := n.queueOf(dir); {
	case q != nil && strings.HasSuffix(dir, "/iosched"):
		name, do = "/sys/block/"+q.name+"/queue/iosched/"+attr, func() error { return n.storeIOSched(q, attr, value) }
	case q != nil && attr == "scheduler":
		name, do = "/sys/block/"+q.name+"/queue/scheduler", func() error { return n.storeScheduler(q, value) }
	case q != nil && attr == "nr_requests":
		name, do = "/sys/block/"+q.name+"/queue/nr_requests", func() error { return n.storeNrRequests(q, value) }
	case strings.HasPrefix(dir, cgroupfs):
		g := n.groups[filepath.Clean("/"+strings.TrimPrefix(dir, cgroupfs))]
		switch {
		case g != nil && attr == "io.bfq.weight":
			do = func() error { return n.storeBFQWeight(g, value) }
		case g != nil && attr == "io.weight":
			do = func() error { return n.storeIOWeight(g, value) }
		}
	}
	switch err, fails := n.faults.errors[real]; {
	case fails:
		do = func() error { return err }
	case n.faults.ignored[real]:
		do = func() error { return nil }
	}
	err := do()
	n.writes = append(n.writes, Write{Path: name, Value: strings.TrimSpace(value), By: by, Err: err})
	return err
}

// queueOf is the queue whose directory, or whose iosched directory, dir is.
func (n *Node) queueOf(dir string) *queue {
	dir = strings.TrimSuffix(dir, "/iosched")
	block, ok := strings.CutSuffix(dir, "/queue")
	if !ok {
		return nil
	}
	return n.queues[filepath.Base(block)]
}
