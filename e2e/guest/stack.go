package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Stack implements scenario.Machine. The kinds and the names of devices are those of the fake; dm-0 and so on follow from
// the order in which devices are made, since the kernel gives the lowest number that is free.
func (m *Machine) Stack(kind, mount string, disks ...string) error {
	need := map[string]int{"tmpfs": 0, "overlay-tmpfs": 0, "overmount": 2, "bcache": 2, "thin": 2}
	if want, ok := need[kind]; ok && len(disks) < want || !ok && len(disks) < 1 {
		return fmt.Errorf("stack %s: too few disks", kind)
	}
	if mount != mounts && !strings.HasPrefix(mount, mounts+"/") {
		return fmt.Errorf("stack %s: %s is not below %s", kind, mount, mounts)
	}
	var devs []string
	for _, disk := range disks {
		if !slices.Contains(spares(), disk) {
			return fmt.Errorf("stack %s: %s is not one of %q", kind, disk, spares())
		}
		devs = append(devs, "/dev/"+disk)
	}
	if err := build(kind, mount, devs); err != nil {
		return fmt.Errorf("stack %s: %w", kind, err)
	}
	return nil
}

func build(kind, mount string, devs []string) error {
	base := mount + ".disk" // where the file system is whose part, file or directory is used
	switch kind {
	case "plain":
		return fileSystem("ext4", devs[0], mount)
	case "xfs":
		return fileSystem("xfs", devs[0], mount)
	case "partition":
		return partition(devs[0], mount)
	case "lvm", "striped", "thin", "luks", "multipath":
		return mapped(kind, mount, devs)
	case "md":
		return md(devs, mount)
	case "bcache":
		return bcache(devs, mount)
	case "btrfs":
		return btrfs(devs, mount)
	case "loop":
		return inOrder(
			func() error { return fileSystem("ext4", devs[0], base) },
			func() error { return loop(base+"/image", mount) })
	case "bind":
		return inOrder(
			func() error { return fileSystem("ext4", devs[0], base) },
			func() error { return os.Mkdir(base+"/inner", 0o755) },
			func() error { return mountAt(base+"/inner", mount, "", unix.MS_BIND, "") })
	case "symlink":
		return inOrder(
			func() error { return fileSystem("ext4", devs[0], base) },
			func() error { return os.Mkdir(base+"/data", 0o755) },
			func() error { return os.Symlink(base+"/data", mount) })
	case "overmount":
		return inOrder(
			func() error { return fileSystem("ext4", devs[0], mount) },
			func() error { return fileSystem("ext4", devs[1], mount) })
	case "space":
		return fileSystem("ext4", devs[0], mount+`/a b\c`)
	case "tmpfs":
		return mountAt("tmpfs", mount, "tmpfs", 0, "")
	case "overlay":
		return inOrder(
			func() error { return fileSystem("ext4", devs[0], base) },
			func() error { return overlay(base, mount) })
	case "overlay-tmpfs":
		return inOrder(
			func() error { return mountAt("tmpfs", base, "tmpfs", 0, "") },
			func() error { return overlay(base, mount) })
	}
	return errors.New("unknown kind")
}

// fileSystem makes one and mounts it. ext4 leaves its inode tables alone, then and later: there is no background
// thread that writes to the disk, and nothing to wait for when it is unmounted.
func fileSystem(kind, dev, target string) error {
	var mkfs, options []string
	switch kind {
	case "ext4":
		mkfs = []string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"}
		options = []string{"noinit_itable"}
	case "xfs":
		mkfs = []string{"mkfs.xfs", "-q", "-f", "-K"}
	}
	if err := run(mkfs[0], append(mkfs[1:], dev)...); err != nil {
		return err
	}
	return mountAt(dev, target, kind, 0, strings.Join(options, ","))
}

func mountAt(source, target, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", source, target, err)
	}
	return nil
}

func overlay(base, mount string) error {
	upper, work := base+"/upper", base+"/work"
	return inOrder(
		func() error { return os.Mkdir(upper, 0o755) },
		func() error { return os.Mkdir(work, 0o755) },
		func() error {
			return mountAt("overlay", mount, "overlay", 0, "lowerdir=/usr,upperdir="+upper+",workdir="+work)
		})
}

func loop(image, mount string) error {
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		return err
	}
	dev, err := output("", "losetup", "--find", "--show", image)
	if err != nil {
		return err
	}
	return fileSystem("ext4", strings.TrimSpace(dev), mount)
}

func partition(dev, mount string) error {
	if _, err := output("label: gpt\n,\n", "sfdisk", "--quiet", dev); err != nil {
		return err
	}
	part := partitionName(dev)
	if err := await(part, settleLimit, func() bool { return exists(part) }); err != nil {
		return err
	}
	return fileSystem("ext4", part, mount)
}

// partitionName is the first partition's: a name that ends in a digit is set apart from the number by a p.
func partitionName(dev string) string {
	if last := dev[len(dev)-1]; '0' <= last && last <= '9' {
		return dev + "p1"
	}
	return dev + "1"
}

func md(devs []string, mount string) error {
	create := []string{
		"--create", "/dev/md0", "--run", "--force", "--assume-clean", "--metadata=1.2", "--bitmap=none", "--level=1",
		fmt.Sprintf("--raid-devices=%d", len(devs)),
	}
	return inOrder(
		func() error { return run("modprobe", "md_mod") },
		func() error { return run("mdadm", append(create, devs...)...) },
		func() error { return fileSystem("ext4", "/dev/md0", mount) })
}

// bcache writes both superblocks at once, which attaches the backing device to the cache as soon as the kernel knows
// the two. udev registers them, and so does this: whoever is second is refused.
func bcache(devs []string, mount string) error {
	backing, cache := devs[0], devs[1]
	err := inOrder(
		func() error { return run("modprobe", "bcache") },
		func() error { return run("make-bcache", "--wipe-bcache", "-B", backing, "-C", cache) })
	if err != nil {
		return err
	}
	for _, dev := range []string{cache, backing} {
		_ = write("/sys/fs/bcache/register", dev)
	}
	slaves := blocks + "bcache0/slaves/"
	ready := func() bool {
		return exists("/dev/bcache0") && exists(slaves+filepath.Base(backing)) && exists(slaves+filepath.Base(cache))
	}
	if err := await("bcache0 on "+strings.Join(devs, " and "), settleLimit, ready); err != nil {
		return err
	}
	return fileSystem("ext4", "/dev/bcache0", mount)
}

func btrfs(devs []string, mount string) error {
	metadata := "raid1"
	if len(devs) == 1 {
		metadata = "single"
	}
	mkfs := []string{"-q", "-f", "-K", "-d", "single", "-m", metadata}
	return inOrder(
		func() error { return run("mkfs.btrfs", append(mkfs, devs...)...) },
		func() error { return run("btrfs", append([]string{"device", "scan"}, devs...)...) },
		func() error { return mountAt(devs[0], mount, "btrfs", 0, "") },
		func() error { return run("btrfs", "subvolume", "create", mount+"/nested") })
}
