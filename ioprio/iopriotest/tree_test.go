package iopriotest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestSysfs checks the shape of sysfs: where the links lead, and which subsystems lie on the way up.
func TestSysfs(t *testing.T) {
	for _, tc := range []struct {
		bus, name, subsystem string
		inPath               string
	}{
		{ATA, "sda", "scsi", "/ata1/host1/target1:0:0/1:0:0:0/block/sda"},
		{NVMe, "nvme0n1", "nvme", "/nvme/nvme1/nvme0n1"},
		{NVMeMultipath, "nvme0n1", "nvme-subsystem", "/virtual/nvme-subsystem/nvme-subsys1/nvme0n1"},
		{Virtio, "vda", "virtio", "/virtio1/block/vda"},
		{USB, "sda", "usb", "/usb2/2-1/2-1:1.0/host1/"},
		{MMC, "mmcblk0", "mmc", "/mmc_host/mmc1/mmc1:0001/block/mmcblk0"},
		{ISCSI, "sda", "scsi", "/platform/host1/session1/"},
		{CCISS, "cciss!c0d0", "cciss", "/block/cciss!c0d0"},
	} {
		n := newNode(t, Options{}, Disk{Name: tc.name, Dev: "8:0", Bus: tc.bus, Model: "DISK"})
		for _, link := range []string{"/sys/block/" + tc.name, "/sys/class/block/" + tc.name, "/sys/dev/block/8:0"} {
			text, err := os.Readlink(n.Path(link))
			if err != nil || filepath.IsAbs(text) {
				t.Errorf("%s is a link to %q (%v), want a relative one", link, text, err)
			}
			real, err := n.tree.real(link)
			if err != nil || !strings.Contains(real, tc.inPath) {
				t.Errorf("%s leads to %s (%v), want %s in it", link, real, err, tc.inPath)
			}
			var found bool
			for at := filepath.Dir(real); at != "/sys"; at = filepath.Dir(at) {
				if link, err := os.Readlink(n.Path(at + "/subsystem")); err == nil && filepath.Base(link) == tc.subsystem {
					found = true
				}
			}
			if !found {
				t.Errorf("%s: no ancestor is of subsystem %s", tc.name, tc.subsystem)
			}
		}
		if got := n.reads(t, "/sys/block/"+tc.name+"/device/model"); got != "DISK" {
			t.Errorf("%s: device/model is %q", tc.name, got)
		}
	}
}

func TestStacked(t *testing.T) {
	n := base(t, Options{})
	if err := n.Stack("thin", "/mnt", "sdb", "sdc"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"/sys/block/dm-2/slaves/dm-1/slaves/sdc/dev": "8:32",
		"/sys/block/sdb/holders/dm-0/dm/uuid":        "LVM-e2emeta-tmeta",
		"/sys/class/block/sda1/partition":            "1",
		"/sys/block/sda1/dev":                        "ENOENT", // a partition is not listed
		"/sys/block/dm-3/queue/scheduler":            "none",
	} {
		if got := n.reads(t, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if err := n.RemoveDisk("sda"); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"/sys/block/sda", "/sys/class/block/sda1", "/sys/dev/block/8:1"} {
		if _, err := os.Lstat(n.Path(gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

func TestMountinfo(t *testing.T) {
	n := base(t, Options{})
	for _, m := range []Mount{
		{Dev: "8:16", Point: `/mnt/a b\c`, Type: "ext4", Root: "/x\ty"},
		{Dev: "8:32", Point: "/mnt/over", Type: "ext4"},
		{Dev: "8:48", Point: "/mnt/over", Type: "xfs"},
	} {
		if err := n.Mount(m); err != nil {
			t.Fatal(err)
		}
	}
	text := n.reads(t, "/proc/self/mountinfo") + "\n"
	for _, row := range []string{
		"22 1 254:0 / / rw,relatime shared:22 - ext4 /dev/vda rw\n",
		`29 22 8:16 /x\011y /mnt/a\040b\134c rw,relatime shared:29 - ext4 /dev/sdb rw` + "\n",
		"30 22 8:32 / /mnt/over rw,relatime shared:30 - ext4 /dev/sdc rw\n",
		"31 30 8:48 / /mnt/over rw,relatime shared:31 - xfs /dev/sdd rw\n", // the parent is what it covers; A16
	} {
		if !strings.Contains(text, row) {
			t.Errorf("no row %q in\n%s", row, text)
		}
	}
	if err := n.Unmount("/mnt/over"); err != nil {
		t.Fatal(err)
	}
	if got := n.reads(t, "/proc/self/mountinfo"); strings.Contains(got, "8:48") || !strings.Contains(got, "8:32") {
		t.Errorf("the wrong mount went:\n%s", got)
	}
}

// TestRace lets writers and readers run at once: a reader must never see half a value.
func TestRace(t *testing.T) {
	n := base(t, Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, s := range []string{"bfq", "mq-deadline", "none", "bfq"} {
				if err := n.Host().Write(n.Path("/sys/block/sda/queue/scheduler"), s); err != nil {
					t.Error(err)
				}
				if b, err := os.ReadFile(n.Path("/sys/block/sda/queue/scheduler")); err != nil || strings.Count(string(b), "[") != 1 {
					t.Errorf("scheduler reads %q, %v", b, err)
				}
			}
		})
		all.Go(func() {
			for w := range uint64(10) {
				if err := n.Host().Systemd.SetIOWeight(t.Context(), "system.slice", w+1); err != nil {
					t.Error(err)
				}
				n.Writes()
			}
		})
	}
	all.Wait()
}
