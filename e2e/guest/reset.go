package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// unset is the IOWeight of a unit that has none.
const unset uint64 = math.MaxUint64

// defaultRequests is what the scenarios say of a SATA disk: twice the depth of its queue, 32 (block/blk-mq-sched.c).
const defaultRequests = "64"

// Reset implements scenario.Machine. It changes only what is not as it should be.
func (m *Machine) Reset() error {
	err := errors.Join(
		m.endPods(),
		dismantle(),
		m.unsetWeights(),
		removeGroups(filepath.Join(cgroups, pods)), // of a slice that never ran
		resetQueues(),
		m.Module("allow", "bfq"),
	)
	if exists("/sys/module/bfq") {
		err = errors.Join(err, m.Module("unload", "bfq"))
	}
	err = errors.Join(err, m.startK3s())
	if err != nil {
		return err
	}
	return m.checkBase()
}

// endPods stops the pods, if there are any.
func (m *Machine) endPods() error {
	names, err := m.podUnits()
	if err != nil {
		return err
	}
	if m.pod == nil && len(names) == 0 {
		return nil
	}
	for _, name := range names {
		state, err := m.unitProperty(name, "ActiveState")
		if err == nil && state == "active" {
			return m.stopPods()
		}
	}
	m.pod.end()
	m.pod = nil
	return nil
}

// removeGroups removes a cgroup and those below it, none of which has a process.
func removeGroups(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return ignoreAbsent(err)
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, ignoreAbsent(unix.Rmdir(dir)))
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unsetWeights takes the weights back from the units that always exist, and the drop-ins that hold them from all.
func (m *Machine) unsetWeights() error {
	for _, unit := range []string{"system.slice", k3s} {
		switch weight, err := m.weight(unit); {
		case err != nil:
			return err
		case weight != unset:
			if err := m.SetWeight(unit, unset); err != nil {
				return err
			}
		}
	}
	files := weightFiles()
	if len(files) == 0 {
		return nil
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(file)) // other drop-ins may be in it
	}
	ctx, cancel := context.WithTimeout(context.Background(), jobLimit)
	defer cancel()
	if err := m.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reloading systemd: %w", err)
	}
	return m.settle()
}

// weightFiles are the drop-ins that systemctl set-property IOWeight= left.
func weightFiles() []string {
	var files []string
	for _, dir := range []string{"/run/systemd/system.control", "/etc/systemd/system.control"} {
		found, _ := filepath.Glob(dir + "/*.d/50-IOWeight.conf") // the pattern is good
		files = append(files, found...)
	}
	return files
}

func (m *Machine) weight(unit string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	kind := map[string]string{".slice": "Slice", ".service": "Service"}[filepath.Ext(unit)]
	p, err := m.conn.GetUnitTypePropertyContext(ctx, unit, kind, "IOWeight")
	if err != nil {
		return 0, fmt.Errorf("asking systemd for the IOWeight of %s: %w", unit, err)
	}
	weight, ok := p.Value.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("the IOWeight of %s is %v", unit, p.Value)
	}
	return weight, nil
}

func (m *Machine) unitProperty(unit, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	p, err := m.conn.GetUnitPropertyContext(ctx, unit, name)
	if err != nil {
		return "", fmt.Errorf("asking systemd for the %s of %s: %w", name, unit, err)
	}
	text, _ := p.Value.Value().(string)
	return text, nil
}

// startK3s also forgets earlier starts: systemd refuses a unit that is started too often.
func (m *Machine) startK3s() error {
	state, err := m.unitProperty(k3s, "ActiveState")
	if err != nil || state == "active" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	if err := m.conn.ResetFailedUnitContext(ctx, k3s); err != nil {
		return fmt.Errorf("resetting %s: %w", k3s, err)
	}
	return m.StartUnit(k3s)
}

// resetQueues brings the schedulers back, and with a switch everything else. A disk whose scheduler is the right one but
// whose nr_requests is not goes through none.
func resetQueues() error {
	var all error
	for _, disk := range queues() {
		dir := blocks + disk + "/queue/"
		want := defaultScheduler(disk)
		switch have, err := scheduler(disk); {
		case err != nil:
			all = errors.Join(all, err)
		case have != want:
			all = errors.Join(all, write(dir+"scheduler", want))
		case isSATA(disk) && attribute(dir+"nr_requests") != defaultRequests:
			all = errors.Join(all, write(dir+"scheduler", "none"), write(dir+"scheduler", want))
		}
	}
	return all
}

// queues are the disks that have schedulers to choose from, stacks aside.
func queues() []string {
	var names []string
	for _, pattern := range []string{"sd*", "vd*", "nvme*"} {
		for _, name := range virtual(pattern) {
			if exists(blocks + name + "/queue/scheduler") {
				names = append(names, name)
			}
		}
	}
	return names
}

func isSATA(disk string) bool { return strings.HasPrefix(disk, "sd") }

func defaultScheduler(disk string) string {
	if strings.HasPrefix(disk, "nvme") {
		return "none"
	}
	return "mq-deadline"
}

// scheduler is the one in brackets.
func scheduler(disk string) (string, error) {
	file := blocks + disk + "/queue/scheduler"
	for word := range strings.FieldsSeq(attribute(file)) {
		if name, ok := strings.CutPrefix(word, "["); ok {
			return strings.TrimSuffix(name, "]"), nil
		}
	}
	return "", fmt.Errorf("%s says %q", file, attribute(file))
}

// attribute is the content of a file without white space around it, or what is wrong with it.
func attribute(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}
