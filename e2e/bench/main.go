// Command bench measures what a pass of ioprio-agent costs, on nodes made of files: time and memory of verify as the disks
// and the mounts grow, the writes of apply on a node that is right, and the size of the binary.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bench BINARY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// size is how large a node is.
type size struct{ disks, mounts int }

func run(binary string, w io.Writer) error {
	dir, err := os.MkdirTemp("", "ioprio-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "disks\tmounts\tverify, median ms\tper disk, us\tpeak RSS, MB\tapply writes\t")
	for _, s := range []size{{1, 20}, {50, 2000}, {100, 2000}, {200, 20}, {200, 2000}, {400, 2000}} {
		m, err := measure(binary, filepath.Join(dir, fmt.Sprintf("%d-%d", s.disks, s.mounts)), s)
		if err != nil {
			return fmt.Errorf("%d disks, %d mounts: %w", s.disks, s.mounts, err)
		}
		fmt.Fprintf(out, "%d\t%d\t%.1f\t%.0f\t%.1f\t%d\t\n", s.disks, s.mounts,
			m.took.Seconds()*1e3, m.took.Seconds()*1e6/float64(s.disks), float64(m.rss)/1024, m.writes)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "binary: %.1f MB\n", float64(info.Size())/1e6)
	return err
}

type measurement struct {
	took   time.Duration
	rss    int64 // KiB, the largest of all runs
	writes int
}

// runs of the binary for one median.
const runs = 15

func measure(binary, dir string, s size) (measurement, error) {
	n, err := build(dir, s)
	if err != nil {
		return measurement{}, err
	}
	policy := ioprio.DefaultPolicy()
	policy.DataDir = "/k3s"
	ctx := context.Background()
	if r, err := agent.Enforce(ctx, n.Host(), policy, nil); err != nil || r.Verdict != ioprio.VerdictPass {
		return measurement{}, cmp.Or(err, fmt.Errorf("the node was not brought to the policy: %v", r.Findings))
	}
	n.Mark()
	if _, err := agent.Enforce(ctx, n.Host(), policy, nil); err != nil {
		return measurement{}, err
	}
	m := measurement{writes: len(n.Writes())}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("k3s_data_dir: /k3s\n"), 0o600); err != nil {
		return measurement{}, err
	}
	var times []time.Duration
	for range runs {
		verify := exec.CommandContext(ctx, binary, "verify", "--config", config, "--output", "json",
			"--path.rootfs", n.Dir(), "--path.procfs", n.Path("/proc"), "--path.sysfs", n.Path("/sys"))
		begin := time.Now()
		if out, err := verify.CombinedOutput(); err != nil {
			return measurement{}, fmt.Errorf("verify: %w: %s", err, out)
		}
		times = append(times, time.Since(begin))
		if usage, ok := verify.ProcessState.SysUsage().(*syscall.Rusage); ok {
			m.rss = max(m.rss, usage.Maxrss)
		}
	}
	slices.Sort(times)
	m.took = times[runs/2]
	return m, nil
}

// build makes a node whose data directory lies on a btrfs over all its disks.
func build(dir string, s size) (*iopriotest.Node, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	n, err := iopriotest.NewBase(dir, iopriotest.Options{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range s.disks {
		name := fmt.Sprintf("sdx%d", i)
		if err := n.AddDisk(iopriotest.Disk{Name: name, Dev: fmt.Sprintf("65:%d", i), Bus: iopriotest.ATA}); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	for i := range s.mounts {
		if err := n.Mount(iopriotest.Mount{Point: fmt.Sprintf("/var/lib/kubelet/pods/%04d/volume", i), Type: "tmpfs"}); err != nil {
			return nil, err
		}
	}
	return n, cmp.Or(
		n.Btrfs("11111111-2222-3333-4444-555555555555", names...),
		n.Mount(iopriotest.Mount{Point: "/k3s", Type: "btrfs", Source: "/dev/sdx0"}),
		n.StartPods(),
	)
}
