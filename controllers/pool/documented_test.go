package pool_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spelled finds the words that end up as a condition's type or reason, where
// the code spells them.
var spelled = map[string][]string{
	"../../config/api/v1alpha1": {`Condition\w+ += "(\w+)"`},
	"../../cloud":               {`Kind = "(\w+)"`},
	".": {
		`Reason\w+ += "(\w+)"`, `condition\(kind, metav1\.Condition\w+, "(\w+)"`, `reason, message := "(\w+)"`,
		`Step\w+ += "(\w+)"`,
	},
	"../calico":        {`Reason\w+ += "(\w+)"`},
	"../plan/topology": {`Reason\w+ += "(\w+)"`},
	"../plan/rollout":  {`Problem\{Reason: "(\w+)"`, `Name: +"([A-Z]\w+)"`, `\.step\("(\w+)"`, `Steady += "(\w+)"`},
}

func TestEveryConditionAndReasonIsDocumented(t *testing.T) {
	var want []string
	for folder, patterns := range spelled {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, pattern := range patterns {
			found := words(t, files, regexp.MustCompile(pattern))
			require.NotEmpty(t, found, "%s finds nothing in %s", pattern, folder)
			for _, word := range found {
				if folder == "../../cloud" {
					word = "Cloud" + word
				}
				want = append(want, word)
			}
		}
	}
	// A conflict has a reason of its own.
	want = slices.DeleteFunc(want, func(word string) bool { return word == "CloudConflict" })
	slices.Sort(want)
	page, err := os.ReadFile("../../docs/conditions.md")
	require.NoError(t, err)
	var have []string
	for _, section := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		have = append(have, name)
		for _, part := range []string{"**Means:** ", "**Meanwhile:** ", "**Do:** "} {
			require.Contains(t, text, part, name)
		}
	}
	slices.Sort(have)
	require.Equal(t, slices.Compact(want), have)
}

func words(t *testing.T, files []string, pattern *regexp.Regexp) []string {
	t.Helper()
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range pattern.FindAllSubmatch(content, -1) {
			out = append(out, string(match[1]))
		}
	}
	return out
}
