package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant whose text is gone from the tree breaks nothing.
func TestMutantsFitTheTree(t *testing.T) {
	for _, m := range mutants() {
		text, err := os.ReadFile(filepath.Join("../..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.from); n != 1 {
			t.Errorf("%s: its text stands %d times in %s, want once", m.rule, n, m.file)
		}
	}
}
