package scenario

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

type command = func(ts *testscript.TestScript, neg bool, args []string)

func commands() map[string]command {
	return map[string]command{
		"agent":   agent,
		"finding": finding,
		"disk":    disk,
		"leaves":  leaves,
		"chain":   chain,
		"attr":    attr,
		"watch":   watch,
		"writes":  writes,
		"stack": does("KIND MOUNT DISK...", 2, 99, func(m Machine, args []string) error {
			return m.Stack(args[0], args[1], args[2:]...)
		}),
		"write": does("VALUE FILE", 2, 2, func(m Machine, args []string) error { return m.WriteAttr(args[1], args[0]) }),
		"unit": does("start|stop UNIT", 2, 2, func(m Machine, args []string) error { // "stop" alone ends a script
			switch args[0] {
			case "start":
				return m.StartUnit(args[1])
			case "stop":
				return m.StopUnit(args[1])
			}
			return fmt.Errorf("unit %s: want start or stop", args[0])
		}),
		"weight": does("UNIT N", 2, 2, func(m Machine, args []string) error {
			weight, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil {
				return err
			}
			return m.SetWeight(args[0], weight)
		}),
		"module": does("VERB NAME", 2, 2, func(m Machine, args []string) error { return m.Module(args[0], args[1]) }),
	}
}

// does is a command that changes the machine; with "!" the change must fail.
func does(usage string, least, most int, change func(Machine, []string) error) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) < least || len(args) > most {
			ts.Fatalf("usage: %s", usage)
		}
		switch err := change(stateOf(ts).machine, args); {
		case err != nil && !neg:
			ts.Fatalf("%v", err)
		case err == nil && neg:
			ts.Fatalf("it succeeded")
		}
	}
}

func agent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: agent STATUS ARG...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("usage: agent STATUS ARG...: %v", err)
	}
	s := stateOf(ts)
	var out bytes.Buffer
	got := s.machine.Agent(args[1:], io.MultiWriter(&out, ts.Stdout()), ts.Stderr())
	s.output = out.Bytes()
	if got != want {
		ts.Fatalf("ioprio-agent exited with %d, want %d", got, want)
	}
}

func attr(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: attr VALUE FILE")
	}
	b, err := os.ReadFile(args[1])
	ts.Check(err)
	if got := strings.TrimSpace(string(b)); (got == args[0]) == neg {
		ts.Fatalf("%s is %q, want %s%q", args[1], got, map[bool]string{true: "not "}[neg], args[0])
	}
}

func watch(ts *testscript.TestScript, neg bool, args []string) {
	s := stateOf(ts)
	if neg || len(args) > 0 || s.watched != nil {
		ts.Fatalf("usage: watch, and writes before the next")
	}
	end, err := s.machine.Watch()
	ts.Check(err)
	s.watched = end
	ts.Defer(func() {
		if s.watched != nil { // the script ended early
			_, _ = s.watched()
		}
	})
}

func writes(ts *testscript.TestScript, neg bool, args []string) {
	s := stateOf(ts)
	if neg || len(args) != 1 || (args[0] != "none" && args[0] != "some") || s.watched == nil {
		ts.Fatalf("usage: writes none|some, after watch")
	}
	end := s.watched
	s.watched = nil
	files, err := end()
	ts.Check(err)
	for _, file := range files {
		fmt.Fprintln(ts.Stdout(), file)
	}
	if (len(files) == 0) != (args[0] == "none") {
		ts.Fatalf("%d files were written, want %s", len(files), args[0])
	}
}
