// Package version is the version of this program. A release sets it with the linker:
//
//	go build -ldflags "-X github.com/rrpool/rrpool/cmd/version.release=v1.2.3
//	    -X github.com/rrpool/rrpool/cmd/version.commit=$(git rev-parse HEAD)
//	    -X github.com/rrpool/rrpool/cmd/version.date=$(git log -1 --format=%cI)"
//
// What is not set is read from Go's own build information.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker.
var release, commit, date string

// Info is the version of this program.
type Info struct {
	// Version of the release, v1.2.3; "devel" for other builds.
	Version string
	// Revision of the source and its commit date (RFC 3339), empty when unknown. A
	// revision with uncommitted changes ends with -dirty.
	Revision, Date string
	Go, Platform   string
}

// Get is the version of this program.
func Get() Info {
	built, _ := debug.ReadBuildInfo()
	return about(built)
}

// about reads build information, which may be nil; the linker's values come first.
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

// Of is one line about a program: rrpool v1.2.3 (commit 0123456789ab of
// 2026-11-22T10:00:00Z, go1.26.8, linux/amd64).
func (i Info) Of(program string) string {
	from := ""
	if hash, changed := strings.CutSuffix(i.Revision, "-dirty"); hash != "" {
		from = fmt.Sprintf("commit %.12s", hash) // enough to tell commits apart
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

// UserAgent is a program's HTTP user agent: rrpool/v1.2.3 (linux/amd64).
func UserAgent(program string) string {
	i := Get()
	return fmt.Sprintf("%s/%s (%s)", program, i.Version, i.Platform)
}
