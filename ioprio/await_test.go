package ioprio

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A fifo without a writer holds its reader in open(2), as a queue attribute does whose store is stuck.
func TestAwaitLeavesAStuckReadBehind(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() (Attr, error) { return readAttr(fifo), nil }
	if _, err := await(t.Context(), time.Millisecond, read); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("after its time: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := await(ctx, time.Hour, read); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: got %v", err)
	}
	fd, err := unix.Open(fifo, unix.O_RDWR, 0) // lets both readers go
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}
