// Command demo boots a virtual machine with a slow disk under etcd and shows the node before and after ioprio-agent.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/e2e/qemu"
)

//go:embed demo.sh
var script []byte

// A small SATA disk at its limits: 300 requests and 15 MB per second.
const (
	diskIOPS = 300
	diskBPS  = 15_000_000
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	image, err := qemu.Build(ctx, qemu.Bookworm(), out)
	if err != nil {
		return err
	}
	share, err := os.MkdirTemp("", "ioprio-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(share)
	fmt.Fprintln(out, "==> demo: building ioprio-agent")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(share, "ioprio-agent"), "./cmd/ioprio-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = out, out
	if err := errors.Join(build.Run(), os.WriteFile(filepath.Join(share, "run"), script, 0o755)); err != nil {
		return err
	}
	fmt.Fprintln(out, "==> demo: booting Debian 12 with etcd on a slow SATA disk (half a minute without KVM)")
	status, err := qemu.Machine{Image: image, MemoryMiB: 2048, Share: share, Disks: []qemu.Disk{
		{Name: "sda", Bus: qemu.BusSATA, SizeMiB: 1024, IOPS: diskIOPS, BPS: diskBPS},
	}}.Run(ctx, out)
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("the script in the guest ended with status %d", status)
	}
	return table(share, out)
}

// table prints what etcd waited in each case, from fio's own numbers.
func table(share string, w io.Writer) error {
	fmt.Fprintf(w, `
The disk does %d requests and %d MB per second. etcd writes 2300 bytes and waits for fdatasync, 100 times a second;
the pod writes 64 KiB at random, 128 requests at a time. etcd gives up its leader after 1000 ms without a heartbeat.

`, diskIOPS, diskBPS/1_000_000)
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(out, "case\tetcd's fdatasync, mean\tp99\tthe pod writes")
	for _, c := range []struct{ name, title string }{
		{"idle", "idle disk"}, {"before", "busy pod, as the node was"}, {"after", "busy pod, arbitrated"},
	} {
		wal, err := readFio(filepath.Join(share, "wal-"+c.name+".json"))
		if err != nil {
			return err
		}
		pod := "nothing"
		if c.name != "idle" {
			load, err := readFio(filepath.Join(share, "load-"+c.name+".json"))
			if err != nil {
				return err
			}
			pod = fmt.Sprintf("%.1f MB/s", load.Write.BW*1024/1e6)
		}
		fmt.Fprintf(out, "%s\t%.1f ms\t%.1f ms\t%s\n", c.title, wal.Sync.Latency.Mean/1e6, wal.Sync.Latency.Percentile["99.000000"]/1e6, pod)
	}
	return out.Flush()
}

// fio is the part of a job's result that is shown (fio(1), --output-format=json).
type fio struct {
	Write struct {
		BW float64 `json:"bw"` // KiB per second
	} `json:"write"`
	Sync struct {
		Latency struct {
			Mean       float64            `json:"mean"`
			Percentile map[string]float64 `json:"percentile"`
		} `json:"lat_ns"`
	} `json:"sync"`
}

func readFio(path string) (fio, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return fio{}, err
	}
	var result struct {
		Jobs []fio `json:"jobs"`
	}
	if err := json.Unmarshal(b, &result); err != nil {
		return fio{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(result.Jobs) != 1 {
		return fio{}, fmt.Errorf("%s: %d jobs, want 1", path, len(result.Jobs))
	}
	return result.Jobs[0], nil
}
