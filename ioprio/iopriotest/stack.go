package iopriotest

import (
	"cmp"
	"fmt"
	"strings"
)

const fsid = "0b0e0e0e-1111-4222-8333-444444444444"

// Stack builds a storage stack over disks and mounts it. The kinds are those of e2e/scenario.
func (n *Node) Stack(kind, mount string, disks ...string) error {
	need := map[string]int{"tmpfs": 0, "overlay-tmpfs": 0, "overmount": 2, "bcache": 2, "thin": 2}
	if want, ok := need[kind]; ok && len(disks) < want || !ok && len(disks) < 1 {
		return fmt.Errorf("stack %s: too few disks", kind)
	}
	base := mount + ".disk" // where the file system is whose part, file or directory is used
	switch kind {
	case "plain":
		return n.mountDev(disks[0], mount, "ext4", "/")
	case "xfs":
		return n.mountDev(disks[0], mount, "xfs", "/")
	case "partition":
		part := disks[0] + "1"
		return cmp.Or(n.AddPartition(disks[0], part, n.nextMinor(disks[0]), 1), n.mountDev(part, mount, "ext4", "/"))
	case "lvm", "striped":
		return cmp.Or(n.addMapped("dm-0", "e2e-data", "LVM-e2edata", disks...), n.mountDev("dm-0", mount, "ext4", "/"))
	case "luks":
		return cmp.Or(n.addMapped("dm-0", "e2e-crypt", "CRYPT-LUKS2-e2e-crypt", disks...), n.mountDev("dm-0", mount, "ext4", "/"))
	case "thin":
		return cmp.Or(
			n.addMapped("dm-0", "e2e-pool_tmeta", "LVM-e2emeta-tmeta", disks[0]),
			n.addMapped("dm-1", "e2e-pool_tdata", "LVM-e2edata-tdata", disks[1:]...),
			n.addMapped("dm-2", "e2e-pool-tpool", "LVM-e2epool-tpool", "dm-0", "dm-1"),
			n.addMapped("dm-3", "e2e-data", "LVM-e2ethin", "dm-2"),
			n.mountDev("dm-3", mount, "ext4", "/"))
	case "multipath":
		return cmp.Or(
			n.AddStacked(Stacked{Name: "dm-0", Dev: "253:0", Kind: DM, DMName: "mpath-e2e", DMUUID: "mpath-e2e", Slaves: disks, RequestBased: true}),
			n.mountDev("dm-0", mount, "ext4", "/"))
	case "md":
		return cmp.Or(n.AddStacked(Stacked{Name: "md0", Dev: "9:0", Kind: MD, Slaves: disks}), n.mountDev("md0", mount, "ext4", "/"))
	case "bcache":
		return cmp.Or(n.AddStacked(Stacked{Name: "bcache0", Dev: "252:0", Kind: BCache, Slaves: disks}), n.mountDev("bcache0", mount, "ext4", "/"))
	case "btrfs":
		n.tree.dir(mount + "/nested")
		return cmp.Or(n.Btrfs(fsid, disks...), n.Mount(Mount{
			Point: mount, Type: "btrfs", Source: "/dev/" + disks[0],
			Options: "rw,space_cache=v2,subvolid=5,subvol=/",
		}))
	case "loop":
		return cmp.Or(
			n.mountDev(disks[0], base, "ext4", "/"), n.makeFile(base+"/image"),
			n.AddStacked(Stacked{Name: "loop0", Dev: "7:0", Kind: Loop, Backing: base + "/image"}),
			n.mountDev("loop0", mount, "ext4", "/"))
	case "bind":
		n.tree.dir(base + "/inner")
		return cmp.Or(n.mountDev(disks[0], base, "ext4", "/"), n.mountDev(disks[0], mount, "ext4", "/inner"))
	case "symlink":
		n.tree.dir(base + "/data")
		n.tree.raw(mount, base+"/data")
		return n.mountDev(disks[0], base, "ext4", "/")
	case "overmount":
		return cmp.Or(n.mountDev(disks[0], mount, "ext4", "/"), n.mountDev(disks[1], mount, "ext4", "/"))
	case "space":
		return n.mountDev(disks[0], mount+`/a b\c`, "ext4", "/")
	case "tmpfs":
		return n.Mount(Mount{Point: mount, Type: "tmpfs"})
	case "overlay":
		return cmp.Or(n.mountDev(disks[0], base, "ext4", "/"), n.overlay(mount, base))
	case "overlay-tmpfs":
		return cmp.Or(n.Mount(Mount{Point: base, Type: "tmpfs"}), n.overlay(mount, base))
	}
	return fmt.Errorf("stack %s: unknown kind", kind)
}

func (n *Node) overlay(mount, base string) error {
	n.tree.dir(base+"/upper", base+"/work")
	return n.Mount(Mount{Point: mount, Type: "overlay", Options: fmt.Sprintf("rw,lowerdir=/usr,upperdir=%s/upper,workdir=%s/work", base, base)})
}

func (n *Node) addMapped(name, dmName, uuid string, slaves ...string) error {
	return n.AddStacked(Stacked{Name: name, Dev: "253:" + strings.TrimPrefix(name, "dm-"), Kind: DM, DMName: dmName, DMUUID: uuid, Slaves: slaves})
}

// mountDev mounts a block device; a mapped one has its name below /dev/mapper as the source.
func (n *Node) mountDev(name, point, fstype, root string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blocks[name]
	if b == nil {
		return fmt.Errorf("mounting %s: no such device", name)
	}
	m := Mount{Dev: b.dev, Point: point, Type: fstype, Root: root}
	if mapped, err := readFile(n.tree.at(b.dir + "/dm/name")); err == nil {
		m.Source = "/dev/mapper/" + strings.TrimSpace(mapped)
	}
	n.mount(m)
	return n.tree.failed()
}

func (n *Node) makeFile(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tree.file(path, "")
	return n.tree.failed()
}

// nextMinor is the number of a disk's first partition.
func (n *Node) nextMinor(disk string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var major, minor int
	if b := n.blocks[disk]; b != nil {
		if _, err := fmt.Sscanf(b.dev, "%d:%d", &major, &minor); err != nil {
			n.tree.note(err)
		}
	}
	return fmt.Sprintf("%d:%d", major, minor+1)
}
