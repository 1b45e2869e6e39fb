package iopriotest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func newNode(t *testing.T, opts Options, disks ...Disk) *Node {
	t.Helper()
	n, err := New(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disks {
		if err := n.AddDisk(d); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *Node) reads(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(n.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "ENOENT"
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// TestQueue plays traces: what is written to which attribute, the kernel's answer, and what an attribute reads then.
func TestQueue(t *testing.T) {
	const sched, nr = "scheduler", "nr_requests"
	sata := Disk{Name: "sda", Dev: "8:0"}
	deep := Disk{Name: "sda", Dev: "8:0", Depth: 128, Scheduler: "none"}
	type step struct {
		attr, value string
		err         error
		read, want  string
	}
	for name, tc := range map[string]struct {
		opts  Options
		disk  Disk
		steps []step
	}{
		"B11 a switch resets nr_requests": {disk: deep, steps: []step{
			{read: nr, want: "128"},
			{nr, "32", nil, nr, "32"},
			{sched, "bfq", nil, nr, "256"},
			{nr, "32", nil, nr, "32"},
			{sched, "mq-deadline", nil, nr, "256"},
			{sched, "bfq", nil, nr, "256"},
			{nr, "32", nil, nr, "32"},
			{sched, "bfq", nil, nr, "32"},
			{sched, "none", nil, nr, "128"},
		}},
		"B12 limits of nr_requests under none": {disk: Disk{Name: "sda", Dev: "8:0", Depth: 32, Scheduler: "none"}, steps: []step{
			{nr, "1000", unix.EINVAL, nr, "32"},
			{nr, "1", nil, nr, "4"},
			{nr, "many", unix.EINVAL, nr, "4"},
		}},
		"B12 limits of nr_requests and names under bfq": {disk: deep, steps: []step{
			{sched, "bfq", nil, sched, "mq-deadline [bfq] none"},
			{nr, "1", nil, nr, "4"},
			{nr, "2048", nil, nr, "2048"},
			{nr, "2049", unix.EINVAL, nr, "2048"},
			{sched, "BFQ", unix.EINVAL, sched, "mq-deadline [bfq] none"},
			{sched, "cfq", unix.EINVAL, nr, "2048"},
			{sched, "mq-deadline\n", nil, sched, "[mq-deadline] bfq none"},
		}},
		"B02 bfq is listed once its module is loaded": {disk: sata, steps: []step{
			{read: sched, want: "[mq-deadline] none"},
			{sched, "bfq", nil, sched, "mq-deadline [bfq] none"},
			{read: nr, want: "64"},
		}},
		"B03 none first in 6.12": {opts: Options{Kernel: Linux612}, disk: sata, steps: []step{
			{read: sched, want: "none [mq-deadline] "},
			{sched, "bfq", nil, sched, "none mq-deadline [bfq] "},
			{sched, "none", nil, sched, "[none] mq-deadline bfq "},
		}},
		"B03 none in brackets stands first in 6.1": {disk: deep, steps: []step{{read: sched, want: "[none] mq-deadline "}}},
		"a kernel without bfq": {opts: Options{NoBFQ: true}, disk: sata, steps: []step{
			{sched, "bfq", unix.EINVAL, sched, "[mq-deadline] none"},
		}},
		"bfq built in": {opts: Options{BuiltinBFQ: true}, disk: sata, steps: []step{
			{read: sched, want: "[mq-deadline] bfq none"},
			{read: "../../../module/bfq/initstate", want: "ENOENT"},
		}},
		"4.5 a queue without a scheduler says yes in 6.1": {disk: Disk{Name: "sda", Dev: "8:0", Fixed: true}, steps: []step{
			{sched, "bfq", nil, sched, "none"},
		}},
		"4.5 and no in 6.12": {opts: Options{Kernel: Linux612}, disk: Disk{Name: "sda", Dev: "8:0", Fixed: true}, steps: []step{
			{sched, "bfq", unix.EOPNOTSUPP, sched, "none"},
		}},
		"4.6 bio-based in 6.1": {disk: Disk{Name: "nvme0n1", Dev: "259:0", Bus: NVMeMultipath}, steps: []step{
			{sched, "bfq", nil, sched, "none"},
			{nr, "32", unix.EINVAL, nr, "128"},
		}},
		"4.6 bio-based in 6.12": {opts: Options{Kernel: Linux612}, disk: Disk{Name: "nvme0n1", Dev: "259:0", Bus: NVMeMultipath}, steps: []step{
			{sched, "bfq", unix.ENOENT, sched, "ENOENT"},
			{nr, "32", unix.ENOENT, nr, "ENOENT"},
		}},
		"B17 host-managed in 6.1": {disk: Disk{Name: "sda", Dev: "8:0", Zoned: "host-managed"}, steps: []step{
			{sched, "bfq", unix.EINVAL, sched, "[mq-deadline] none"},
		}},
		"B17 host-managed in 6.12": {opts: Options{Kernel: Linux612}, disk: Disk{Name: "sda", Dev: "8:0", Zoned: "host-managed"}, steps: []step{
			{sched, "bfq", nil, sched, "none mq-deadline [bfq] "},
		}},
		"a queue that refuses bfq": {disk: Disk{Name: "sda", Dev: "8:0", Refuses: true}, steps: []step{
			{sched, "bfq", unix.EINVAL, sched, "[mq-deadline] none"},
		}},
		"4.11 the tunables start again": {disk: sata, steps: []step{
			{"iosched/low_latency", "0", unix.ENOENT, "iosched/low_latency", "ENOENT"},
			{sched, "bfq", nil, "iosched/low_latency", "1"},
			{"iosched/low_latency", "0", nil, "iosched/low_latency", "0"},
			{"iosched/strict_guarantees", "7", nil, "iosched/strict_guarantees", "1"},
			{"iosched/slice_idle", "x", unix.EINVAL, "iosched/slice_idle", "8"},
			{sched, "mq-deadline", nil, "iosched/low_latency", "ENOENT"},
			{sched, "bfq", nil, "iosched/low_latency", "1"},
		}},
		"an attribute that does not exist is not made": {disk: sata, steps: []step{
			{"nr_request", "32", unix.ENOENT, "nr_request", "ENOENT"},
			{"rotational", "1", unix.EACCES, "rotational", "1"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, tc.opts, tc.disk)
			for i, s := range tc.steps {
				dir := "/sys/block/" + tc.disk.Name + "/queue/"
				if s.attr != "" {
					if err := n.WriteAttr(dir+s.attr, s.value); !errors.Is(err, s.err) {
						t.Errorf("step %d: writing %s to %s: %v, want %v", i, s.value, s.attr, err, s.err)
					}
				}
				real, err := n.tree.real(dir)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(s.read, "../") {
					real, s.read = "/sys", strings.TrimPrefix(s.read, "../../..")
				}
				if got := n.reads(t, real+"/"+s.read); got != s.want {
					t.Errorf("step %d: %s reads %q, want %q", i, s.read, got, s.want)
				}
			}
		})
	}
}

// TestDriverTags is fact 4.4: nr_requests under none shrinks what no later write to it restores, unless it changes.
func TestDriverTags(t *testing.T) {
	n := newNode(t, Options{}, Disk{Name: "sda", Dev: "8:0", Depth: 128, Scheduler: "none"})
	for _, s := range []struct {
		attr, value string
		tags        int
	}{
		{"nr_requests", "32", 32},
		{"scheduler", "bfq", 32},
		{"nr_requests", "64", 32},
		{"scheduler", "none", 32},
		{"nr_requests", "128", 32},
		{"nr_requests", "64", 64},
		{"nr_requests", "128", 128},
	} {
		if err := n.WriteAttr("/sys/block/sda/queue/"+s.attr, s.value); err != nil {
			t.Fatal(err)
		}
		if got := n.DriverTags("sda"); got != s.tags {
			t.Errorf("after %s to %s the driver has %d tags, want %d", s.value, s.attr, got, s.tags)
		}
	}
}

func TestModule(t *testing.T) {
	n := newNode(t, Options{}, Disk{Name: "sda", Dev: "8:0"})
	n.AllowModule("bfq", false)
	if err := n.LoadModule("bfq"); err == nil {
		t.Error("a blacklisted module was loaded")
	}
	if err := n.WriteAttr("/sys/block/sda/queue/scheduler", "bfq"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("writing bfq while it is blacklisted: %v, want EINVAL", err)
	}
	n.AllowModule("bfq", true)
	if err := n.WriteAttr("/sys/block/sda/queue/scheduler", "bfq"); err != nil {
		t.Error(err)
	}
	if err := n.UnloadModule("bfq"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("unloading bfq while sda uses it: %v, want EBUSY", err)
	}
	if err := n.WriteAttr("/sys/block/sda/queue/scheduler", "none"); err != nil {
		t.Error(err)
	}
	if err := n.UnloadModule("bfq"); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{"/sys/block/sda/queue/scheduler": "[none] mq-deadline ", "/sys/module/bfq/initstate": "ENOENT"} {
		if got := n.reads(t, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	const file = "/sys/block/sda/queue/scheduler"
	n := newNode(t, Options{}, Disk{Name: "sda", Dev: "8:0"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(n.Fail(file, unix.EIO))
	if err := n.WriteAttr(file, "bfq"); !errors.Is(err, unix.EIO) {
		t.Errorf("Fail: %v, want EIO", err)
	}
	must(n.Fail(file, nil))
	must(n.Ignore(file))
	must(n.WriteAttr(file, "bfq"))
	if got := n.reads(t, file); got != "[mq-deadline] none" {
		t.Errorf("Ignore: the kernel has %q", got)
	}
	must(n.Heed(file))
	n.BreakSwitch("sda")
	if err := n.WriteAttr(file, "bfq"); !errors.Is(err, unix.ENOMEM) || n.reads(t, file) != "[none] mq-deadline bfq " {
		t.Errorf("BreakSwitch: %v and %q, want ENOMEM and none", err, n.reads(t, file))
	}
	must(n.Unreadable(file))
	if _, err := os.ReadFile(n.Path(file)); !errors.Is(err, unix.EISDIR) {
		t.Errorf("Unreadable: %v, want EISDIR", err)
	}
	must(n.Readable(file))
	if got := n.reads(t, file); got != "[none] mq-deadline bfq " {
		t.Errorf("Readable: %q", got)
	}
	release, err := n.Hang(file)
	must(err)
	done := make(chan error)
	go func() { done <- n.Host().Write(n.Path(file), "bfq") }()
	select {
	case err := <-done:
		t.Errorf("Hang: the write came back with %v", err)
	default:
	}
	n.Mark()
	release()
	must(<-done)
	if got, want := fmt.Sprint(n.Writes()), "[{/sys/block/sda/queue/scheduler bfq agent <nil>}]"; got != want {
		t.Errorf("Writes: %s, want %s", got, want)
	}
}
