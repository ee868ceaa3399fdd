package check

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

const page = "../../../docs/check.md"

var (
	example = regexp.MustCompile("(?s)\n```console\n(\\$ .*?\n)(.*?)```\n")
	role    = regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n")
	// What differs from one run to the next.
	address  = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	versions = regexp.MustCompile(`Kubernetes v\d\S+`)
)

func read(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(content)
}

// The example is what a real apiserver gives, but for its address and version; -update writes it.
func TestTheExampleOfTheDocs(t *testing.T) {
	w := newWorld(t)
	w.fit()
	text := read(t)
	match := example.FindStringSubmatchIndex(text)
	require.NotNil(t, match)
	command := strings.Fields(strings.TrimPrefix(text[match[2]:match[3]], "$ rrpool "))
	got := cli.AskIn(t, iostreams.Streams{}, New, append(command, "--kubeconfig", w.kubeconfig(""))...)
	require.Zero(t, got.Code, got.Out)
	out := versions.ReplaceAllString(address.ReplaceAllString(got.Out, "https://203.0.113.7:6443"), "Kubernetes v1.36.3")
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(page, []byte(text[:match[4]]+out+text[match[5]:]), 0o600))
		return
	}
	require.Equal(t, text[match[4]:match[5]], out)
}

// The rights of the docs are enough to look at everything.
func TestTheRightsOfTheDocs(t *testing.T) {
	var written rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict([]byte(role.FindStringSubmatch(read(t))[1]), &written))
	w := newWorld(t)
	w.onCloud()
	w.key(apiKey)
	w.meshPassword()
	w.allow("checker", "", written.Rules...)
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

	existing := strings.Join([]string{"apiVersion: rrpool.io/v1alpha1", "kind: RouteReflectorPool", "metadata: {name: default}", "spec: {provider: {type: ExistingNodes}}"}, "\n")
	checks, _, _ := w.check("checker", "-f", cli.File(t, existing))
	for id, c := range checks {
		require.False(t, c.Unchecked, "%s: %s", id, c.Message)
	}
}
