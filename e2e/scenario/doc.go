// Package scenario runs the stories in e2e/scenarios on a [Machine]: the guest of the virtual machine, with a real kernel
// and a real systemd, or the fake ones of ioprio/iopriotest. That both pass keeps the fake honest.
//
// A scenario is a script of [github.com/rogpeppe/go-internal/testscript]. Each starts from the base state that
// [Machine] describes. The variables are $SYS and $PROC, the mount points, and $ROOT, the root directory, which is empty
// in the guest. The conditions [guest] and [fake] mark the few lines that only one of them can play.
//
// The commands beside those of testscript:
//
//	agent STATUS ARG...            runs ioprio-agent, which must exit with STATUS; stdout and stderr match its output
//	finding SUBJECT SETTING STATUS [WANT [GOT]]
//	                               a finding in the JSON that the last agent printed; "!" for none of this status
//	disk NAME CLASS [REASON]       a disk in that JSON, and a regular expression for its reason; "! disk NAME" for none
//	leaves PATH DISK...            the disks behind a path in that JSON, all of them and no others
//	chain PATH NAME...             the devices on the way to them
//	stack KIND MOUNT DISK...       builds storage over disks and mounts it at MOUNT; see Kinds
//	write VALUE FILE               as another program would: echo VALUE > FILE
//	attr VALUE FILE                the file's content, without white space around it, is VALUE
//	unit start|stop UNIT           kubepods.slice as runc does it, with a pod; its stop ends all below it
//	weight UNIT N                  systemctl set-property --runtime UNIT IOWeight=N
//	module load|unload|blacklist|allow NAME
//	watch                          begins to record writes to queues and weights
//	writes none|some               ends that and compares; the files that were written are the output: one a line
//
// An argument is a regular expression only where this says so.
package scenario

// Kinds are what stack builds. The last word of a path is told where it is not MOUNT itself; what carries it is mounted
// at MOUNT.disk.
//
//	plain       ext4 on a disk                       partition   ext4 on its first partition
//	xfs         xfs on a disk                        luks        ext4 on LUKS on a disk
//	lvm         a linear volume over all disks       striped     a striped one
//	thin        a thin volume: metadata on the first disk, data on the others
//	md          raid1 over all disks                 bcache      backing device, then cache
//	btrfs       one file system over all disks, with a nested subvolume MOUNT/nested
//	multipath   request-based dm-multipath over the disks as paths
//	loop        a loop device on MOUNT.disk/image    bind        MOUNT.disk/inner mounted at MOUNT
//	symlink     MOUNT is a link to MOUNT.disk/data   overmount   the first disk, and the second mounted over it
//	space       a disk mounted at MOUNT/a b\c
//	overlay     an overlay with its upper directory in MOUNT.disk, on the first disk
//	overlay-tmpfs  the same on tmpfs                 tmpfs
func Kinds() []string {
	return []string{
		"plain", "partition", "xfs", "luks", "lvm", "striped", "thin", "md", "bcache", "btrfs", "multipath", "loop", "bind",
		"symlink", "overmount", "space", "overlay", "overlay-tmpfs", "tmpfs",
	}
}
