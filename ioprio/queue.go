package ioprio

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Scheduler is the content of a queue/scheduler file.
type Scheduler struct {
	Active     string
	Available  []string // what is loaded or built in; a module that is not loaded yet is missing
	Switchable bool     // the active one stands in brackets: the queue takes a scheduler
}

// parseScheduler reads all forms that kernels print: "mq-deadline kyber [bfq] none", "none [bfq] " and the bare "none" of
// a queue that takes no scheduler (block/elevator.c elv_iosched_show). An empty line has no active scheduler.
func parseScheduler(line string) Scheduler {
	var s Scheduler
	for word := range strings.FieldsSeq(line) {
		if name, ok := strings.CutPrefix(word, "["); ok && strings.HasSuffix(name, "]") {
			word = strings.TrimSuffix(name, "]")
			s.Active, s.Switchable = word, true
		}
		s.Available = append(s.Available, word)
	}
	if !s.Switchable && len(s.Available) == 1 {
		s.Active = s.Available[0]
	}
	return s
}

// readTimeout bounds the wait for a queue's attributes, which share a lock with writes to them (block/blk-sysfs.c,
// sysfs_lock) that may wait for a disk that hangs, and for a look-up on such a disk. It is less than anybody waits for
// an answer of verify.
const readTimeout = 10 * time.Second

// sliceIdle is the attribute of bfq whose zero turns weights off: a queue that waits for its fsync then loses the disk
// (Documentation/block/bfq-iosched.rst, "slice_idle"). The kernel's default is 8, in milliseconds.
const (
	sliceIdle        = "slice_idle"
	sliceIdleUS      = "slice_idle_us" // the same in microseconds: a part of a millisecond shows as 0 in the other
	sliceIdleDefault = "8"
)

// doesNotIdle reports whether bfq was told not to wait for the next request of a queue.
func (q Queue) doesNotIdle() bool {
	us := q.IOSched[sliceIdleUS]
	return q.IOSched[sliceIdle].Value == "0" && (us.Err != nil || us.Value == "0" || us.Value == "")
}

// observeQueue reads what the policy sets on a queue.
func observeQueue(ctx context.Context, h Host, disk string, p Policy) Queue {
	dir := h.sys("block", disk, "queue")
	q, err := await(ctx, readTimeout, func() (Queue, error) {
		q := Queue{
			Scheduler:  readAttr(filepath.Join(dir, "scheduler")),
			NrRequests: readAttr(filepath.Join(dir, "nr_requests")),
			IOSched:    make(map[string]Attr, len(p.IOSched)),
			Zoned:      readAttr(filepath.Join(dir, "zoned")),
			Multipath:  isRequestBasedMultipath(filepath.Dir(dir)),
		}
		for _, name := range append(slices.Collect(maps.Keys(p.IOSched)), sliceIdle) {
			q.IOSched[name] = readAttr(filepath.Join(dir, "iosched", name))
		}
		if q.IOSched[sliceIdle].Value == "0" {
			q.IOSched[sliceIdleUS] = readAttr(filepath.Join(dir, "iosched", sliceIdleUS))
		}
		return q, nil
	})
	if err != nil {
		q.Scheduler = Attr{Source: filepath.Join(dir, "scheduler"), Err: err}
		q.NrRequests = Attr{Source: filepath.Join(dir, "nr_requests"), Err: err}
	}
	return q
}

// refuses is why a queue can never have the scheduler, or empty. That the scheduler is not listed proves nothing while its
// module is not loaded.
func (q Queue) refuses(scheduler string, loaded bool) string {
	s := parseScheduler(q.Scheduler.Value)
	switch {
	case q.Scheduler.Absent():
		return "its queue has no scheduler attribute: it is bio-based"
	case q.Scheduler.Err != nil || s.Active == scheduler:
		return ""
	case !s.Switchable:
		return "its queue takes no scheduler"
	case loaded && !slices.Contains(s.Available, scheduler):
		return "its queue does not offer " + scheduler + " although the module is loaded"
	}
	return ""
}

// loaded reports whether a scheduler is in the kernel. One that is built in has no directory in /sys/module; bfq then
// shows by the weight that it gives every cgroup (block/bfq-cgroup.c, blkcg_policy_register).
func loaded(h Host, scheduler string) bool {
	return len(glob(h.Sysfs, "module/"+scheduler)) > 0 || len(glob(h.Sysfs, "fs/cgroup/*/io."+scheduler+".weight")) > 0
}
