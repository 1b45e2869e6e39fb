package ioprio

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnescape(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"A18 four digits are an escape and a digit", `HDD\0403`, "HDD 3"},
		{"A18 space", `Laptop\040Files`, "Laptop Files"},
		{"A18 decoded once", `x\134040y`, `x\040y`},
		{"A18 pool name", `rpool\0401`, "rpool 1"},
		{"tab and newline", `a\011b\012c`, "a\tb\nc"},
		{"hash", `a\043b`, "a#b"},
		{"two digits are none", `a\04`, `a\04`},
		{"nine is no octal digit", `a\049b`, `a\049b`},
		{"over a byte", `a\777b`, `a\777b`},
		{"backslash at the end", `a\`, `a\`},
		{"sign is no digit", `a\+40b`, `a\+40b`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := unescape(tt.in); got != tt.want {
				t.Errorf("unescape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestParseMountinfo(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     mount
	}{
		{
			"A02 btrfs",
			`62 1 0:37 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,space_cache,subvolid=257,subvol=/@`,
			mount{62, 1, "0:37", "/@", "/", "btrfs", "/dev/sda2", []string{"rw", "space_cache", "subvolid=257", "subvol=/@"}},
		},
		{
			"A11 overlay",
			`29 15 0:22 / /var/lib rw,relatime shared:18 - overlay overlay rw,lowerdir=/var/lib,upperdir=/mnt/flash/var/lib,workdir=/mnt/flash/.work-var-lib`,
			mount{29, 15, "0:22", "/", "/var/lib", "overlay", "overlay", []string{"rw", "lowerdir=/var/lib", "upperdir=/mnt/flash/var/lib", "workdir=/mnt/flash/.work-var-lib"}},
		},
		{
			"A13 root field is a file",
			`1700 278 0:36 /etc/machine-id /etc/machine-id ro,relatime shared:1 - tmpfs tmpfs rw,seclabel,mode=755`,
			mount{1700, 278, "0:36", "/etc/machine-id", "/etc/machine-id", "tmpfs", "tmpfs", []string{"rw", "seclabel", "mode=755"}},
		},
		{
			"A18 escapes in mount point and source",
			`40 1 8:33 / /mnt/a\040b\134c rw - ext4 /dev/disk\040one rw`,
			mount{40, 1, "8:33", "/", `/mnt/a b\c`, "ext4", "/dev/disk one", []string{"rw"}},
		},
		{
			"A18 a mount point that looks like an escape once it is decoded",
			`40 1 8:33 / /mnt/x\134040y rw - ext4 /dev/x\134040y rw,upperdir=/x\134040y`,
			mount{40, 1, "8:33", "/", `/mnt/x\040y`, "ext4", `/dev/x\040y`, []string{"rw", `upperdir=/x\134040y`}},
		},
		{
			"no optional fields, empty source",
			`40 1 0:5 / /x rw - tmpfs  rw`,
			mount{40, 1, "0:5", "/", "/x", "tmpfs", "", []string{"rw"}},
		},
		{
			"several optional fields",
			`40 1 8:1 / /x rw shared:1 master:2 propagate_from:3 - ext4 /dev/sda1 rw`,
			mount{40, 1, "8:1", "/", "/x", "ext4", "/dev/sda1", []string{"rw"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMountinfo(strings.NewReader(tt.in + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]mount{tt.want}, got, cmp.AllowUnexported(mount{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseMountinfoRefuses(t *testing.T) {
	for _, in := range []string{"", "x", "1 2 3", "a 1 8:1 / / rw - ext4 /dev/sda rw", "1 b 8:1 / / rw - ext4 /dev/sda rw", "1 1 8 / / rw - ext4 /dev/sda rw"} {
		if _, err := parseMountinfo(strings.NewReader(in + "\n")); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestVisibleMount(t *testing.T) {
	const root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
	for _, tt := range []struct {
		name, rows, path string
		want             string // the source
	}{
		{"plain", root, "/var/lib/rancher/k3s", "/dev/sda1"},
		{"mount point itself", root + "2 1 8:2 / /var rw - ext4 /dev/sda2 rw\n", "/var", "/dev/sda2"},
		{"A02 nested subvolume is found by its path", "62 0 0:37 /@ / rw - btrfs /dev/sda2 rw\n", "/var/lib/kubelet", "/dev/sda2"},
		{
			"A16 identical rows: the last is on top of the first", root + "2 1 8:5 / /var/lib/kubelet rw - btrfs /dev/sda5 rw\n" +
				"3 2 8:6 / /var/lib/kubelet rw - btrfs /dev/sda6 rw\n", "/var/lib/kubelet/x", "/dev/sda6",
		},
		{
			"A16 same parent twice", root + "2 1 8:5 / /data rw - ext4 /dev/sda5 rw\n3 1 8:6 / /data rw - ext4 /dev/sda6 rw\n", "/data", "/dev/sda6",
		},
		{
			"parent mounted over later hides the child", root + "2 1 8:5 / /a rw - ext4 /dev/sda5 rw\n3 2 8:6 / /a/b rw - ext4 /dev/sda6 rw\n" +
				"4 2 8:7 / /a rw - ext4 /dev/sda7 rw\n", "/a/b", "/dev/sda7",
		},
		{
			"root mounted over", root + "2 1 8:9 / / rw - ext4 /dev/sda9 rw\n3 2 8:5 / /a rw - ext4 /dev/sda5 rw\n4 1 8:6 / /a rw - ext4 /dev/sda6 rw\n",
			"/a", "/dev/sda5",
		},
		{"names, not string prefixes", root + "2 1 8:2 / /var/li rw - ext4 /dev/sda2 rw\n", "/var/lib", "/dev/sda1"},
		{
			"A21 rows cut out of a table", "40 25 8:33 / /var/lib/rancher/k3s rw - xfs /dev/sdc1 rw\n41 40 8:1 / /var/lib/rancher/k3s/server/db rw - ext4 /dev/sda1 rw\n",
			"/var/lib/rancher/k3s/server/db/etcd", "/dev/sda1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := parseMountinfo(strings.NewReader(tt.rows))
			if err != nil {
				t.Fatal(err)
			}
			got, err := newMountTable(rows).visible(tt.path)
			if err != nil || got.source != tt.want {
				t.Errorf("got %q, %v, want %q", got.source, err, tt.want)
			}
		})
	}
}

// A table that mounts a row on itself must not make the walk run for ever.
func TestVisibleMountEnds(t *testing.T) {
	table := newMountTable([]mount{{id: 1, parent: 2, point: "/"}, {id: 2, parent: 1, point: "/"}, {id: 3, parent: 0, point: "/"}, {id: 4, parent: 3, point: "/"}, {id: 3, parent: 4, point: "/"}})
	if _, err := table.visible("/a"); err != nil {
		t.Log(err)
	}
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add("62 1 0:37 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw\n63 62 8:1 / /var\\040lib rw - ext4 /dev/sda1 rw\n", "/var lib")
	f.Fuzz(func(t *testing.T, text, path string) {
		rows, err := parseMountinfo(strings.NewReader(text))
		if err != nil {
			return
		}
		path = filepath.Clean("/" + path)
		m, err := newMountTable(rows).visible(path)
		if err == nil && !below(m.point, path) {
			t.Errorf("%q is not on a mount at %q", path, m.point)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	f.Add(`a\040b`)
	f.Fuzz(func(t *testing.T, s string) {
		// What the kernel escapes (" \t\n\\#") must come back whole.
		escaped := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`).Replace(s)
		if got := unescape(escaped); got != s {
			t.Errorf("unescape(%q) = %q, want %q", escaped, got, s)
		}
	})
}
