package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker from git.
var version = "unknown"

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version, the commit and the Go version",
		Example: "  ioprio-agent version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version   string `json:"version"`
				Revision  string `json:"revision"`
				GoVersion string `json:"goversion"`
			}{version, revision(), runtime.Version()}
			if o.output.value == "json" {
				return writeJSON(o.out, v)
			}
			_, err := fmt.Fprintf(o.out, "ioprio-agent %s (%s, %s)\n", v.Version, v.Revision, v.GoVersion)
			return err
		},
	}
}

// revision is the commit that the Go tool stamped into the binary.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}
