package ioprio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// ApplyError says which change did not reach the kernel.
type ApplyError struct {
	Subject string
	Setting string
	Err     error
	Fix     string // what the operator should do; empty where the finding's own advice stands
}

func (e *ApplyError) Error() string { return fmt.Sprintf("%s %s: %v", e.Subject, e.Setting, e.Err) }

func (e *ApplyError) Unwrap() error { return e.Err }

// explains reports whether a finding is about what went wrong. A module stands behind the scheduler of every disk.
func (e *ApplyError) explains(f Finding) bool {
	return e.Setting == f.Setting && e.Subject == f.Subject || e.Setting == settingModule && f.Setting == SettingScheduler
}

// writeTimeout bounds the wait for one write. A switch of the scheduler drains the queue first (block/elevator.c), and
// the SCSI layer gives a stuck command 30 s before it resets the disk; the thread of a write that never ends stays behind in D state.
const writeTimeout = 60 * time.Second

// Apply makes changes in their order and returns what went wrong with each. It goes on after an error: one disk does not
// cost another its priority. What rests on an earlier change looks for itself whether that is there. What was written is no
// result; Observe and Check again for that.
func Apply(ctx context.Context, h Host, changes []Change) []*ApplyError {
	var errs []*ApplyError
	for _, c := range changes {
		err := applyChange(ctx, h, c)
		if err == nil {
			continue
		}
		e := &ApplyError{Subject: c.Subject, Setting: c.Setting, Err: err}
		errs = append(errs, e)
		if c.Via == ViaModule { // without its module no queue can have it, and weights leave no trace
			e.Fix = "run: modprobe " + c.Subject + "; look for a blacklist in /etc/modprobe.d and for modules.disabled"
			break
		}
	}
	return errs
}

func applyChange(ctx context.Context, h Host, c Change) error {
	switch c.Via {
	case ViaModule:
		return loadModule(ctx, h, c.Subject)
	case ViaSystemd:
		return setIOWeight(ctx, h, c)
	default:
		return writeBack(ctx, h, c)
	}
}

// loadModule has a scheduler's module loaded and looks whether it is.
func loadModule(ctx context.Context, h Host, module string) error {
	if loaded(h, module) {
		return nil
	}
	if h.Systemd == nil {
		return errors.New("module " + module + " is not loaded, and systemd cannot be asked to load it")
	}
	if err := h.Systemd.LoadModule(ctx, module); err != nil {
		return err
	}
	if !loaded(h, module) {
		return fmt.Errorf("module %s could not be loaded: modprobe@%s.service ran and %s does not exist", module, module, h.sys("module", module))
	}
	return nil
}

// writeBack writes an attribute unless it is right already, and reads it back.
func writeBack(ctx context.Context, h Host, c Change) error {
	read := func(path string) (Attr, error) {
		return await(ctx, readTimeout, func() (Attr, error) { return readAttr(path), nil })
	}
	now, err := read(c.Target)
	if err != nil || valueOf(c, now) == c.To {
		return err
	}
	if c.under != "" {
		scheduler, err := read(c.scheduler)
		if err != nil {
			return err
		}
		if active := parseScheduler(scheduler.Value).Active; active != c.under {
			return fmt.Errorf("not written: the scheduler is %s meanwhile, not %s (%s)", orNothing(active), c.under, c.scheduler)
		}
	}
	switch err := h.write(ctx, c.Target, c.To); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the kernel has no %s", c.Target)
	case errors.Is(err, ErrNoAnswer): // to read it now would wait for the same lock
		return err
	case err != nil:
		return fmt.Errorf("writing %s: %w (it said %q before)", c.To, err, now.Value)
	}
	back, err := read(c.Target)
	if err = cmp.Or(err, back.Err); err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	if got := valueOf(c, back); got != c.To {
		return fmt.Errorf("the kernel took %s and has %s (%s says %q)", c.To, orNothing(got), c.Target, back.Value)
	}
	return nil
}

// valueOf is the value that an attribute's content stands for.
func valueOf(c Change, a Attr) string {
	switch c.Setting {
	case SettingScheduler:
		return parseScheduler(a.Value).Active
	case SettingIOWeight:
		w, err := parseBFQWeights(a.Value)
		if err != nil || len(w.Devices) > 0 {
			return ""
		}
		return strconv.FormatUint(w.Default, 10)
	}
	return a.Value
}

// write makes one write and waits for it no longer than writeTimeout.
func (h Host) write(ctx context.Context, path, value string) error {
	write := h.Write
	if write == nil {
		write = WriteAttr
	}
	_, err := await(ctx, writeTimeout, func() (struct{}, error) { return struct{}{}, write(path, value) })
	return err
}

// setIOWeight sets a unit's weight through systemd, which rewrites the kernel's file even if the property is unchanged
// and does so before it answers (src/core/dbus-cgroup.c). A weight over 1000 that did not land is sent again as 1000: on a
// Raw systemd the kernel refuses more, and systemd does not tell.
func setIOWeight(ctx context.Context, h Host, c Change) error {
	if h.Systemd == nil {
		return errors.New("systemd cannot be asked: it is the only one that may write this weight")
	}
	u, err := h.Systemd.Unit(ctx, c.Target)
	if err != nil {
		return err
	}
	if !u.Active() {
		return nil // it stopped meanwhile; setting a weight now would create its cgroup
	}
	weight, err := strconv.ParseUint(c.To, 10, 64)
	if err != nil {
		return err
	}
	attempts := []uint64{weight}
	if weight > maxBFQWeight {
		attempts = append(attempts, maxBFQWeight)
	}
	for _, w := range attempts {
		if err := h.Systemd.SetIOWeight(ctx, c.Target, w); err != nil {
			return err
		}
		if explained(readAttr(c.proof), w) {
			return nil
		}
	}
	return fmt.Errorf("systemd took IOWeight=%d and %s says %q", weight, c.proof, readAttr(c.proof).Value)
}

// explained reports whether a kernel file shows what some generation of systemd makes of a weight.
func explained(a Attr, ioWeight uint64) bool {
	w, err := parseBFQWeights(a.Value)
	if a.Err != nil || err != nil {
		return false
	}
	for _, g := range []Generation{Piecewise, Tenth, Raw} {
		if g.Weight(ioWeight) == w.Default {
			return true
		}
	}
	return false
}
