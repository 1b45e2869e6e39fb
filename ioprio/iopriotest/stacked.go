package iopriotest

import "fmt"

// The kinds of stacked and virtual devices.
const (
	DM     = "dm"
	MD     = "md"
	BCache = "bcache"
	Loop   = "loop"
	ZRAM   = "zram"
	ZVol   = "zd"
)

// Stacked is a block device without hardware of its own, below devices/virtual/block.
type Stacked struct {
	Name         string
	Dev          string // MAJ:MIN
	Kind         string
	Slaves       []string // the devices it lies on: disks, partitions or other stacked ones
	DMName       string   // dm/name
	DMUUID       string   // dm/uuid: LVM-…, CRYPT-…, mpath-…
	Backing      string   // loop/backing_file
	RequestBased bool     // a dm-multipath with a queue of its own
}

// AddStacked makes a stacked device.
func (n *Node) AddStacked(s Stacked) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir := "/sys/devices/virtual/block/" + s.Name
	n.addBlock(block{s.Name, s.Dev, dir})
	n.tree.link("/sys/block/"+s.Name, dir)
	for _, name := range s.Slaves {
		below := n.blocks[name]
		if below == nil {
			return fmt.Errorf("stacking %s: no device %s", s.Name, name)
		}
		n.tree.link(dir+"/slaves/"+name, below.dir)
		n.tree.link(below.dir+"/holders/"+s.Name, dir)
	}
	switch s.Kind {
	case DM:
		n.tree.attrs(dir+"/dm", map[string]string{"name": s.DMName, "uuid": s.DMUUID, "suspended": "0"})
	case MD:
		n.tree.attrs(dir+"/md", map[string]string{"level": "raid1", "array_state": "clean", "raid_disks": fmt.Sprint(len(s.Slaves))})
	case BCache:
		n.tree.dir(dir + "/bcache")
	case Loop:
		n.tree.attrs(dir+"/loop", map[string]string{"backing_file": s.Backing, "offset": "0"})
	}
	q := &queue{name: s.Name, dir: dir, zoned: noneName, depth: defaultRequests, tags: defaultRequests}
	q.bio = s.Kind != Loop && !s.RequestBased // a loop device has a queue that starts at none (BLK_MQ_F_NO_SCHED_BY_DEFAULT)
	scheduler := noneName
	if s.RequestBased {
		scheduler = "mq-deadline"
	}
	n.addQueue(q, scheduler)
	return n.tree.failed()
}
