package ioprio

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnvFile(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       map[string]string
	}{
		{"empty", "", map[string]string{}},
		{"plain", "A=1\n\n  B = 2 3 \t\nC=\n", map[string]string{"A": "1", "B": "2 3", "C": ""}},
		{"comments", "# A=1\n ; B=2\nC=3 # no comment\n", map[string]string{"C": "3 # no comment"}},
		{"a comment ends with its line", "# A=1 \\\nB=2\n", map[string]string{"B": "2"}},
		{"no equals sign", "A\nB=2\nC", map[string]string{"B": "2"}},
		{"quotes", "A='1 2 \\'\nB=\"3 \\\" \\$ \\q\"\nC='a' \"b\" c'd'\n", map[string]string{"A": `1 2 \`, "B": `3 " $ \q`, "C": "abc'd'"}},
		{"quoted whitespace stays", "A=' 1 ' \nB=2\\ \n", map[string]string{"A": " 1 ", "B": "2 "}},
		{"continued lines", "A=1\\\n2\nB=\"3\\\n4\n5\"\n", map[string]string{"A": "12", "B": "34\n5"}},
		{"escapes", `A=\\ \'x\' "y"`, map[string]string{"A": `\ 'x' "y"`}},
		{"the last one wins", "A=1\nA=2", map[string]string{"A": "2"}},
		{"carriage returns", "A=1\r\nB=2\r\n", map[string]string{"A": "1", "B": "2"}},
		{"an open quote", "A='1\nB=2", map[string]string{"A": "1\nB=2"}},
		{"a shell's file", "export A=1\nB=2", map[string]string{"export A": "1", "B": "2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseEnvFile([]byte(tt.file))); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

// A quoted value comes back as it was, and the line after it is read.
func FuzzParseEnvFile(f *testing.F) {
	f.Add("/mnt/k3s data", "A='x\\\n\"$`")
	f.Add(" \t", "# \\\n=\r\x00")
	f.Fuzz(func(t *testing.T, value, file string) {
		parseEnvFile([]byte(file))

		value = strings.ReplaceAll(value, "\x00", "")
		double := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`).Replace(value)
		single := strings.ReplaceAll(value, "'", "")
		got := parseEnvFile([]byte("A=\"" + double + "\"\nB='" + single + "'\nC=3"))
		if diff := cmp.Diff(map[string]string{"A": value, "B": single, "C": "3"}, got); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
	})
}
