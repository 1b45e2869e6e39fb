package ioprio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	pid    int // of the k3s whose mounts these are; 0 where it sees those of this process
}

func newResolver(h Host, units []Unit) (*resolver, error) {
	text, err := readMountinfo(h)
	if err != nil {
		return nil, err
	}
	r := &resolver{h: h}
	if r.mounts, err = newMounts("mountinfo", text); err != nil {
		return nil, err
	}
	for _, u := range units {
		own, err := hasOwnMounts(h, u, text)
		if err != nil {
			return nil, err
		}
		if !own {
			continue
		}
		file := h.proc(strconv.Itoa(u.MainPID), "mountinfo")
		theirs, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the mounts of %s: %w", u.Name, err)
		}
		if r.mounts, err = newMounts(file, theirs); err != nil {
			return nil, err
		}
		r.pid = u.MainPID
	}
	return r, nil
}

func newMounts(file string, text []byte) (*mountTable, error) {
	rows, err := parseMountinfo(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	return newMountTable(rows), nil
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
	w := &walk{resolver: r, seen: make(map[string]bool)}
	if err := w.path(path, 0); err != nil {
		return Path{}, err
	}
	if len(w.disks) == 0 {
		return Path{}, &ResolveError{path, "no disk was found behind it"}
	}
	slices.Sort(w.disks)
	return Path{Path: path, Chain: w.chain, Disks: w.disks}, nil
}

// hasOwnMounts reports whether a unit's main process sees other mounts than this one: its namespace tells, or, in a captured
// tree without namespaces, the mounts themselves.
func hasOwnMounts(h Host, u Unit, own []byte) (bool, error) {
	if u.MainPID == 0 {
		return false, nil
	}
	pid := strconv.Itoa(u.MainPID)
	if h.Captured() {
		theirs, err := os.ReadFile(h.proc(pid, "mountinfo"))
		return err == nil && !bytes.Equal(own, theirs), nil
	}
	ours, err := os.Readlink(h.proc("self/ns/mnt"))
	if err != nil {
		return false, fmt.Errorf("reading the mount namespace: %w", err)
	}
	theirs, err := os.Readlink(h.proc(pid, "ns/mnt"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has just ended
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the mount namespace of %s (as root it can be read): %w", u.Name, err)
	}
	return ours != theirs, nil
}

// mountOf is the mount that carries a path as k3s sees it.
func (r *resolver) mountOf(path string) (mount, error) {
	root := r.h.Rootfs
	if r.pid != 0 && !r.h.Captured() {
		root = r.h.proc(strconv.Itoa(r.pid), "root")
	}
	real, found, err := evalSymlinks(root, path)
	switch {
	case err != nil:
		return mount{}, fmt.Errorf("following %s: %w", path, err)
	case r.h.Captured():
		return r.mounts.visible(real) // a captured tree may lack empty directories
	case !found:
		return mount{}, &ResolveError{path, "does not exist"}
	}
	id, err := mountID(filepath.Join(root, real))
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
