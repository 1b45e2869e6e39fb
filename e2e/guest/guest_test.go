package guest

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestWatched(t *testing.T) {
	const ata = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/"
	for path, want := range map[string]string{
		ata + "queue/scheduler":                             "/sys/block/sda/queue/scheduler",
		ata + "queue/iosched/strict_guarantees":             "/sys/block/sda/queue/iosched/strict_guarantees",
		ata + "uevent":                                      "",
		ata + "sda1/uevent":                                 "",
		"/sys/devices/virtual/block/dm-0/queue/nr_requests": "/sys/block/dm-0/queue/nr_requests",
		"/sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/queue/scheduler":    "/sys/block/nvme0n1/queue/scheduler",
		"/sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/queues/rx-0/rps_cpus": "",
		"/sys/fs/cgroup/system.slice/io.bfq.weight":                                  "/sys/fs/cgroup/system.slice/io.bfq.weight",
		"/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/io.weight":          "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/io.weight",
		"/sys/fs/cgroup/system.slice/cgroup.procs":                                   "",
		"/var/lib/io.weight": "",
	} {
		got, ok := watched(path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("watched(%q) = %q, %t, want %q", path, got, ok, want)
		}
	}
}

func TestParseEvents(t *testing.T) {
	events := func(events ...unix.FanotifyEventMetadata) []byte {
		var b bytes.Buffer
		for _, e := range events {
			if err := binary.Write(&b, binary.NativeEndian, e); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	event := func(fd int32, mask uint64) unix.FanotifyEventMetadata {
		return unix.FanotifyEventMetadata{Event_len: 24, Vers: unix.FANOTIFY_METADATA_VERSION, Metadata_len: 24, Fd: fd, Mask: mask}
	}
	good := events(event(7, unix.FAN_MODIFY), event(unix.FAN_NOFD, unix.FAN_MODIFY), event(9, unix.FAN_CLOSE_WRITE))
	got, err := parseEvents(good)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{7, 9}, got); diff != "" {
		t.Errorf("file descriptors (-want +got):\n%s", diff)
	}
	old := event(7, unix.FAN_MODIFY)
	old.Vers--
	for name, b := range map[string][]byte{
		"cut": good[:30], "old": events(old), "overflow": events(event(unix.FAN_NOFD, unix.FAN_Q_OVERFLOW)),
	} {
		if _, err := parseEvents(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseMountPoints(t *testing.T) {
	const mountinfo = `21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 21 8:16 / /mnt/e2e.disk rw - ext4 /dev/sdb rw
31 21 8:32 / /mnt/e2e/a\040b\134c rw - ext4 /dev/sdc rw
32 21 8:48 / /mnt2 rw - ext4 /dev/sdd rw
`
	got, err := parseMountPoints(strings.NewReader(mountinfo), "/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/mnt/e2e.disk", `/mnt/e2e/a b\c`}, got); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
	if _, err := parseMountPoints(strings.NewReader("21 1\n"), "/mnt"); err == nil {
		t.Error("a short line: no error")
	}
}
