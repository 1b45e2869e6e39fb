package iopriotest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Mount is a mount as mount(8) is told of it.
type Mount struct {
	Dev     string // MAJ:MIN; an anonymous number if empty
	Root    string // directory of the file system that is mounted; "/" if empty
	Point   string
	Type    string
	Source  string // of a disk its node in /dev if empty, else the type
	Options string // of the file system; "rw" if empty
}

type mountRow struct {
	Mount
	id, parent int
}

// Mount mounts a file system on a directory that it makes, over what is mounted there already.
func (n *Node) Mount(m Mount) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mount(m)
	return n.tree.failed()
}

func (n *Node) mount(m Mount) {
	if m.Dev == "" {
		n.nextAnon++
		m.Dev = fmt.Sprintf("0:%d", n.nextAnon)
	}
	if m.Source == "" {
		m.Source = m.Type
		for name, b := range n.blocks {
			if b.dev == m.Dev {
				m.Source = "/dev/" + strings.ReplaceAll(name, "!", "/")
			}
		}
	}
	if m.Root == "" {
		m.Root = "/"
	}
	if m.Options == "" {
		m.Options = "rw"
	}
	n.nextMount++
	n.mounts = append(n.mounts, mountRow{m, n.nextMount, n.carrier(m.Point)})
	n.tree.dir(m.Point)
	n.renderMounts()
}

// carrier is the mount that a path walk to point ends on, which becomes the parent of what is mounted there.
func (n *Node) carrier(point string) int {
	at, prefix := 1, "/"
	cross := func() {
		for again := true; again; {
			again = false
			for _, m := range slices.Backward(n.mounts) {
				if m.parent == at && m.Point == prefix {
					at, again = m.id, true
					break
				}
			}
		}
	}
	cross()
	for name := range strings.SplitSeq(strings.Trim(point, "/"), "/") {
		prefix = path.Join(prefix, name)
		cross()
	}
	return at
}

// Unmount takes the topmost mount from a mount point.
func (n *Node) Unmount(point string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	top := n.carrier(point)
	i := slices.IndexFunc(n.mounts, func(m mountRow) bool { return m.id == top && m.Point == point })
	if i < 0 {
		return fmt.Errorf("umount: %s: not mounted", point)
	}
	n.mounts = slices.Delete(n.mounts, i, i+1)
	n.renderMounts()
	return n.tree.failed()
}

// renderMounts writes proc/self/mountinfo (fs/proc_namespace.c show_mountinfo).
func (n *Node) renderMounts() {
	var b strings.Builder
	for _, m := range n.mounts {
		fmt.Fprintf(&b, "%d %d %s %s %s rw,relatime shared:%d - %s %s %s\n", m.id, m.parent, m.Dev,
			escape(m.Root, " \t\n\\"), escape(m.Point, " \t\n\\"), m.id, m.Type, escape(m.Source, " \t\n\\#"), m.Options)
	}
	n.tree.file("/proc/self/mountinfo", b.String())
}

// escape is the kernel's mangle_path with three octal digits.
func escape(s, set string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(set, c) >= 0 {
			fmt.Fprintf(&b, "\\%03o", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Btrfs registers the members of a btrfs under /sys/fs/btrfs, as the kernel does once it is mounted.
func (n *Node) Btrfs(fsid string, members ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir := "/sys/fs/btrfs/" + fsid
	n.tree.attrs(dir, map[string]string{"label": ""})
	for _, name := range members {
		b := n.blocks[name]
		if b == nil {
			return fmt.Errorf("btrfs member %s: no such disk", name)
		}
		n.tree.link(dir+"/devices/"+name, b.dir)
	}
	return n.tree.failed()
}
