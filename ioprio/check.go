package ioprio

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
)

const fixApply = "run: ioprio-agent apply"

// Check compares what the node has with what it must have. It is pure: the daemon, apply and verify all decide here.
func Check(p Policy, s State) Report {
	c := &checker{p: p, s: s}
	for _, d := range s.Disks {
		if d.Class == ClassManaged {
			c.managed = append(c.managed, d)
		}
	}
	c.modules()
	for _, d := range s.Disks {
		c.disk(d)
	}
	c.weights()
	return Report{
		Schema: 1, Verdict: verdict(c.findings),
		Paths: s.Paths, Disks: s.Disks, Findings: c.findings, changes: c.changes,
	}
}

type checker struct {
	p        Policy
	s        State
	managed  []Disk
	gen      Generation
	findings []Finding
	changes  []Change
}

func (c *checker) add(f Finding) { c.findings = append(c.findings, f) }

// modules plans the scheduler's module if a managed queue does not list it: it must be in memory before a queue is
// touched, since a kernel that loads it while it holds the root disk's queue frozen may never read it
// (block/blk-sysfs.c, load_module hook).
func (c *checker) modules() {
	for _, d := range c.managed {
		available := parseScheduler(d.Queue.Scheduler.Value).Available
		if d.Queue.Scheduler.Err == nil && !slices.Contains(available, c.p.Scheduler) {
			c.changes = append(c.changes, Change{
				Subject: c.p.Scheduler, Setting: settingModule, From: "absent", To: "loaded", Via: ViaModule, Target: "modprobe@" + c.p.Scheduler + ".service",
			})
			return
		}
	}
}

// disk checks a queue in the order in which it is written: a switch of the scheduler resets all that comes after it.
// A queue whose scheduler cannot be read gets nothing else: under none, nr_requests would resize the tags that the disk
// shares with its whole host (block/blk-mq.c, blk_mq_update_nr_requests).
func (c *checker) disk(d Disk) {
	active := parseScheduler(d.Queue.Scheduler.Value).Active
	switched := c.attr(d, SettingScheduler, d.Queue.Scheduler, active, c.p.Scheduler, false)
	c.attr(d, SettingNrRequests, d.Queue.NrRequests, d.Queue.NrRequests.Value, strconv.Itoa(c.p.NrRequests), switched)
	wanted := c.p.IOSched
	if _, named := wanted[sliceIdle]; !named && c.p.Scheduler == BFQ && d.Queue.doesNotIdle() && !switched {
		wanted = map[string]string{sliceIdle: sliceIdleDefault}
		maps.Copy(wanted, c.p.IOSched)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		a := d.Queue.IOSched[name]
		if switched && a.Absent() {
			a.Err = nil // it appears with the scheduler
		}
		c.attr(d, name, a, a.Value, wanted[name], switched)
	}
}

// attr checks one attribute of a queue, and reports whether it is to be written. After a switch of the scheduler every
// attribute is, whatever it holds now.
func (c *checker) attr(d Disk, setting string, a Attr, got, want string, switched bool) (write bool) {
	f := Finding{Subject: d.Name, Setting: setting, Want: want, Got: got, Source: a.Source, Reason: d.Reason}
	switch {
	case d.Class == ClassSkipped:
		f.Want, f.Status = got, StatusSkipped
		f.Fix = fixNone
	case d.Class == ClassUnsupported:
		f.Status = StatusUnsupported
		f.Fix = "move the data of k3s (its --data-dir) to another disk; ioprio-agent disks shows what lies on this one"
	case a.Absent() && setting != SettingScheduler && setting != SettingNrRequests:
		f.Status, f.Reason = StatusUnsupported, "the scheduler "+c.p.Scheduler+" has no such attribute"
		f.Fix = "correct iosched." + setting + " in the configuration; ls " + filepath.Dir(a.Source) + " shows the names"
	case a.Err != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, a.Err.Error(), fixAnswer
	case got != want:
		f.Status, f.Fix = StatusDrift, fixApply
		f.Reason = fmt.Sprintf("the kernel has %s", orNothing(got))
	default:
		f.Status = StatusOK
	}
	c.add(f)
	if d.Class != ClassManaged || a.Err != nil || d.Queue.Scheduler.Err != nil || (got == want && !switched) {
		return false
	}
	change := Change{Subject: d.Name, Setting: setting, From: got, To: want, Via: ViaSysfs, Target: a.Source}
	if got == want {
		change.From += " (reset by the switch)"
	}
	if setting != SettingScheduler {
		change.under, change.scheduler = c.p.Scheduler, d.Queue.Scheduler.Source
	}
	c.changes = append(c.changes, change)
	return true
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
