package ioprio

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitExec(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       []string
		literal    bool
	}{
		{name: "empty", line: " \t"},
		{name: "plain", line: "/usr/local/bin/k3s server", want: []string{"/usr/local/bin/k3s", "server"}},
		{name: "quotes", line: `k3s '--data-dir' "/a b"`, want: []string{"k3s", "--data-dir", "/a b"}},
		{name: "quote within a word", line: `k3s --data-dir="/a b"'c'`, want: []string{"k3s", "--data-dir=/a bc"}},
		{name: "empty word", line: `k3s '' x`, want: []string{"k3s", "", "x"}},
		{name: "the other quote", line: `k3s "it's" 'a"b'`, want: []string{"k3s", "it's", `a"b`}},
		{name: "escapes", line: `k3s a\x2db \101 \u00e9 \U0001F600 \s\t\\ '\''`, want: []string{"k3s", "a-b", "A", "é", "😀", " \t\\", "'"}},
		{name: "unknown escapes stay", line: `k3s \q \x0 \400 \x00 \`, want: []string{"k3s", `\q`, `\x0`, `\400`, `\x00`, `\`}},
		{name: "prefixes", line: "-+/k3s server", want: []string{"/k3s", "server"}},
		{name: "argv0", line: "@-/k3s k3s-main server", want: []string{"/k3s", "server"}},
		{name: "no expansion", line: ":!!/k3s $X", want: []string{"/k3s", "$X"}, literal: true},
		{name: "a second command", line: "/bin/true ; /k3s server", want: []string{"/bin/true"}},
		{name: "semicolons as words", line: `k3s \; ';' a;b`, want: []string{"k3s", ";", ";", "a;b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, expand, err := splitExec(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
			if expand == tt.literal {
				t.Errorf("expand = %v", expand)
			}
		})
	}
	for _, line := range []string{`k3s "a`, `k3s 'a\'`, `"`} {
		if _, _, err := splitExec(line); !errors.Is(err, errUnbalanced) {
			t.Errorf("splitExec(%q): %v, want %v", line, err, errUnbalanced)
		}
	}
}

// The example of systemd.service(5), "Command lines", with what systemd 252 makes of it: a quote within a word counts.
func TestExpandExec(t *testing.T) {
	env := map[string]setting{
		"ONE": {value: "one"}, "TWO": {value: "'two two' too"}, "THREE": {}, "OPEN": {value: `a\ b 'c d`},
	}
	for _, tt := range []struct {
		name       string
		exec, want []string
	}{
		{"values in braces are one word each", []string{"k3s", "${ONE}", "${TWO}", "${THREE}"}, []string{"k3s", "one", "'two two' too", ""}},
		{"bare values are split", []string{"k3s", "$ONE", "$TWO", "$THREE", "$NONE"}, []string{"k3s", "one", "two two", "too"}},
		{"a value's own rules", []string{"k3s", "$OPEN"}, []string{"k3s", "a b", "c d"}},
		{"within a word", []string{"k3s", "--x=${ONE}/${NONE}y", "--x=$ONE"}, []string{"k3s", "--x=one/y", "--x=$ONE"}},
		{"dollar signs", []string{"k3s", "$$ONE", "a$$b$", "${ONE", "$"}, []string{"k3s", "$ONE", "a$b$", "${ONE", "$"}},
		{"never the executable", []string{"$ONE"}, []string{"$ONE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, expandExec(tt.exec, env)); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

// A word in quotes, with quotes and backslashes escaped, comes back as it was, and so do the words around it.
func FuzzSplitExec(f *testing.F) {
	f.Add("/var/lib/k3s", "a b\n", `-@k3s \x2d '"`)
	f.Add("", ";", "\x00\xff")
	f.Fuzz(func(t *testing.T, a, b, line string) {
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`)
		got, _, err := splitExec(`k3s "` + quote.Replace(a) + `" '` + quote.Replace(b) + "' end")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"k3s", a, b, "end"}, got); diff != "" {
			t.Errorf("words (-want +got):\n%s", diff)
		}

		words, _, err := splitExec(line)
		if err != nil && words != nil {
			t.Errorf("words with an error: %q, %v", words, err)
		}
		expanded := expandExec(words, map[string]setting{"A": {value: a}})
		if len(words) > 0 && (len(expanded) == 0 || expanded[0] != words[0]) {
			t.Errorf("the executable of %q changed: %q", words, expanded)
		}
	})
}
