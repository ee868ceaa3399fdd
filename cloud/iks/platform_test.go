package iks

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
)

func TestIdentityOfNodes(t *testing.T) {
	for providerID, want := range map[string]string{"ibm://acc///c1/w1": "c1 w1", "aws:///zone/i-1": " ", "": " ", "ibm://w1": " ", "ibm:///us-south/0717_x": " ", "ibm://acc///c1/": " ", "ibm://acc//c1/w1": " ", "ibm://acc///c1/w1/x": " "} {
		of := Platform{}.IdentityOf(plan.Node{ProviderID: providerID})
		require.Equal(t, want, of.ClusterID+" "+of.WorkerID)
	}
	labelled := plan.Node{ProviderID: "ibm://acc///c1/w1", Labels: map[string]string{workerIDLabel: "w2"}}
	require.Equal(t, cloud.Identity{OfCloud: true, ClusterID: "c1", WorkerID: "w2", Protected: true}, Platform{}.IdentityOf(labelled))
}

// The region of a private endpoint is known by any label that says it, else by the zone of a node.
func TestTheRegionOfThePrivateEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"IBM's label":       {map[string]string{"ibm-cloud.kubernetes.io/region": "us-south", "topology.kubernetes.io/region": "us-east"}, "us-south"},
		"Kubernetes' label": {map[string]string{"topology.kubernetes.io/region": "us-east", "topology.kubernetes.io/zone": "eu-de-1"}, "us-east"},
		"a VPC zone":        {map[string]string{"topology.kubernetes.io/zone": "eu-de-1"}, "eu-de"},
		"a classic zone":    {map[string]string{"topology.kubernetes.io/zone": "dal10"}, "us-south"},
		"an unknown metro":  {map[string]string{"topology.kubernetes.io/zone": "xyz01"}, ""},
		"another zone":      {map[string]string{"topology.kubernetes.io/zone": "rack-a"}, ""},
		"nothing":           {nil, ""},
	} {
		require.Equal(t, c.want, Platform{}.Region([]plan.Node{{}, {Labels: c.labels}}), name)
	}
}

// shelf is an apiserver that has one ConfigMap.
type shelf struct {
	client.Reader
	content string
}

func (s shelf) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.(*corev1.ConfigMap).Data = map[string]string{clusterInfoKey: s.content} //nolint:forcetypeassert // nothing else is asked for
	return nil
}

// Whatever ConfigMap cluster-info says, it gives an ID that can be put into an address, or
// an error that says what is wrong with it.
func FuzzClusterInfo(f *testing.F) {
	for _, seed := range []string{
		`{"cluster_id":"c1","name":"n","crn":"crn:v1"}`, `{"cluster_id":""}`, `{"cluster_id":1}`, `{`, ``, `null`, `[]`,
		`{"cluster_id":"../../v1/clusters/x"}`, `{"cluster_id":"a&cluster=b"}`, `{"cluster_id":"a\n\u001b[2Jb"}`, `{"CLUSTER_ID":"upper"}`,
		`{"cluster_id":"` + strings.Repeat("a", 100) + `"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		id, err := Platform{}.ClusterID(t.Context(), shelf{content: content})
		if err != nil {
			require.Empty(t, id)
			require.ErrorContains(t, err, `ConfigMap "cluster-info" in namespace "kube-system" has `)
			return
		}
		_, err = New(Config{ClusterID: id, PoolName: "p", APIKey: "k"})
		require.NoError(t, err)
		var says map[string]any
		require.NoError(t, json.Unmarshal([]byte(content), &says))
		require.Contains(t, slices.Collect(maps.Values(says)), id)
	})
}
