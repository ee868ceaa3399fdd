// Package version knows the version of this program. A release sets it with the linker:
//
//	go build -ldflags "-X github.com/rrpool/rrpool/cmd/version.release=v1.2.3
//	    -X github.com/rrpool/rrpool/cmd/version.commit=$(git rev-parse HEAD)
//	    -X github.com/rrpool/rrpool/cmd/version.date=$(git log -1 --format=%cI)"
//
// What the linker does not set is read from Go's build information.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// release, commit and date are set by the linker.
var release, commit, date string

// Info is the version of this program.
type Info struct {
	// Version is the version of the release, such as v1.2.3, or "devel" for other builds.
	Version string
	// Revision is the commit of the source, with -dirty if the source had uncommitted
	// changes. Date is the time of the commit (RFC 3339). Both are empty if unknown.
	Revision, Date string
	Go, Platform   string
}

// Get returns the version of this program.
func Get() Info {
	built, _ := debug.ReadBuildInfo()
	return about(built)
}

// about returns the version from the build information, which may be nil. Values that the linker has set take precedence.
func about(built *debug.BuildInfo) Info {
	i := Info{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if built != nil {
		if v := built.Main.Version; v != "" && v != "(devel)" {
			i.Version = v
		}
		settings := map[string]string{}
		for _, s := range built.Settings {
			settings[s.Key] = s.Value
		}
		i.Revision, i.Date = settings["vcs.revision"], settings["vcs.time"]
		if i.Revision != "" && settings["vcs.modified"] == "true" {
			i.Revision += "-dirty"
		}
	}
	i.Version = cmp.Or(release, i.Version)
	if commit != "" {
		i.Revision, i.Date = commit, date
	}
	return i
}

// Of returns a line about a program: rrpool v1.2.3 (commit 0123456789ab of 2026-11-22T10:00:00Z, go1.26.8, linux/amd64).
func (i Info) Of(program string) string {
	from := ""
	if hash, changed := strings.CutSuffix(i.Revision, "-dirty"); hash != "" {
		from = fmt.Sprintf("commit %.12s", hash)
		if changed {
			from += "-dirty"
		}
		if i.Date != "" {
			from += " of " + i.Date
		}
		from += ", "
	}
	return fmt.Sprintf("%s %s (%s%s, %s)", program, i.Version, from, i.Go, i.Platform)
}

// UserAgent returns a program's HTTP user agent: rrpool/v1.2.3 (linux/amd64).
func UserAgent(program string) string {
	i := Get()
	return fmt.Sprintf("%s/%s (%s)", program, i.Version, i.Platform)
}
