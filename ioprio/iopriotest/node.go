package iopriotest

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// The kernels whose sysfs is played.
const (
	Linux61  = "6.1"
	Linux612 = "6.12"
)

// Options say which kernel and which systemd the node has. The zero value is Debian 12: 6.1 and systemd 252.
type Options struct {
	Kernel         string            // Linux61 or Linux612
	Generation     ioprio.Generation // how systemd turns IOWeight into io.bfq.weight
	SystemdVersion string            // "252.39-1~deb12u1"
	Schedulers     []string          // that are built into the kernel; mq-deadline if nil
	BuiltinBFQ     bool              // bfq is built in: always there, and not in /sys/module
	NoBFQ          bool              // the kernel was built without bfq
	Controllers    string            // of the root cgroup; all that Debian has if empty
}

// Node is a fake node. All methods may be called from several goroutines.
type Node struct {
	opts Options

	mu     sync.Mutex
	tree   *tree
	blocks map[string]*block
	queues map[string]*queue
	groups map[string]*group
	units  map[string]*unit
	procs  map[int]*Process
	mounts []mountRow
	bfq    module
	writes []Write
	calls  []string
	faults faults

	nextPID, nextMount, nextPort, nextAnon int
}

// New makes a node in an empty directory: no disks, the root cgroup, and the units that every systemd has.
func New(dir string, opts Options) (*Node, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if opts.Kernel == "" {
		opts.Kernel = Linux61
	}
	if opts.SystemdVersion == "" {
		opts.SystemdVersion = map[ioprio.Generation]string{
			ioprio.Piecewise: "252.39-1~deb12u1", ioprio.Tenth: "249.7-1", ioprio.Raw: "247.3-7+deb11u6",
		}[opts.Generation]
	}
	if opts.Schedulers == nil {
		opts.Schedulers = []string{"mq-deadline"}
	}
	if opts.Controllers == "" {
		opts.Controllers = "cpuset cpu io memory hugetlb pids rdma misc"
	}
	n := &Node{
		opts:   opts,
		tree:   &tree{root: dir, veil: map[string]bool{}, text: map[string]string{}},
		blocks: map[string]*block{}, queues: map[string]*queue{}, groups: map[string]*group{},
		units: map[string]*unit{}, procs: map[int]*Process{},
		bfq:     module{loaded: opts.BuiltinBFQ, allowed: !opts.NoBFQ},
		faults:  newFaults(),
		nextPID: 400, nextMount: 21, nextPort: 1, nextAnon: 30,
	}
	n.tree.dir("/sys/block", "/sys/class/block", "/sys/dev/block", "/sys/devices", "/sys/module", "/proc/self", "/dev", "/etc", "/run")
	n.tree.file("/proc/self/mountinfo", "")
	n.tree.attrs("/proc", map[string]string{"version": "Linux version " + opts.Kernel + ".0-test"})
	n.tree.attrs("/proc/sys/kernel", map[string]string{"osrelease": opts.Kernel + ".0-test"})
	n.bootCgroups()
	n.bootUnits()
	return n, n.tree.failed()
}

// Host is the node as the code under test gets it.
func (n *Node) Host() ioprio.Host {
	return ioprio.Host{
		Rootfs:  n.tree.root,
		Procfs:  n.Path("/proc"),
		Sysfs:   n.Path("/sys"),
		Systemd: &systemd{n},
		Write:   func(path, value string) error { return n.write(Agent, path, value) },
	}
}

// Path is where a file of the node is: Path("/sys/block").
func (n *Node) Path(path string) string { return n.tree.at(path) }

// Dir is the directory that plays the root file system.
func (n *Node) Dir() string { return n.tree.root }

func (n *Node) linux612() bool { return n.opts.Kernel == Linux612 }

// systemdBefore compares the version with "252" or "251.8".
func (n *Node) systemdBefore(major, minor int) bool {
	head, _, _ := strings.Cut(n.opts.SystemdVersion, "-")
	a, b, _ := strings.Cut(head, ".")
	have, _ := strconv.Atoi(a)
	haveMinor, _ := strconv.Atoi(b)
	return have < major || have == major && haveMinor < minor
}
