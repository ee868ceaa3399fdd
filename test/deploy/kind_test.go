package deploy_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

// clusterFile is cluster.yaml, and the names that kind gives its nodes.
func clusterFile(t *testing.T) (kindCluster, []string) {
	t.Helper()
	var c kindCluster
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, path(kindOverlay, "cluster.yaml"))), &c))
	require.Equal(t, []string{"Cluster", "kind.x-k8s.io/v1alpha4"}, []string{c.Kind, c.APIVersion})
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
	for zone, count := range workers {
		require.GreaterOrEqual(t, count, 2, zone)
	}
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
