// Package guest is the virtual machine that plays the scenarios: a real kernel and a real systemd. It takes disks apart
// and stops units, so nothing of it may run anywhere else.
package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/ioprio-agent/ioprio-agent/e2e/scenario"
)

// The parts of the guest that scenarios may change.
const (
	blacklist = "/etc/modprobe.d/e2e.conf"
	mounts    = "/mnt" // everything is mounted below it
	blocks    = "/sys/block/"
	cgroups   = "/sys/fs/cgroup"
)

// Bounds, for a guest that is emulated instruction by instruction.
const (
	toolLimit  = 3 * time.Minute
	agentLimit = 5 * time.Minute
)

// Machine is the guest.
type Machine struct {
	agent string
	conn  *dbus.Conn
	pod   *process // what runs in the pod's scope
}

var _ scenario.Machine = (*Machine)(nil)

// New takes hold of the guest, whose ioprio-agent is the program at agent. It refuses to do so on another machine.
func New(agent string) (*Machine, error) {
	if err := isGuest(); err != nil {
		return nil, err
	}
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"); err != nil {
		return nil, err
	}
	conn, err := dbus.NewWithContext(context.Background())
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return &Machine{agent: agent, conn: conn}, nil
}

// isGuest asks for root, and for disks that only QEMU makes.
func isGuest() error {
	if os.Geteuid() != 0 {
		return errors.New("the guest of the scenarios: not root")
	}
	for _, disk := range spares() {
		model, err := os.ReadFile(blocks + disk + "/device/model")
		if err != nil {
			return fmt.Errorf("the guest of the scenarios: %w", err)
		}
		if !bytes.HasPrefix(model, []byte("QEMU ")) {
			return fmt.Errorf("the guest of the scenarios: %s is %q, not QEMU's", disk, bytes.TrimSpace(model))
		}
	}
	return nil
}

// spares are the disks that stacks are built of.
func spares() []string { return []string{"sdb", "sdc", "sdd", "nvme0n1"} }

// Name implements scenario.Machine.
func (m *Machine) Name() string { return "guest" }

// Env implements scenario.Machine.
func (m *Machine) Env() []string { return []string{"SYS=/sys", "PROC=/proc", "ROOT="} }

// Agent implements scenario.Machine. An agent that does not run or does not end has the status -1.
func (m *Machine) Agent(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), agentLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.agent, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	}
	fmt.Fprintf(stderr, "running %s: %v\n", m.agent, err)
	return -1
}

// WriteAttr implements scenario.Machine.
func (m *Machine) WriteAttr(path, value string) error { return write(path, value) }

// write is echo VALUE > PATH, which never makes a file.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// Module implements scenario.Machine. A module on the blacklist is refused to the kernel, which asks by an alias, and to
// modprobe -b, which systemd uses; operators write the same line.
func (m *Machine) Module(verb, name string) error {
	switch verb {
	case "load":
		return run("modprobe", name)
	case "unload":
		return run("modprobe", "-r", name)
	case "blacklist":
		return os.WriteFile(blacklist, []byte("blacklist "+name+"\n"), 0o644)
	case "allow":
		if err := os.Remove(blacklist); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return fmt.Errorf("module %s: want load, unload, blacklist or allow", verb)
}

// run runs a program of the guest.
func run(name string, args ...string) error {
	_, err := output("", name, args...)
	return err
}

// output runs a program on an input and returns what it prints.
func output(stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_SUPPRESS_FD_WARNINGS=1")
	cmd.Stdin = strings.NewReader(stdin)
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &all), &all
	cmd.WaitDelay = time.Second // a daemon that the program left behind may hold its output open
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		line := strings.Join(slices.Concat([]string{name}, args), " ")
		return out.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(all.String()))
	}
	return out.String(), nil
}

// inOrder does one step after the other until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// await looks for what the kernel and systemd announce to nobody.
func await(what string, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s", limit, what)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
