package iopriotest

import "sync"

// faults are keyed by the path without symbolic links; those of a queue's switch by the disk's name.
type faults struct {
	errors   map[string]error
	ignored  map[string]bool
	hanging  map[string]chan struct{}
	switches map[string]bool
	bus      error
	busHangs chan struct{}
}

func newFaults() faults {
	return faults{errors: map[string]error{}, ignored: map[string]bool{}, hanging: map[string]chan struct{}{}, switches: map[string]bool{}}
}

// fault resolves the path of an attribute, whether it exists now or not.
func (n *Node) fault(path string, set func(real string)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	real, err := n.tree.real(n.tree.inside(path))
	if err != nil {
		return err
	}
	set(real)
	return n.tree.failed()
}

// Fail lets every write to an attribute answer err, and nil ends that.
func (n *Node) Fail(path string, err error) error {
	return n.fault(path, func(real string) {
		if n.faults.errors[real] = err; err == nil {
			delete(n.faults.errors, real)
		}
	})
}

// Ignore lets writes to an attribute succeed without effect.
func (n *Node) Ignore(path string) error {
	return n.fault(path, func(real string) { n.faults.ignored[real] = true })
}

// Heed ends Ignore.
func (n *Node) Heed(path string) error {
	return n.fault(path, func(real string) { delete(n.faults.ignored, real) })
}

// Hang lets writes to an attribute wait, as those to a dying disk's queue do, until release is called.
func (n *Node) Hang(path string) (release func(), err error) {
	gate := make(chan struct{})
	var key string
	err = n.fault(path, func(real string) { key = real; n.faults.hanging[real] = gate })
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.faults.hanging, key)
		close(gate)
	}), err
}

// wait is a write's time in the kernel; the node's lock is not held.
func (n *Node) wait(inside string) {
	n.mu.Lock()
	real, err := n.tree.real(inside)
	gate := n.faults.hanging[real]
	n.mu.Unlock()
	if err == nil && gate != nil {
		<-gate
	}
}

// Unreadable lets reads of an attribute fail; Readable ends that for good content's sake, with what it last was.
func (n *Node) Unreadable(path string) error {
	return n.fault(path, func(real string) { n.tree.hide(real) })
}

// Readable ends Unreadable.
func (n *Node) Readable(path string) error {
	return n.fault(path, func(real string) {
		delete(n.tree.veil, real)
		n.tree.drop(real)
		for _, q := range n.queues {
			n.render(q)
		}
		for _, g := range n.groups {
			n.renderGroup(g)
		}
	})
}

// BreakSwitch lets the next change of a disk's scheduler fail inside the kernel, which leaves the queue at none
// (block/elevator.c, "falling back to none").
func (n *Node) BreakSwitch(disk string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.switches[disk] = true
}

// BreakSystemd lets every call to systemd answer err, and nil ends that.
func (n *Node) BreakSystemd(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.bus = err
}

// HangSystemd lets calls to systemd wait until release is called or their context ends.
func (n *Node) HangSystemd() (release func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.busHangs = gate
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.faults.busHangs = nil
		close(gate)
	})
}
