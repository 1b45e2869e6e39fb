// Package house_test checks the rules of this repository that no compiler and no linter checks.
package house_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "github.com/ioprio-agent/ioprio-agent"

// source is one file of the repository; syntax is nil unless it is Go.
type source struct {
	name   string // from the root, with slashes
	text   []byte
	syntax *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// sources reads the repository. Fixtures and build results are not ours to judge, checksums are noise.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || path.Ext(name) == ".sum" {
			return nil
		}
		s := source{name: filepath.ToSlash(name)}
		if s.text, err = os.ReadFile(name); err != nil {
			return err
		}
		if path.Ext(name) == ".go" {
			s.syntax, err = parser.ParseFile(token.NewFileSet(), name, s.text, parser.ParseComments|parser.ImportsOnly)
		}
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	return all
}

func goSources(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(sources(t), func(s source) bool { return s.syntax == nil })
}

func noneOf(t *testing.T, rule string, broken []string) {
	t.Helper()
	if diff := cmp.Diff([]string(nil), broken); diff != "" {
		t.Errorf("%s, broken by (-want +got):\n%s", rule, diff)
	}
}

func TestOnePackageComment(t *testing.T) {
	// A folder that has only tests documents itself in one of them.
	code, tests := map[string]int{}, map[string]int{}
	for _, s := range goSources(t) {
		docs := code
		if s.isTest() {
			docs = tests
		}
		n := 0
		if s.syntax.Doc.Text() != "" {
			n = 1
		}
		docs[path.Dir(s.name)] += n
	}
	for dir, n := range tests {
		if _, ok := code[dir]; !ok {
			code[dir] = n
		}
	}
	var broken []string
	for dir, n := range code {
		if n != 1 {
			broken = append(broken, dir+": "+strconv.Itoa(n))
		}
	}
	slices.Sort(broken)
	noneOf(t, "a package has exactly one package comment", broken)
}

func TestNoReplace(t *testing.T) {
	replace := regexp.MustCompile(`(?m)^\s*replace\b`)
	var broken []string
	for _, s := range sources(t) {
		if path.Ext(s.name) == ".mod" && replace.Match(s.text) {
			broken = append(broken, s.name)
		}
	}
	noneOf(t, "no replace directives: go install must build what we test", broken)
}

func TestFileLength(t *testing.T) {
	const limit = 300 // a file holds one idea
	var broken []string
	for _, s := range goSources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > limit && !s.isTest() {
			broken = append(broken, s.name+": "+strconv.Itoa(n)+" lines")
		}
	}
	noneOf(t, "a Go file has at most "+strconv.Itoa(limit)+" lines", broken)
}

func TestNothingLeftToDo(t *testing.T) {
	mark := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	var broken []string
	for _, s := range sources(t) {
		for i, line := range strings.Split(string(s.text), "\n") {
			if mark.MatchString(line) {
				broken = append(broken, s.name+":"+strconv.Itoa(i+1))
			}
		}
	}
	noneOf(t, "no notes to self in the sources", broken)
}

func TestLayers(t *testing.T) {
	kernel := []string{"ioprio", "smart", "psi"}
	var broken []string
	for _, s := range goSources(t) {
		own, _, _ := strings.Cut(s.name, "/")
		if !slices.Contains(kernel, own) {
			continue
		}
		for _, spec := range s.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, "`\"")
			rest, ours := strings.CutPrefix(imported, modulePath+"/")
			if top, _, _ := strings.Cut(rest, "/"); ours && top != own {
				broken = append(broken, s.name+" imports "+imported)
			}
		}
	}
	noneOf(t, "ioprio, smart and psi import neither agent nor each other", broken)
}

// go test passes without a word when the test that it is asked for does not exist.
func TestVirtualMachineTestExists(t *testing.T) {
	text, err := os.ReadFile("e2e/vm_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nfunc TestVM(") {
		t.Error("make e2e runs TestVM, which is not in e2e/vm_test.go")
	}
}

func TestPackageNames(t *testing.T) {
	shapeless := []string{"util", "utils", "common", "helper", "helpers", "pkg", "internal"}
	var broken []string
	for _, s := range goSources(t) {
		names := append(strings.Split(path.Dir(s.name), "/"), strings.TrimSuffix(s.syntax.Name.Name, "_test"))
		if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(shapeless, name) }) {
			broken = append(broken, s.name)
		}
	}
	noneOf(t, "a package is named after what it provides", broken)
}

func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	quoted := makeCommands(string(readme))
	for _, target := range []string{"demo", "test"} {
		if !slices.Contains(quoted, target) {
			t.Errorf("README.md does not quote `make %s`", target)
		}
	}
	var broken []string
	for _, target := range quoted {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
			broken = append(broken, "make "+target)
		}
	}
	noneOf(t, "each make command in README.md is a target of the Makefile", broken)
}

// makeCommands finds the targets of the make commands in a Markdown text, quoted inline or in a fenced block.
func makeCommands(text string) []string {
	inline := regexp.MustCompile("`(?:sudo )?make ([a-z0-9-]+)[^`]*`")
	fenced := regexp.MustCompile(`\bmake ([a-z0-9-]+)`)
	var targets []string
	command := inline
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			if command == inline {
				command = fenced
			} else {
				command = inline
			}
			continue
		}
		for _, m := range command.FindAllStringSubmatch(line, -1) {
			targets = append(targets, m[1])
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}
