package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
)

// release is set when a release is built: -ldflags "-X github.com/rrpool/rrpool/cmd/rrpool/command.release=v1.2.3".
var release string

// versionSchema names the form of `version -o json`.
const versionSchema = "rrpool.io/version/v1"

// build is what is known about this program.
type build struct {
	SchemaVersion string `json:"schemaVersion"`
	Version       string `json:"version"`
	// Revision of the source, empty when the build does not know it.
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{SchemaVersion: versionSchema, Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				b.Revision = setting.Value
			}
		}
	}
	if release != "" {
		b.Version = release
	}
	return b
}

func newVersion(s terminal.Streams) *cobra.Command {
	output := terminal.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  terminal.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output.Value == "json" {
				return terminal.WriteJSON(s.Out, b)
			}
			_, err := fmt.Fprintf(s.Out, "rrpool %s (%s, %s)\n", b.Version, b.Go, b.Platform)
			return err //nolint:wrapcheck // terminal.Run says it
		},
	}
	output.Register(cmd, "output", "o", "format: text or json")
	return cmd
}
