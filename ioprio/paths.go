package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The roles of a path.
const (
	RoleData      = "data"      // the k3s data directory
	RoleDatastore = "datastore" // etcd's data, or kine's sqlite
	RoleWAL       = "wal"       // etcd's write-ahead log, whose fsync the node lives by
)

// dataPaths names the directories that must be resolved, with their roles. The datastore and its log are named only if
// they exist: an agent node and one with an external datastore have none.
func dataPaths(h Host, p Policy, units []Unit) ([]Path, error) {
	files := slices.DeleteFunc(slices.Clone(units), func(u Unit) bool { return !u.Exists() || u.FragmentPath == "" })
	settings, err := readSettings(h, p, files)
	if err != nil {
		return nil, err
	}
	var paths []Path
	add := func(role string, dirs ...string) error {
		for _, dir := range dirs {
			_, found, err := evalSymlinks(h.Rootfs, dir)
			if err != nil {
				return fmt.Errorf("looking for the %s directory: %w", role, err)
			}
			if !found && role != RoleData {
				continue
			}
			i := slices.IndexFunc(paths, func(p Path) bool { return p.Path == dir })
			if i < 0 {
				paths = append(paths, Path{Path: dir, Roles: []string{role}})
			} else if !slices.Contains(paths[i].Roles, role) {
				paths[i].Roles = append(paths[i].Roles, role)
			}
			return nil
		}
		return nil
	}
	type candidate struct {
		role string
		dirs []string // the first that exists
	}
	candidates := []candidate{
		{RoleData, []string{settings.DataDir}},
		{RoleDatastore, []string{settings.EtcdDir, filepath.Join(settings.DataDir, "server/db")}},
		{RoleWAL, []string{settings.WALDir, filepath.Join(settings.EtcdDir, "member/wal")}},
	}
	for _, unit := range units {
		open, err := openWAL(h, unit)
		if err != nil {
			return nil, err
		}
		for _, dir := range open {
			candidates = append(candidates, candidate{RoleWAL, []string{dir}})
		}
	}
	for _, c := range candidates {
		if err := add(c.role, slices.DeleteFunc(c.dirs, func(d string) bool { return d == "" })...); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// walFile is an open file of a live datastore: etcd's WAL, or kine's sqlite.
//
// etcd names a segment by sequence and index (server/storage/wal, walName); sqlite adds -wal to the name of a database.
var walFile = regexp.MustCompile(`/member/wal/[^/]+\.wal$|/[0-9a-f]{16}-[0-9a-f]{16}\.wal$|/state\.db$|-wal$`)

// openWAL names the directories of the datastore files that the processes of a unit have open: the last word on where
// they are. The main process may be a shell around k3s.
func openWAL(h Host, u Unit) ([]string, error) {
	if u.MainPID == 0 {
		return nil, nil
	}
	pids := strings.Fields(readAttr(h.cgroup(u.ControlGroup, "cgroup.procs")).Value)
	var dirs []string
	for _, pid := range append(pids, strconv.Itoa(u.MainPID)) {
		open, err := os.ReadDir(h.proc(pid, "fd"))
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("reading the open files of %s (as root they can be read): %w", u.Name, err)
		}
		for _, file := range open {
			if target, err := os.Readlink(h.proc(pid, "fd", file.Name())); err == nil && walFile.MatchString(target) {
				dirs = append(dirs, filepath.Dir(target))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// gone reports whether a process ended while it was looked at (proc(5): ENOENT before, ESRCH during).
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
