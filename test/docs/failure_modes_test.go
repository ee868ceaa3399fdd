package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each row of the table names a test that is there and that CI runs, and what a user is
// to see is what the code says.
func TestEachFailureModeIsShownByATest(t *testing.T) {
	b, err := open()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "failure-modes.md"))
	require.NoError(t, err)
	table, err := rows(string(page))
	require.NoError(t, err)
	require.Greater(t, len(table), 30)
	var all []string
	for _, r := range table {
		all = append(all, b.problems(r)...)
	}
	require.Empty(t, all, strings.Join(all, "\n"))
}

// Negative control.
func TestARowThatClaimsTooMuchIsFound(t *testing.T) {
	b, err := open()
	require.NoError(t, err)
	require.Contains(t, b.ci, "test")
	require.Contains(t, b.ci, "lab")
	require.NotContains(t, b.ci, "soak")
	for name, tc := range map[string]struct{ sees, shown, says string }{
		"no test": {"`Steady`", "of course", "no test is linked"},
		"a test that is not there": {
			"`Steady`", "[TestNothingEverFails](../test/docs/failure_modes_test.go)", "there is no TestNothingEverFails",
		},
		"a test in another file": {
			"`Steady`", "[TestEachFailureModeIsShownByATest](../test/docs/table_test.go)", "there is no TestEach",
		},
		"a test that make test skips": {
			"`Steady`", "[TestLifeOfBusyReflectors](../test/chaos/life_test.go)", "is not run by make test",
		},
		"a target that does not run it": {
			"`Steady`", "[TestLifeOfBusyReflectors](../test/chaos/life_test.go) (`make lab`)", "make lab does not run",
		},
		"only what CI does not run": {
			"`Steady`", "[TestLifeOfBusyReflectors](../test/chaos/life_test.go) (`make soak`)", "none of its tests is run by CI",
		},
		"a reason that nobody gives": {
			"`Wonderful`", "[TestEachFailureModeIsShownByATest](../test/docs/failure_modes_test.go)", `"Wonderful" is no condition`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := rows("| a | b | c | d | e |\n|---|---|---|---|---|\n| x | y | " + tc.sees + " | z | " + tc.shown + " |\n")
			require.NoError(t, err)
			require.Len(t, table, 1)
			require.Contains(t, strings.Join(b.problems(table[0]), "\n"), tc.says)
		})
	}
	_, err = rows("| x | y | | z | v |")
	require.ErrorContains(t, err, "five cells")
}
