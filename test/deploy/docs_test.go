package deploy_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var pages = []string{"docs/kind.md", "docs/existing-nodes.md", "docs/operations.md"}

// explained are pages that name fields and keys, and are mostly read.
var explained = append([]string{"docs/concepts.md", "docs/faq.md", "docs/migrating.md"}, pages...)

// written finds YAML: blocks of its own, and what commands are fed with.
var written = []*regexp.Regexp{
	regexp.MustCompile("(?s)\n *```yaml\n(.*?\n) *```\n"),
	regexp.MustCompile(`(?s)<<'YAML'\n(.*?\n) *YAML\n`),
}

func TestEveryObjectOfAPageIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	for _, name := range append(slices.Clone(pages), "docs/peering.md") {
		// That a key is given once only is checked as well: the apiserver never sees the first of two.
		var objects []*object
		for _, pattern := range written {
			for _, match := range pattern.FindAllStringSubmatch(text(t, path(name)), -1) {
				for document := range strings.SplitSeq(match[1], "\n---\n") {
					o := &object{}
					require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o.Object), document)
					require.NotEmpty(t, o.GetKind(), "a block is an object, in full:\n%s", document)
					objects = append(objects, o)
				}
			}
		}
		require.NotEmpty(t, objects, name)
		for _, o := range objects {
			_, err := c.try(t, o)
			require.NoError(t, err, "%s: %s", name, identity(o))
		}
	}
	require.Empty(t, c.warnings.all())
}

func TestEveryPatchOfAPageIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	sample := read(t, samples[kindOverlay])[0]
	_, err := c.apply(t, sample)
	require.NoError(t, err)
	try := func(content string) error {
		require.True(t, json.Valid([]byte(content)), content)
		o := options(metav1.DryRunAll)
		_, err := c.of(t, sample).Patch(t.Context(), sample.GetName(), types.MergePatchType, []byte(content), o)
		return err
	}
	for _, name := range pages {
		found := regexp.MustCompile(`kubectl patch rrp default --type=merge -p '(\{.*?\})'`).FindAllStringSubmatch(text(t, path(name)), -1)
		require.NotEmpty(t, found, name)
		for _, match := range found {
			require.NoError(t, try(match[1]), "%s: %s", name, match[1])
		}
	}
	require.Error(t, try(`{"spec":{"mode":"Mesh"}}`))
	require.Error(t, try(`{"spec":{"modes":"FullMesh"}}`))
}

func TestEveryFieldThatAPageNamesExists(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, path("config/crd/rrpool.io_routereflectorpools.yaml"))), &crd))
	schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range explained {
		found := regexp.MustCompile("`((?:spec|status)\\.[\\w.]+)").FindAllStringSubmatch(text(t, path(name)), -1)
		require.NotEmpty(t, found, name)
		for _, match := range found {
			// Of a node, and of Calico's Installation.
			if match[1] == "spec.unschedulable" || strings.HasPrefix(match[1], "spec.calicoNetwork") {
				continue
			}
			require.True(t, has(schema, strings.Split(match[1], ".")), "%s: %s", name, match[1])
		}
	}
	require.False(t, has(schema, []string{"spec", "provider", "existingNodes", "promotions"}))
}

func has(schema apiextensionsv1.JSONSchemaProps, names []string) bool {
	if len(names) == 0 {
		return true
	}
	if schema.Items != nil {
		schema = *schema.Items.Schema
	}
	next, ok := schema.Properties[names[0]]
	return ok && has(next, names[1:])
}

// Keys that are said to be written are spelled as the code spells them.
func TestEveryKeyThatAPageNamesIsInTheCode(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"config/api", "controllers"} {
		require.NoError(t, filepath.WalkDir(path(folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name)
			code.Write(content)
			return err
		}))
	}
	quoted := func(key string) bool {
		return strings.Contains(code.String(), `"`+key+`"`) || strings.Contains(code.String(), "default="+key+"\n")
	}
	for _, name := range explained {
		for _, found := range regexp.MustCompile(`\brrpool\.io/[a-z][a-z0-9-]*`).FindAllString(text(t, path(name)), -1) {
			require.True(t, quoted(found) || found == "rrpool.io/v1alpha1", "%s: %s", name, found)
		}
	}
	require.True(t, quoted("rrpool.io/reflector-since"))
	require.False(t, quoted("rrpool.io/reflector"))
}

