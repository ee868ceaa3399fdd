// Package version is what the programs know of themselves. A release is stamped when it
// is linked:
//
//	go build -ldflags "-X github.com/rrpool/rrpool/cmd/version.release=v1.2.3
//	    -X github.com/rrpool/rrpool/cmd/version.commit=$(git rev-parse HEAD)
//	    -X github.com/rrpool/rrpool/cmd/version.date=$(git log -1 --format=%cI)"
//
// What is not stamped is taken from what Go itself wrote into the program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker, see above.
var release, commit, date string

// development is the version of what is no release.
const development = "devel"

// Info is about this program.
type Info struct {
	// Version of the release, v1.2.3; "devel" for what is none.
	Version string `json:"version"`
	// Revision of the source, and when it was committed (RFC 3339); empty when the build
	// does not know them. A revision ends with -dirty when the source was changed after it.
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get reads what is known about this program.
func Get() Info {
	built, _ := debug.ReadBuildInfo()
	return about(built)
}

// about reads a build; what the linker was told comes first. built may be nil.
func about(built *debug.BuildInfo) Info {
	i := Info{Version: development, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if built != nil {
		if v := built.Main.Version; v != "" && v != "(devel)" {
			i.Version = v
		}
		i.Revision, i.Date = committed(built.Settings)
	}
	if release != "" {
		i.Version = release
	}
	if commit != "" {
		i.Revision, i.Date = commit, date
	}
	return i
}

// committed is what Go knows of the commit.
func committed(settings []debug.BuildSetting) (revision, at string) {
	known := map[string]string{}
	for _, s := range settings {
		known[s.Key] = s.Value
	}
	revision, at = known["vcs.revision"], known["vcs.time"]
	if revision != "" && known["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return revision, at
}

// Of is one line about a program: rrpool v1.2.3 (commit 0123456789ab of
// 2026-11-22T10:00:00Z, go1.26.8, linux/amd64).
func (i Info) Of(program string) string {
	from := ""
	if i.Revision != "" {
		from = "commit " + short(i.Revision)
		if i.Date != "" {
			from += " of " + i.Date
		}
		from += ", "
	}
	return fmt.Sprintf("%s %s (%s%s, %s)", program, i.Version, from, i.Go, i.Platform)
}

// UserAgent names a program to the servers that it asks: rrpool/v1.2.3 (linux/amd64).
func UserAgent(program string) string {
	i := Get()
	return fmt.Sprintf("%s/%s (%s)", program, i.Version, i.Platform)
}

// shortLength of a revision tells commits apart, and can be read to somebody.
const shortLength = 12

func short(revision string) string {
	hash, changed := strings.CutSuffix(revision, "-dirty")
	hash = hash[:min(len(hash), shortLength)]
	if changed {
		return hash + "-dirty"
	}
	return hash
}
