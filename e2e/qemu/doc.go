// Package qemu builds a Debian image and runs scripts in it, with or without hardware virtualisation.
package qemu
