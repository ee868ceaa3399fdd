package status

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/docs/links"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"an unknown format":          {[]string{"-o", "yaml"}, []string{"--output", `"yaml"`, "use table, json"}},
		"an interval without a unit": {[]string{"--interval", "2"}, []string{"--interval", `"2"`, "missing unit"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, append([]string{"status"}, tc.args...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// failing fails every write.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestAReaderThatHasSeenEnough(t *testing.T) {
	for _, args := range [][]string{nil, {"--watch"}, {"--watch", "-o", "json"}} {
		got := askIn(t, iostreams.Streams{Out: failing{syscall.EPIPE}}, atRest(nil), args...)
		require.Equal(t, cli.Answer{}, got)
	}
	got := askIn(t, iostreams.Streams{Out: failing{syscall.EPIPE}, Terminal: true, Width: 80}, atRest(nil), "--watch")
	require.Equal(t, cli.Answer{}, got)
	got = askIn(t, iostreams.Streams{Out: failing{syscall.ENOSPC}}, atRest(nil))
	require.Equal(t, cli.Answer{Err: "rrpool: writing the status: no space left on device\n", Code: 1}, got)
}

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

// The docs name each state with its sign.
func TestWhatTheDocsName(t *testing.T) {
	page, _, _ := readDocs(t)
	for state, look := range signs {
		require.Contains(t, page, "| `"+look.sign+" "+string(state)+"` |")
	}
}

// Every problem leads to its page of the runbook.
func TestTheLinksToTheConditions(t *testing.T) {
	found := 0
	for _, a := range scenes() {
		if a.pool == nil {
			continue
		}
		for _, problem := range Problems(a.pool) {
			require.NoError(t, links.Leads(os.DirFS("../../.."), Page(problem.Reason, 1)))
			found++
		}
	}
	require.Greater(t, found, 3)
	for _, reason := range []string{
		"CloudRateLimited", "CloudUnavailable", "StepFailed", "ObservationFailed", "SessionTimeout", "WorkersLate", "DrainBlocked",
	} {
		require.True(t, Passing(reason))
		require.NoError(t, links.Leads(os.DirFS("../../.."), "docs/"+plan.Page(reason)))
	}
}
