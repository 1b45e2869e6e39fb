package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// setting is a value and where it came from.
type setting struct {
	value string
	from  string // a file, or a file and what it has there: "/etc/systemd/system/k3s.service ExecStart"
}

// service is what the unit file and the drop-ins of a service say of its main process.
type service struct {
	exec     []string // the executable and its arguments, with variables expanded; empty without ExecStart
	execFrom string   // the file with that ExecStart
	env      map[string]setting
	slice    string // empty: the default
}

// readService reads a service as systemd merges it: the unit file, then the drop-ins in their order.
func readService(h Host, u Unit) (service, error) {
	var execs, envs, envFiles []setting
	var s service
	t := tree{h.Rootfs}
	for i, name := range append([]string{u.FragmentPath}, u.DropInPaths...) {
		if name == "" {
			continue
		}
		data, err := t.readFile(name)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue // it vanished after it was listed
		}
		if err != nil {
			return service{}, fmt.Errorf("reading unit %s: %w", u.Name, err)
		}
		for _, a := range parseUnitFile(string(data)) {
			if a.section != "Service" {
				continue
			}
			switch a.key {
			case "ExecStart":
				execs = assign(execs, a.value, name)
			case "Environment":
				envs = assign(envs, a.value, name)
			case "EnvironmentFile":
				envFiles = assign(envFiles, a.value, name)
			case "Slice":
				s.slice = expandSpecifiers(a.value, u.Name)
			}
		}
	}
	var err error
	if s.env, err = readEnvironment(t, u.Name, envs, envFiles); err != nil {
		return service{}, err
	}
	for _, e := range execs {
		exec, expand, err := splitExec(e.value)
		if err != nil {
			return service{}, fmt.Errorf("reading ExecStart in %s: %w", e.from, err)
		}
		for i := range exec {
			exec[i] = expandSpecifiers(exec[i], u.Name)
		}
		if expand {
			exec = expandExec(exec, s.env)
		}
		// A service with Type=oneshot has several: what counts is the one that is k3s.
		if s.exec == nil || (runsK3s(exec) && !runsK3s(s.exec)) {
			s.exec, s.execFrom = exec, e.from
		}
	}
	return s, nil
}

// assign adds to a list setting. An empty value resets the list (systemd.syntax(7)).
func assign(list []setting, value, from string) []setting {
	if value == "" {
		return nil
	}
	return append(list, setting{value, from})
}

// readEnvironment is the environment that the unit's files give its processes: files win over Environment=, and later
// ones over earlier ones (systemd.exec(5)).
func readEnvironment(t tree, unit string, envs, files []setting) (map[string]setting, error) {
	env := make(map[string]setting)
	for _, e := range envs {
		words, err := splitWords(e.value)
		if err != nil {
			return nil, fmt.Errorf("reading Environment in %s: %w", e.from, err)
		}
		for _, word := range words {
			if name, value, ok := strings.Cut(expandSpecifiers(word, unit), "="); ok {
				env[name] = setting{value, name + " in " + e.from}
			}
		}
	}
	for _, f := range files {
		pattern, optional := strings.CutPrefix(expandSpecifiers(f.value, unit), "-")
		names, err := t.glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("reading EnvironmentFile in %s: %w", f.from, err)
		}
		for _, name := range names {
			data, err := t.readFile(name)
			if optional && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading EnvironmentFile in %s: %w", f.from, err)
			}
			for key, value := range parseEnvFile(data) {
				env[key] = setting{value, key + " in " + name}
			}
		}
	}
	return env, nil
}

// glob is the files that a pattern names; a pattern without wildcards is its own match. systemd.exec(5) allows wildcards
// anywhere in EnvironmentFile=; only those in the file name are expanded here.
func (t tree) glob(pattern string) ([]string, error) {
	dir, base := path.Split(pattern)
	if !strings.ContainsAny(base, "*?[") {
		return []string{pattern}, nil
	}
	entries, err := t.readDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if ok, err := path.Match(base, e.Name()); err != nil {
			return nil, err
		} else if ok {
			names = append(names, dir+e.Name())
		}
	}
	return names, nil
}

// assignment is one setting of a unit file.
type assignment struct{ section, key, value string }

// parseUnitFile reads a unit file as systemd does (systemd.syntax(7), src/shared/conf-parser.c). go-systemd's unit
// package reads most files alike, but it refuses lines of 2 kB and files with one broken line, takes a comment between
// continued lines for part of the value, and lets a comment that ends with a backslash hide the next line.
func parseUnitFile(data string) []assignment {
	var out []assignment
	section, pending := "", ""
	line := func(s string) {
		s = strings.Trim(s, whitespace)
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			section = s[1 : len(s)-1]
		} else if key, value, ok := strings.Cut(s, "="); ok {
			key, value = strings.TrimRight(key, whitespace), strings.TrimLeft(value, whitespace)
			out = append(out, assignment{section, key, value})
		}
	}
	for s := range strings.Lines(strings.TrimPrefix(data, "\ufeff")) {
		s = strings.TrimRight(s, "\r\n")
		if bare := strings.TrimLeft(s, whitespace); strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, ";") {
			continue
		}
		pending += s
		backslashes := len(pending) - len(strings.TrimRight(pending, `\`))
		if backslashes%2 == 1 {
			pending = pending[:len(pending)-1] + " "
			continue
		}
		line(pending)
		pending = ""
	}
	line(pending)
	return out
}

// expandSpecifiers expands what systemd.unit(5), "Specifiers", has for any system service: the parts of the unit's name
// and the standard directories. An unknown one stays as it is, so that a path with it is refused rather than guessed.
func expandSpecifiers(s, unit string) string {
	full := strings.TrimSuffix(unit, path.Ext(unit))
	prefix, instance, _ := strings.Cut(full, "@")
	return strings.NewReplacer(
		"%%", "%", "%n", unit, "%N", full, "%p", prefix, "%i", instance, "%j", prefix[strings.LastIndexByte(prefix, '-')+1:],
		"%C", "/var/cache", "%E", "/etc", "%L", "/var/log", "%S", "/var/lib", "%T", "/tmp", "%V", "/var/tmp", "%t", "/run",
		"%h", "/root", "%u", "root", "%U", "0",
	).Replace(s)
}