// kindCluster is what cluster.yaml may use of kind's v1alpha4 configuration.
type kindCluster struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	Networking struct {
		DisableDefaultCNI bool         `json:"disableDefaultCNI"`
		PodSubnet         netip.Prefix `json:"podSubnet"`
	} `json:"networking"`
	Nodes []struct {
		Role   string            `json:"role"`
		Labels map[string]string `json:"labels"`
	} `json:"nodes"`
}

// clusterFile is cluster.yaml, and the names that kind gives its nodes.
func clusterFile(t *testing.T) (kindCluster, []string) {
	t.Helper()
	var c kindCluster
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, path(kindOverlay, "cluster.yaml"))), &c))
	require.Equal(t, []string{"Cluster", "kind.x-k8s.io/v1alpha4"}, []string{c.Kind, c.APIVersion})
	var names []string
	count := map[string]int{}
	for _, node := range c.Nodes {
		name := c.Name + "-" + node.Role
		if count[node.Role]++; count[node.Role] > 1 {
			name += strconv.Itoa(count[node.Role])
		}
		names = append(names, name)
	}
	return c, names
}

func TestTheKindClusterHasThreeZonesWithANodeToSpare(t *testing.T) {
	cluster, names := clusterFile(t)
	c, _ := deployed(t)
	workers := map[string]int{}
	for i, node := range cluster.Nodes {
		o := &object{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		o.SetName(names[i])
		o.SetLabels(node.Labels)
		_, err := c.try(t, o)
		require.NoError(t, err)
		require.NotEmpty(t, node.Labels[corev1.LabelTopologyZone], "a node without a zone is a zone of its own")
		if node.Role == "worker" {
			workers[node.Labels[corev1.LabelTopologyZone]]++
		}
	}
	require.Len(t, workers, 3)
	require.GreaterOrEqual(t, workers["zone-b"], 2, "the page stops a reflector there, and another is to take its place")
	require.True(t, cluster.Networking.DisableDefaultCNI, "Calico is the network")
}

func TestCalicoIsInstalledWithBGPAndWithoutEncapsulation(t *testing.T) {
	c, _ := deployed(t)
	installation := read(t, kindOverlay+"/calico.yaml")
	require.Len(t, installation, 1)
	admitted, err := c.try(t, installation[0])
	require.NoError(t, err)
	require.Empty(t, c.warnings.all())
	require.Equal(t, "Enabled", at(admitted, "spec", "calicoNetwork", "bgp"))
	pools := at(admitted, "spec", "calicoNetwork", "ipPools").([]any) //nolint:forcetypeassert // as the apiserver took it
	require.Len(t, pools, 1)
	require.Equal(t, "None", pools[0].(map[string]any)["encapsulation"])
	cluster, _ := clusterFile(t)
	require.Equal(t, cluster.Networking.PodSubnet.String(), pools[0].(map[string]any)["cidr"])

	wrong := installation[0].DeepCopy()
	set(t, wrong.Object, "On", "spec", "calicoNetwork", "bgp")
	_, err = c.try(t, wrong)
	require.ErrorContains(t, err, `Unsupported value: "On"`)
}

// rule says of each match of a pattern in docs/kind.md, by its first group, what it may be.
type rule struct {
	pattern string
	allowed []string
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
	cluster, nodes := clusterFile(t)
	deployment := convert[appsv1.Deployment](t, first(t, build(t, kindOverlay), "Deployment"))
	manifest := text(t, calicoManifest(t, "calico.yaml"))
	image := []string{deployment.Spec.Template.Spec.Containers[0].Image}
	calico := regexp.MustCompile(`image: quay.io/calico/node:(\S+)`).FindStringSubmatch(manifest)
	require.NotNil(t, calico)
	said, rules := text(t, path("docs/kind.md")), []rule{
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
	require.Empty(t, misfits(said, rules))
	for right, wrong := range map[string]string{"docker stop rrpool-worker3": "docker stop rrpool-worker9", "calico/v3.31.0/": "calico/v3.30.0/"} {
		require.NotEmpty(t, misfits(strings.Replace(said, right, wrong, 1), rules), "negative control: %s", wrong)
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(content)
}
