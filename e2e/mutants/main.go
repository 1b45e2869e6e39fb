// Command mutants breaks one rule of the agent at a time and expects the quick tests to turn red. A rule that can be broken
// unseen has no test. An argument chooses the rules that contain it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mutant is one way to break the agent: a text of a file, and what stands there instead.
type mutant struct{ rule, file, from, to string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	only := strings.Join(os.Args[1:], " ")
	if err := run(ctx, only, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "ioprio-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var alive []string
	for _, m := range mutants() {
		if !strings.Contains(m.rule, only) {
			continue
		}
		killed, err := kills(ctx, dir, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.rule, err)
		}
		word := "red  "
		if !killed {
			word = "GREEN"
			alive = append(alive, m.rule)
		}
		fmt.Fprintf(out, "%s %s: %s\n", word, m.file, m.rule)
	}
	if len(alive) > 0 {
		return fmt.Errorf("%d rules can be broken unseen: %s", len(alive), strings.Join(alive, "; "))
	}
	return nil
}

// kills reports whether the tests see the mutant. It is laid over the tree for the compiler alone (go help build, -overlay).
func kills(ctx context.Context, dir string, m mutant) (bool, error) {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if n := strings.Count(string(text), m.from); n != 1 {
		return false, fmt.Errorf("its text stands %d times in %s, want once: %s", n, m.file, m.from)
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600); err != nil {
		return false, err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return false, err
	}
	if out, err := goCommand(ctx, "build", "-overlay", overlay, "./ioprio", "./agent", "./cmd/..."); err != nil {
		return false, fmt.Errorf("the mutant does not compile: %s", out)
	}
	for _, pkg := range []string{"./ioprio", "./agent", "./cmd/ioprio-agent"} { // the quickest first
		out, err := goCommand(ctx, "test", "-failfast", "-overlay", overlay, pkg)
		if err != nil && strings.Contains(out, "FAIL") {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, out)
		}
	}
	return false, nil
}

func goCommand(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(out), err
}
