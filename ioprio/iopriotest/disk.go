package iopriotest

import (
	"fmt"
	"path"
	"strings"
)

// The buses that a disk can hang on.
const (
	ATA           = "ata"
	NVMe          = "nvme"
	NVMeMultipath = "nvme-multipath" // a bio-based head with a hidden path disk
	Virtio        = "virtio"
	USB           = "usb"
	MMC           = "mmc"
	ISCSI         = "iscsi"
	CCISS         = "cciss" // a name with '!'
)

// Disk is a disk to be plugged in. Its driver's depth gives the default nr_requests: 2*min(depth,128), or the depth
// under none.
type Disk struct {
	Name      string // as sysfs spells it: cciss!c0d0
	Dev       string // MAJ:MIN
	Bus       string // ATA if empty
	Vendor    string
	Model     string
	WWID      string // naa.…, eui.…
	Zoned     string // none, host-aware, host-managed
	Depth     int    // that of the bus if 0
	Scheduler string // at first; mq-deadline if empty, none for NVMe
	Refuses   bool   // never offers bfq
	Fixed     bool   // takes no scheduler
}

// block is a block device that sysfs shows.
type block struct {
	name, dev, dir string
}

// ancestor is a directory above a disk, and the bus or class that its subsystem link names.
type ancestor struct{ name, subsystem string }

// slot is where the next disk of a bus hangs, and the depth of its driver.
func (n *Node) slot(d Disk) ([]ancestor, int) {
	i := n.nextPort
	n.nextPort++
	pci := func(addr string) []ancestor { return []ancestor{{"pci0000:00", ""}, {"0000:" + addr, "bus/pci"}} }
	scsi := func(lun int) []ancestor {
		return []ancestor{
			{fmt.Sprintf("target%d:0:0", i), "bus/scsi"},
			{fmt.Sprintf("%d:0:0:%d", i, lun), "bus/scsi"},
			{"block", ""},
		}
	}
	host := ancestor{fmt.Sprintf("host%d", i), "bus/scsi"}
	switch d.Bus {
	case NVMe:
		return append(pci(fmt.Sprintf("%02x:00.0", i)), ancestor{"nvme", ""}, ancestor{fmt.Sprintf("nvme%d", i), "class/nvme"}), 1023
	case NVMeMultipath:
		return []ancestor{{"virtual", ""}, {"nvme-subsystem", ""}, {fmt.Sprintf("nvme-subsys%d", i), "class/nvme-subsystem"}}, defaultRequests
	case Virtio:
		return append(pci(fmt.Sprintf("00:%02x.0", i)), ancestor{fmt.Sprintf("virtio%d", i), "bus/virtio"}, ancestor{"block", ""}), 256
	case USB:
		return append(append(pci("00:14.0"), ancestor{"usb2", "bus/usb"}, ancestor{fmt.Sprintf("2-%d", i), "bus/usb"},
			ancestor{fmt.Sprintf("2-%d:1.0", i), "bus/usb"}, host), scsi(0)...), 30
	case MMC:
		mmc := fmt.Sprintf("mmc%d", i)
		return []ancestor{
			{"platform", ""},
			{"emmc2bus", "bus/platform"},
			{"fe340000.mmc", "bus/platform"},
			{"mmc_host", ""},
			{mmc, "class/mmc_host"},
			{mmc + ":0001", "bus/mmc"},
			{"block", ""},
		}, 64
	case ISCSI:
		return append([]ancestor{{"platform", ""}, host, {fmt.Sprintf("session%d", i), ""}}, scsi(1)...), 113
	case CCISS:
		return append(pci(fmt.Sprintf("06:%02x.0", i)), ancestor{fmt.Sprintf("cciss%d", i), ""}, ancestor{"c0d0", "bus/cciss"}, ancestor{"block", ""}), defaultRequests
	}
	return append(append(pci("00:1f.2"), ancestor{fmt.Sprintf("ata%d", i), ""}, host), scsi(0)...), 32
}

