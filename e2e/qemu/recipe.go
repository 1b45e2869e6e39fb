package qemu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

// guest are the files of the image that are ours.
//
//go:embed guest
var guest embed.FS

// Recipe is all that an image is made from.
type Recipe struct {
	Suite    string   // Debian's
	Packages []string // beside those of the minimal system
	SizeMiB  int      // of the root file system
}

// Bookworm is Debian 12 with the storage tools, and etcd to play k3s.
func Bookworm() Recipe {
	return Recipe{
		Suite: "bookworm",
		Packages: []string{
			"linux-image-amd64", "systemd", "systemd-sysv", "udev", "dbus", "kmod", "initramfs-tools", "zstd",
			"etcd-server", "etcd-client", "fdisk", "e2fsprogs", "xfsprogs", "btrfs-progs", "lvm2", "thin-provisioning-tools",
			"cryptsetup-bin", "mdadm", "bcache-tools", "dmsetup", "fio", "procps",
		},
		SizeMiB: 2048,
	}
}

// epoch is the time that every file of an image has (SOURCE_DATE_EPOCH): the release of Debian 12.
const epoch = "1686355200"

// Identifiers that mke2fs would otherwise draw by chance.
const (
	rootUUID = "e2e00000-0000-4000-8000-000000000001"
	hashSeed = "e2e00000-0000-4000-8000-000000000002"
)

// Key changes with anything that the image is made from. Debian's own packages are not part of it: they are those of
// the day of the build.
func (r Recipe) Key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, r.bootstrapArgs("FILES", "TREE"), r.SizeMiB, epoch, mkfsOptions(), layout(), stampCommands("INODE"))
	err := fs.WalkDir(guest, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := guest.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// bootstrapArgs are mmdebstrap's: files is the folder with what is ours, tree the one that is made.
func (r Recipe) bootstrapArgs(files, tree string) []string {
	return []string{
		"--quiet", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io", "--aptopt=APT::Install-Recommends \"false\"",
		"--include=" + strings.Join(r.Packages, ","),
		"--customize-hook=cp -a " + files + "/tree/. \"$1\"", "--customize-hook=" + files + "/setup \"$1\"",
		r.Suite, tree,
	}
}

// layout is where the guest's files go: tree is copied over the image, setup is run on it.
func layout() [][2]string {
	return [][2]string{
		{"k3s.service", "tree/etc/systemd/system/k3s.service"},
		{"e2e.service", "tree/etc/systemd/system/e2e.service"},
		{"e2e-disks.service", "tree/etc/systemd/system/e2e-disks.service"},
		{"run", "tree/usr/local/lib/e2e/run"},
		{"disks", "tree/usr/local/lib/e2e/disks"},
		{"setup", "setup"},
	}
}

func mkfsOptions() []string {
	return []string{"-q", "-F", "-t", "ext4", "-U", rootUUID, "-E", "hash_seed=" + hashSeed + ",root_owner=0:0", "-m", "0", "-O", "^metadata_csum_seed"}
}
