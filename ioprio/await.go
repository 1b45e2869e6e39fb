package ioprio

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoAnswer says that the kernel did not return from a call in time: a suspended device, or a disk that hangs.
var ErrNoAnswer = errors.New("the kernel does not answer; does the disk hang?")

// await calls a function that may never return, and waits for it no longer than a time or a context. A thread in
// uninterruptible sleep cannot be ended: it stays behind.
func await[T any](ctx context.Context, most time.Duration, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call()
		done <- result{value, err}
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	var none T
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		return none, fmt.Errorf("%w (%s)", ErrNoAnswer, most)
	case <-ctx.Done():
		return none, fmt.Errorf("%w (%w)", ErrNoAnswer, ctx.Err())
	}
}
