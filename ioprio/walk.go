package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// walk goes down from a path to its leaf disks: mount, file system, then the graph of block devices in sysfs.
type walk struct {
	*resolver
	seen  map[string]bool
	chain []string // kernel names in the order of the visit, each once
	disks []string // leaves
}

// path walks from a directory or file; nesting counts the paths that led here.
func (w *walk) path(path string, nesting int) error {
	if nesting > maxNesting {
		return &ResolveError{path, "too many file systems inside file systems"}
	}
	m, err := w.mountOf(path)
	if err != nil {
		return err
	}
	if reason := refusal(m); reason != "" {
		return &ResolveError{path, reason}
	}
	switch {
	case m.fstype == "overlay":
		upper, ok := m.option("upperdir")
		if !ok {
			return &ResolveError{path, fmt.Sprintf("on overlay (mounted at %s): it has no upperdir, so nothing is written to a disk", m.point)}
		}
		if err := w.path(upper, nesting+1); err != nil {
			return &ResolveError{path, fmt.Sprintf("on overlay (mounted at %s), whose upperdir %s", m.point, err)}
		}
		return nil
	case m.anonymous():
		devs, err := w.members(m)
		if err != nil {
			return &ResolveError{path, err.Error()}
		}
		return w.devices(devs, path, nesting)
	}
	devs := []string{m.dev}
	if log, ok := m.option("logdev"); ok { // XFS; an fsync waits for its log, which may be on another disk
		dev, err := w.deviceNumber(log)
		if err != nil {
			return &ResolveError{path, err.Error()}
		}
		devs = append(devs, dev)
	}
	return w.devices(devs, path, nesting)
}

func (w *walk) devices(devs []string, path string, nesting int) error {
	for _, dev := range devs {
		dir, err := follow(w.h.sys("dev/block", dev))
		if errors.Is(err, fs.ErrNotExist) {
			return &ResolveError{path, fmt.Sprintf("its device %s is not in %s: inside a container, or just unplugged", dev, w.h.sys("dev/block"))}
		}
		if err != nil {
			return fmt.Errorf("resolving %s: %w", path, err)
		}
		if err := w.device(dir, nesting); err != nil {
			return err
		}
	}
	return nil
}

// device visits one block device, named by its sysfs directory, and what it lies on.
func (w *walk) device(dir string, nesting int) error {
	name := filepath.Base(dir)
	if w.seen[name] {
		return nil // LVM thin pools and md over partitions of one disk lead to the same device by several ways
	}
	w.seen[name] = true
	w.chain = append(w.chain, name)
	// A partition is told by its attribute and lies in its disk's directory. Names tell neither: nvme0n1p3, md126p3.
	partition, err := exists(filepath.Join(dir, "partition"))
	if err != nil {
		return err
	}
	if partition {
		return w.device(filepath.Dir(dir), nesting)
	}
	if backing := readAttr(filepath.Join(dir, "loop/backing_file")); backing.Err == nil {
		if strings.HasSuffix(backing.Value, " (deleted)") {
			return &ResolveError{name, fmt.Sprintf("its backing file %s", backing.Value)}
		}
		return w.path(backing.Value, nesting+1)
	}
	slaves, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(slaves) == 0 || isRequestBasedMultipath(dir) {
		w.disks = append(w.disks, name)
		return nil
	}
	for _, slave := range slaves {
		link := filepath.Join(dir, "slaves", slave.Name())
		below, err := follow(link)
		if errors.Is(err, fs.ErrNotExist) {
			if still, err := exists(link); err == nil && !still {
				continue // it was taken out between the list and the look
			}
			return &ResolveError{name, "its member " + slave.Name() + " is gone"}
		}
		if err != nil {
			return err
		}
		if err := w.device(below, nesting); err != nil {
			return err
		}
	}
	return nil
}

// members are the device numbers of a file system that spans devices under an anonymous number.
func (w *walk) members(m mount) ([]string, error) {
	if m.fstype == "bcachefs" { // its source is the list of its devices
		var devs []string
		for node := range strings.SplitSeq(m.source, ":") {
			dev, err := w.deviceNumber(node)
			if err != nil {
				return nil, err
			}
			devs = append(devs, dev)
		}
		return devs, nil
	}
	return w.btrfsMembers(m)
}

// btrfsMembers are the members of the file system that has the mount's source as one of them (fs/btrfs/sysfs.c).
func (w *walk) btrfsMembers(m mount) ([]string, error) {
	all := glob(w.h.Sysfs, "fs/btrfs/*-*/devices")
	dev, nodeErr := w.deviceNumber(m.source)
	for _, dir := range all {
		devs, err := deviceNumbers(dir)
		if err != nil {
			return nil, err
		}
		if slices.Contains(devs, dev) || (nodeErr != nil && len(all) == 1) {
			return devs, nil
		}
	}
	if nodeErr != nil {
		return nil, fmt.Errorf("finding the members of its btrfs: %w", nodeErr)
	}
	return nil, fmt.Errorf("btrfs %s has no members in %s", m.source, w.h.sys("fs/btrfs"))
}

// deviceNumbers are those of a directory of links to block devices.
func deviceNumbers(dir string) ([]string, error) {
	links, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var devs []string
	for _, link := range links {
		dev := readAttr(filepath.Join(dir, link.Name(), "dev"))
		if dev.Err != nil {
			return nil, dev.Err
		}
		devs = append(devs, dev.Value)
	}
	return devs, nil
}

// deviceNumber is MAJ:MIN of a device node. The node itself answers on a live node; a captured tree has no device
// nodes, so there its name is looked up in sysfs.
func (w *walk) deviceNumber(node string) (string, error) {
	if !filepath.IsAbs(node) {
		return "", fmt.Errorf("%q is no device node", node)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(w.h.Rootfs, node), &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
	}
	name := strings.ReplaceAll(strings.TrimPrefix(node, "/dev/"), "/", "!")
	if dev := readAttr(w.h.sys("class/block", name, "dev")); dev.Err == nil {
		return dev.Value, nil
	}
	for _, file := range glob(w.h.Sysfs, "class/block/dm-*/dm/name") {
		if readAttr(file).Value == filepath.Base(node) {
			if dev := readAttr(filepath.Join(filepath.Dir(file), "../dev")); dev.Err == nil {
				return dev.Value, nil
			}
		}
	}
	return "", fmt.Errorf("device node %s is unknown to the kernel", node)
}
