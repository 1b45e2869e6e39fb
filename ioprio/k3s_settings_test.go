package ioprio

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// capturedNode is a captured tree with files at the paths that they have on the node. A value "-> TARGET" is a symbolic link.
func capturedNode(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Host{Rootfs: root, Procfs: filepath.Join(root, "proc"), Sysfs: filepath.Join(root, "sys")}
}

const (
	k3sUnitFile = "/etc/systemd/system/k3s.service"
	k3sDropIn   = "/etc/systemd/system/k3s.service.d/50-x.conf"
	k3sExecFrom = k3sUnitFile + " ExecStart"
)

// findSettings are the settings of the units in a captured tree.
func findSettings(h Host, p Policy) (Settings, error) {
	units, err := findUnits(h, "")
	if err != nil {
		return Settings{}, err
	}
	return readSettings(h, p, units)
}

// settingsAt are settings with the etcd data directory below the data directory, and no directory for its log.
func settingsAt(dataDir, from string) Settings {
	return Settings{DataDir: dataDir, DataDirFrom: from, EtcdDir: dataDir + "/server/db/etcd", EtcdDirFrom: from}
}

func TestReadSettings(t *testing.T) {
	unit := func(lines ...string) string { return "[Service]\n" + strings.Join(lines, "\n") + "\n" }
	server := func(args string) map[string]string {
		return map[string]string{k3sUnitFile: unit("ExecStart=/usr/local/bin/k3s server " + args)}
	}
	with := func(files map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	fallback := settingsAt("/var/lib/rancher/k3s", "default")
	atX := settingsAt("/x", k3sExecFrom)
	wal := atX
	wal.WALDir, wal.WALDirFrom = "/w", k3sExecFrom
	for _, tt := range []struct {
		name   string
		files  map[string]string
		policy Policy
		want   Settings
	}{
		{name: "nothing", want: fallback},
		{name: "a bare unit", files: server(""), want: fallback},
		{
			name:  "A22 --data-dir and etcd's --data-dir", // https://github.com/k3s-io/k3s/issues/9204
			files: server("--cluster-init --data-dir /application-volume/k3s --etcd-arg=--data-dir=/var/lib/etcd --etcd-arg=--debug --disable traefik"),
			want:  Settings{DataDir: "/application-volume/k3s", DataDirFrom: k3sExecFrom, EtcdDir: "/var/lib/etcd", EtcdDirFrom: k3sExecFrom},
		},
		{
			name: "as installed", files: map[string]string{k3sUnitFile: installedUnit},
			want: Settings{
				DataDir: "/mnt/k3s data", DataDirFrom: k3sExecFrom, EtcdDir: "/mnt/k3s data/server/db/etcd", EtcdDirFrom: k3sExecFrom,
				WALDir: "/mnt/wal", WALDirFrom: k3sExecFrom,
			},
		},
		{name: "an equals sign", files: server("--data-dir=/x/"), want: atX},
		{name: "short", files: server("-d /x"), want: atX},
		{name: "a specifier", files: server("--data-dir=%E/%N"), want: settingsAt("/etc/k3s", k3sExecFrom)},
		{name: "one dash", files: server("-data-dir=/x"), want: atX},
		{name: "the last one", files: server("--data-dir=/y -d=/x"), want: atX},
		{name: "empty is the default", files: with(server("--data-dir="), "/etc/rancher/k3s/config.yaml", "data-dir: /y"), want: fallback},
		{name: "before the sub-command", files: map[string]string{k3sUnitFile: unit("ExecStart=/k3s --data-dir=/y server")}, want: fallback},
		{name: "after the flags", files: server("--data-dir /x -- --data-dir /y"), want: atX},
		{name: "another component's argument", files: server("--data-dir /x --kubelet-arg --data-dir=/y --kubelet-arg=--d=/z"), want: atX},
		{name: "etcd's wal-dir", files: server("-d /x --etcd-arg --wal-dir=/w/"), want: wal},
		{name: "etcd's wal-dir without dashes", files: server("-d /x --etcd-arg=wal-dir=/v --etcd-arg wal-dir=/w"), want: wal},
		{name: "etcd's argument without a value", files: server("-d /x --etcd-arg --wal-dir --etcd-arg=/w"), want: atX},
		{
			name: "etcd as k3s.service", want: fallback,
			files: map[string]string{k3sUnitFile: unit("ExecStart=/usr/bin/etcd --data-dir /y --wal-dir=/w --etcd-arg=wal-dir=/w --config /c.yaml")},
		},
		{
			name: "another unit", files: map[string]string{"/etc/systemd/system/k3s-two.service": unit("ExecStart=/k3s server -d /x")},
			want: settingsAt("/x", "/etc/systemd/system/k3s-two.service ExecStart"),
		},
		{
			name: "a drop-in resets ExecStart", files: with(server("-d /y"), k3sDropIn, unit("ExecStart=", "ExecStart=/k3s server -d /x")),
			want: settingsAt("/x", k3sDropIn+" ExecStart"),
		},
		{
			name: "a variable in the command line", want: atX,
			files: map[string]string{k3sUnitFile: unit("Environment='ARGS=--data-dir /x'", "ExecStart=/k3s server $ARGS")},
		},

		{name: "environment", files: with(server(""), k3sDropIn, unit("Environment=K3S_DATA_DIR=/x")), want: settingsAt("/x", "K3S_DATA_DIR in "+k3sDropIn)},
		{
			name: "environment file", want: settingsAt("/x y", "K3S_DATA_DIR in /etc/systemd/system/k3s.service.env"),
			files: map[string]string{
				k3sUnitFile:          unit("Environment=K3S_DATA_DIR=/y", "EnvironmentFile=-/etc/systemd/system/%n.env", "ExecStart=/k3s server"),
				k3sUnitFile + ".env": "K3S_DATA_DIR='/x y'\n",
			},
		},
		{
			name: "file over environment", want: settingsAt("/x", "/etc/rancher/k3s/config.yaml"),
			files: with(server(""), k3sDropIn, unit("Environment=K3S_DATA_DIR=/y"), "/etc/rancher/k3s/config.yaml", "data-dir: /x"),
		},
		{name: "command line over file", files: with(server("-d /x"), "/etc/rancher/k3s/config.yaml", "data-dir: /y"), want: atX},
		{name: "file without a unit", files: map[string]string{"/etc/rancher/k3s/config.yaml.d/1.yaml": "d: /x"}, want: settingsAt("/x", "/etc/rancher/k3s/config.yaml.d/1.yaml")},
		{name: "etcd's arguments of file and command line", want: Settings{
			DataDir: "/x", DataDirFrom: k3sExecFrom, EtcdDir: "/e", EtcdDirFrom: "/etc/rancher/k3s/config.yaml", WALDir: "/w", WALDirFrom: k3sExecFrom,
		}, files: with(server("-d /x --etcd-arg=wal-dir=/w"), "/etc/rancher/k3s/config.yaml", "etcd-arg: [data-dir=/e, wal-dir=/v]")},
		{name: "--config", files: with(server("--config /c.yaml"), "/c.yaml", "data-dir: /x", "/etc/rancher/k3s/config.yaml", "data-dir: /y"), want: settingsAt("/x", "/c.yaml")},
		{name: "-c", files: with(server("-c=/c.yaml"), "/c.yaml.d/1.yml", "data-dir: /x"), want: settingsAt("/x", "/c.yaml.d/1.yml")},
		{name: "--config of nothing", files: with(server("--config /c.yaml"), "/etc/rancher/k3s/config.yaml", "data-dir: /y"), want: fallback},
		{
			name: "K3S_CONFIG_FILE over --config", want: settingsAt("/x", "/e.yaml"),
			files: with(server("--config /c.yaml"), k3sDropIn, unit("Environment=K3S_CONFIG_FILE=/e.yaml"), "/c.yaml", "data-dir: /y", "/e.yaml", "data-dir: /x"),
		},

		{name: "the agent's own setting", files: server("--data-dir=/y --etcd-arg=wal-dir=/w"), policy: Policy{DataDir: "/x"}, want: Settings{
			DataDir: "/x", DataDirFrom: "the agent's k3s_data_dir", EtcdDir: "/x/server/db/etcd", EtcdDirFrom: "the agent's k3s_data_dir",
			WALDir: "/w", WALDirFrom: k3sExecFrom,
		}},
		{
			name: "two units that agree", files: with(server("-d /x"), "/etc/systemd/system/k3s-two.service", unit("ExecStart=/k3s agent -d /x")),
			want: settingsAt("/x", "/etc/systemd/system/k3s-two.service ExecStart"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findSettings(capturedNode(t, tt.files), tt.policy)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// systemd lists units that only look like k3s, too, and one with any name may be chosen.
func TestReadSettingsPassesOver(t *testing.T) {
	h := capturedNode(t, map[string]string{
		"/a": "[Service]\nExecStart=/k3s etcd-snapshot save -d /y",
		"/b": "[Service]\nExecStart=/k3s server -d /x",
	})
	units := []Unit{{Name: "k3s-snapshot.service", FragmentPath: "/a"}, {Name: "k3s.service", FragmentPath: "/b"}}
	got, err := readSettings(h, Policy{}, units)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settingsAt("/x", "/b ExecStart"), got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	got, err = readSettings(h, Policy{Unit: "edge.service"}, []Unit{{Name: "edge.service", FragmentPath: "/b"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settingsAt("/x", "/b ExecStart"), got); diff != "" {
		t.Errorf("settings of a chosen unit (-want +got):\n%s", diff)
	}
}

func TestReadSettingsErrors(t *testing.T) {
	const config, two = "/etc/rancher/k3s/config.yaml", "/etc/systemd/system/k3s-two.service"
	for _, tt := range []struct {
		name, args string
		files      map[string]string
		want       string
	}{
		{"a relative data dir", "--data-dir data", nil, `k3s data-dir "data" from ` + k3sExecFrom},
		{"a relative data dir in a file", "", map[string]string{config: "data-dir: ~/k3s"}, `k3s data-dir "~/k3s" from ` + config},
		{"an unknown specifier", "--data-dir=%q/k3s", nil, `"%q/k3s" from ` + k3sExecFrom},
		{"a relative etcd data dir", "--etcd-arg=data-dir=etcd", nil, `etcd data-dir "etcd" from ` + k3sExecFrom},
		{"a relative wal dir", "--etcd-arg=wal-dir=wal", nil, `etcd wal-dir "wal" from ` + k3sExecFrom},
		{"a relative configuration", "--config k3s.yaml", nil, `k3s configuration "k3s.yaml" from ` + k3sExecFrom},
		{"a remote configuration", "--config https://x/y", nil, "k3s configuration https://x/y from " + k3sExecFrom},
		{"a malformed configuration", "", map[string]string{config: "a: b\n c: d\n"}, config + ": yaml: line 2: "},
		{"two units that disagree", "-d /x", map[string]string{two: "[Service]\nExecStart=/k3s agent -d /y --etcd-arg=data-dir=/x/server/db/etcd"}, `k3s-two.service has its data in "/y", k3s.service in "/x"`},
		{"two units that disagree on etcd", "", map[string]string{two: "[Service]\nExecStart=/k3s server --etcd-arg=data-dir=/e"}, `k3s-two.service has its data in "/e", k3s.service in`},
		{"two units that disagree on etcd's log", "", map[string]string{two: "[Service]\nExecStart=/k3s server --etcd-arg=wal-dir=/w"}, `k3s-two.service has its data in "/w", k3s.service in ""`},
		{"a link to itself", "", map[string]string{config: "-> config.yaml"}, "config.yaml: too many levels of symbolic links"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{k3sUnitFile: "[Service]\nExecStart=/usr/local/bin/k3s server " + tt.args}
			maps.Copy(files, tt.files)
			got, err := findSettings(capturedNode(t, files), Policy{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

// An absolute link in a captured tree leads to the tree's own files. The same paths exist outside of it.
func TestReadSettingsStaysInCapturedTree(t *testing.T) {
	outside := capturedNode(t, map[string]string{
		"/k3s.service": "[Service]\nExecStart=/k3s server -d /outside",
		"/k3s.yaml":    "data-dir: /outside",
		"/conf/1.yaml": "data-dir: /outside",
	}).Rootfs
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  Settings
	}{
		{"inside", map[string]string{
			k3sUnitFile:                      "-> /opt/current/k3s.service",
			"/opt/current":                   "-> ../opt/v2/../v1",
			"/opt/v2/x":                      "",
			"/opt/v1/k3s.service":            "[Service]\nExecStart=/k3s server",
			"/etc/rancher":                   "-> /srv/rancher",
			"/srv/rancher/k3s/config.yaml.d": "-> ../../../../../../conf",
			"/conf/1.yaml":                   "data-dir: /inside",
		}, settingsAt("/inside", "/etc/rancher/k3s/config.yaml.d/1.yaml")},
		{"outside", map[string]string{
			k3sUnitFile:                      "-> " + outside + "/k3s.service",
			"/etc/rancher/k3s/config.yaml":   "-> " + outside + "/k3s.yaml",
			"/etc/rancher/k3s/config.yaml.d": "-> " + outside + "/conf",
		}, settingsAt("/var/lib/rancher/k3s", "default")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findSettings(capturedNode(t, tt.files), Policy{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// On a live node paths are plain paths.
func TestReadSettingsLive(t *testing.T) {
	dir := capturedNode(t, map[string]string{"/real.service": "[Service]\nExecStart=/k3s server -d /x --config " + t.TempDir() + "/none.yaml", "/k3s.service": "-> real.service"}).Rootfs
	file := filepath.Join(dir, "k3s.service")
	got, err := readSettings(NewHost(), Policy{}, []Unit{{Name: "k3s.service", FragmentPath: file}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settingsAt("/x", file+" ExecStart"), got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
