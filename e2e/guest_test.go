//go:build guest

package e2e

import (
	"os"
	"testing"

	"github.com/ioprio-agent/ioprio-agent/e2e/guest"
	"github.com/ioprio-agent/ioprio-agent/e2e/scenario"
)

// TestScenarios runs inside the virtual machine, as root, and changes the machine it runs on.
func TestScenarios(t *testing.T) {
	scenario.Run(t, os.Getenv("IOPRIO_SCENARIOS"), func(t *testing.T) scenario.Machine {
		m, err := guest.New(os.Getenv("IOPRIO_AGENT"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
