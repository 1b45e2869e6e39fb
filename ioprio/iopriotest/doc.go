// Package iopriotest is a node that exists only in a directory: a fake kernel and a fake systemd for tests of code that
// reads /proc and /sys and talks to the service manager.
//
// Reads are plain reads of files below the directory. Writes must go through [ioprio.Host.Write] and systemd through
// [ioprio.Host.Systemd], since a plain file would answer a read with what was written, and the kernel does not.
//
// What is played is what Linux 6.1 and 6.12 and systemd 245 to 257 were read or seen to do; each rule has a row in the
// tests of this package. The fake must pass the scenarios in e2e/scenarios that the virtual machine passes, too.
package iopriotest