// AddDisk plugs a disk in.
func (n *Node) AddDisk(d Disk) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	above, depth := n.slot(d)
	if d.Depth != 0 {
		depth = d.Depth
	}
	dir, device := "/sys/devices", ""
	for _, a := range above {
		dir = path.Join(dir, a.name)
		if a.subsystem != "" {
			n.tree.link(dir+"/subsystem", "/sys/"+a.subsystem)
			device = dir
		}
	}
	dir = path.Join(dir, d.Name)
	n.tree.link(dir+"/device", device)
	n.tree.attrs(device, map[string]string{"model": d.Model, "vendor": d.Vendor})
	if d.WWID != "" {
		for _, at := range []string{device, dir} { // SCSI has it on the device, NVMe on the disk
			n.tree.attrs(at, map[string]string{"wwid": d.WWID})
		}
	}
	n.addBlock(block{d.Name, d.Dev, dir})
	n.tree.link("/sys/block/"+d.Name, dir)
	q := &queue{name: d.Name, dir: dir, bio: d.Bus == NVMeMultipath, fixed: d.Fixed, refuses: d.Refuses, zoned: d.Zoned, depth: depth, tags: depth}
	if q.zoned == "" {
		q.zoned = noneName
	}
	if d.Scheduler == "" {
		if d.Scheduler = "mq-deadline"; d.Bus == NVMe || d.Bus == NVMeMultipath || d.Fixed {
			d.Scheduler = noneName
		}
	}
	n.addQueue(q, d.Scheduler)
	if d.Bus == NVMeMultipath {
		n.addHiddenPath(d.Name)
	}
	return n.tree.failed()
}

// addHiddenPath is the disk of one controller below a multipath head: it has no device number (GENHD_FL_HIDDEN).
func (n *Node) addHiddenPath(head string) {
	at := strings.LastIndex(head, "n") // nvme6n1 has nvme6c0n1 below nvme6
	name := head[:at] + "c0" + head[at:]
	ctrl := "/sys/devices/pci0000:00/0000:10:00.0/nvme/" + head[:at]
	n.tree.link(ctrl+"/subsystem", "/sys/class/nvme")
	n.tree.attrs(ctrl+"/"+name, map[string]string{"hidden": "1"})
	n.tree.link("/sys/block/"+name, ctrl+"/"+name)
	n.addQueue(&queue{name: name, dir: ctrl + "/" + name, zoned: noneName, depth: 1023, tags: 1023}, noneName)
}

func (n *Node) addBlock(b block) {
	n.blocks[b.name] = &b
	n.tree.attrs(b.dir, map[string]string{
		"dev": b.dev, "size": "2097152", "removable": "0", "hidden": "0",
		"uevent": "DEVNAME=" + strings.ReplaceAll(b.name, "!", "/"),
	})
	n.tree.dir(b.dir+"/slaves", b.dir+"/holders")
	n.tree.link(b.dir+"/subsystem", "/sys/class/block")
	n.tree.link("/sys/class/block/"+b.name, b.dir)
	n.tree.link("/sys/dev/block/"+b.dev, b.dir)
}

func (n *Node) addQueue(q *queue, scheduler string) {
	if q.bio {
		q.active, q.nr = noneName, defaultRequests
	} else {
		if scheduler == bfqName {
			n.load()
		}
		q.enter(scheduler)
	}
	n.queues[q.name] = q
	n.render(q)
}

// AddPartition makes a partition of a disk.
func (n *Node) AddPartition(disk, name, dev string, number int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	parent := n.blocks[disk]
	if parent == nil {
		return fmt.Errorf("partition %s: no disk %s", name, disk)
	}
	dir := parent.dir + "/" + name
	n.addBlock(block{name, dev, dir})
	n.tree.drop(dir + "/slaves") // a partition has holders only
	n.tree.attrs(dir, map[string]string{"partition": fmt.Sprint(number), "start": "2048"})
	return n.tree.failed()
}

// RemoveDisk unplugs a device with its partitions; what lies above it stays, as it does on a real node.
func (n *Node) RemoveDisk(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	disk := n.blocks[name]
	if disk == nil {
		return fmt.Errorf("removing %s: no such disk", name)
	}
	for _, b := range n.blocks {
		if b.dir == disk.dir || path.Dir(b.dir) == disk.dir {
			n.tree.drop("/sys/class/block/"+b.name, "/sys/dev/block/"+b.dev, "/sys/block/"+b.name)
			delete(n.blocks, b.name)
			delete(n.queues, b.name)
		}
	}
	n.tree.drop(disk.dir)
	return n.tree.failed()
}
