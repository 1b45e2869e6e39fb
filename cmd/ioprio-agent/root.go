package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// The exit statuses of verify and apply.
const (
	exitPass    = 0
	exitFail    = 1 // at least one control is not at its target
	exitUsage   = 2 // usage, configuration, or a path that resolves to no disk
	exitPending = 3 // nothing is wrong, but something is not there yet
)

// exitStatus ends the program without a message: the report has said it.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// connector reaches the live node. The function it returns ends that.
type connector func(context.Context) (ioprio.Host, func(), error)

// options are the flags that all verbs share.
type options struct {
	connect  connector
	out      io.Writer
	err      io.Writer
	config   string
	output   choice
	rootfs   string
	procfs   string
	sysfs    string
	logLevel choice
	logForm  choice
}

// run is the whole program: it returns the exit status.
func run(ctx context.Context, connect connector, args []string, out, err io.Writer) int {
	root := newRoot(&options{connect: connect, out: out, err: err})
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(err)
	failed := root.ExecuteContext(ctx)
	var status exitStatus
	switch {
	case failed == nil:
		return exitPass
	case errors.As(failed, &status):
		return int(status)
	}
	fmt.Fprintf(err, "ioprio-agent: %s\n", printable(failed.Error()))
	if _, changed := errors.AsType[*agent.ChangedError](failed); changed || errors.Is(failed, ioprio.ErrNoAnswer) {
		return exitFail
	}
	return exitUsage
}

func newRoot(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "ioprio-agent",
		Short: "Arbitrate the disk under k3s, and prove from the kernel that it is",
		Long: `ioprio-agent finds the disks behind the data directory of k3s, switches them to BFQ, gives k3s more weight than
its pods, and reads every value back from the kernel. What it reports is what the kernel says, never what was written.`,
		Example:       "  ioprio-agent disks\n  ioprio-agent verify\n  ioprio-agent apply",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o.output = choice{value: "text", allowed: []string{"text", "json"}}
	o.logLevel = choice{value: "info", allowed: []string{"debug", "info", "warn", "error"}}
	o.logForm = choice{value: "text", allowed: []string{"text", "json"}}
	flags := root.PersistentFlags()
	flags.StringVar(&o.config, "config", agent.DefaultConfigFile, "configuration `file`")
	flags.Var(&o.output, "output", "format of the output: text or json")
	flags.StringVar(&o.rootfs, "path.rootfs", "/", "root `directory` of a captured tree, with its proc and sys below it")
	flags.StringVar(&o.procfs, "path.procfs", "/proc", "`directory` of procfs, where it is not below the root directory")
	flags.StringVar(&o.sysfs, "path.sysfs", "/sys", "`directory` of sysfs, where it is not below the root directory")
	flags.Var(&o.logLevel, "log-level", "least level that is logged: debug, info, warn or error")
	flags.Var(&o.logForm, "log-format", "format of the log on standard error: text or json")
	for name, c := range map[string]*choice{"output": &o.output, "log-level": &o.logLevel, "log-format": &o.logForm} {
		if err := root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is defined above
		}
	}
	root.AddCommand(newDisks(o), newPlan(o), newVerify(o), newApply(o), newVersion(o))
	for _, verb := range root.Commands() {
		verb.ValidArgsFunction = cobra.NoFileCompletions
	}
	return root
}

// captured reports whether the flags name a captured tree instead of the live node.
func (o *options) captured() bool {
	return ioprio.Host{Rootfs: o.rootfs, Procfs: o.procfs, Sysfs: o.sysfs}.Captured()
}

// host is the captured tree of the flags, for which D-Bus is not used, or the live node.
func (o *options) host(ctx context.Context) (ioprio.Host, func(), error) {
	if !o.captured() {
		return o.connect(ctx)
	}
	procfs, sysfs := o.procfs, o.sysfs
	if o.rootfs != "/" { // this machine's own must not be mixed with another's files
		procfs = below(o.rootfs, procfs, "/proc")
		sysfs = below(o.rootfs, sysfs, "/sys")
	}
	for _, f := range []struct{ name, dir string }{{"path.rootfs", o.rootfs}, {"path.procfs", procfs}, {"path.sysfs", sysfs}} {
		info, err := os.Stat(f.dir)
		if err != nil {
			return ioprio.Host{}, nil, fmt.Errorf("--%s: %w", f.name, err)
		}
		if !info.IsDir() {
			return ioprio.Host{}, nil, fmt.Errorf("--%s %s: not a directory", f.name, f.dir)
		}
	}
	return ioprio.Host{Rootfs: o.rootfs, Procfs: procfs, Sysfs: sysfs}, func() {}, nil
}

// below is a directory of a captured tree where its flag was left at the live node's.
func below(rootfs, dir, live string) string {
	if dir == live {
		return filepath.Join(rootfs, live)
	}
	return dir
}

// policy is that of the configuration file.
func (o *options) policy() (ioprio.Policy, error) {
	c, err := agent.LoadConfig(o.config)
	return c.Policy, err
}

// log is where what is not the report goes.
func (o *options) log() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel.value)); err != nil {
		panic(err) // choice admits slog's names only
	}
	opts := &slog.HandlerOptions{Level: level}
	if os.Getenv("JOURNAL_STREAM") != "" { // journald has its own clock (systemd.exec(5))
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	if o.logForm.value == "json" {
		return slog.New(slog.NewJSONHandler(o.err, opts))
	}
	return slog.New(slog.NewTextHandler(o.err, opts))
}
