// Package e2e runs the scenarios on a real kernel and a real systemd, in a virtual machine.
package e2e
