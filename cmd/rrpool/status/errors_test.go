package status

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/docs/links"
)

func TestAReaderThatHasSeenEnough(t *testing.T) {
	require.Equal(t, cli.Answer{}, askIn(t, iostreams.Streams{Out: cli.Broken{Err: syscall.EPIPE}}, atRest(nil), "--watch"), "the watch ends")
}

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "status", func(args ...string) cli.Answer { return ask(t, migrating(), args[1:]...) })
}

// The docs name each state with its sign.
func TestWhatTheDocsName(t *testing.T) {
	page := cli.Page(t, "status")
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
