package ioprio

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// mount is a row of /proc/PID/mountinfo (proc(5), fs/proc_namespace.c show_mountinfo).
type mount struct {
	id, parent int
	dev        string // MAJ:MIN; major 0 is an anonymous device
	root       string // the directory of the file system that is mounted; not always a directory
	point      string
	fstype     string
	source     string
	options    []string // of the file system, still escaped
}

// anonymous reports whether the kernel made the device number up because no single block device stands behind it.
func (m mount) anonymous() bool { return strings.HasPrefix(m.dev, "0:") }

// option is the value of a file system option such as upperdir=.
func (m mount) option(name string) (string, bool) {
	for _, o := range m.options {
		if v, ok := strings.CutPrefix(o, name+"="); ok {
			return unescape(v), true
		}
	}
	return "", false
}

// parseMountinfo reads all rows in the kernel's order, which is the order of mounting within one mount point.
func parseMountinfo(r io.Reader) ([]mount, error) {
	var mounts []mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // an overlay's lowerdir list is longer than bufio's 64 KiB
	for lines.Scan() {
		m, err := parseMount(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("mountinfo row %d: %w", len(mounts)+1, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, lines.Err()
}

func parseMount(line string) (mount, error) {
	head, tail, ok := strings.Cut(line, " - ")
	fields, rest := strings.Split(head, " "), strings.Split(tail, " ")
	if !ok || len(fields) < 6 || len(rest) < 3 {
		return mount{}, fmt.Errorf("%q has too few fields", line)
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return mount{}, fmt.Errorf("mount id: %w", err)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return mount{}, fmt.Errorf("parent id: %w", err)
	}
	if !isDev(fields[2]) {
		return mount{}, fmt.Errorf("%q is no device number", fields[2])
	}
	return mount{
		id: id, parent: parent, dev: fields[2],
		root: unescape(fields[3]), point: unescape(fields[4]),
		fstype: rest[0], source: unescape(rest[1]),
		options: strings.Split(strings.Join(rest[2:], " "), ","),
	}, nil
}

func isDev(s string) bool {
	major, minor, ok := strings.Cut(s, ":")
	_, errMajor := strconv.ParseUint(major, 10, 32)
	_, errMinor := strconv.ParseUint(minor, 10, 32)
	return ok && errMajor == nil && errMinor == nil
}

// unescape decodes the kernel's octal escapes (lib/string_helpers.c, ESCAPE_OCTAL): exactly three digits after a
// backslash, once, from left to right. So \134040 is a backslash followed by 040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountTable finds the mount that a path is on.
type mountTable struct {
	byID     map[int]mount
	children map[place][]mount // in the order of mounting
	orphans  []mount           // rows whose parent is out of sight: the root, in a whole table
}

// place is a directory of a mount that something may be mounted on.
type place struct {
	parent int
	point  string
}

func newMountTable(rows []mount) *mountTable {
	t := &mountTable{byID: make(map[int]mount, len(rows)), children: make(map[place][]mount, len(rows))}
	for _, m := range rows {
		t.byID[m.id] = m
	}
	for _, m := range rows {
		if _, ok := t.byID[m.parent]; !ok || m.parent == m.id {
			t.orphans = append(t.orphans, m)
			continue
		}
		at := place{m.parent, m.point}
		t.children[at] = append(t.children[at], m)
	}
	return t
}

// visible is the mount that a path walk from the root ends on, as the kernel's own walk does it: a row counts only if
// its parent is the mount that the walk stands on, so what was mounted over is never found. The path has no symlinks.
func (t *mountTable) visible(path string) (mount, error) {
	at, ok := t.start(path)
	if !ok {
		return mount{}, fmt.Errorf("no mount in mountinfo carries %s", path)
	}
	for _, prefix := range prefixes(path) {
		for hops := 0; hops <= len(t.byID); hops++ {
			over := t.children[place{at.id, prefix}]
			if len(over) == 0 {
				break
			}
			at = over[len(over)-1]
		}
	}
	return at, nil
}

// start is the orphan row nearest to the path: the root mount, unless the table was cut.
func (t *mountTable) start(path string) (best mount, ok bool) {
	for _, m := range t.orphans {
		if below(m.point, path) && (!ok || len(m.point) >= len(best.point)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// below reports whether path is dir or inside it, by whole names: /var/li does not hold /var/lib.
func below(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// prefixes are "/", "/var", "/var/lib" for "/var/lib".
func prefixes(path string) []string {
	list := []string{"/"}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			list = append(list, path[:i])
		}
	}
	if path = filepath.Clean(path); path != "/" {
		list = append(list, path)
	}
	return list
}
