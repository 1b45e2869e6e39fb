package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ioprio-agent/ioprio-agent/e2e/scenario"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

// TestScenarios plays the scenarios on the fake node; e2e/guest plays the same ones on a real kernel.
func TestScenarios(t *testing.T) {
	for name, opts := range map[string]iopriotest.Options{
		"linux6.1-systemd252":  {},
		"linux6.12-systemd257": {Kernel: iopriotest.Linux612, SystemdVersion: "257.9-1~deb13u1"},
		"linux6.1-systemd249":  {Generation: ioprio.Tenth},
		"linux6.1-systemd247":  {Generation: ioprio.Raw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario.Run(t, "../../e2e/scenarios", func(t *testing.T) scenario.Machine { return &fake{t: t, opts: opts} })
		})
	}
}

// fake is a scenario's machine over a fake node, a new one for each scenario.
type fake struct {
	t    *testing.T
	opts iopriotest.Options
	*iopriotest.Node
}

var _ scenario.Machine = (*fake)(nil)

func (*fake) Name() string { return "fake" }

func (f *fake) Env() []string {
	return []string{"ROOT=" + f.Dir(), "SYS=" + f.Path("/sys"), "PROC=" + f.Path("/proc")}
}

// Agent runs the program with the fake node in the place of the live one, and prints paths as the node's own.
func (f *fake) Agent(args []string, stdout, stderr io.Writer) int {
	connect := func(context.Context) (ioprio.Host, func(), error) { return f.Host(), func() {}, nil }
	var out, err bytes.Buffer
	status := run(f.t.Context(), connect, args, &out, &err)
	fmt.Fprint(stdout, strings.ReplaceAll(out.String(), f.Dir(), ""))
	fmt.Fprint(stderr, strings.ReplaceAll(err.String(), f.Dir(), ""))
	return status
}

func (f *fake) Reset() (err error) {
	f.Node, err = iopriotest.NewBase(f.t.TempDir(), f.opts)
	return err
}

func (f *fake) StartUnit(name string) error {
	if name == "kubepods.slice" {
		return f.StartPods()
	}
	return f.Start(name)
}

func (f *fake) StopUnit(name string) error { return f.Stop(name) }

func (f *fake) Module(verb, name string) error {
	switch verb {
	case "load":
		return f.LoadModule(name)
	case "unload":
		return f.UnloadModule(name)
	case "blacklist", "allow":
		f.AllowModule(name, verb == "allow")
		return nil
	}
	return fmt.Errorf("module %s: unknown verb", verb)
}

func (f *fake) Watch() (func() ([]string, error), error) {
	f.Mark()
	return func() ([]string, error) {
		var files []string
		for _, w := range f.Writes() {
			files = append(files, w.Path)
		}
		slices.Sort(files)
		return slices.Compact(files), nil
	}, nil
}

// TestStaleThousand is late-bfq with the one weight that is ambiguous: IOWeight=1000 beside a stale kernel weight of 100
// looks like the systemd that writes a tenth. It cannot be a scenario, since on that systemd 100 is right.
func TestStaleThousand(t *testing.T) {
	for name, tc := range map[string]struct {
		opts iopriotest.Options
		want string
	}{
		"piecewise": {iopriotest.Options{}, "default 181\n"},
		"raw":       {iopriotest.Options{Generation: ioprio.Raw}, "default 1000\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{t: t, opts: tc.opts}
			config := filepath.Join(t.TempDir(), "config.yaml")
			for _, err := range []error{
				os.WriteFile(config, []byte("weights: {system: 1000, k3s: 1000, kubepods: 100}\n"), 0o644),
				f.Reset(), f.StartPods(), f.SetWeight("system.slice", 1000), f.SetWeight("k3s.service", 1000), f.LoadModule("bfq"),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			if status := f.Agent([]string{"apply", "--config", config}, &out, &out); status != exitPass {
				t.Errorf("apply exits with %d:\n%s", status, &out)
			}
			for _, cgroup := range []string{"/system.slice", "/system.slice/k3s.service"} {
				if got, err := f.BFQWeight(cgroup); got != tc.want || err != nil {
					t.Errorf("io.bfq.weight of %s is %q (%v), want %q", cgroup, got, err, tc.want)
				}
			}
		})
	}
}
