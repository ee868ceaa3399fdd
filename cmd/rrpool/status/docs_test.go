package status

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/docs/links"
)

var blocks = regexp.MustCompile("(?s)\n```(yaml|console)\n(.*?)```\n")

// docs are the blocks of docs/status.md: the example, and the roles.
func readDocs(t *testing.T) (page, example string, roles []rbacv1.Role) {
	t.Helper()
	content, err := os.ReadFile("../../../docs/status.md")
	require.NoError(t, err)
	for _, match := range blocks.FindAllStringSubmatch(string(content), -1) {
		if match[1] == "console" {
			example = match[2]
			continue
		}
		for text := range strings.SplitSeq(match[2], "---\n") {
			var role rbacv1.Role // a ClusterRole is one without a namespace, as far as we use it
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), &role))
			roles = append(roles, role)
		}
	}
	return string(content), example, roles
}

func TestTheExampleOfTheDocs(t *testing.T) {
	_, example, _ := readDocs(t)
	command, output, _ := strings.Cut(example, "\n")
	require.Equal(t, "$ rrpool status", command)
	require.Equal(t, output, ask(t, migrating()).Out)
}

// The docs name each state with its sign, and no flag that is not.
func TestWhatTheDocsName(t *testing.T) {
	page, _, _ := readDocs(t)
	for state, look := range looks {
		require.Contains(t, page, "| `"+look.sign+" "+string(state)+"` |")
	}
	help := cli.Ask(t, New, "status", "--help").Out
	flags := regexp.MustCompile("--[a-z][a-z-]+").FindAllString(page, -1)
	require.NotEmpty(t, flags)
	for _, flag := range slices.Compact(slices.Sorted(slices.Values(flags))) {
		require.Contains(t, help, flag+" ")
	}
}

// Every trouble leads to its page of the runbook.
func TestTheLinksToTheConditions(t *testing.T) {
	found := 0
	for _, a := range scenes() {
		if a.pool == nil {
			continue
		}
		for _, trouble := range Troubles(a.pool) {
			require.NoError(t, links.Leads(os.DirFS("../../.."), trouble.Page(1)))
			found++
		}
	}
	require.Greater(t, found, 3)
	for _, reason := range []string{
		"CloudRateLimited", "CloudUnavailable", "StepFailed", "ObservationFailed", "SessionTimeout", "WorkersLate", "DrainBlocked",
	} {
		require.True(t, Trouble{Reason: reason}.Passing())
		require.NoError(t, links.Leads(os.DirFS("../../.."), "docs/"+plan.Page(reason)))
	}
}
