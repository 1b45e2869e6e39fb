// Package qemu builds a Debian image and runs scripts in it, on a machine without hardware virtualisation.
package qemu
