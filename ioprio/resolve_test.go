package ioprio_test

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
	"github.com/ioprio-agent/ioprio-agent/ioprio/iopriotest"
)

type (
	disk    = iopriotest.Disk
	stacked = iopriotest.Stacked
	mount   = iopriotest.Mount
	node    = iopriotest.Node
)

// disks of most rows, and the root on a disk that must never be an answer by default.
func plug(n *node, disks ...disk) error {
	err := cmp.Or(n.AddDisk(disk{Name: "vda", Dev: "254:0", Bus: iopriotest.Virtio}), n.Mount(mount{Dev: "254:0", Point: "/", Type: "ext4"}))
	for _, d := range disks {
		err = cmp.Or(err, n.AddDisk(d))
	}
	return err
}

var (
	sda  = disk{Name: "sda", Dev: "8:0"}
	sdb  = disk{Name: "sdb", Dev: "8:16"}
	sdc  = disk{Name: "sdc", Dev: "8:32"}
	nvme = disk{Name: "nvme0n1", Dev: "259:0", Bus: iopriotest.NVMe}
)

// link makes a symbolic link of the node, as ln -s TARGET PATH does.
func link(n *node, target, path string) error {
	at := n.Path(path)
	return cmp.Or(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at))
}

// Each row builds a node and names the chain and the leaves that the data directory /k3s must resolve to, each leaf with its
// class, or a part of the error.
func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		name   string
		build  func(n *node) error
		chain  string
		leaves string
		err    string
	}{
		{"plain disk", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda managed", ""},
		{"on the root file system", func(n *node) error { return plug(n, sda) }, "vda", "vda managed", ""},
		{"partition", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddPartition("sda", "sda2", "8:2", 2), n.Mount(mount{Dev: "8:2", Point: "/k3s", Type: "xfs"}))
		}, "sda2 sda", "sda managed", ""},
		{"A02 btrfs, nested subvolume", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddPartition("sda", "sda2", "8:2", 2), n.Btrfs("11111111-2222-3333-4444-555555555555", "sda2"),
				n.Mount(mount{Dev: "0:37", Root: "/@", Point: "/k3s", Type: "btrfs", Source: "/dev/sda2"}))
		}, "sda2 sda", "sda managed", ""},
		{"T20 btrfs with two members, source names one", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb, sdc), n.Btrfs("11111111-2222-3333-4444-555555555555", "sda", "sdc"), n.Btrfs("99999999-2222-3333-4444-555555555555", "sdb"),
				n.Mount(mount{Point: "/k3s", Type: "btrfs", Source: "/dev/sdc"}))
		}, "sda sdc", "sda managed, sdc managed", ""},
		{"btrfs whose source is /dev/root", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Btrfs("11111111-2222-3333-4444-555555555555", "sda"), n.Mount(mount{Point: "/k3s", Type: "btrfs", Source: "/dev/root"}))
		}, "sda", "sda managed", ""},
		{"btrfs on LUKS, source is the mapper's name", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMName: "luks-x", DMUUID: "CRYPT-LUKS2-x", Slaves: []string{"sda"}}),
				n.Btrfs("11111111-2222-3333-4444-555555555555", "dm-0"), n.Mount(mount{Point: "/k3s", Type: "btrfs", Source: "/dev/mapper/luks-x"}))
		}, "dm-0 sda", "sda managed", ""},
		{"/dev/root", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddPartition("sda", "sda1", "8:1", 1), n.Mount(mount{Dev: "8:1", Point: "/k3s", Type: "ext4", Source: "/dev/root"}))
		}, "sda1 sda", "sda managed", ""},
		{"A05 mapper name and dm-N are one device", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddStacked(stacked{Name: "dm-1", Dev: "253:1", Kind: iopriotest.DM, DMName: "tmpl--vg-root", DMUUID: "LVM-x", Slaves: []string{"sda"}}),
				n.Mount(mount{Dev: "253:1", Point: "/k3s", Type: "ext4", Source: "/dev/mapper/tmpl--vg-root"}))
		}, "dm-1 sda", "sda managed", ""},
		{"A07 firmware RAID: partition on md, LVM on it", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb),
				n.AddStacked(stacked{Name: "md126", Dev: "9:126", Kind: iopriotest.MD, Slaves: []string{"sda", "sdb"}}),
				n.AddStacked(stacked{Name: "md127", Dev: "9:127", Kind: iopriotest.MD}),
				n.AddPartition("md126", "md126p3", "259:5", 3),
				n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMName: "vg-root", DMUUID: "LVM-x", Slaves: []string{"md126p3"}}),
				n.Mount(mount{Dev: "253:0", Point: "/k3s", Type: "ext4"}))
		}, "dm-0 md126p3 md126 sda sdb", "sda managed, sdb managed", ""},
		{"A09 zfs", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "zfs", Source: "dpool/subvol-900-disk-0"}))
		}, "", "", "on zfs (mounted at /k3s)"},
		{"A10 ext4 on a zvol", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddStacked(stacked{Name: "zd0", Dev: "230:0", Kind: iopriotest.ZVol}), n.Mount(mount{Dev: "230:0", Point: "/k3s", Type: "ext4"}))
		}, "zd0", "zd0 unsupported", ""},
		{"A11 overlay: its upperdir counts", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/flash", Type: "ext4"}),
				n.Mount(mount{Dev: "0:22", Point: "/k3s", Type: "overlay", Options: "rw,lowerdir=/var/lib,upperdir=/mnt/flash/var/lib,workdir=/mnt/flash/.work-var-lib"}))
		}, "sda", "sda managed", ""},
		{"A18 escapes in upperdir", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/a b", Type: "ext4"}),
				n.Mount(mount{Point: "/k3s", Type: "overlay", Options: `rw,lowerdir=/var,upperdir=/mnt/a\040b/up,workdir=/w`}))
		}, "sda", "sda managed", ""},
		{"A12 overlay over a tmpfs", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/run/upper", Type: "tmpfs"}), n.Mount(mount{Dev: "8:0", Point: "/run/lower", Type: "ext4"}),
				n.Mount(mount{Point: "/k3s", Type: "overlay", Options: "rw,lowerdir=/run/lower,upperdir=/run/upper/up,workdir=/run/upper/work"}))
		}, "", "", "whose upperdir /run/upper/up: on tmpfs"},
		{"overlay without upperdir", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "overlay", Options: "ro,lowerdir=/a:/b"}))
		}, "", "", "no upperdir"},
		{"overlay on itself ends", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "overlay", Options: "rw,lowerdir=/a,upperdir=/k3s/up"}))
		}, "", "", "too many file systems"},
		{"A13 tmpfs", func(n *node) error { return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "tmpfs"})) }, "", "", "/k3s: on tmpfs (mounted at /k3s): it is in memory"},
		{"A14 NFS", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "0:38", Point: "/k3s", Type: "nfs4", Source: "10.0.0.1:/k3s"}))
		}, "", "", "on nfs4 (mounted at /k3s): it is not a local file system"},
		{"9p", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "9p", Source: "share"}))
		}, "", "", "on 9p"},
		{"FUSE without a device", func(n *node) error { return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "fuse.sshfs"})) }, "", "", "on fuse.sshfs"},
		{"FUSE on a device", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "fuseblk"}))
		}, "sda", "sda managed", ""},
		{"unknown anonymous file system", func(n *node) error { return cmp.Or(plug(n, sda), n.Mount(mount{Point: "/k3s", Type: "newfs"})) }, "", "", "the kernel names no block device"},
		{"bcachefs over two disks", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.Mount(mount{Point: "/k3s", Type: "bcachefs", Source: "/dev/sda:/dev/sdb"}))
		}, "sda sdb", "sda managed, sdb managed", ""},
		{"T20 XFS with its log on another disk", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "xfs", Options: "rw,logdev=/dev/sdb"}))
		}, "sda sdb", "sda managed, sdb managed", ""},
		{"A16 mounted over", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}), n.Mount(mount{Dev: "8:16", Point: "/k3s", Type: "ext4"}))
		}, "sdb", "sdb managed", ""},
		{"A16 the same twice", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda managed", ""},
		{"A18 mount point with a space and a backslash", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: `/mnt/a b\c`, Type: "ext4"}), link(n, `/mnt/a b\c`, "/k3s"))
		}, "sda", "sda managed", ""},
		{"A19 symbolic link to a whole disk", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/ssd", Type: "ext4"}), link(n, "/mnt/ssd/rancher", "/k3s"))
		}, "sda", "sda managed", ""},
		{"A19 relative link and a link below it", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/ssd", Type: "ext4"}), link(n, "../ssd", "/mnt/x/here"), link(n, "mnt/x/here", "/k3s"))
		}, "sda", "sda managed", ""},
		{"links in a circle", func(n *node) error { return cmp.Or(plug(n), link(n, "/b", "/k3s"), link(n, "/k3s", "/b")) }, "", "", "too many levels"},
		{"bind mount", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/x", Type: "ext4"}), n.Mount(mount{Dev: "8:0", Root: "/inner", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda managed", ""},
		{"A23 Longhorn volume, by its session", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sda", Dev: "8:0", Bus: iopriotest.ISCSI, Vendor: "IET", Model: "VIRTUAL-DISK"}), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda unsupported", ""},
		{"A23 Longhorn volume, by its model alone", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sda", Dev: "8:0", Vendor: "IET", Model: "VIRTUAL-DISK"}), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda unsupported", ""},
		{"A24 only the volume group's disk", func(n *node) error {
			return cmp.Or(plug(n, sdb, disk{Name: "sdc", Dev: "8:32", Bus: iopriotest.ISCSI}), n.AddPartition("sdb", "sdb3", "8:19", 3),
				n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMName: "ubuntu--vg-ubuntu--lv", DMUUID: "LVM-x", Slaves: []string{"sdb3"}}),
				n.AddStacked(stacked{Name: "dm-1", Dev: "253:1", Kind: iopriotest.DM, DMName: "mpatha", DMUUID: "mpath-x", Slaves: []string{"sdc"}, RequestBased: true}),
				n.Mount(mount{Dev: "253:0", Point: "/k3s", Type: "ext4"}))
		}, "dm-0 sdb3 sdb", "sdb managed", ""},
		{"A25 dm-multipath, request-based", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMName: "mpathb", DMUUID: "mpath-3600a", Slaves: []string{"sda", "sdb"}, RequestBased: true}),
				n.Mount(mount{Dev: "253:0", Point: "/k3s", Type: "ext4"}))
		}, "dm-0", "dm-0 managed", ""},
		{"A25 partition on dm-multipath", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMUUID: "mpath-3600a", Slaves: []string{"sda", "sdb"}, RequestBased: true}),
				n.AddStacked(stacked{Name: "dm-1", Dev: "253:1", Kind: iopriotest.DM, DMUUID: "part1-mpath-3600a", Slaves: []string{"dm-0"}}), n.Mount(mount{Dev: "253:1", Point: "/k3s", Type: "ext4"}))
		}, "dm-1 dm-0", "dm-0 managed", ""},
		{"dm-multipath, bio-based: its paths are the leaves", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMUUID: "mpath-3600a", Slaves: []string{"sda", "sdb"}}),
				n.Mount(mount{Dev: "253:0", Point: "/k3s", Type: "ext4"}))
		}, "dm-0 sda sdb", "sda managed, sdb managed", ""},
		{"A26 NVMe multipath head", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "nvme6n1", Dev: "259:6", Bus: iopriotest.NVMeMultipath}), n.Mount(mount{Dev: "259:6", Point: "/k3s", Type: "ext4"}))
		}, "nvme6n1", "nvme6n1 skipped", ""},
		{"A27 partition of NVMe", func(n *node) error {
			return cmp.Or(plug(n, nvme), n.AddPartition("nvme0n1", "nvme0n1p3", "259:3", 3), n.Mount(mount{Dev: "259:3", Point: "/k3s", Type: "ext4"}))
		}, "nvme0n1p3 nvme0n1", "nvme0n1 skipped", ""},
		{"A27 partition of eMMC", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "mmcblk0", Dev: "179:0", Bus: iopriotest.MMC}), n.AddPartition("mmcblk0", "mmcblk0p2", "179:2", 2), n.Mount(mount{Dev: "179:2", Point: "/k3s", Type: "ext4"}))
		}, "mmcblk0p2 mmcblk0", "mmcblk0 managed", ""},
		{"USB", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sdx", Dev: "65:112", Bus: iopriotest.USB}), n.Mount(mount{Dev: "65:112", Point: "/k3s", Type: "ext4"}))
		}, "sdx", "sdx managed", ""},
		{"A28 name with an exclamation mark", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "cciss!c0d0", Dev: "104:0", Bus: iopriotest.CCISS}), n.AddPartition("cciss!c0d0", "cciss!c0d0p1", "104:1", 1), n.Mount(mount{Dev: "104:1", Point: "/k3s", Type: "ext4"}))
		}, "cciss!c0d0p1 cciss!c0d0", "cciss!c0d0 managed", ""},
		{"A28 btrfs on a name with a slash", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "cciss!c0d0", Dev: "104:0", Bus: iopriotest.CCISS}), n.Btrfs("11111111-2222-3333-4444-555555555555", "cciss!c0d0"), n.Mount(mount{Point: "/k3s", Type: "btrfs", Source: "/dev/cciss/c0d0"}))
		}, "cciss!c0d0", "cciss!c0d0 managed", ""},
		{"A29 LVM thin pool: each disk once", func(n *node) error {
			return cmp.Or(plug(n, nvme), n.AddPartition("nvme0n1", "nvme0n1p3", "259:3", 3),
				n.AddStacked(stacked{Name: "dm-2", Dev: "252:2", Kind: iopriotest.DM, DMUUID: "LVM-tmeta", Slaves: []string{"nvme0n1p3"}}),
				n.AddStacked(stacked{Name: "dm-3", Dev: "252:3", Kind: iopriotest.DM, DMUUID: "LVM-tdata", Slaves: []string{"nvme0n1p3"}}),
				n.AddStacked(stacked{Name: "dm-4", Dev: "252:4", Kind: iopriotest.DM, DMUUID: "LVM-tpool", Slaves: []string{"dm-2", "dm-3"}}),
				n.AddStacked(stacked{Name: "dm-6", Dev: "252:6", Kind: iopriotest.DM, DMUUID: "LVM-vm", Slaves: []string{"dm-4"}}), n.Mount(mount{Dev: "252:6", Point: "/k3s", Type: "ext4"}))
		}, "dm-6 dm-4 dm-2 nvme0n1p3 nvme0n1 dm-3", "nvme0n1 skipped", ""},
		{"A30 the mount's device is not in sysfs", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "253:9", Point: "/k3s", Type: "ext4", Source: "/dev/mapper/vg1-root"}))
		}, "", "", "its device 253:9 is not in"},
		{"A31 LUKS", func(n *node) error {
			return cmp.Or(plug(n, nvme), n.AddStacked(stacked{Name: "dm-0", Dev: "253:0", Kind: iopriotest.DM, DMName: "crypt", DMUUID: "CRYPT-LUKS2-x", Slaves: []string{"nvme0n1"}}), n.Mount(mount{Dev: "253:0", Point: "/k3s", Type: "ext4"}))
		}, "dm-0 nvme0n1", "nvme0n1 skipped", ""},
		{"mirror over NVMe and SATA: each leaf has its class", func(n *node) error {
			return cmp.Or(plug(n, nvme, sda), n.AddStacked(stacked{Name: "md0", Dev: "9:0", Kind: iopriotest.MD, Slaves: []string{"nvme0n1", "sda"}}), n.Mount(mount{Dev: "9:0", Point: "/k3s", Type: "ext4"}))
		}, "md0 nvme0n1 sda", "nvme0n1 skipped, sda managed", ""},
		{"bcache: backing and cache", func(n *node) error {
			return cmp.Or(plug(n, sda, sdb), n.AddStacked(stacked{Name: "bcache0", Dev: "252:0", Kind: iopriotest.BCache, Slaves: []string{"sda", "sdb"}}), n.Mount(mount{Dev: "252:0", Point: "/k3s", Type: "ext4"}))
		}, "bcache0 sda sdb", "sda managed, sdb managed", ""},
		{"loop file", func(n *node) error {
			return cmp.Or(plug(n, sda), n.Mount(mount{Dev: "8:0", Point: "/mnt/x", Type: "ext4"}), n.AddStacked(stacked{Name: "loop0", Dev: "7:0", Kind: iopriotest.Loop, Backing: "/mnt/x/image"}), n.Mount(mount{Dev: "7:0", Point: "/k3s", Type: "ext4"}))
		}, "loop0 sda", "sda managed", ""},
		{"loop file that was deleted", func(n *node) error {
			return cmp.Or(plug(n, sda), n.AddStacked(stacked{Name: "loop0", Dev: "7:0", Kind: iopriotest.Loop, Backing: "/mnt/x/image (deleted)"}), n.Mount(mount{Dev: "7:0", Point: "/k3s", Type: "ext4"}))
		}, "", "", "(deleted)"},
		{"B17 zoned", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sda", Dev: "8:0", Zoned: "host-managed"}), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda unsupported", ""},
		{"B04 queue that takes no scheduler", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sda", Dev: "8:0", Fixed: true}), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda unsupported", ""},
		{"queue that refuses bfq although it is loaded", func(n *node) error {
			return cmp.Or(plug(n, disk{Name: "sda", Dev: "8:0", Refuses: true}), n.LoadModule("bfq"), n.Mount(mount{Dev: "8:0", Point: "/k3s", Type: "ext4"}))
		}, "sda", "sda unsupported", ""},
	} {
		for _, kernel := range []string{iopriotest.Linux61, iopriotest.Linux612} {
			t.Run(tt.name+" on "+kernel, func(t *testing.T) {
				n, err := iopriotest.New(t.TempDir(), iopriotest.Options{Kernel: kernel})
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.build(n); err != nil {
					t.Fatal(err)
				}
				p := ioprio.DefaultPolicy()
				p.DataDir = "/k3s"
				s, err := ioprio.Observe(t.Context(), n.Host(), p)
				if tt.err != "" {
					var refused *ioprio.ResolveError
					if err == nil || !strings.Contains(err.Error(), tt.err) || (!errors.As(err, &refused) && !strings.Contains(tt.err, "levels")) {
						t.Fatalf("got error %v, want one with %q", err, tt.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(s.Paths[0].Chain, " "); got != tt.chain {
					t.Errorf("chain %q, want %q", got, tt.chain)
				}
				var leaves []string
				for _, d := range s.Disks {
					leaves = append(leaves, d.Name+" "+string(d.Class))
					if (d.Class == ioprio.ClassManaged) != (d.Reason == "") {
						t.Errorf("%s is %s with the reason %q", d.Name, d.Class, d.Reason)
					}
				}
				if diff := gocmp.Diff(tt.leaves, strings.Join(leaves, ", ")); diff != "" {
					t.Errorf("leaves (-want +got)\n%s", diff)
				}
			})
		}
	}
}
