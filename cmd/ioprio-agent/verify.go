package main

import (
	"github.com/spf13/cobra"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func newVerify(o *options) *cobra.Command {
	var startup bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare what the kernel has with what it must have",
		Long: `verify reads every control from the kernel and compares it with the policy. It changes nothing and needs no daemon.

Exit status: 0 all is at its target or skipped; 1 something is not, cannot be, or could not be read;
2 usage, configuration, or a path without a disk; 3 nothing is wrong but something does not exist yet.`,
		Example: "  ioprio-agent verify\n  ioprio-agent verify --output json | jq '.findings[] | select(.status != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.verify(cmd)
			if err != nil {
				return err
			}
			if startup {
				report = report.Startup()
			}
			return o.finish(report)
		},
	}
	cmd.Flags().BoolVar(&startup, "startup", false, "let through what is pending: before k3s starts, its pods cannot have a cgroup")
	return cmd
}

// finish prints a report and turns its verdict into the exit status.
func (o *options) finish(report ioprio.Report) error {
	write := writeReport
	if o.output.value == "json" {
		write = writeJSON[ioprio.Report]
	}
	if err := write(o.out, report); err != nil {
		return err
	}
	switch report.Verdict {
	case ioprio.VerdictPass:
		return nil
	case ioprio.VerdictPending:
		return exitStatus(exitPending)
	default:
		return exitStatus(exitFail)
	}
}
