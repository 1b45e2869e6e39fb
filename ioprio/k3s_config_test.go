package ioprio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestReadConfig(t *testing.T) {
	const file = "/etc/rancher/k3s/config.yaml"
	from := func(name, value, file string) k3sFlag { return k3sFlag{name, setting{value, file}} }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []k3sFlag
	}{
		{"no file", nil, nil},
		{"an empty file", map[string]string{file: "# nothing\n"}, nil},
		{"an empty document", map[string]string{file: "---\n"}, nil},
		{"values", map[string]string{file: "data-dir: /x\nwrite-kubeconfig-mode: 0644\ncluster-init: true\nempty:\nmap: {a: b}\netcd-arg:\n- a=1\n- b=2\n"}, []k3sFlag{
			from("data-dir", "/x", file), from("write-kubeconfig-mode", "0644", file), from("cluster-init", "true", file),
			from("empty", "", file), from("etcd-arg", "a=1", file), from("etcd-arg", "b=2", file),
		}},
		{"an anchor", map[string]string{file: "a: &dir /x\ndata-dir: *dir\n"}, []k3sFlag{from("a", "/x", file), from("data-dir", "/x", file)}},
		{"a key twice", map[string]string{file: "data-dir: /x\ndata-dir: /y\n"}, []k3sFlag{from("data-dir", "/y", file)}},
		{"later files win", map[string]string{
			file:                   "data-dir: /x\netcd-arg: [a=1]\n",
			file + ".d/10-b.yaml":  "data-dir: /y\n",
			file + ".d/20-a.YML":   "data-dir: /z\netcd-arg+: b=2\n",
			file + ".d/30-c.json":  "data-dir: /no\n",
			file + ".d/40.yaml/no": "",
		}, []k3sFlag{from("data-dir", "/z", file+".d/20-a.YML"), from("etcd-arg", "a=1", file), from("etcd-arg", "b=2", file+".d/20-a.YML")}},
		{"a list replaced", map[string]string{file: "etcd-arg: [a=1]\n", file + ".d/1.yaml": "etcd-arg: [b=2]\n"}, []k3sFlag{from("etcd-arg", "b=2", file+".d/1.yaml")}},
		{"nothing to append to", map[string]string{file + ".d/1.yaml": "etcd-arg+: [b=2]\n"}, []k3sFlag{from("etcd-arg", "b=2", file+".d/1.yaml")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readConfig(tree{capturedNode(t, tt.files).Rootfs}, file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(k3sFlag{}, setting{})); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadConfigErrors(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"malformed", "a: b\nc: [\nd: e\n", "/etc/k3s.yaml: yaml: line "},
		{"a list", "\n- a\n", "/etc/k3s.yaml: yaml: line 2: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readConfig(tree{capturedNode(t, map[string]string{"/etc/k3s.yaml": tt.file}).Rootfs}, "/etc/k3s.yaml")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	t.Run("permission denied", func(t *testing.T) {
		root := capturedNode(t, map[string]string{"/etc/k3s.yaml": ""}).Rootfs
		name := filepath.Join(root, "etc/k3s.yaml")
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
		if f, err := os.Open(name); err == nil {
			f.Close()
			t.Skip("this user may read a file of mode 0")
		}
		if _, err := readConfig(tree{root}, "/etc/k3s.yaml"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want permission denied for %s", err, name)
		}
	})
}

// What YAML writes is read back, as a scalar and in a list, and whatever else is in a file is an error at most.
func FuzzParseConfig(f *testing.F) {
	f.Add("data-dir", "/var/lib/k3s", "a: &a [*a]\n? [x]\n: y\n")
	f.Add("etcd-arg+", "0700", "--- !!null\n")
	f.Fuzz(func(t *testing.T, key, value, file string) {
		keys, err := parseConfig([]byte(file))
		if err != nil && keys != nil {
			t.Errorf("keys with an error: %v, %v", keys, err)
		}

		node := func(s string) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
		}
		if text := key + "\n" + value; !utf8.ValidString(text) || strings.ContainsRune(text, '\ufeff') {
			return // not text, or a byte order mark
		}
		data, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			node(key), node(value), node("list"), {Kind: yaml.SequenceNode, Content: []*yaml.Node{node(value), node("x")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseConfig(data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		name, add := strings.CutSuffix(key, "+")
		want := []configKey{{name, []string{value}, add}, {"list", []string{value, "x"}, false}}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(configKey{})); diff != "" {
			t.Errorf("keys of\n%s(-want +got):\n%s", data, diff)
		}
	})
}
