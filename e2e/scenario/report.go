package scenario

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
)

// report is the agent's JSON as a user's program would declare it: by its documented names, not by the agent's types.
type report struct {
	Schema int `json:"schema"`
	Paths  []struct {
		Path  string   `json:"path"`
		Chain []string `json:"chain"`
		Disks []string `json:"disks"`
	} `json:"paths"`
	Disks []struct {
		Name   string `json:"name"`
		Class  string `json:"class"`
		Reason string `json:"reason"`
	} `json:"disks"`
	Findings []struct {
		Subject string `json:"subject"`
		Setting string `json:"setting"`
		Status  string `json:"status"`
		Want    string `json:"want"`
		Got     string `json:"got"`
	} `json:"findings"`
}

func reportOf(ts *testscript.TestScript) report {
	var r report
	if err := json.Unmarshal(stateOf(ts).output, &r); err != nil {
		ts.Fatalf("the last agent printed no JSON report: %v", err)
	}
	if r.Schema != 1 {
		ts.Fatalf("schema is %d, want 1", r.Schema)
	}
	return r
}

func finding(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 || len(args) > 5 {
		ts.Fatalf("usage: finding SUBJECT SETTING STATUS [WANT [GOT]]")
	}
	r := reportOf(ts)
	for _, f := range r.Findings {
		have := []string{f.Subject, f.Setting, f.Status, f.Want, f.Got}
		if !slices.Equal(have[:2], args[:2]) {
			continue
		}
		if same := slices.Equal(have[:len(args)], args); same == neg {
			ts.Fatalf("the finding is %q", have)
		}
		return
	}
	if !neg {
		ts.Fatalf("no finding on %s of %s", args[1], args[0])
	}
}

func disk(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 3 || neg != (len(args) == 1) {
		ts.Fatalf("usage: disk NAME CLASS [REASON], or ! disk NAME")
	}
	for _, d := range reportOf(ts).Disks {
		if d.Name != args[0] {
			continue
		}
		switch {
		case neg:
			ts.Fatalf("%s is %s", d.Name, d.Class)
		case d.Class != args[1]:
			ts.Fatalf("%s is %s (%s), want %s", d.Name, d.Class, d.Reason, args[1])
		case len(args) == 3:
			if ok, err := regexp.MatchString(args[2], d.Reason); err != nil || !ok {
				ts.Fatalf("the reason of %s is %q, want %q (%v)", d.Name, d.Reason, args[2], err)
			}
		}
		return
	}
	if !neg {
		ts.Fatalf("no disk %s", args[0])
	}
}

func leaves(ts *testscript.TestScript, neg bool, args []string) { onPath(ts, neg, args, false) }

func chain(ts *testscript.TestScript, neg bool, args []string) { onPath(ts, neg, args, true) }

func onPath(ts *testscript.TestScript, neg bool, args []string, whole bool) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: PATH NAME...")
	}
	want := slices.Sorted(slices.Values(args[1:]))
	for _, p := range reportOf(ts).Paths {
		if p.Path != args[0] {
			continue
		}
		got := p.Disks
		if whole {
			got = p.Chain
		}
		if got := slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
			ts.Fatalf("%s lies on %q, want %q", p.Path, got, want)
		}
		return
	}
	ts.Fatalf("no path %s", args[0])
}
