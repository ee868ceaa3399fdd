package check

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

var (
	// What differs from one run to the next.
	address  = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	versions = regexp.MustCompile(`Kubernetes v\d\S+`)
)

// The example is what a real apiserver gives, but for its address and version; -update writes it.
func TestTheExampleOfTheDocs(t *testing.T) {
	w := newWorld(t)
	w.fit()
	command, output, _ := strings.Cut(cli.Blocks(t, "check", "console")[0], "\n")
	got := cli.AskIn(t, iostreams.Streams{}, New, append(strings.Fields(strings.TrimPrefix(command, "$ rrpool ")), "--kubeconfig", w.kubeconfig(""))...)
	require.Zero(t, got.Code, got.Out)
	out := versions.ReplaceAllString(address.ReplaceAllString(got.Out, "https://203.0.113.7:6443"), "Kubernetes v1.36.3")
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile("../../../docs/check.md", []byte(strings.Replace(cli.Page(t, "check"), output, out, 1)), 0o600))
		return
	}
	require.Equal(t, output, out)
}

// The rights of the docs are enough to look at everything.
func TestTheRightsOfTheDocs(t *testing.T) {
	w := newWorld(t)
	w.onCloud()
	w.key(apiKey)
	w.meshPassword()
	w.allow("checker", "", cli.Roles(t, "check")[0].Rules...)
	var unchecked []string
	require.Eventually(t, func() bool {
		checks, _, _ := w.check("checker")
		unchecked = nil
		for id, c := range checks {
			if c.Unchecked || c.Status == Error {
				unchecked = append(unchecked, id+": "+c.Message)
			}
		}
		return len(unchecked) == 0
	}, authorizerLag, authorizerLag/1000, "%v", unchecked)

	checks, _, _ := w.check("checker", "-f", cli.PoolFile(t, "{provider: {type: ExistingNodes}}"))
	for id, c := range checks {
		require.False(t, c.Unchecked, "%s: %s", id, c.Message)
	}
}
