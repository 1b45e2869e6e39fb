package main

import (
	"github.com/spf13/cobra"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func newPlan(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "plan",
		Short:   "Show what apply would change, value by value",
		Long:    "plan prints the changes that apply would make, in their order. It changes nothing, and its exit status is 0 whether there are any or not. Weights are shown as IOWeight, of which verify shows what the kernel makes.",
		Example: "  ioprio-agent plan\n  ioprio-agent plan --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.verify(cmd)
			if err != nil {
				return err
			}
			changes := report.Changes()
			if o.output.value == "json" {
				if changes == nil {
					changes = []ioprio.Change{} // a list that is empty, not absent
				}
				return writeJSON(o.out, struct {
					Schema  int             `json:"schema"`
					Changes []ioprio.Change `json:"changes"`
				}{report.Schema, changes})
			}
			return writePlan(o.out, changes)
		},
	}
}
