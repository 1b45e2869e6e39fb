package guest

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// volumes is the name of the volume group.
const volumes = "e2e"

// lvmConfig keeps LVM to what the scenarios are about: no check of thin metadata, which needs a package of its own and
// time, no daemon that watches volumes, and no hints about disks that are wiped behind its back.
const lvmConfig = `global{thin_check_executable=""} activation{monitoring=0} devices{hints="none"}`

func mapped(kind, mount string, devs []string) error {
	var create func([]string) error
	name := volumes + "-data"
	switch kind {
	case "lvm":
		create = linear
	case "striped":
		create = striped
	case "thin":
		create = thin
	case "luks":
		create, name = luks, volumes+"-crypt"
	case "multipath":
		create, name = multipath, "mpath-"+volumes
	}
	dev := "/dev/mapper/" + name
	return inOrder(
		func() error { return create(devs) },
		func() error { return await(dev, settleLimit, func() bool { return exists(dev) }) },
		func() error { return fileSystem("ext4", dev, mount) })
}

func lvm(command string, args ...string) error {
	return run(command, append([]string{"--config", lvmConfig, "-y"}, args...)...)
}

// group makes the volume group, which udev must not activate by itself: it would do so again while it is taken apart.
func group(devs []string) error {
	return lvm("vgcreate", append([]string{"--setautoactivation", "n", volumes}, devs...)...)
}

func linear(devs []string) error {
	return inOrder(
		func() error { return group(devs) },
		func() error { return lvm("lvcreate", "-n", "data", "-l", "100%FREE", volumes) })
}

func striped(devs []string) error {
	return inOrder(
		func() error { return group(devs) },
		func() error {
			return lvm("lvcreate", "-n", "data", "-l", "100%FREE", "-i", fmt.Sprint(len(devs)), "-I", "64k", volumes)
		})
}

// thin activates the volume once more in the end: while it is made, the pool is active for its own sake and takes a
// number. Then tmeta, tdata, tpool and the volume follow each other from dm-0 on.
func thin(devs []string) error {
	plain := []string{"-an", "-Zn", "-Wn"}
	meta := append([]string{"-n", "meta", "-L", "16M"}, plain...)
	data := append([]string{"-n", "pool", "-l", "100%PVS"}, plain...)
	return inOrder(
		func() error { return group(devs) },
		func() error { return lvm("lvcreate", append(meta, volumes, devs[0])...) },
		func() error { return lvm("lvcreate", append(append(data, volumes), devs[1:]...)...) },
		func() error {
			return lvm("lvconvert", "--type", "thin-pool", "--poolmetadata", volumes+"/meta", "--poolmetadataspare", "n",
				volumes+"/pool")
		},
		func() error { return lvm("lvcreate", "-n", "data", "-V", "512M", "--thinpool", "pool", volumes) },
		func() error { return lvm("vgchange", "-an", volumes) },
		func() error { return lvm("lvchange", "-ay", volumes+"/data") })
}

func luks(devs []string) error {
	const key = "e2e"
	format := []string{
		"luksFormat", "--batch-mode", "--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "256",
		"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-", devs[0],
	}
	if _, err := output(key, "cryptsetup", format...); err != nil {
		return err
	}
	_, err := output(key, "cryptsetup", "open", "--type", "luks2", "--key-file", "-", devs[0], volumes+"-crypt")
	return err
}

// multipath makes one of request type, as multipathd does. That the paths are different disks is not noticed before
// something is read through another path than it was written; with one disk that cannot happen.
func multipath(devs []string) error {
	var paths []string
	sectors := ""
	for _, dev := range devs {
		dir := blocks + strings.TrimPrefix(dev, "/dev/")
		number, err := os.ReadFile(dir + "/dev")
		size, sizeErr := os.ReadFile(dir + "/size")
		if err := errors.Join(err, sizeErr); err != nil {
			return err
		}
		if sectors == "" {
			sectors = strings.TrimSpace(string(size))
		}
		paths = append(paths, strings.TrimSpace(string(number))+" 1")
	}
	name := "mpath-" + volumes
	table := fmt.Sprintf("0 %s multipath 0 0 1 1 service-time 0 %d 1 %s", sectors, len(paths), strings.Join(paths, " "))
	return run("dmsetup", "create", name, "--uuid", name, "--table", table)
}
