package ioprio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// unitDirs is where unit files are, first match wins (systemd.unit(5), "System Unit Search Path").
func unitDirs() []string {
	return []string{
		"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
		"/lib/systemd/system",
	}
}

// findUnits finds the units of k3s and RKE2 in the unit files, for a captured tree: on a live node systemd is asked.
// One unit more may be named. Masked units and links that lead nowhere are left out, and an alias is found under its real name.
func findUnits(h Host, also string) ([]Unit, error) {
	t := tree{h.Rootfs}
	found := make(map[string]string)
	for _, dir := range unitDirs() {
		entries, err := t.readDir(dir)
		if err != nil {
			return nil, fmt.Errorf("finding k3s units: %w", err)
		}
		for _, e := range entries {
			name := e.Name()
			if _, ok := found[name]; !ok && !e.IsDir() && (mayBeK3s(name) || name == also) {
				found[name] = path.Join(dir, name)
			}
		}
	}
	units := make(map[string]Unit)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		file := found[name]
		u, ok, err := findUnit(h, name, file)
		if err != nil {
			return nil, fmt.Errorf("finding k3s units: %w", err)
		}
		if ok || (name == also && u.Name != "") {
			units[u.Name] = u
		}
	}
	var sorted []Unit
	for _, name := range slices.Sorted(maps.Keys(units)) {
		sorted = append(sorted, units[name])
	}
	return sorted, nil
}

func findUnit(h Host, name, file string) (Unit, bool, error) {
	t := tree{h.Rootfs}
	target, _, err := evalSymlinks(t.root, file)
	if err != nil {
		return Unit{}, false, err
	}
	data, err := t.readFile(file) // a masked unit is a link to /dev/null, or empty
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(bytes.TrimSpace(data)) == 0) {
		return Unit{}, false, nil
	}
	if err != nil {
		return Unit{}, false, err
	}
	u := Unit{Name: name, LoadState: "loaded", FragmentPath: file, IOWeight: WeightUnset}
	if dir, base := path.Split(target); base != name && slices.Contains(unitDirs(), path.Clean(dir)) {
		u.Name, u.FragmentPath = base, target
	}
	if u.DropInPaths, err = findDropIns(t, u.Name); err != nil {
		return Unit{}, false, err
	}
	s, err := readService(h, u)
	if err != nil {
		return Unit{}, false, err
	}
	u.ControlGroup = path.Join(sliceCgroup(s.slice), u.Name)
	return u, isRKE2(name) || isK3s(name, s.exec), nil
}

// mayBeK3s is isK3s before the unit file is read, and RKE2. Templates do not run, only their instances do.
func mayBeK3s(name string) bool {
	if strings.Contains(name, "@") {
		return false
	}
	return isRKE2(name) || name == "k3s.service" || (strings.HasPrefix(name, "k3s-") && strings.HasSuffix(name, ".service"))
}

// isK3s reports whether a unit is k3s, by its name and its command. Its installer names units k3s.service,
// k3s-agent.service or, with INSTALL_K3S_NAME, k3s-NAME.service; others named alike do not run a server or an agent:
// they take snapshots or upgrade.
func isK3s(name string, exec []string) bool {
	if name == "k3s.service" || name == "k3s-agent.service" {
		return true
	}
	return mayBeK3s(name) && !isRKE2(name) && runsK3s(exec) && subcommand(exec) > 0
}

// isRKE2 reports whether a unit is RKE2, whose etcd is a pod.
func isRKE2(name string) bool {
	return name == "rke2-server.service" || name == "rke2-agent.service"
}

func runsK3s(exec []string) bool {
	return len(exec) > 0 && strings.Contains(path.Base(exec[0]), "k3s")
}

// subcommand is the index of "server" or "agent" in a k3s command, 0 if it has neither. Flags may come before it, and
// k3s itself looks for the word only (pkg/configfilearg, findStart).
func subcommand(exec []string) int {
	for i, word := range exec {
		if i > 0 && (word == "server" || word == "agent") {
			return i
		}
		if i == 1 && !strings.HasPrefix(word, "-") {
			break // another sub-command: k3s etcd-snapshot
		}
	}
	return 0
}

// findDropIns finds the drop-ins of a unit in the order in which systemd merges them: by file name, whatever directory
// they are in. Of two with the same name the one in the first directory counts (systemd.unit(5); for the order of the
// directories src/shared/dropin.c, unit_file_find_dropin_paths).
func findDropIns(t tree, unit string) ([]string, error) {
	dirs := append([]string{"/etc/systemd/system.control", "/run/systemd/system.control"}, unitDirs()...)
	ext := path.Ext(unit)
	levels := []string{unit + ".d"}
	for p := strings.TrimRight(strings.TrimSuffix(unit, ext), "-"); strings.Contains(p, "-"); {
		p = p[:strings.LastIndexByte(p, '-')]
		levels = append(levels, p+"-"+ext+".d")
	}
	var search []string
	for _, dir := range dirs {
		for _, level := range levels {
			search = append(search, path.Join(dir, level))
		}
	}
	for _, dir := range dirs {
		search = append(search, path.Join(dir, ext[1:]+".d"))
	}
	found := make(map[string]string)
	for _, dir := range search {
		entries, err := t.readDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, ok := found[e.Name()]; !ok && !e.IsDir() && strings.HasSuffix(e.Name(), ".conf") {
				found[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		paths = append(paths, found[name])
	}
	return paths, nil
}

// sliceCgroup is the control group of a slice: a-b.slice is inside a.slice (systemd.slice(5)).
func sliceCgroup(slice string) string {
	switch slice {
	case "":
		slice = "system.slice"
	case "-.slice":
		return "/"
	}
	cgroup, name := "/", strings.TrimSuffix(slice, ".slice")
	for i, c := range name {
		if c == '-' {
			cgroup = path.Join(cgroup, name[:i]+".slice")
		}
	}
	return path.Join(cgroup, name+".slice")
}
