package ioprio

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/google/go-cmp/cmp"
)

// installedUnit is a unit as k3s's install.sh writes it.
const installedUnit = `[Unit]
Description=Lightweight Kubernetes
Documentation=https://k3s.io
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-/etc/systemd/system/k3s.service.env
KillMode=process
Delegate=yes
User=root
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStart=/usr/local/bin/k3s \
    server \
	'--cluster-init' \
	'--data-dir' \
	'/mnt/k3s data' \
	'--etcd-arg=--wal-dir=/mnt/wal' \

`

func TestParseUnitFile(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       []assignment
	}{
		{"sections and spaces", "A=0\n[Unit]\nA = 1 \r\n\n[Service]\n\tB=2=3\n", []assignment{{"", "A", "0"}, {"Unit", "A", "1"}, {"Service", "B", "2=3"}}},
		{"a broken line", "[Service]\ngarbage\nB=2", []assignment{{"Service", "B", "2"}}},
		{"continued lines", "[S]\nA=1\\\n  2 \\\n\nB=3\\\\\nC=4\\", []assignment{{"S", "A", "1   2"}, {"S", "B", `3\\`}, {"S", "C", "4"}}},
		{"comments between continued lines", "[S]\nA=1 \\\n# x \\\n ; y\n2", []assignment{{"S", "A", "1  2"}}},
		{"a comment ends with its line", "[S]\n# x \\\nA=1", []assignment{{"S", "A", "1"}}},
		{"a long line", "[S]\nA=" + strings.Repeat("x", 5000), []assignment{{"S", "A", strings.Repeat("x", 5000)}}},
		{"a byte order mark", "\ufeff[S]\nA=1", []assignment{{"S", "A", "1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseUnitFile(tt.file), cmp.AllowUnexported(assignment{})); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
		})
	}
}

// Where go-systemd reads a unit file right, it is read the same here.
func TestParseUnitFileAgreesWithGoSystemd(t *testing.T) {
	options, err := unit.DeserializeOptions(strings.NewReader(installedUnit))
	if err != nil {
		t.Fatal(err)
	}
	var want []assignment
	for _, o := range options {
		want = append(want, assignment{o.Section, o.Name, strings.TrimSpace(strings.ReplaceAll(o.Value, "\\\n", " "))})
	}
	if diff := cmp.Diff(want, parseUnitFile(installedUnit), cmp.AllowUnexported(assignment{})); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
}

func TestReadService(t *testing.T) {
	const unitFile, dropIn = "/etc/systemd/system/k3s.service", "/etc/systemd/system/k3s.service.d/50-x.conf"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  service
	}{
		{"as installed", map[string]string{unitFile: installedUnit}, service{
			exec:     []string{"/usr/local/bin/k3s", "server", "--cluster-init", "--data-dir", "/mnt/k3s data", "--etcd-arg=--wal-dir=/mnt/wal"},
			execFrom: unitFile,
		}},
		{"a drop-in resets ExecStart", map[string]string{
			unitFile: installedUnit,
			dropIn:   "[Service]\nExecStart=\nExecStart=/opt/k3s agent\nSlice=k3s.slice",
		}, service{exec: []string{"/opt/k3s", "agent"}, execFrom: dropIn, slice: "k3s.slice"}},
		{"a drop-in that only resets", map[string]string{unitFile: installedUnit, dropIn: "[Service]\nExecStart="}, service{}},
		{"other sections do not count", map[string]string{unitFile: "[Unit]\nExecStart=/k3s server\n[Service]\nType=exec"}, service{}},
		{
			"k3s among several commands",
			map[string]string{unitFile: "[Service]\nExecStart=/bin/true\nExecStart=/k3s server\nExecStart=/bin/false"},
			service{exec: []string{"/k3s", "server"}, execFrom: unitFile},
		},
		{"environment", map[string]string{
			unitFile:            "[Service]\nEnvironment=A=1 \"B=2 3\" C=%N%%\nEnvironmentFile=-/etc/default/%N\nExecStart=/k3s server ${B} $B $A",
			dropIn:              "[Service]\nEnvironment=A=x",
			"/etc/default/k3s":  "A=file",
			"/etc/default/k3sx": "A=no",
		}, service{
			exec: []string{"/k3s", "server", "2 3", "2", "3", "file"}, execFrom: unitFile,
			env: map[string]setting{"A": {"file", "A in /etc/default/k3s"}, "B": {"2 3", "B in " + unitFile}, "C": {"k3s%", "C in " + unitFile}},
		}},
		{"environment reset", map[string]string{
			unitFile:           "[Service]\nEnvironment=A=1\nEnvironmentFile=/etc/default/k3s\nExecStart=:/k3s server $A",
			dropIn:             "[Service]\nEnvironment=\nEnvironmentFile=",
			"/etc/default/k3s": "A=file",
		}, service{exec: []string{"/k3s", "server", "$A"}, execFrom: unitFile}},
		{"environment files by wildcard", map[string]string{
			unitFile:         "[Service]\nEnvironmentFile=/etc/k3s/*.env",
			"/etc/k3s/1.env": "A=1\nB=1", "/etc/k3s/2.env": "A=2", "/etc/k3s/3.txt": "A=3",
		}, service{env: map[string]setting{"A": {"2", "A in /etc/k3s/2.env"}, "B": {"1", "B in /etc/k3s/1.env"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readService(capturedNode(t, tt.files), Unit{Name: "k3s.service", FragmentPath: unitFile, DropInPaths: []string{dropIn}})
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.env == nil {
				tt.want.env = map[string]setting{}
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(service{}, setting{})); diff != "" {
				t.Errorf("service (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadServiceErrors(t *testing.T) {
	for _, tt := range []struct {
		name, unit, want string
		cause            error
	}{
		{"no unit file", "", "/etc/systemd/system/k3s.service", fs.ErrNotExist},
		{"no environment file", "[Service]\nEnvironmentFile=/etc/k3s.env", "/etc/k3s.env", fs.ErrNotExist},
		{"an environment file that cannot be read", "[Service]\nEnvironmentFile=-/etc", "/etc", nil},
		{"an open quote in a command", "[Service]\nExecStart=k3s 'a", "ExecStart in /etc/systemd/system/k3s.service", errUnbalanced},
		{"an open quote in the environment", "[Service]\nEnvironment='a", "Environment in /etc/systemd/system/k3s.service", errUnbalanced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"/etc/other": ""}
			if tt.unit != "" {
				files["/etc/systemd/system/k3s.service"] = tt.unit
			}
			_, err := readService(capturedNode(t, files), Unit{Name: "k3s.service", FragmentPath: "/etc/systemd/system/k3s.service"})
			if err == nil || !strings.Contains(err.Error(), tt.want) || (tt.cause != nil && !errors.Is(err, tt.cause)) {
				t.Errorf("error %v, want one with %q and the cause %v", err, tt.want, tt.cause)
			}
		})
	}
}

func TestExpandSpecifiers(t *testing.T) {
	const name = "k3s-two@x.service"
	got := expandSpecifiers("%n %N %p %i %j %S %% %%n %q %", name)
	if want := name + " k3s-two@x k3s-two x two /var/lib % %n %q %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
