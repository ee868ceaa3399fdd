package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// claim is a test that a page names: its function, and the file that has it.
var claim = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// unshown are the tests named in a page that there are not.
func unshown(t *testing.T, name, text string) []string {
	t.Helper()
	var out []string
	for _, match := range claim.FindAllStringSubmatch(text, -1) {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path(name)), match[2]))
		if err != nil || !strings.Contains(string(content), "\nfunc "+match[1]+"(t *testing.T) {") {
			out = append(out, match[1])
		}
	}
	return out
}

// What is claimed of security is shown by a test that exists.
func TestEveryClaimOfSecurityHasItsTest(t *testing.T) {
	const name = "docs/security.md"
	said := page(t, name)
	require.Greater(t, len(claim.FindAllString(said, -1)), 20)
	require.Empty(t, unshown(t, name, said))
	doctored := strings.ReplaceAll(said, "TestNoCodeTalksToAnybody", "TestNoCodeTalksToNobody")
	require.Equal(t, []string{"TestNoCodeTalksToNobody"}, unshown(t, name, doctored), "negative control")
}
