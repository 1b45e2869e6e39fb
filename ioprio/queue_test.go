package ioprio

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseScheduler(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     Scheduler
	}{
		{"B02 before", "[mq-deadline] none\n", Scheduler{"mq-deadline", []string{"mq-deadline", "none"}, true}},
		{"B02 after", "[mq-deadline] bfq none", Scheduler{"mq-deadline", []string{"mq-deadline", "bfq", "none"}, true}},
		{"B03 one entry, trailing blank", "[none] ", Scheduler{"none", []string{"none"}, true}},
		{"B03 single queue", "noop [deadline] cfq ", Scheduler{"deadline", []string{"noop", "deadline", "cfq"}, true}},
		{"B03 bfq last", "noop deadline cfq [bfq] ", Scheduler{"bfq", []string{"noop", "deadline", "cfq", "bfq"}, true}},
		{"B03 6.1", "mq-deadline kyber [bfq] none", Scheduler{"bfq", []string{"mq-deadline", "kyber", "bfq", "none"}, true}},
		{"B03 6.12", "none mq-deadline kyber [bfq] ", Scheduler{"bfq", []string{"none", "mq-deadline", "kyber", "bfq"}, true}},
		{"B03 none is active", "[none] bfq ", Scheduler{"none", []string{"none", "bfq"}, true}},
		{"B03 bare none of a stacked device", "none", Scheduler{"none", []string{"none"}, false}},
		{"empty", "", Scheduler{}},
		{"words without brackets", "mq-deadline bfq", Scheduler{"", []string{"mq-deadline", "bfq"}, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseScheduler(tt.in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func FuzzParseScheduler(f *testing.F) {
	f.Add("mq-deadline kyber [bfq] none\n")
	f.Add("[] x")
	f.Fuzz(func(t *testing.T, s string) {
		got := parseScheduler(s)
		if got.Active != "" && !slices.Contains(got.Available, got.Active) {
			t.Errorf("%q: active %q is not available", s, got.Active)
		}
	})
}
