package qemu

import (
	"slices"
	"strings"
	"testing"
)

func TestKeyFollowsTheRecipe(t *testing.T) {
	base := Bookworm()
	key := func(change func(*Recipe)) string {
		r := base
		r.Packages = slices.Clone(base.Packages)
		change(&r)
		k, err := r.Key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	seen := map[string]string{}
	for name, k := range map[string]string{
		"as it is":        key(func(*Recipe) {}),
		"another suite":   key(func(r *Recipe) { r.Suite = "trixie" }),
		"another size":    key(func(r *Recipe) { r.SizeMiB++ }),
		"another package": key(func(r *Recipe) { r.Packages[0] += "x" }),
		"one more":        key(func(r *Recipe) { r.Packages = append(r.Packages, "tuned") }),
	} {
		if other, twice := seen[k]; twice {
			t.Errorf("%s and %s have the same key %s", name, other, k)
		}
		seen[k] = name
	}
	if a, b := key(func(*Recipe) {}), key(func(*Recipe) {}); a != b {
		t.Errorf("one recipe has two keys: %s and %s", a, b)
	}
}

func TestArgs(t *testing.T) {
	m := Machine{
		Image: Image{Root: "/i/root", Kernel: "/i/kernel", Initrd: "/i/initrd"}, MemoryMiB: 512, Share: "/share",
		Disks: []Disk{{Name: "sda", Bus: BusSATA, IOPS: 300, BPS: 15}, {Name: "nvme0n1", Bus: BusNVMe}, {Name: "sdb", Bus: BusSATA}},
	}
	line := strings.Join(m.args("/d", "/d/console", false), " ")
	for _, want := range []string{
		"-accel tcg,thread=multi", "-m 512", "-kernel /i/kernel", "-initrd /i/initrd", "file=/i/root,format=raw,if=virtio,snapshot=on",
		"-drive file=/d/sda,format=raw,if=none,id=sda,cache=unsafe,throttling.iops-total=300,throttling.bps-total=15 -device ide-hd,drive=sda,serial=e2e-sda,bus=ahci.0",
		"-device nvme,drive=nvme0n1,serial=e2e-nvme0n1",
		"-device ide-hd,drive=sdb,serial=e2e-sdb,bus=ahci.1", // ports are counted by SATA disks alone
		"path=/share,mount_tag=share",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is missing in\n%s", want, line)
		}
	}
	if kvm := strings.Join(m.args("/d", "/d/console", true), " "); !strings.Contains(kvm, "-accel kvm") || strings.Contains(kvm, "tcg") {
		t.Errorf("with KVM: %s", kvm)
	}
}

func TestUsedInodes(t *testing.T) {
	got := usedInodes("Inode count:              20\nGroup 0: (Blocks 0-9)\n  Free inodes: 13, 15-16\nGroup 1:\n  Free inodes: 19-20\n")
	if want := []int{2, 11, 12, 14, 17, 18}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
