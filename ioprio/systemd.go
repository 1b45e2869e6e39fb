package ioprio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// busTimeout bounds every call: the default of D-Bus's own client libraries (sd_bus_call(3)). A manager that reloads
// answers late; one that hangs never does.
const busTimeout = 25 * time.Second

// Manager is systemd over D-Bus.
type Manager struct {
	conn *dbus.Conn
	end  context.CancelFunc
}

// ConnectManager connects to the system bus, or, for root while the bus is down, to systemd itself. The context owns the
// connection: when it ends, calls fail.
func ConnectManager(ctx context.Context) (*Manager, error) {
	ctx, end := context.WithCancel(ctx)
	late := time.AfterFunc(busTimeout, end) // a deadline of the context would end the connection, too
	conn, err := dbus.NewWithContext(ctx)
	if !late.Stop() && err == nil {
		conn.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return &Manager{conn, end}, nil
}

// Close ends the connection.
func (m *Manager) Close() {
	m.conn.Close()
	m.end()
}

// Version implements Systemd.
func (m *Manager) Version(ctx context.Context) (string, error) {
	text, err := await(ctx, busTimeout, func() (string, error) { return m.conn.GetManagerProperty("Version") }) // it takes no context
	if errors.Is(err, ErrNoAnswer) {
		return "", fmt.Errorf("systemd did not tell its version within %s", busTimeout)
	}
	return strings.Trim(text, `"'`), err // a GVariant text is quoted
}

// Units implements Systemd.
func (m *Manager) Units(ctx context.Context, patterns ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	loaded, err := m.conn.ListUnitsByPatternsContext(ctx, nil, patterns)
	if err != nil {
		return nil, fmt.Errorf("listing units: %w", err)
	}
	files, err := m.conn.ListUnitFilesByPatternsContext(ctx, nil, patterns)
	if err != nil {
		return nil, fmt.Errorf("listing unit files: %w", err)
	}
	var names []string
	for _, u := range loaded {
		names = append(names, u.Name)
	}
	for _, f := range files {
		names = append(names, f.Path[strings.LastIndexByte(f.Path, '/')+1:])
	}
	return names, nil
}

// Unit implements Systemd.
func (m *Manager) Unit(ctx context.Context, name string) (Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	all, err := m.conn.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("asking systemd for %s: %w", name, err)
	}
	own, err := m.conn.GetUnitTypePropertiesContext(ctx, name, unitType(name))
	if err != nil {
		return Unit{}, fmt.Errorf("asking systemd for %s: %w", name, err)
	}
	u := Unit{
		Name:         cmp.Or(property[string](all, "Id"), name), // an alias is asked for, too
		LoadState:    property[string](all, "LoadState"),
		ActiveState:  property[string](all, "ActiveState"),
		FragmentPath: property[string](all, "FragmentPath"),
		DropInPaths:  property[[]string](all, "DropInPaths"),
		ControlGroup: property[string](own, "ControlGroup"),
		Slice:        property[string](own, "Slice"),
		IOWeight:     WeightUnset,
		MainPID:      int(property[uint32](own, "MainPID")),
	}
	if w, ok := own["IOWeight"].(uint64); ok {
		u.IOWeight = w
	}
	if u.LoadState == "" {
		return Unit{}, fmt.Errorf("asking systemd for %s: no LoadState in its answer", name)
	}
	return u, nil
}

// property is a property of a type, or the type's zero where systemd has no such property.
func property[T any](all map[string]any, name string) T {
	v, _ := all[name].(T)
	return v
}

// unitType is the D-Bus interface that has a unit's cgroup properties.
func unitType(name string) string {
	kind := name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToUpper(kind[:1]) + kind[1:]
}

// SetIOWeight implements Systemd. It sets the property until the next boot: the agent does it again then, and nothing
// stays in /etc after the agent is gone.
func (m *Manager) SetIOWeight(ctx context.Context, name string, weight uint64) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	const runtime = true
	err := m.conn.SetUnitPropertiesContext(ctx, name, runtime, dbus.Property{Name: "IOWeight", Value: godbus.MakeVariant(weight)})
	if err != nil {
		return fmt.Errorf("setting IOWeight=%d of %s: %w", weight, name, err)
	}
	return nil
}

// LoadModule implements Systemd. The instance is restarted, not started: on systemd that keeps it active after
// modprobe ended, a start would do nothing once the module was removed.
func (m *Manager) LoadModule(ctx context.Context, module string) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	unit := "modprobe@" + module + ".service"
	done := make(chan string, 1)
	if _, err := m.conn.RestartUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("starting %s: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("starting %s: job %s", unit, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", unit, ctx.Err())
	}
}
