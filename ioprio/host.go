package ioprio

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Host is the node that is observed and changed: where its kernel interfaces are, who writes to them, and
// its service manager.
type Host struct {
	Rootfs string // root directory of the node's files: "/"
	Procfs string // mount point of proc(5): "/proc"
	Sysfs  string // mount point of sysfs(5), with the cgroup2 hierarchy below fs/cgroup: "/sys"

	// Systemd is the node's service manager. It is nil for a captured tree: then units are read from their files.
	Systemd Systemd

	// Write writes a value to an existing attribute in one write(2). WriteAttr where it is nil.
	Write func(path, value string) error
}

// NewHost is the node that this process runs on, without systemd.
func NewHost() Host {
	return Host{Rootfs: "/", Procfs: "/proc", Sysfs: "/sys"}
}

// Captured reports whether the host is a copy of a node's files rather than the node this process runs on.
func (h Host) Captured() bool {
	return h.Rootfs != "/" || h.Procfs != "/proc" || h.Sysfs != "/sys"
}

func (h Host) sys(elem ...string) string {
	return filepath.Join(append([]string{h.Sysfs}, elem...)...)
}

func (h Host) proc(elem ...string) string {
	return filepath.Join(append([]string{h.Procfs}, elem...)...)
}

// glob names what matches a pattern below one of the host's directories, whose own name may hold a pattern's signs.
func glob(dir, pattern string) []string {
	found, _ := fs.Glob(os.DirFS(dir), pattern) // the only error is a bad pattern
	for i := range found {
		found[i] = filepath.Join(dir, found[i])
	}
	return found
}

// cgroup is the directory of a control group, named as /proc/PID/cgroup names it: "/system.slice".
func (h Host) cgroup(name string, elem ...string) string {
	return h.sys(append([]string{"fs/cgroup", name}, elem...)...)
}

// WeightUnset is systemd's number for a weight that nobody set (UINT64_MAX, systemd.resource-control(5) and
// src/core/dbus-cgroup.c). systemd answers it for units that do not exist, too.
const WeightUnset uint64 = math.MaxUint64

// Unit is what systemd says of a unit.
type Unit struct {
	Name         string
	LoadState    string   // loaded, not-found, masked, ...
	ActiveState  string   // active, inactive, failed, activating, ...
	FragmentPath string   // the unit file; empty for a unit that lives in memory only
	DropInPaths  []string // in the order in which systemd merges them
	ControlGroup string   // "/system.slice/k3s.service"; empty while the unit has none
	Slice        string   // the slice that it is in or will be in; empty means system.slice
	IOWeight     uint64   // 1 to 10000, or WeightUnset
	MainPID      int      // 0 for a slice and for a service that does not run
}

// Exists reports whether the unit is known by a file, or lives now.
func (u Unit) Exists() bool { return u.LoadState == "loaded" }

// Active reports whether the unit has its processes and its control group now, or is about to have them.
func (u Unit) Active() bool {
	switch u.ActiveState {
	case "active", "activating", "reloading", "deactivating":
		return true
	}
	return false
}

// Systemd is what the agent asks of the service manager.
type Systemd interface {
	// Version is the manager's own word: "252.39-1~deb12u1".
	Version(ctx context.Context) (string, error)
	// Units names the units in memory or on disk that match the shell patterns.
	Units(ctx context.Context, patterns ...string) ([]string, error)
	// Unit answers for a unit that does not exist, too: a service is then "not-found", but a slice needs no file and is
	// "loaded" and inactive.
	Unit(ctx context.Context, name string) (Unit, error)
	// SetIOWeight sets IOWeight of an active unit until the next boot. Its success proves nothing.
	SetIOWeight(ctx context.Context, name string, weight uint64) error
	// LoadModule runs modprobe@MODULE.service, which honours the node's modprobe configuration. Its success proves nothing.
	LoadModule(ctx context.Context, module string) error
}
