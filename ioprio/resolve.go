package ioprio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ResolveError says why a path has no disk that could be arbitrated.
type ResolveError struct {
	Path   string
	Reason string
}

func (e *ResolveError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Reason) }

// maxNesting bounds paths that lead to further paths: overlays over loop files over overlays.
const maxNesting = 8

// resolver finds the disks behind paths. It lives for one pass, since names and mounts change.
type resolver struct {
	h      Host
	mounts *mountTable
	theirs *mountTable // those that k3s sees, where it has a mount namespace of its own
}

func newResolver(h Host, units []Unit) (*resolver, error) {
	text, err := readMountinfo(h)
	if err != nil {
		return nil, err
	}
	r := &resolver{h: h}
	if r.mounts, err = newMounts(text); err != nil {
		return nil, err
	}
	for _, u := range units {
		theirs, err := os.ReadFile(h.proc(strconv.Itoa(u.MainPID), "mountinfo"))
		if u.MainPID == 0 || err != nil || bytes.Equal(theirs, text) {
			continue // it does not run, may not be asked, or sees the same mounts
		}
		if r.theirs, err = newMounts(theirs); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func newMounts(text []byte) (*mountTable, error) {
	rows, err := parseMountinfo(bytes.NewReader(text))
	return newMountTable(rows), err
}

// readMountinfo reads the mounts of this process, or those of a captured tree: there init's are the node's, and self is
// whoever copied it.
func readMountinfo(h Host) ([]byte, error) {
	text, err := os.ReadFile(h.proc("1/mountinfo"))
	if !h.Captured() || errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(h.proc("self/mountinfo"))
	}
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return text, nil
}

// resolve finds every leaf disk behind a path that must exist on a live node.
func (r *resolver) resolve(path string) (Path, error) {
	w := &walk{h: r.h, resolver: r, seen: make(map[string]bool)}
	if err := w.path(path, 0); err != nil {
		return Path{}, err
	}
	if len(w.disks) == 0 {
		return Path{}, &ResolveError{path, "no disk was found behind it"}
	}
	slices.Sort(w.disks)
	return Path{Path: path, Chain: w.chain, Disks: w.disks}, nil
}

// mountOf is the mount that carries a path, and the path without symbolic links.
func (r *resolver) mountOf(path string) (mount, error) {
	real, found, err := evalSymlinks(r.h.Rootfs, path)
	if err != nil {
		return mount{}, fmt.Errorf("following %s: %w", path, err)
	}
	switch {
	case r.theirs != nil:
		return r.theirs.visible(real)
	case r.h.Captured():
		return r.mounts.visible(real) // a captured tree may lack empty directories
	case !found:
		return mount{}, &ResolveError{path, "does not exist"}
	}
	id, err := mountID(real)
	if err != nil {
		return mount{}, fmt.Errorf("finding the mount of %s: %w", path, err)
	}
	m, ok := r.mounts.byID[id]
	if !ok {
		return mount{}, &ResolveError{path, fmt.Sprintf("its mount %d is not in mountinfo; it may have just changed", id)}
	}
	return m, nil
}

// mountID is the kernel's own answer to which mount carries a path: st_dev would be wrong on btrfs, where it is the
// subvolume's anonymous number (fs/btrfs/inode.c). The file is opened with O_PATH, which does not reach its file system's
// own open, so that a device or a fifo is never opened.
func mountID(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		var id int
		if _, err := fmt.Sscanf(line, "mnt_id: %d", &id); err == nil {
			return id, nil
		}
	}
	return 0, errors.New("fdinfo has no mnt_id")
}

const (
	inMemory  = "it is in memory and has no disk"
	onNetwork = "it is not a local file system and has no disk of this node"
)

// refusal is why a file system has no disk to arbitrate, or empty.
func refusal(m mount) string {
	var reason string
	switch m.fstype {
	case "tmpfs", "ramfs", "devtmpfs", "rootfs":
		reason = inMemory
	case "nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "glusterfs", "9p", "virtiofs":
		reason = onNetwork
	case "zfs":
		reason = "no block device is visible behind its pool"
	case "btrfs", "overlay", "bcachefs":
		return ""
	default:
		switch {
		case !m.anonymous():
			return ""
		case strings.HasPrefix(m.fstype, "fuse"):
			reason = onNetwork
		default:
			reason = "the kernel names no block device behind it"
		}
	}
	return fmt.Sprintf("on %s (mounted at %s): %s", m.fstype, m.point, reason)
}
