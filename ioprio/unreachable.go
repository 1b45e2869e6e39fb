package ioprio

import "context"

// Unreachable is a service manager that does not answer, for a known reason. A node with it is still observed, as far as
// the kernel tells, and does not pass if it is to have weights.
type Unreachable struct{ Err error }

// Version implements Systemd.
func (u Unreachable) Version(context.Context) (string, error) { return "", u.Err }

// Units implements Systemd.
func (u Unreachable) Units(context.Context, ...string) ([]string, error) { return nil, u.Err }

// Unit implements Systemd.
func (u Unreachable) Unit(context.Context, string) (Unit, error) { return Unit{}, u.Err }

// SetIOWeight implements Systemd.
func (u Unreachable) SetIOWeight(context.Context, string, uint64) error { return u.Err }

// LoadModule implements Systemd.
func (u Unreachable) LoadModule(context.Context, string) error { return u.Err }
