// Package ioprio finds the disks under k3s, decides which I/O priority controls they must have,
// and proves from the kernel's own files whether they have them.
//
// The flow is Observe, Check, Apply. Observe reads a State; Check compares a State with a Policy and is
// pure; Apply writes what a Report's Changes name and returns errors, never verdicts. After Apply, Observe
// and Check run again: only the second Report counts, because only the kernel's answer is reported.
package ioprio
