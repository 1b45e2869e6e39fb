package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func TestParseConfig(t *testing.T) {
	policy := func(change func(*ioprio.Policy)) ioprio.Policy {
		p := ioprio.DefaultPolicy()
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name, in string
		want     ioprio.Policy
	}{
		{"empty", "", ioprio.DefaultPolicy()},
		{"comment only", "# nothing\n", ioprio.DefaultPolicy()},
		{"auto", "k3s_data_dir: auto\nk3s_unit: auto\n", ioprio.DefaultPolicy()},
		{"one weight, the others stay", "weights:\n  kubepods: 10\n", policy(func(p *ioprio.Policy) { p.Weights.Kubepods = 10 })},
		{"all below a key commented out", "weights:\n#  kubepods: 10\nnr_requests: 64\n", policy(func(p *ioprio.Policy) { p.NrRequests = 64 })},
		{"data dir is cleaned", "k3s_data_dir: /data//k3s/\n", policy(func(p *ioprio.Policy) { p.DataDir = "/data/k3s" })},
		{"iosched", "iosched:\n  strict_guarantees: 1\n", policy(func(p *ioprio.Policy) { p.IOSched = map[string]string{"strict_guarantees": "1"} })},
		{"alias", "weights: {system: &w 500, k3s: *w}\n", policy(func(p *ioprio.Policy) { p.Weights.System, p.Weights.K3s = 500, 500 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseConfig("c.yaml", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Policy); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"unknown key", "nr_requests: 32\nnr_request: 3\n", "c.yaml:2: nr_request: unknown key"},
		{"unknown key below", "weights:\n  pods: 3\n", "c.yaml:2: weights.pods: unknown key"},
		{"twice", "nr_requests: 32\nnr_requests: 64\n", "c.yaml:2: nr_requests: the key is there twice"},
		{"wrong type", "nr_requests: many\n", `c.yaml:1: nr_requests: want a whole number from 4 to 2048, have "many"`},
		{"wrong type, float", "nr_requests: 3.5\n", `c.yaml:1: nr_requests: want a whole number from 4 to 2048, have "3.5"`},
		{"wrong type, list", "scheduler: [bfq]\n", "c.yaml:1: scheduler: want a string, have a list"},
		{"wrong type, nothing", "scheduler:\n", "c.yaml:1: scheduler: want a string, have nothing"},
		{"wrong type, mapping wanted", "weights: 3\n", "c.yaml:1: weights: want keys and values"},
		{"weight 0", "weights:\n  k3s: 0\n", "c.yaml:2: weights.k3s: 0 is not from 1 to 10000"},
		{"weight 10001", "weights:\n  system: 100\n  k3s: 10001\n", "c.yaml:3: weights.k3s: 10001 is not from 1 to 10000"},
		{"T8 nr_requests that the kernel would raise", "nr_requests: 3\n", "c.yaml:1: nr_requests: 3 is not from 4 to 2048"},
		{"number over all sizes", "nr_requests: 99999999999999999999\n", `c.yaml:1: nr_requests: want a whole number from 4 to 2048, have "99999999999999999999"`},
		{"scheduler with a slash", "scheduler: ../bfq\n", `c.yaml:1: scheduler: "../bfq" is not the name of a scheduler`},
		{"relative data dir", "k3s_data_dir: k3s\n", `c.yaml:1: k3s_data_dir: want auto or an absolute path, have "k3s"`},
		{"unit that is none", "k3s_unit: k3s\n", `c.yaml:1: k3s_unit: want auto or a name that ends in .service, have "k3s"`},
		{"unit that is a template", "k3s_unit: k3s@.service\n", `c.yaml:1: k3s_unit: want auto or a name that ends in .service, have "k3s@.service"`},
		{"attribute that is another one", "iosched: {slice_idle_us: 500}\n", "c.yaml:1: iosched.slice_idle_us: it and slice_idle are one setting: use slice_idle"},
		{"attribute with a slash", "iosched: {../nr_requests: 4}\n", "c.yaml:1: iosched.../nr_requests: not the name of an attribute"},
		{"T6 no scheduler", "scheduler: none\n", "c.yaml:1: scheduler: none is no scheduler: nr_requests would shrink the queue of the whole host adapter, for good"},
		{"T24 slice_idle 0", "iosched: {slice_idle: 0}\n", "c.yaml:1: iosched.slice_idle: 0 turns weights off"},
		{"attribute that is no number", "iosched: {slice_idle: 08}\n", `c.yaml:1: iosched.slice_idle: want a decimal number, as the kernel prints it, have "08"`},
		{"pods above k3s", "nr_requests: 32\nweights:\n  system: 100\n", "c.yaml:3: weights: kubepods (100) must be less than system (100)"},
		{"list at the top", "- a\n", "c.yaml:1: want keys and values"},
		{"two documents", "nr_requests: 32\n---\nnr_requests: 64\n", "c.yaml:2: a second document in the file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseConfig("c.yaml", []byte(tt.in))
			if _, ok := errors.AsType[*ConfigError](err); !ok {
				t.Fatalf("got %v, want a ConfigError", err)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
	if _, err := ParseConfig("c.yaml", []byte("a: [\n")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("not YAML: got %v, want one line", err)
	}
}

// The file of the package shows every key with its default, so it must parse to the defaults.
func TestPackagedConfig(t *testing.T) {
	text, err := os.ReadFile("../packaging/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig("config.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	want := ioprio.DefaultPolicy()
	want.IOSched = map[string]string{}
	if diff := cmp.Diff(want, got.Policy); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for key := range configKeys(&got.Policy) {
		if !strings.Contains(string(text), "\n"+key+":") {
			t.Errorf("%s is missing", key)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	if _, err := LoadConfig(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that was asked for and is not there was taken for the defaults")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadConfig(fifo); err == nil {
		t.Error("a fifo was read")
	}
	if _, err := LoadConfig(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("weights:\n  k3s: 5\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig("c", text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error of several lines: %v", text, err)
			}
			return
		}
		w := c.Policy.Weights
		for _, n := range []uint64{w.System, w.K3s, w.Kubepods} {
			if n < 1 || n > 10000 {
				t.Errorf("%q: weight %d", text, n)
			}
		}
	})
}
