package iopriotest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// systemd is the service manager as the D-Bus shows it.
type systemd struct{ n *Node }

var _ ioprio.Systemd = (*systemd)(nil)

// lock takes the node, unless the bus hangs or is broken.
func (s *systemd) lock(ctx context.Context) error {
	s.n.mu.Lock()
	gate := s.n.faults.busHangs
	s.n.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.n.mu.Lock()
	if err := s.n.faults.bus; err != nil {
		s.n.mu.Unlock()
		return err
	}
	return nil
}

func (s *systemd) Version(ctx context.Context) (string, error) {
	if err := s.lock(ctx); err != nil {
		return "", err
	}
	defer s.n.mu.Unlock()
	return s.n.opts.SystemdVersion, nil
}

func (s *systemd) Units(ctx context.Context, patterns ...string) ([]string, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.n.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.n.units)) {
		for _, p := range patterns {
			ok, err := path.Match(p, name)
			if err != nil {
				return nil, err
			}
			if ok {
				names = append(names, name)
				break
			}
		}
	}
	return names, nil
}

func (s *systemd) Unit(ctx context.Context, name string) (ioprio.Unit, error) {
	if err := s.lock(ctx); err != nil {
		return ioprio.Unit{}, err
	}
	defer s.n.mu.Unlock()
	answer := ioprio.Unit{Name: name, LoadState: "not-found", ActiveState: "inactive", IOWeight: ioprio.WeightUnset}
	u := s.n.units[name]
	switch {
	case u == nil && strings.HasSuffix(name, ".slice"):
		answer.LoadState = "loaded" // a slice needs no file: systemd loads any that it is asked for
		return answer, nil
	case u == nil:
		return answer, nil
	}
	answer.LoadState, answer.FragmentPath, answer.IOWeight = "loaded", s.n.fragment(u), u.weight
	answer.DropInPaths, answer.Slice = slices.Clone(u.dropins), u.Slice
	if u.active {
		answer.ActiveState, answer.ControlGroup, answer.MainPID = "active", s.n.cgroupOf(u), u.pid
	} else if cgroup := s.n.cgroupOf(u); u.Content != "" && s.n.groups[cgroup] != nil {
		answer.ControlGroup = cgroup // realized without being active; units without a file are forgotten at once
	}
	return answer, nil
}

func (s *systemd) SetIOWeight(ctx context.Context, name string, weight uint64) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.n.mu.Unlock()
	s.n.calls = append(s.n.calls, fmt.Sprintf("SetIOWeight %s %d", name, weight))
	return errors.Join(s.n.setWeight(name, weight), s.n.tree.failed())
}

// LoadModule is modprobe@MODULE.service, whose ExecStart ignores failure.
func (s *systemd) LoadModule(ctx context.Context, name string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.n.mu.Unlock()
	s.n.calls = append(s.n.calls, "LoadModule "+name)
	if name == bfqName {
		s.n.load()
	}
	return s.n.tree.failed()
}

// setWeight is SetUnitProperties(runtime=true, IOWeight): the property is held, a drop-in is written, and the unit's
// cgroup is realized whether the unit is active or not (src/core/dbus-cgroup.c, src/core/dbus-slice.c).
func (n *Node) setWeight(name string, weight uint64) error {
	if weight != ioprio.WeightUnset && (weight < 1 || weight > 10000) {
		return fmt.Errorf("setting IOWeight of %s: Value specified in IOWeight is out of range", name)
	}
	u := n.units[name]
	if u == nil {
		if !strings.HasSuffix(name, ".slice") {
			return fmt.Errorf("setting IOWeight of %s: Unit %s not found", name, name)
		}
		u = &unit{Unit: Unit{Name: name}}
		n.units[name] = u
	}
	dir := runtimeDropins
	if u.Transient {
		dir = transientDropins
	}
	file, line := dir+name+weightDropin, strconv.FormatUint(weight, 10)
	if weight == ioprio.WeightUnset {
		line = ""
	}
	section := map[bool]string{true: "[Slice]", false: "[Service]"}[strings.HasSuffix(name, ".slice")]
	n.tree.file(file, "# This is a drop-in unit file extension, created via \"systemctl set-property\"\n# or an equivalent operation. Do not edit.\n"+section+"\nIOWeight="+line+"\n")
	if !slices.Contains(u.dropins, file) {
		u.dropins = append(u.dropins, file)
	}
	u.weight, u.applied = weight, false
	n.realize(u)
	return nil
}

func (n *Node) leftoverWeight(dropin string) uint64 {
	weight := ioprio.WeightUnset
	text, err := readFile(n.Path(dropin))
	n.tree.note(err)
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "IOWeight="); ok {
			if w, err := strconv.ParseUint(v, 10, 64); err == nil {
				weight = w
			}
		}
	}
	return weight
}

// realize makes a unit's cgroup and brings io to it. Its relatives are dealt with at the same time, while systemd does
// so in the next turn of its loop.
func (n *Node) realize(u *unit) {
	n.makeGroup(n.cgroupOf(u))
	if u.Delegate || u.Transient || u.weight != ioprio.WeightUnset {
		n.enableIO(n.cgroupOf(u))
	}
	n.apply(u)
	for _, name := range slices.Sorted(maps.Keys(n.units)) {
		n.apply(n.units[name])
	}
}

// apply writes a unit's weights to its cgroup, if it has io and was not written before: what happens to bfq later is
// not seen.
func (n *Node) apply(u *unit) {
	g := n.groups[n.cgroupOf(u)]
	if g == nil || !g.io || u.applied {
		return
	}
	u.applied = true
	w := u.weight
	if w == ioprio.WeightUnset {
		w = defaultWeight
	}
	n.bySystemd(g, "io.weight", fmt.Sprintf("default %d", w))
	n.bySystemd(g, "io.bfq.weight", strconv.FormatUint(n.mapped(w), 10))
}

// bySystemd writes an attribute and swallows every error, as LOG_LEVEL_CGROUP_WRITE and set_io_weight do.
func (n *Node) bySystemd(g *group, attr, value string) {
	if file := path.Join(cgroupfs, g.name, attr); n.has(file) {
		_ = n.store(Systemd, file, value)
	}
}

// mapped is what this generation of systemd writes to io.bfq.weight, in whole numbers as C divides them
// (src/basic/cgroup-util.h BFQ_WEIGHT).
func (n *Node) mapped(w uint64) uint64 {
	switch n.opts.Generation {
	case ioprio.Raw:
		return w
	case ioprio.Tenth:
		return (w + 9) / 10
	}
	if w <= 100 {
		return 100 - (100-w)*(100-1)/(100-1)
	}
	return 100 + (w-100)*(1000-100)/(10000-100)
}

// Reload is daemon-reload: every cgroup that systemd owns gets systemd's own idea of its weights again.
func (n *Node) Reload() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, u := range n.units {
		u.applied = false
	}
	for _, name := range slices.Sorted(maps.Keys(n.units)) {
		n.apply(n.units[name])
	}
	return n.tree.failed()
}
