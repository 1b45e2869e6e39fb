package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	pods     = "kubepods.slice"
	podClass = "kubepods-besteffort.slice"
	podScope = "cri-containerd-e2e.scope"
	k3s      = "k3s.service"

	busLimit = 30 * time.Second // of a call, as busTimeout of the agent, for an emulated machine
	jobLimit = 3 * time.Minute  // of a job; systemd itself gives up after 90 seconds
)

// process is a child that runs until it is ended.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func startProcess(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // it is killed: that is no news
	}()
	return p, nil
}

// end kills the process, if there is one, and waits for its end.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// StartUnit implements scenario.Machine.
func (m *Machine) StartUnit(name string) error {
	if name == pods {
		return m.startPods()
	}
	return m.job("starting "+name, func(ctx context.Context, done chan<- string) (int, error) {
		return m.conn.StartUnitContext(ctx, name, "replace", done)
	})
}

// startPods does what kubelet and runc do for one pod of the best-effort class.
func (m *Machine) startPods() error {
	for _, slice := range []string{pods, podClass} {
		if err := m.startTransient(slice); err != nil {
			return err
		}
	}
	pod, err := startProcess("sleep", "infinity")
	if err != nil {
		return err
	}
	m.pod.end()
	m.pod = pod
	return m.startTransient(podScope,
		dbus.PropSlice(podClass), property("Delegate", true), dbus.PropPids(uint32(pod.cmd.Process.Pid)))
}

// startTransient asks for a unit with the properties that runc gives (libcontainer/cgroups/systemd/v2.go).
func (m *Machine) startTransient(name string, more ...dbus.Property) error {
	properties := []dbus.Property{dbus.PropDescription("e2e " + name), property("DefaultDependencies", false)}
	for _, controller := range []string{"Memory", "CPU", "IO", "Tasks"} {
		properties = append(properties, property(controller+"Accounting", true))
	}
	return m.job("starting "+name, func(ctx context.Context, done chan<- string) (int, error) {
		return m.conn.StartTransientUnitContext(ctx, name, "replace", append(properties, more...), done)
	})
}

// StopUnit implements scenario.Machine.
func (m *Machine) StopUnit(name string) error {
	if name == pods {
		return m.stopPods()
	}
	dir := filepath.Join(cgroups, "system.slice", name)
	return inOrder(
		func() error { return m.stop(name) },
		func() error { return await("the end of "+dir, settleLimit, func() bool { return !exists(dir) }) })
}

// stopPods stops whatever has to do with pods, from the containers to the slice.
func (m *Machine) stopPods() error {
	m.pod.end()
	m.pod = nil
	names, err := m.podUnits()
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int { // scopes before slices, and the deepest of those first
		return cmp.Or(cmp.Compare(filepath.Ext(a), filepath.Ext(b)), cmp.Compare(len(b), len(a)))
	})
	for _, name := range names {
		if err := m.stop(name); err != nil {
			return err
		}
	}
	dir := filepath.Join(cgroups, pods)
	return await("the end of "+dir+" and of its units", settleLimit, func() bool {
		names, err := m.podUnits()
		return err == nil && len(names) == 0 && !exists(dir)
	})
}

// podUnits are the units of pods that systemd knows.
func (m *Machine) podUnits() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	units, err := m.conn.ListUnitsByPatternsContext(ctx, nil, []string{"kubepods*.slice", "cri-containerd-*.scope"})
	if err != nil {
		return nil, fmt.Errorf("listing the units of pods: %w", err)
	}
	var names []string
	for _, u := range units {
		names = append(names, u.Name)
	}
	return names, nil
}

// stop stops a unit; one that systemd does not know is stopped.
func (m *Machine) stop(name string) error {
	err := m.job("stopping "+name, func(ctx context.Context, done chan<- string) (int, error) {
		return m.conn.StopUnitContext(ctx, name, "replace", done)
	})
	var answer godbus.Error
	if errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return nil
	}
	return err
}

// job asks for a job and waits until it is done, and systemd with what follows from it.
func (m *Machine) job(what string, ask func(context.Context, chan<- string) (int, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), jobLimit)
	defer cancel()
	done := make(chan string, 1)
	if _, err := ask(ctx, done); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			unit := what[strings.LastIndexByte(what, ' ')+1:]
			status, _ := output("", "systemctl", "--no-pager", "--lines=20", "status", unit) // its status is that of the unit
			return fmt.Errorf("%s: job %s: %s", what, result, strings.TrimSpace(status))
		}
		return m.settle()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// settle waits until systemd has written to all cgroups what it put off: it does so before it looks at its next message.
func (m *Machine) settle() error {
	if _, err := m.conn.GetManagerProperty("Version"); err != nil {
		return fmt.Errorf("asking systemd for its version: %w", err)
	}
	return nil
}

// SetWeight implements scenario.Machine.
func (m *Machine) SetWeight(unit string, weight uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	if err := m.conn.SetUnitPropertiesContext(ctx, unit, true, property("IOWeight", weight)); err != nil {
		return fmt.Errorf("setting IOWeight=%d of %s: %w", weight, unit, err)
	}
	return m.settle()
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}
