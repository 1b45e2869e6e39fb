package scenario

import "io"

// Machine is where a scenario runs: the guest of the virtual machine, or the fake kernel and fake systemd.
// Both have the same disks: sda, sdb, sdc and sdd are SATA disks of 1 GiB, nvme0n1 is an NVMe disk. sda1 is mounted at
// /var/lib/rancher and k3s.service (etcd) writes to it.
type Machine interface {
	// Name is what its condition is called: guest or fake.
	Name() string
	// Env are the variables a script uses: SYS and PROC (mount points) and ROOT (the root directory, "" in the guest).
	// It is asked after Reset.
	Env() []string
	// Agent runs ioprio-agent and returns its exit status.
	Agent(args []string, stdout, stderr io.Writer) int
	// Reset brings the base state back: bfq not loaded and allowed to load, every disk on mq-deadline (NVMe on none) with
	// its default nr_requests, stacks taken apart, no weight set anywhere, kubepods.slice absent, k3s.service active.
	Reset() error
	// Stack builds a storage stack of a kind over disks and mounts it at mount.
	Stack(kind, mount string, disks ...string) error
	// WriteAttr writes as a foreign writer does: echo VALUE > PATH.
	WriteAttr(path, value string) error
	// StartUnit starts a unit; kubepods.slice the way runc does it, with a pod scope that holds a process below it.
	StartUnit(name string) error
	// StopUnit stops a unit; kubepods.slice with everything below it, until its cgroup is gone.
	StopUnit(name string) error
	// SetWeight is systemctl set-property --runtime UNIT IOWeight=WEIGHT.
	SetWeight(unit string, weight uint64) error
	// Module loads, unloads, blacklists or allows a kernel module.
	Module(verb, name string) error
	// Watch begins to record writes to the attributes of all queues and to the weights of all cgroups.
	// The function that it returns ends that and names the files that were written.
	Watch() (func() ([]string, error), error)
}
