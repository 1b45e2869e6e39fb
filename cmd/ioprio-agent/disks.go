package main

import (
	"github.com/spf13/cobra"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func newDisks(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "disks",
		Short:   "Show which disks lie behind the paths of k3s, and how",
		Long:    "disks follows every path that k3s lives by down to its disks and says what the agent does with each. It changes nothing.",
		Example: "  ioprio-agent disks\n  ioprio-agent disks --output json\n  ioprio-agent disks --path.rootfs tree --path.procfs tree/proc --path.sysfs tree/sys",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.verify(cmd)
			if err != nil {
				return err
			}
			if o.output.value == "json" {
				return writeJSON(o.out, struct {
					Schema int           `json:"schema"`
					Paths  []ioprio.Path `json:"paths"`
					Disks  []ioprio.Disk `json:"disks"`
				}{report.Schema, report.Paths, report.Disks})
			}
			return writeDisks(o.out, report)
		},
	}
}

// verify makes the read-only pass that several verbs print.
func (o *options) verify(cmd *cobra.Command) (ioprio.Report, error) {
	policy, err := o.policy()
	if err != nil {
		return ioprio.Report{}, err
	}
	host, end, err := o.host(cmd.Context())
	if err != nil {
		return ioprio.Report{}, err
	}
	defer end()
	return agent.Verify(cmd.Context(), host, policy)
}
