package ioprio

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsK3s(t *testing.T) {
	for _, tt := range []struct {
		name, exec string
		want       bool
	}{
		{"k3s.service", "/usr/bin/etcd --data-dir /var/lib/etcd", true},
		{"k3s-agent.service", "", true},
		{"k3s-two.service", "/usr/local/bin/k3s server", true},
		{"k3s-two.service", "/opt/bin/k3s-arm64 --debug agent --server https://x", true},
		{"k3s-two.service", "/usr/local/bin/k3s", false},
		{"k3s-two.service", "/usr/local/bin/k3s etcd-snapshot save --name server", false},
		{"k3s-two.service", "/opt/k3s/upgrade.sh server", false},
		{"k3s-two.service", "", false},
		{"k3s-two.timer", "/usr/local/bin/k3s server", false},
		{"k3sup.service", "/usr/local/bin/k3s server", false},
		{"rke2-server.service", "/usr/local/bin/k3s server", false},
		{"etcd.service", "/usr/local/bin/k3s server", false},
	} {
		if got := isK3s(tt.name, strings.Fields(tt.exec)); got != tt.want {
			t.Errorf("isK3s(%q, %q) = %v", tt.name, tt.exec, got)
		}
	}
}

func TestFindUnits(t *testing.T) {
	const server = "[Service]\nExecStart=/usr/local/bin/k3s server\n"
	loaded := func(file, cgroup string, dropIns ...string) Unit {
		name := file[strings.LastIndexByte(file, '/')+1:]
		return Unit{Name: name, LoadState: "loaded", FragmentPath: file, DropInPaths: dropIns, ControlGroup: cgroup, IOWeight: WeightUnset}
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []Unit
	}{
		{"none", map[string]string{"/etc/hostname": "x"}, nil},
		{"by name", map[string]string{
			"/etc/systemd/system/k3s.service":                         server,
			"/etc/systemd/system/k3s-agent.service":                   "[Service]\nExecStart=/bin/true\n",
			"/etc/systemd/system/k3s-two.service":                     server + "Slice=k3s-big.slice\n",
			"/etc/systemd/system/k3s-snapshot.service":                "[Service]\nExecStart=/usr/local/bin/k3s etcd-snapshot save\n",
			"/etc/systemd/system/k3s-any@.service":                    server,
			"/usr/local/lib/systemd/system/rke2-server.service":       "[Service]\nExecStart=/usr/local/bin/rke2 server\n",
			"/etc/systemd/system/k3s.service.env":                     "",
			"/etc/systemd/system/multi-user.target.wants/k3s.service": "-> /etc/systemd/system/k3s.service",
		}, []Unit{
			loaded("/etc/systemd/system/k3s-agent.service", "/system.slice/k3s-agent.service"),
			loaded("/etc/systemd/system/k3s-two.service", "/k3s.slice/k3s-big.slice/k3s-two.service"),
			loaded("/etc/systemd/system/k3s.service", "/system.slice/k3s.service"),
			loaded("/usr/local/lib/systemd/system/rke2-server.service", "/system.slice/rke2-server.service"),
		}},
		{"the first directory wins", map[string]string{
			"/run/systemd/system/k3s.service":     server + "Slice=-.slice\n",
			"/usr/lib/systemd/system/k3s.service": server,
		}, []Unit{loaded("/run/systemd/system/k3s.service", "/k3s.service")}},
		{"masked and dangling", map[string]string{
			"/etc/systemd/system/k3s.service":           "-> /dev/null",
			"/usr/lib/systemd/system/k3s.service":       server,
			"/etc/systemd/system/k3s-agent.service":     "",
			"/etc/systemd/system/k3s-two.service":       "-> /opt/gone.service",
			"/usr/lib/systemd/system/k3s-two.service":   server,
			"/usr/lib/systemd/system/k3s-agent.service": server,
		}, nil},
		{"linked and aliased", map[string]string{
			"/opt/k3s/server.service":               server,
			"/etc/systemd/system/k3s.service":       "-> /opt/k3s/server.service",
			"/usr/lib/systemd/system/k3s-b.service": server,
			"/lib":                                  "-> usr/lib",
			"/etc/systemd/system/k3s-a.service":     "-> /lib/systemd/system/k3s-b.service",
		}, []Unit{
			loaded("/usr/lib/systemd/system/k3s-b.service", "/system.slice/k3s-b.service"),
			loaded("/etc/systemd/system/k3s.service", "/system.slice/k3s.service"),
		}},
		{"drop-ins", map[string]string{
			"/etc/systemd/system/k3s-two.service":                            server,
			"/usr/lib/systemd/system/k3s-two.service.d/10-a.conf":            "",
			"/etc/systemd/system/k3s-two.service.d/20-b.conf":                "",
			"/run/systemd/system/k3s-two.service.d/20-b.conf":                "",
			"/etc/systemd/system/k3s-two.service.d/30-c.conf":                "-> /dev/null",
			"/usr/lib/systemd/system/k3s-two.service.d/30-c.conf":            "[Service]\nExecStart=\n",
			"/etc/systemd/system.control/k3s-two.service.d/50-IOWeight.conf": "",
			"/run/systemd/system.control/k3s-two.service.d/50-IOWeight.conf": "",
			"/run/systemd/system.control/k3s-two.service.d/50-Slice.conf":    "[Service]\nSlice=big.slice\n",
			"/etc/systemd/system/k3s-.service.d/05-x.conf":                   "",
			"/run/systemd/system/service.d/00-y.conf":                        "",
			"/etc/systemd/system/service.d/10-a.conf":                        "",
			"/etc/systemd/system/k3s-two.service.d/README":                   "",
		}, []Unit{loaded("/etc/systemd/system/k3s-two.service", "/big.slice/k3s-two.service",
			"/run/systemd/system/service.d/00-y.conf",
			"/etc/systemd/system/k3s-.service.d/05-x.conf",
			"/usr/lib/systemd/system/k3s-two.service.d/10-a.conf",
			"/etc/systemd/system/k3s-two.service.d/20-b.conf",
			"/etc/systemd/system/k3s-two.service.d/30-c.conf",
			"/etc/systemd/system.control/k3s-two.service.d/50-IOWeight.conf",
			"/run/systemd/system.control/k3s-two.service.d/50-Slice.conf",
		)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findUnits(capturedNode(t, tt.files), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
		})
	}
}
