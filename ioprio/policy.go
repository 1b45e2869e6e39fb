package ioprio

// Policy is what a node must have. The zero value is not a policy; DefaultPolicy is.
type Policy struct {
	// DataDir is the k3s data directory. Empty means that the effective k3s settings name it.
	DataDir string
	// Unit is the systemd unit that runs k3s. Empty means that it is found.
	Unit string

	Scheduler  string            // queue/scheduler of every managed disk
	NrRequests int               // queue/nr_requests of every managed disk, 4 to 2048 (block/blk-sysfs.c, BLKDEV_MIN_RQ and MAX_SCHED_RQ)
	IOSched    map[string]string // queue/iosched/NAME of every managed disk; usually none
	Weights    Weights
}

// Weights are systemd's IOWeight, 1 to 10000 (systemd.resource-control(5)).
type Weights struct {
	System   uint64 // every slice above the k3s unit; usually only system.slice
	K3s      uint64 // the unit that runs k3s, with etcd inside it
	Kubepods uint64 // the cgroup that all pods live in
}

// BFQ is the scheduler that the policy is built on: the only one that reads cgroup weights
// (Documentation/block/bfq-iosched.rst).
const BFQ = "bfq"

// DefaultPolicy is BFQ with 32 requests, and k3s ten times above the pods where the kernel counts it.
func DefaultPolicy() Policy {
	return Policy{
		Scheduler:  BFQ,
		NrRequests: 32,
		Weights:    Weights{System: 10000, K3s: 10000, Kubepods: 100},
	}
}
