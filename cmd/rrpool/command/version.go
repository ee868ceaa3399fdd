package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
	"github.com/rrpool/rrpool/cmd/version"
)

// versionSchema names the form of `version -o json`.
const versionSchema = "rrpool.io/version/v1"

// build is what is known about this program.
type build struct {
	SchemaVersion string `json:"schemaVersion"`
	version.Info
}

func newVersion(s terminal.Streams) *cobra.Command {
	output := terminal.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  terminal.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			if output.Value == "json" {
				return terminal.WriteJSON(s.Out, build{SchemaVersion: versionSchema, Info: info})
			}
			_, err := fmt.Fprintln(s.Out, info.Of(terminal.Program))
			return err //nolint:wrapcheck // terminal.Run says it
		},
	}
	output.Register(cmd, "output", "o", "format: text or json")
	return cmd
}
