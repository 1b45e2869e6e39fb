package ioprio

import (
	"strings"
	"testing"
)

func TestDMKind(t *testing.T) {
	for uuid, want := range map[string]string{
		"LVM-0TVT1wEb6hPvMhDnTg3mFqDnQ9FkK2vQ": "LVM",
		"CRYPT-LUKS2-5f9c1e-luks":              "CRYPT",
		"mpath-360a98000486e53434a346735656b":  "mpath",
		"part1-mpath-360a98000486e53434a34":    "part1",
		"":                                     "", "mpath": "", "-x": "",
	} {
		if got := dmKind(uuid); got != want {
			t.Errorf("%q: got %q, want %q", uuid, got, want)
		}
	}
}

func FuzzDMKind(f *testing.F) {
	f.Add("mpath-360a98")
	f.Fuzz(func(t *testing.T, uuid string) {
		if kind := dmKind(uuid); !strings.HasPrefix(uuid, kind) || strings.Contains(kind, "-") {
			t.Errorf("%q: kind %q", uuid, kind)
		}
	})
}
