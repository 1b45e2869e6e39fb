package ioprio

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// iscsiSession is the directory of an iSCSI session in a disk's device path: /sys/devices/platform/host3/session1/...
var iscsiSession = regexp.MustCompile(`^session\d+$`)

// observeDisks reads the leaves, given with their roles, in the order of their names, with one goroutine for each processor:
// a pass over hundreds of disks is little but waiting for system calls.
func observeDisks(ctx context.Context, h Host, roles map[string][]string, p Policy, loaded bool) []Disk {
	names := slices.Sorted(maps.Keys(roles))
	disks := make([]Disk, len(names))
	workers := runtime.GOMAXPROCS(0)
	var all sync.WaitGroup
	for first := range workers {
		all.Go(func() {
			for i := first; i < len(names); i += workers {
				disks[i] = observeDisk(ctx, h, names[i], p, loaded)
				disks[i].Roles = roles[names[i]]
			}
		})
	}
	all.Wait()
	return disks
}

// observeDisk reads a leaf's identity, queue and class.
func observeDisk(ctx context.Context, h Host, name string, p Policy, bfqLoaded bool) Disk {
	d := Disk{
		Name:  name,
		Dev:   readAttr(h.sys("block", name, "dev")).Value,
		Queue: observeQueue(ctx, h, name, p),
	}
	d.Class, d.Reason = classify(h, d, p, bfqLoaded)
	return d
}

// classify decides by where the device hangs in sysfs, never by its name: a Longhorn volume is an sd disk, an NVMe disk
// behind a USB bridge is one, too.
func classify(h Host, d Disk, p Policy, bfqLoaded bool) (Class, string) {
	on := ancestry(h, d.Name)
	dir := h.sys("block", d.Name)
	model := strings.ToUpper(readAttr(filepath.Join(dir, "device/vendor")).Value + " " + readAttr(filepath.Join(dir, "device/model")).Value)
	switch {
	case slices.Contains(on, "nvme") || slices.Contains(on, "nvme-subsystem"):
		return ClassSkipped, "NVMe: its queues need no arbitration"
	case slices.ContainsFunc(on, iscsiSession.MatchString), strings.Contains(model, "VIRTUAL-DISK"):
		return ClassUnsupported, "iSCSI volume (Longhorn attaches its volumes so): its disks are elsewhere"
	case d.Dev == "":
		return ClassUnsupported, "its device number cannot be read from " + filepath.Join(dir, "dev")
	case d.Queue.Multipath:
	case slices.Contains(on, "rbd"):
		return ClassUnsupported, "network block device: its disks are elsewhere"
	case slices.Contains(on, "virtual"):
		return ClassUnsupported, virtualReason(d.Name)
	}
	if zoned := d.Queue.Zoned; zoned.Err == nil && zoned.Value != "" && zoned.Value != "none" {
		return ClassUnsupported, "zoned (" + zoned.Value + "): it must keep mq-deadline"
	}
	if reason := d.Queue.refuses(p.Scheduler, bfqLoaded); reason != "" {
		return ClassUnsupported, reason
	}
	return ClassManaged, ""
}

// virtualReason tells what stands for disks that are not visible.
func virtualReason(name string) string {
	what := "block device"
	for _, kind := range [][2]string{
		{"zd", "zvol"},
		{"zram", "zram"},
		{"nbd", "network block device"},
		{"drbd", "DRBD"},
		{"dm-", "device-mapper device without a disk"},
		{"md", "md array without a disk"},
	} {
		if strings.HasPrefix(name, kind[0]) {
			what = kind[1]
		}
	}
	return "virtual (" + what + "): its physical disks are not visible"
}

// ancestry are the names that a device's place in sysfs carries: the directories of its path and the subsystems of
// its ancestors. "nvme" is both, for a captured tree that lost its links.
func ancestry(h Host, name string) []string {
	dir, err := follow(h.sys("block", name))
	if err != nil {
		return nil
	}
	top := filepath.Clean(h.Sysfs)
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return nil
	}
	names := strings.Split(rel, "/")
	names = names[:len(names)-1] // its own name proves nothing
	for at := filepath.Dir(dir); len(at) > len(top); at = filepath.Dir(at) {
		if link, err := os.Readlink(filepath.Join(at, "subsystem")); err == nil {
			names = append(names, filepath.Base(link))
		}
	}
	return names
}
