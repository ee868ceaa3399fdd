package plan

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/cli"
)

var blocks = regexp.MustCompile("(?s)\n```(yaml|console)\n(.*?)```\n")

func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/plan.md")
	require.NoError(t, err)
	return string(content)
}

// rightsOfTheDocs is the role that docs/plan.md names.
func rightsOfTheDocs(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	for _, match := range blocks.FindAllStringSubmatch(page(t), -1) {
		if match[1] == "yaml" {
			var role rbacv1.ClusterRole
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[2]), &role))
			return role.Rules
		}
	}
	require.Fail(t, "docs/plan.md names no role")
	return nil
}

func TestTheExamplesOfTheDocs(t *testing.T) {
	seen := 0
	for _, match := range blocks.FindAllStringSubmatch(page(t), -1) {
		if match[1] != "console" {
			continue
		}
		command, output, _ := strings.Cut(match[2], "\n")
		got := cli.Ask(t, New, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...)
		require.Equal(t, output, got.Out)
		seen++
	}
	require.NotZero(t, seen)
}
