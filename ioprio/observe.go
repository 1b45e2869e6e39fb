package ioprio

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// RefusedError says why a whole node is not one that the policy fits.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Observe reads what the kernel and systemd say of the paths, disks and cgroups that the policy is about. It changes
// nothing. Its errors mean that the node has no answer: a path without a disk (*ResolveError), a node that is not to be
// touched (*RefusedError), settings that cannot be read, a path whose file system hangs (ErrNoAnswer). What single files did not answer stands in the State.
func Observe(ctx context.Context, h Host, p Policy) (State, error) {
	if err := refuseContainer(h); err != nil {
		return State{}, err
	}
	s := State{Asked: h.Systemd != nil, UnitDir: filepath.Join(h.Rootfs, unitDirs()[0])}
	if s.Asked {
		s.SystemdVersion, s.BusError = h.Systemd.Version(ctx)
	}
	units, err := observeUnits(ctx, h, &p, &s)
	if err != nil {
		return State{}, err
	}
	paths, err := await(ctx, readTimeout, func() ([]Path, error) { return dataPaths(h, p, units) })
	if err != nil {
		return State{}, err
	}
	r, err := newResolver(h, units)
	if err != nil {
		return State{}, err
	}
	s.Loaded = loaded(h, p.Scheduler)
	roles := make(map[string][]string)
	for _, want := range paths {
		found, err := await(ctx, readTimeout, func() (Path, error) { return r.resolve(want.Path) })
		if err != nil {
			return State{}, fmt.Errorf("resolving the %s path: %w", strings.Join(want.Roles, " and "), err)
		}
		found.Roles = want.Roles
		s.Paths = append(s.Paths, found)
		for _, disk := range found.Disks {
			for _, role := range want.Roles {
				if !slices.Contains(roles[disk], role) {
					roles[disk] = append(roles[disk], role)
				}
			}
		}
	}
	s.Disks = observeDisks(ctx, h, roles, p, s.Loaded)
	s.Controllers = readAttr(h.cgroup("", "cgroup.controllers"))
	s.Groups = observeGroups(ctx, h, units, &s)
	s.Siblings = observeSiblings(ctx, h, &s)
	return s, nil
}

// runsHere reports whether a unit runs k3s or RKE2: by its name, by its command where the name leaves it open, or because
// the policy says so.
func runsHere(h Host, p Policy, u Unit) (bool, error) {
	switch {
	case !u.Exists() && !u.Active():
		return false, nil
	case p.Unit != "" && !isRKE2(u.Name):
		return u.Name == p.Unit, nil
	case isRKE2(u.Name):
		return true, nil
	case !u.Exists() || u.FragmentPath == "": // it runs, but its file was removed or masked
		return isK3s(u.Name, nil), nil
	}
	service, err := readService(h, u)
	return isK3s(u.Name, service.exec), err
}

// refuseContainer refuses a node that is a container: /sys shows the host's disks there, whoever they belong to
// (systemd's container interface; docker and podman leave files of their own).
func refuseContainer(h Host) error {
	for _, mark := range []string{"run/systemd/container", ".dockerenv", "run/.containerenv"} {
		found, err := exists(filepath.Join(h.Rootfs, mark))
		if err != nil {
			return err
		}
		if found {
			return &RefusedError{fmt.Sprintf("this is a container (/%s exists): run ioprio-agent on the host, whose disks these are", mark)}
		}
	}
	return nil
}

// observeUnits finds the units that run k3s: those that are active, or else those that are installed. When systemd
// does not answer, the unit files do, and the State says so.
func observeUnits(ctx context.Context, h Host, p *Policy, s *State) ([]Unit, error) {
	var all []Unit
	if s.Asked && s.BusError == nil {
		all, s.BusError = askUnits(ctx, h, p)
	}
	if !s.Asked || s.BusError != nil {
		found, err := findUnits(h, p.Unit)
		if err != nil {
			return nil, err
		}
		all = found
	}
	var units, active []Unit
	var rke2 *Unit
	for _, u := range all {
		runs, err := runsHere(h, *p, u)
		switch {
		case err != nil:
			return nil, err
		case !runs:
		case isRKE2(u.Name) && (rke2 == nil || u.Active()):
			rke2 = &u
		case isRKE2(u.Name):
		case u.Active():
			active = append(active, u)
			fallthrough
		default:
			units = append(units, u)
		}
	}
	if rke2 != nil && (rke2.Active() || len(units) == 0) {
		return nil, &RefusedError{fmt.Sprintf("this is an RKE2 node (%s): its etcd is a pod below kubepods.slice, so this policy would starve what it is to protect", rke2.Name)}
	}
	if len(active) > 0 {
		units = active
	}
	for _, u := range units {
		if below("/"+kubepodsSlice, u.place()) {
			return nil, &RefusedError{u.Name + " lives below kubepods.slice: this policy would starve what it is to protect"}
		}
	}
	return units, nil
}

// askUnits asks systemd for the units that may run k3s, and puts the unit's own name into a policy that names an alias.
func askUnits(ctx context.Context, h Host, p *Policy) ([]Unit, error) {
	patterns := []string{"k3s.service", "k3s-*.service", "rke2-server.service", "rke2-agent.service"}
	if p.Unit != "" {
		patterns = []string{p.Unit, "rke2-server.service", "rke2-agent.service"}
	}
	names, err := h.Systemd.Units(ctx, patterns...)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var units []Unit
	named := p.Unit
	for _, name := range slices.Compact(names) {
		if name != named && !mayBeK3s(name) {
			continue // a template: it is no unit
		}
		u, err := h.Systemd.Unit(ctx, name)
		if err != nil {
			return nil, err
		}
		if name == named {
			p.Unit = u.Name
		}
		if !slices.ContainsFunc(units, func(o Unit) bool { return o.Name == u.Name }) { // an alias has the name of its unit
			units = append(units, u.withoutDecoy())
		}
	}
	return units, nil
}
