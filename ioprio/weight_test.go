package ioprio

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBFQWeights(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     BFQWeights
	}{
		{"C05 a device with a weight of its own", "default 151\n8:0 500\n", BFQWeights{151, map[string]uint64{"8:0": 500}}},
		{"C08 default", "default 100", BFQWeights{Default: 100}},
		{"C04 bare number", "181\n", BFQWeights{Default: 181}},
		{"limits", "default 1000\n8:16 1\n259:0 1000", BFQWeights{1000, map[string]uint64{"8:16": 1, "259:0": 1000}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseBFQWeights(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for _, in := range []string{"", "\n", "default", "default x", "default 0", "default 1001", "8:0 100", "default 100\nsda 5", "default 100 5", "100\n200"} {
		if w, err := parseBFQWeights(in); err == nil {
			t.Errorf("%q was taken as %v", in, w)
		}
	}
}

func TestGenerationWeight(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Generation
		want map[uint64]uint64 // IOWeight to io.bfq.weight
	}{
		{"C02 piecewise", Piecewise, map[uint64]uint64{1: 1, 50: 50, 100: 100, 200: 109, 300: 118, 500: 136, 666: 151, 1000: 181, 2000: 272, 5000: 545, 10000: 1000}},
		{"T2 tenth", Tenth, map[uint64]uint64{1: 1, 10: 1, 50: 5, 100: 10, 666: 67, 1000: 100, 10000: 1000}},
		{"T1 raw, over 1000 refused", Raw, map[uint64]uint64{1: 1, 100: 100, 1000: 1000, 1001: 0, 10000: 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for in, want := range tt.want {
				if got := tt.g.Weight(in); got != want {
					t.Errorf("IOWeight %d: got %d, want %d", in, got, want)
				}
			}
		})
	}
}

func TestProbe(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []evidence
		want Generation
	}{
		{"nothing known", nil, Piecewise},
		{"debian 12", []evidence{{10000, 1000}, {10000, 1000}, {100, 100}}, Piecewise},
		{"debian 12, IOWeight=1000", []evidence{{1000, 181}}, Piecewise},
		{"ubuntu 21.10", []evidence{{10000, 1000}, {10000, 1000}, {100, 10}}, Tenth},
		{"debian 11 after the second send", []evidence{{1000, 1000}, {1000, 1000}, {100, 100}}, Raw},
		{"all stale: set before bfq was loaded", []evidence{{10000, 100}, {10000, 100}, {100, 100}}, Piecewise},
		{"one stale", []evidence{{10000, 100}, {10000, 1000}, {100, 10}}, Tenth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := probe(tt.in); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAllowsDropIns(t *testing.T) {
	for version, want := range map[string]bool{
		"252.39-1~deb12u1": true, "257.8-1": true, "252~rc1": true, "v255": true, "251.8": true, "250.9": true, "250 (250.9-1.fc36)": false,
		"251.7": false, "250.8-1": false, "249.11-0ubuntu3.12": false, "247.3-7+deb11u6": false, "245.4-4ubuntu3": false, "": false, "?": false,
	} {
		if got := allowsDropIns(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}

func FuzzParseBFQWeights(f *testing.F) {
	f.Add("default 151\n8:0 500\n")
	f.Fuzz(func(t *testing.T, s string) {
		w, err := parseBFQWeights(s)
		if err != nil {
			return
		}
		for dev, n := range w.Devices {
			if n < 1 || n > 1000 || w.On(dev) != n {
				t.Errorf("%q: %s has %d", s, dev, n)
			}
		}
		if w.Default < 1 || w.Default > 1000 || w.On("no:device") != w.Default {
			t.Errorf("%q: default %d", s, w.Default)
		}
	})
}
