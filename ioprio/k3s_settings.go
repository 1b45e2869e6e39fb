package ioprio

import (
	"fmt"
	"path"
	"strings"
)

// k3sDataDir is the default of --data-dir for root (k3s pkg/datadir).
const k3sDataDir = "/var/lib/rancher/k3s"

// Settings are the settings of k3s that decide where its data is, and where each came from: a file, an argument or
// environment variable in a file, or "default".
type Settings struct {
	DataDir     string
	DataDirFrom string // "/etc/systemd/system/k3s.service ExecStart", "K3S_DATA_DIR in /etc/default/k3s", "default"

	// EtcdDir is the data directory of the embedded etcd. It need not exist: k3s with sqlite and an agent have none.
	EtcdDir     string
	EtcdDirFrom string

	WALDir     string // only if etcd was told a directory for its write-ahead log; else it is EtcdDir/member/wal
	WALDirFrom string
}

// readSettings works out the settings that the files on disk give k3s. The units are what systemd or findUnits say; other
// services named alike are passed over. Without a unit the configuration file and the defaults decide. A running k3s may
// have been started before its files were changed.
func readSettings(h Host, p Policy, units []Unit) (Settings, error) {
	var all Settings
	var first string
	for _, u := range units {
		svc, err := readService(h, u)
		if err != nil {
			return Settings{}, err
		}
		if u.Name != p.Unit && !isK3s(u.Name, svc.exec) {
			continue
		}
		s, err := serviceSettings(h, p, svc)
		if err != nil {
			return Settings{}, err
		}
		if first == "" {
			all, first = s, u.Name
		}
		for _, dirs := range [][2]string{{all.DataDir, s.DataDir}, {all.EtcdDir, s.EtcdDir}, {all.WALDir, s.WALDir}} {
			if dirs[0] != dirs[1] {
				return Settings{}, fmt.Errorf("reading k3s settings: %s has its data in %q, %s in %q: one unit must be chosen",
					first, dirs[0], u.Name, dirs[1])
			}
		}
	}
	if first == "" {
		return serviceSettings(h, p, service{})
	}
	return all, nil
}

// serviceSettings are the settings of one service.
//
// k3s turns its configuration file into flags before those of the command line, and takes the environment for the default
// of a flag (k3s pkg/configfilearg/parser.go, pkg/cli/cmds/server.go). So --etcd-arg of both counts, in this order.
func serviceSettings(h Host, p Policy, s service) (Settings, error) {
	// Only k3s has the flags of k3s: etcd has a --data-dir and a --wal-dir, too.
	var args []string
	if runsK3s(s.exec) {
		args = s.exec[1:]
	}
	file, err := configFile(args, s)
	if err != nil {
		return Settings{}, err
	}
	flags, err := readConfig(tree{h.Rootfs}, file)
	if err != nil {
		return Settings{}, err
	}
	if len(args) > 0 {
		flags = append(flags, parseFlags(s.exec[subcommand(s.exec)+1:], s.execFrom+" ExecStart")...)
	}

	dataDir := s.env["K3S_DATA_DIR"]
	var etcdDir, walDir setting
	for _, f := range flags {
		switch f.name {
		case "data-dir", "d":
			dataDir = f.setting
		case "etcd-arg":
			// k3s writes these into etcd's configuration file and drops those without "=" (pkg/daemons/executor, ToConfigFile).
			name, value, ok := strings.Cut(strings.TrimLeft(f.value, "-"), "=")
			switch {
			case ok && name == "data-dir":
				etcdDir = setting{value, f.from}
			case ok && name == "wal-dir":
				walDir = setting{value, f.from}
			}
		}
	}
	if p.DataDir != "" {
		dataDir = setting{p.DataDir, "the agent's k3s_data_dir"}
	}
	// An empty value is no value to k3s: the default, not the next source.
	if dataDir.value == "" {
		dataDir = setting{k3sDataDir, "default"}
	}
	if err := absolute("k3s data-dir", &dataDir); err != nil {
		return Settings{}, err
	}
	if etcdDir.value == "" {
		etcdDir = setting{path.Join(dataDir.value, "server/db/etcd"), dataDir.from}
	}
	if err := absolute("etcd data-dir", &etcdDir); err != nil {
		return Settings{}, err
	}
	if walDir.value == "" {
		walDir = setting{}
	} else if err := absolute("etcd wal-dir", &walDir); err != nil {
		return Settings{}, err
	}
	return Settings{
		DataDir: dataDir.value, DataDirFrom: dataDir.from,
		EtcdDir: etcdDir.value, EtcdDirFrom: etcdDir.from,
		WALDir: walDir.value, WALDirFrom: walDir.from,
	}, nil
}

// absolute cleans a path, and refuses a relative one: it depends on the working directory of k3s.
func absolute(what string, s *setting) error {
	if !path.IsAbs(s.value) {
		return fmt.Errorf("%s %q from %s: not an absolute path", what, s.value, s.from)
	}
	s.value = path.Clean(s.value)
	return nil
}

// configFile is the configuration file that k3s reads. The environment wins over the command line here, and the first
// argument that looks like the flag counts, wherever it stands (k3s pkg/configfilearg/parser.go, findConfigFileFlag).
func configFile(args []string, s service) (string, error) {
	file := setting{k3sConfigFile, "default"}
	if env := s.env["K3S_CONFIG_FILE"]; env.value != "" {
		file = env
	} else {
		for i, arg := range args {
			name, value, ok := strings.Cut(arg, "=")
			if name != "--config" && name != "-c" {
				continue
			}
			if !ok && i+1 < len(args) {
				value = args[i+1]
			}
			file = setting{value, s.execFrom + " ExecStart"}
			break
		}
	}
	if file.value == "" {
		return k3sConfigFile, nil
	}
	if strings.HasPrefix(file.value, "http://") || strings.HasPrefix(file.value, "https://") {
		return "", fmt.Errorf("k3s configuration %s from %s: only files are read", file.value, file.from)
	}
	err := absolute("k3s configuration", &file)
	return file.value, err
}

// parseFlags finds those arguments of k3s server and k3s agent that decide where data is. Go's flag package, which reads
// them for k3s, takes one dash for two.
func parseFlags(args []string, from string) []k3sFlag {
	var flags []k3sFlag
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		name, dashed := strings.CutPrefix(arg, "-")
		name = strings.TrimPrefix(name, "-")
		name, value, ok := strings.Cut(name, "=")
		// The value of any --COMPONENT-arg looks like a flag itself: --kubelet-arg --data-dir=/x.
		if !dashed || (name != "data-dir" && name != "d" && !strings.HasSuffix(name, "-arg")) {
			continue
		}
		if !ok && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		flags = append(flags, k3sFlag{name, setting{value, from}})
	}
	return flags
}
