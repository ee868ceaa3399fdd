package deploy_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

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

func readCluster(t *testing.T, content []byte) (out kindCluster, err error) {
	t.Helper()
	return out, yaml.UnmarshalStrict(content, &out)
}

// clusterFile is cluster.yaml, and the names that kind gives its nodes.
func clusterFile(t *testing.T) (kindCluster, []string) {
	t.Helper()
	content, err := os.ReadFile(path(kindOverlay, "cluster.yaml"))
	require.NoError(t, err)
	c, err := readCluster(t, content)
	require.NoError(t, err)
	_, err = readCluster(t, []byte(strings.Replace(string(content), "podSubnet", "podSubnets", 1)))
	require.Error(t, err, "negative control: a typing error is seen")
	var names []string
	count := map[string]int{}
	for _, node := range c.Nodes {
		count[node.Role]++
		names = append(names, c.Name+"-"+node.Role+suffix(count[node.Role]))
	}
	return c, names
}

// suffix is what kind appends to the second and further nodes of a role.
func suffix(number int) string {
	if number == 1 {
		return ""
	}
	return string(rune('0' + number))
}

func TestTheKindClusterHasThreeZonesWithANodeToSpare(t *testing.T) {
	cluster, names := clusterFile(t)
	require.Empty(t, unfit(cluster))
	c, _ := deployed(t, kindOverlay)
	for i, node := range cluster.Nodes {
		o := &object{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		o.SetName(names[i])
		o.SetLabels(node.Labels)
		_, err := c.try(t, o)
		require.NoError(t, err)
	}

	// Negative controls.
	last := len(cluster.Nodes) - 1
	cluster.Nodes = cluster.Nodes[:last]
	require.Equal(t, "zone-c has 1 workers", unfit(cluster))
	cluster.Nodes[0].Labels = nil
	require.Equal(t, "a node without a zone is a zone of its own", unfit(cluster))
	cluster.Networking.DisableDefaultCNI = false
	require.Equal(t, "kind brings a network of its own", unfit(cluster))
}

// unfit says why a kind cluster does not do for what docs/kind.md does, "" when it does.
func unfit(cluster kindCluster) string {
	if cluster.Kind != "Cluster" || cluster.APIVersion != "kind.x-k8s.io/v1alpha4" {
		return "this is no configuration for kind"
	}
	if !cluster.Networking.DisableDefaultCNI {
		return "kind brings a network of its own"
	}
	workers := map[string]int{}
	for _, node := range cluster.Nodes {
		zone := node.Labels[corev1.LabelTopologyZone]
		if zone == "" {
			return "a node without a zone is a zone of its own"
		}
		if node.Role == "worker" {
			workers[zone]++
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(workers)) {
		if workers[zone] < 2 {
			return fmt.Sprintf("%s has %d workers", zone, workers[zone])
		}
	}
	if len(workers) != 3 {
		return fmt.Sprintf("there are %d zones", len(workers))
	}
	return ""
}

func TestCalicoIsInstalledWithBGPAndWithoutEncapsulation(t *testing.T) {
	c, _ := deployed(t, kindOverlay)
	installation := read(t, kindOverlay+"/calico.yaml")
	require.Len(t, installation, 1)
	admitted, err := c.try(t, installation[0])
	require.NoError(t, err)
	require.Empty(t, c.warnings.all())
	bgp, _, err := unstructured.NestedString(admitted.Object, "spec", "calicoNetwork", "bgp")
	require.NoError(t, err)
	require.Equal(t, "Enabled", bgp)
	pools, _, err := unstructured.NestedSlice(admitted.Object, "spec", "calicoNetwork", "ipPools")
	require.NoError(t, err)
	require.Len(t, pools, 1)
	require.Equal(t, "None", pools[0].(map[string]any)["encapsulation"])
	cluster, _ := clusterFile(t)
	require.Equal(t, cluster.Networking.PodSubnet.String(), pools[0].(map[string]any)["cidr"])

	wrong := installation[0].DeepCopy()
	require.NoError(t, unstructured.SetNestedField(wrong.Object, "On", "spec", "calicoNetwork", "bgp"))
	_, err = c.try(t, wrong)
	require.ErrorContains(t, err, `Unsupported value: "On"`)
}
