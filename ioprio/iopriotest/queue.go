package iopriotest

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	bfqName  = "bfq"
	noneName = "none"
)

// Limits of nr_requests: block/blk.h BLKDEV_MIN_RQ and BLKDEV_DEFAULT_RQ, block/blk-mq.h MAX_SCHED_RQ.
const (
	minRequests     = 4
	defaultRequests = 128
	maxRequests     = 16 * defaultRequests
)

// queue is a request queue as the kernel holds it.
type queue struct {
	name, dir string // the disk, and its directory
	bio       bool   // bio-based: no requests and no scheduler of its own
	fixed     bool   // request-based, and takes no scheduler
	refuses   bool   // never offers bfq
	zoned     string
	depth     int // of the driver's tag set
	tags      int // of the driver's tags now, which sysfs does not show
	active    string
	nr        int
	iosched   map[string]string
}

// tunables of the schedulers right after a switch (block/bfq-iosched.c, block/mq-deadline.c).
var tunables = map[string]map[string]string{
	bfqName: {
		"back_seek_max": "16384", "back_seek_penalty": "2", "fifo_expire_async": "250", "fifo_expire_sync": "125", "low_latency": "1",
		"max_budget": "0", "slice_idle": "8", "slice_idle_us": "8000", "strict_guarantees": "0", "timeout_sync": "125",
	},
	"mq-deadline": {
		"async_depth": "48", "fifo_batch": "16", "front_merges": "1", "prio_aging_expire": "10000", "read_expire": "500",
		"write_expire": "5000", "writes_starved": "2",
	},
	"kyber": {"read_lat_nsec": "2000000", "write_lat_nsec": "10000000"},
}

// offered are the schedulers that a queue lists, in the order of their registration.
func (n *Node) offered(q *queue) []string {
	list := slices.Clone(n.opts.Schedulers)
	// Up to 6.9 a host-managed zoned disk demanded a feature that only mq-deadline had (drivers/scsi/sd_zbc.c).
	zoned := q.zoned == "host-managed" && !n.linux612()
	if zoned {
		list = slices.DeleteFunc(list, func(s string) bool { return s != "mq-deadline" })
	}
	if n.bfq.loaded && !q.refuses && !zoned {
		list = append(list, bfqName)
	}
	return list
}

// show is queue/scheduler (block/elevator.c elv_iosched_show of the two kernels).
func (n *Node) show(q *queue) string {
	if q.bio || q.fixed {
		return noneName
	}
	var line []string
	if n.linux612() || q.active == noneName {
		line = append(line, bracket(noneName, q.active))
	}
	for _, s := range n.offered(q) {
		line = append(line, bracket(s, q.active))
	}
	if !n.linux612() && q.active != noneName {
		return strings.Join(append(line, noneName), " ")
	}
	return strings.Join(line, " ") + " "
}

func bracket(name, active string) string {
	if name == active {
		return "[" + name + "]"
	}
	return name
}

// render writes the queue's files. From 6.11 on a bio-based disk has no such files (blk_mq_queue_attr_visible).
func (n *Node) render(q *queue) {
	dir := q.dir + "/queue"
	rotational := "0"
	if strings.HasPrefix(q.name, "sd") {
		rotational = "1"
	}
	n.tree.attrs(dir, map[string]string{"zoned": q.zoned, "rotational": rotational, "logical_block_size": "512"})
	if q.bio && n.linux612() {
		return
	}
	n.tree.attrs(dir, map[string]string{"scheduler": n.show(q), "nr_requests": strconv.Itoa(q.nr)})
	if q.iosched == nil {
		n.tree.drop(dir + "/iosched")
		return
	}
	n.tree.attrs(dir+"/iosched", q.iosched)
}

// enter switches to a scheduler: nr_requests and the tunables start again.
func (q *queue) enter(name string) {
	q.active, q.iosched = name, maps.Clone(tunables[name])
	if q.nr = 2 * min(q.depth, defaultRequests); name == noneName {
		q.nr = q.depth
	}
}

func (n *Node) storeScheduler(q *queue, value string) error {
	name := strings.TrimSpace(value)
	if q.bio || q.fixed {
		if n.linux612() {
			return unix.EOPNOTSUPP
		}
		return nil // 5.4 to 6.10 say yes and do nothing
	}
	if name == bfqName {
		n.load() // request_module("bfq-iosched")
	}
	switch {
	case name == q.active:
		return nil
	case name != noneName && !slices.Contains(n.offered(q), name):
		return unix.EINVAL
	case n.faults.switches[q.name]:
		delete(n.faults.switches, q.name)
		q.enter(noneName)
		n.rewrite(q)
		return unix.ENOMEM
	}
	q.enter(name)
	n.rewrite(q)
	return nil
}

// rewrite renders a queue whose iosched directory is a new one.
func (n *Node) rewrite(q *queue) {
	n.tree.drop(q.dir + "/queue/iosched")
	n.render(q)
}

func (n *Node) storeNrRequests(q *queue, value string) error {
	nr, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || q.bio {
		return unix.EINVAL
	}
	nr = max(nr, minRequests)
	switch {
	case nr == q.nr:
		return nil
	case q.active == noneName && nr > q.depth, nr > maxRequests:
		return unix.EINVAL
	case q.active == noneName:
		q.tags = nr // resizes the driver's tags, which a later switch does not undo
	}
	q.nr = nr
	n.render(q)
	return nil
}

func (n *Node) storeIOSched(q *queue, attr, value string) error {
	v, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
	if err != nil {
		return unix.EINVAL
	}
	if _, ok := q.iosched[attr]; !ok {
		return unix.ENOENT
	}
	if attr == "low_latency" || attr == "strict_guarantees" || attr == "front_merges" {
		v = min(v, 1)
	}
	q.iosched[attr] = strconv.FormatUint(v, 10)
	switch attr { // one variable behind two files (block/bfq-iosched.c, bfq_slice_idle)
	case "slice_idle":
		q.iosched["slice_idle_us"] = strconv.FormatUint(v*1000, 10)
	case "slice_idle_us":
		q.iosched["slice_idle"] = strconv.FormatUint(v/1000, 10)
	}
	n.render(q)
	return nil
}

// DriverTags is the depth of a disk's driver tags: less than the driver's depth after nr_requests was written under none.
// Only debugfs shows it on a real node, and no read of sysfs tells that it was damaged.
func (n *Node) DriverTags(disk string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q := n.queues[disk]; q != nil {
		return q.tags
	}
	return 0
}
