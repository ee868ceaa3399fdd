package version

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsStampedComesBeforeWhatGoKnows(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	known := []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}}
	changed := slices.Concat(known, []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}})
	for name, tc := range map[string]struct {
		built                 *debug.BuildInfo
		release, commit, date string
		want                  string
	}{
		"nothing is known": {nil, "", "", "", "devel ("},
		"built without version control": {
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "", "", "devel (",
		},
		"built in a clone": {
			&debug.BuildInfo{Main: debug.Module{Version: "v0.0.1-0.2026"}, Settings: known}, "", "", "",
			"v0.0.1-0.2026 (commit 0123456789ab of 2026-11-22T10:00:00Z, ",
		},
		"built in a clone that was changed": {
			&debug.BuildInfo{Settings: changed}, "", "", "", "devel (commit 0123456789ab-dirty of 2026-11-22T10:00:00Z, ",
		},
		"stamped": {
			&debug.BuildInfo{Main: debug.Module{Version: "v0.0.1-0.2026"}, Settings: changed}, "v1.2.3", "fedcba9876543210", "2026-01-01T00:00:00Z",
			"v1.2.3 (commit fedcba987654 of 2026-01-01T00:00:00Z, ",
		},
		"stamped with a commit, and no date": {
			&debug.BuildInfo{Settings: known}, "v1.2.3", "fedcba9876543210-dirty", "", "v1.2.3 (commit fedcba987654-dirty, ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			release, commit, date = tc.release, tc.commit, tc.date
			t.Cleanup(func() { release, commit, date = "", "", "" })
			got := about(tc.built).Of("rrpool")
			require.Regexp(t, `^rrpool \S+ \((commit \S+( of \S+)?, )?go\S+, \w+/\w+\)$`, got)
			require.Contains(t, got, "rrpool "+tc.want)
		})
	}
}
