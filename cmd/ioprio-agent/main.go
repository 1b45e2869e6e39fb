// Command ioprio-agent arbitrates the disk under k3s and proves from the kernel that it did.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	os.Exit(run(ctx, connect, os.Args[1:], os.Stdout, os.Stderr))
}

// connect reaches the node that this process runs on. A systemd that does not answer is a finding, not the end.
func connect(ctx context.Context) (ioprio.Host, func(), error) {
	h := ioprio.NewHost()
	m, err := ioprio.ConnectManager(ctx)
	if err != nil {
		h.Systemd = ioprio.Unreachable{Err: err}
		return h, func() {}, nil
	}
	h.Systemd = m
	return h, m.Close, nil
}
