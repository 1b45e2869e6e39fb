package iopriotest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// module is the state of bfq.ko.
type module struct {
	loaded, allowed bool
}

// LoadModule loads bfq as modprobe does, if the node allows it.
func (n *Node) LoadModule(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name != bfqName || !n.load() {
		return fmt.Errorf("modprobe %s: %w", name, unix.ENOENT)
	}
	return n.tree.failed()
}

// UnloadModule removes bfq, which a queue that uses it prevents.
func (n *Node) UnloadModule(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name != bfqName || !n.bfq.loaded {
		return nil
	}
	for _, q := range n.queues {
		if q.active == bfqName {
			return fmt.Errorf("rmmod %s, in use by %s: %w", name, q.name, unix.EBUSY)
		}
	}
	if n.opts.BuiltinBFQ {
		return fmt.Errorf("rmmod %s, built in: %w", name, unix.ENOENT)
	}
	n.bfq.loaded = false
	n.tree.drop("/sys/module/bfq")
	n.moduleChanged()
	return n.tree.failed()
}

// AllowModule lets bfq be loaded or, as a blacklist line in modprobe.d, not.
func (n *Node) AllowModule(name string, allow bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == bfqName {
		n.bfq.allowed = allow && !n.opts.NoBFQ
	}
}

// load loads bfq and reports whether it is there.
func (n *Node) load() bool {
	if n.bfq.loaded || !n.bfq.allowed {
		return n.bfq.loaded
	}
	n.bfq.loaded = true
	n.tree.attrs("/sys/module/bfq", map[string]string{"initstate": "live", "refcnt": "0"})
	n.moduleChanged()
	return true
}

// moduleChanged gives every cgroup a fresh weight: registration of the policy makes new data for each of them
// (block/blk-cgroup.c blkcg_policy_register), and its end frees them.
func (n *Node) moduleChanged() {
	for _, g := range n.groups {
		g.bfq, g.devices = defaultWeight, nil
		n.renderGroup(g)
	}
	for _, q := range n.queues {
		n.render(q)
	}
}
