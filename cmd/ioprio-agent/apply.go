package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ioprio-agent/ioprio-agent/agent"
	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func newApply(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "apply",
		Short: "Bring the node to the policy once, and report what the kernel has then",
		Long: `apply writes what plan shows, reads the kernel again, and reports and exits like verify. What is right already is not
written. Schedulers and weights last until the next boot: call apply again then.

Exit status: as of verify, that is 0 pass, 1 fail, 2 usage, configuration or a path without a disk, 3 pending.`,
		Example: "  ioprio-agent apply\n  ioprio-agent apply --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.captured() {
				return errors.New("apply changes the node it runs on: it refuses --path.rootfs, --path.procfs and --path.sysfs")
			}
			policy, err := o.policy()
			if err != nil {
				return err
			}
			host, end, err := o.host(cmd.Context())
			if err != nil {
				return err
			}
			defer end()
			log := o.log()
			report, err := agent.Enforce(cmd.Context(), host, policy, func(changes []ioprio.Change) {
				for _, c := range changes {
					log.Info("changing", "subject", c.Subject, "setting", c.Setting, "from", c.From, "to", c.To, "via", c.Via)
				}
			})
			if err != nil {
				return err
			}
			return o.finish(report)
		},
	}
}
