//go:build vm

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ioprio-agent/ioprio-agent/e2e/qemu"
)

// TestVM boots one virtual machine and runs every scenario in it, each as a subtest here.
//
//	vda      virtio   the root file system
//	sda      SATA     sda1 carries /var/lib/rancher, and etcd as k3s.service
//	sdb-sdd  SATA     empty, for the scenarios' stacks
//	nvme0n1  NVMe     empty
func TestVM(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	image, err := qemu.Build(ctx, qemu.Bookworm(), os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	share := t.TempDir()
	build(t, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(share, "ioprio-agent"), "../cmd/ioprio-agent")
	build(t, "go", "test", "-c", "-tags", "guest", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(share, "e2e.test"), ".")
	if err := os.CopyFS(filepath.Join(share, "scenarios"), os.DirFS("scenarios")); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
set -e
mkdir /opt/e2e; cp -r /share/ioprio-agent /share/e2e.test /share/scenarios /opt/e2e/
cd /opt/e2e
exec env IOPRIO_AGENT=/opt/e2e/ioprio-agent IOPRIO_SCENARIOS=/opt/e2e/scenarios ./e2e.test -test.v -test.timeout 19m -test.run '^TestScenarios$' ` +
		os.Getenv("IOPRIO_GUEST_ARGS") + "\n"
	if err := os.WriteFile(filepath.Join(share, "run"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	results := &results{progress: os.Stdout, began: time.Now()}
	fmt.Println("==> vm: booting")
	status, err := qemu.Machine{Image: image, MemoryMiB: 2048, Share: share, Disks: []qemu.Disk{
		{Name: "sda", Bus: qemu.BusSATA, SizeMiB: 1024},
		{Name: "sdb", Bus: qemu.BusSATA, SizeMiB: 1024},
		{Name: "sdc", Bus: qemu.BusSATA, SizeMiB: 1024},
		{Name: "sdd", Bus: qemu.BusSATA, SizeMiB: 1024},
		{Name: "nvme0n1", Bus: qemu.BusNVMe, SizeMiB: 1024},
	}}.Run(ctx, results)
	if err != nil {
		t.Errorf("%v\n%s", err, results.all.String())
	}
	want, err := filepath.Glob("scenarios/*.txtar")
	if err != nil || len(want) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range want {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if os.Getenv("IOPRIO_GUEST_ARGS") != "" && results.of[name] == "" {
			continue // only some were asked for
		}
		t.Run(name, func(t *testing.T) {
			switch results.of[name] {
			case "PASS":
			case "":
				t.Error("it did not run")
			default:
				t.Error(results.output[name])
			}
		})
	}
	if status != 0 && !t.Failed() {
		t.Errorf("the guest's tests ended with status %d\n%s", status, results.all.String())
	}
}

func build(t *testing.T, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// results reads the output of go test -v as it comes.
type results struct {
	progress io.Writer
	began    time.Time
	all      bytes.Buffer
	line     []byte
	current  string
	of       map[string]string // PASS, FAIL or SKIP by scenario
	output   map[string]string
}

var (
	begins = regexp.MustCompile(`^=== RUN\s+TestScenarios/(\S+)`)
	ends   = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): TestScenarios/(\S+) \((\S+)\)`)
)

// Write implements io.Writer for QEMU's standard output.
func (r *results) Write(p []byte) (int, error) {
	r.all.Write(p)
	r.line = append(r.line, p...)
	for {
		i := bytes.IndexByte(r.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		r.read(string(r.line[:i]))
		r.line = r.line[i+1:]
	}
}

func (r *results) read(line string) {
	if r.of == nil {
		r.of, r.output = make(map[string]string), make(map[string]string)
	}
	if m := begins.FindStringSubmatch(line); m != nil {
		r.current = m[1]
		fmt.Fprintf(r.progress, "==> vm: %4.0f s: %s\n", time.Since(r.began).Seconds(), r.current)
	}
	r.output[r.current] += line + "\n"
	if m := ends.FindStringSubmatch(line); m != nil {
		r.of[m[2]] = m[1]
	}
}
