package deploy_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// rule says of each match of a pattern in docs/kind.md, by its first group, what it may be.
type rule struct {
	pattern string
	allowed []string
}

// kindRules are what the commands of the page have to fit.
func kindRules(t *testing.T) []rule {
	t.Helper()
	cluster, nodes := clusterFile(t)
	deployment := convert[appsv1.Deployment](t, first(t, build(t, kindOverlay), "Deployment"))
	manifest := text(t, calicoManifest(t, "calico.yaml"))
	image := []string{deployment.Spec.Template.Spec.Containers[0].Image}
	calico := regexp.MustCompile(`image: quay.io/calico/node:(\S+)`).FindStringSubmatch(manifest)
	require.NotNil(t, calico)
	return []rule{
		{`kind (?:load|delete) .*--name (\S+)`, []string{cluster.Name}},
		{`docker (?:stop|start) (\S+)`, nodes},
		{`\b(rrpool-(?:worker|control-plane)\d*)\b`, nodes},
		{`docker build --tag (\S+) `, image},
		{`kind load docker-image (\S+) `, image},
		{`--namespace (\S+) rollout`, []string{deployment.Namespace}},
		{`rollout status deployment/(\S+)`, []string{deployment.Name}},
		{`CALICO_IPV4POOL_CIDR.* to .([0-9./]+)`, []string{cluster.Networking.PodSubnet.String()}},
		// The release whose confd and CRDs our tests run with.
		{`githubusercontent\.com/projectcalico/calico/([^/]+)/`, calico[1:]},
		{`githubusercontent\.com/projectcalico/calico/[^/]+/manifests/(\S+)`, []string{"operator-crds.yaml", "tigera-operator.yaml"}},
	}
}

// misfits are what a page says that it may not, or does not say at all.
func misfits(said string, rules []rule) []string {
	var out []string
	for _, r := range rules {
		matches := regexp.MustCompile(r.pattern).FindAllStringSubmatch(said, -1)
		if len(matches) == 0 {
			out = append(out, "nothing like "+r.pattern)
		}
		for _, match := range matches {
			if !slices.Contains(r.allowed, match[1]) {
				out = append(out, fmt.Sprintf("%s is none of %v", match[1], r.allowed))
			}
		}
	}
	return out
}

func TestTheCommandsOfTheKindPageFitTheFiles(t *testing.T) {
	said, rules := page(t, "docs/kind.md"), kindRules(t)
	require.Empty(t, misfits(said, rules))
	for right, wrong := range map[string]string{"docker stop rrpool-worker3": "docker stop rrpool-worker9", "calico/v3.31.0/": "calico/v3.30.0/"} {
		require.NotEmpty(t, misfits(strings.Replace(said, right, wrong, 1), rules), "negative control: %s", wrong)
	}
}

// text is the text of a file.
func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(content)
}
