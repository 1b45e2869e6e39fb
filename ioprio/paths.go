package ioprio

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	candidates := []struct {
		role string
		dirs []string // the first that exists
	}{
		{RoleData, []string{settings.DataDir}},
		{RoleDatastore, []string{settings.EtcdDir, filepath.Join(settings.DataDir, "server/db")}},
		{RoleWAL, []string{settings.WALDir, filepath.Join(settings.EtcdDir, "member/wal")}},
	}
	for _, unit := range units {
		for _, dir := range openWAL(h, unit.MainPID) {
			candidates = append(candidates, struct {
				role string
				dirs []string
			}{RoleWAL, []string{dir}})
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

// openWAL names the directories of the datastore files that a process has open: the last word on where they are.
func openWAL(h Host, pid int) []string {
	if pid == 0 {
		return nil
	}
	var dirs []string
	for _, link := range glob(h.Procfs, strconv.Itoa(pid)+"/fd/*") {
		target, err := os.Readlink(link)
		if err == nil && walFile.MatchString(target) {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
