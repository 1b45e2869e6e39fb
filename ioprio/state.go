package ioprio

import (
	"errors"
	"io/fs"
	"strings"
)

// State is what the kernel and systemd answered during one pass. It holds no wishes.
type State struct {
	Paths  []Path
	Disks  []Disk  // every leaf disk once, in the order of its name
	Groups []Group // from the root downwards: slices above k3s, k3s, pods

	// Siblings are other units below the root whose weight systemd wrote: they tell which way it writes.
	Siblings []Group

	Loaded         bool   // the scheduler of the policy is in the kernel
	Controllers    Attr   // cgroup.controllers of the cgroup2 root; absent on cgroup v1 and on a hybrid
	UnitDir        string // where units are looked for first
	Asked          bool   // systemd was asked; false for a captured tree
	BusError       error  // why systemd did not answer
	SystemdVersion string // the manager's own word
}

// Path is a directory that k3s lives by, and the disks that carry it.
type Path struct {
	Path  string   `json:"path"`
	Roles []string `json:"roles"` // data, datastore, wal
	Chain []string `json:"chain"` // kernel names from the mount's device down to the disks
	Disks []string `json:"disks"` // leaf disks, without repetition
}

// Class says what the agent does with a disk.
type Class string

// The classes.
const (
	ClassManaged     Class = "managed"     // its queue is arbitrated
	ClassSkipped     Class = "skipped"     // it needs no arbitration: NVMe
	ClassUnsupported Class = "unsupported" // it needs arbitration and cannot have it
)

// Disk is a leaf of the storage stack: the device whose queue decides who waits.
type Disk struct {
	Name   string   `json:"name"` // the kernel's name, as in /sys/block
	Dev    string   `json:"dev"`  // MAJ:MIN
	Class  Class    `json:"class"`
	Reason string   `json:"reason"` // why it is not managed
	Roles  []string `json:"roles"`
	Queue  Queue    `json:"-"`
}

// Queue is the part of /sys/block/DISK/queue that the policy sets.
type Queue struct {
	Scheduler  Attr
	NrRequests Attr
	IOSched    map[string]Attr // those that the policy names, and those of bfq's idling
	Zoned      Attr
	Multipath  bool // a dm-multipath with a queue of its own
}

// Attr is one attribute file as the kernel answered.
type Attr struct {
	Source string // the file
	Value  string // its content without surrounding white space
	Err    error  // why there is no value
}

// Absent reports whether the kernel has no such attribute now.
func (a Attr) Absent() bool { return errors.Is(a.Err, fs.ErrNotExist) }

// GroupRole says which weight of the policy a group gets.
type GroupRole string

// The roles of a group.
const (
	GroupSlice GroupRole = "slice" // a slice above the k3s unit
	GroupK3s   GroupRole = "k3s"   // the unit that runs k3s
	GroupPods  GroupRole = "pods"  // the parent of all pods
)

// Group is a control group that carries a weight, with the unit that owns it.
type Group struct {
	Name   string // the unit's name, or the cgroup's path where no unit owns it
	Role   GroupRole
	Cgroup string // path below the cgroup2 root, where it is or will be
	Exists bool   // the unit runs and the kernel has the cgroup
	Unit   Unit   // zero where systemd does not own the cgroup
	Weight Attr   // io.bfq.weight
	NoIO   string // the first cgroup.subtree_control from the root down that withholds the io controller, if any does

	MainCgroup Attr // /proc/PID/cgroup of the unit's main process; only for GroupK3s
}

// Top reports whether the group is right below the root, where slices compete with the pods.
func (g Group) Top() bool { return strings.Count(g.Cgroup, "/") == 1 }
