package iopriotest

import (
	"cmp"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// K3sUnit is the unit file that stands for k3s in the scenarios: etcd itself, which is small enough for a virtual machine.
const K3sUnit = `[Unit]
Description=etcd in the place of k3s

[Service]
Type=notify
ExecStart=/usr/bin/etcd --data-dir /var/lib/rancher/k3s/server/db/etcd
Delegate=yes
KillMode=process

[Install]
WantedBy=multi-user.target
`

// NewBase makes the machine of the scenarios: sda to sdd on SATA, nvme0n1, the root on vda; sda1 mounted at
// /var/lib/rancher, where k3s.service has its write-ahead log open; no pods, and bfq not loaded.
func NewBase(dir string, opts Options) (*Node, error) {
	n, err := New(dir, opts)
	if err != nil {
		return nil, err
	}
	const wal = "/var/lib/rancher/k3s/server/db/etcd/member/wal/0.wal"
	return n, cmp.Or(
		n.AddDisk(Disk{Name: "vda", Dev: "254:0", Bus: Virtio}),
		n.addSATA("sda", "8:0"), n.addSATA("sdb", "8:16"), n.addSATA("sdc", "8:32"), n.addSATA("sdd", "8:48"),
		n.AddDisk(Disk{Name: "nvme0n1", Dev: "259:0", Bus: NVMe, Model: "QEMU NVMe Ctrl", WWID: "nvme.8086-65326530-51454d55-00000001"}),
		n.AddPartition("sda", "sda1", "8:1", 1),
		n.Mount(Mount{Dev: "254:0", Point: "/", Type: "ext4"}),
		n.Mount(Mount{Point: "/sys", Type: "sysfs", Source: "sysfs"}),
		n.Mount(Mount{Point: "/proc", Type: "proc", Source: "proc"}),
		n.Mount(Mount{Point: "/dev", Type: "devtmpfs", Source: "udev"}),
		n.Mount(Mount{Point: "/run", Type: "tmpfs"}),
		n.Mount(Mount{Point: "/sys/fs/cgroup", Type: "cgroup2"}),
		n.Mount(Mount{Dev: "8:1", Point: "/var/lib/rancher", Type: "ext4"}),
		n.AddUnit(Unit{Name: "k3s.service", Content: K3sUnit, Delegate: true, Main: &Process{
			Command: "/usr/bin/etcd --data-dir /var/lib/rancher/k3s/server/db/etcd", Files: []string{wal},
		}}),
		n.Start("k3s.service"),
	)
}

func (n *Node) addSATA(name, dev string) error {
	return n.AddDisk(Disk{Name: name, Dev: dev, Bus: ATA, Vendor: "ATA", Model: "QEMU HARDDISK", WWID: "t10.ATA     QEMU HARDDISK " + name})
}

// BFQWeight is what a cgroup's io.bfq.weight says, or why it cannot be read.
func (n *Node) BFQWeight(cgroup string) (string, error) {
	return readFile(n.Path(cgroupfs + cgroup + "/io.bfq.weight"))
}

// IOWeight is the property of a unit, WeightUnset for one that is not known.
func (n *Node) IOWeight(name string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if u := n.units[name]; u != nil {
		return u.weight
	}
	return ioprio.WeightUnset
}
