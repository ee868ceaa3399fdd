package check

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

// Calico's objects are in projectcalico.org/v3 alone, as in a new installation of Calico 3.33.
func TestCalicoInTheOtherGroupIsSeen(t *testing.T) {
	native := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), native))
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{native, controlplane.OwnCRDs()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, plane.AdminConfig()))
	admin, err := client.New(plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	for kind, spec := range map[string]map[string]any{
		"ClusterInformation": {"calicoVersion": "v3.33.1", "datastoreReady": true},
		"IPPool":             {"cidr": "172.30.0.0/16", "ipipMode": "Never", "vxlanMode": "Never"},
		"BGPConfiguration":   {"nodeToNodeMeshEnabled": false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "projectcalico.org/v3", "kind": kind, "spec": spec}}
		o.SetName("default")
		require.NoError(t, admin.Create(t.Context(), o))
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"projectcalico.org/IPv4Address": "10.0.0.1/24"}}}
	require.NoError(t, admin.Create(t.Context(), node))

	got := cli.Ask(t, New, "check", "--pre", "--kubeconfig", kubeconfig)
	require.Contains(t, got.Out, "Calico v3.33.1 uses the Kubernetes datastore, with its objects in projectcalico.org/v3")
	require.Contains(t, got.Out, "kubectl patch bgpconfigurations.projectcalico.org default")
	require.Contains(t, got.Out, "172.30.0.0/16: not encapsulated")
	got = cli.Ask(t, status.New, "status", "--kubeconfig", kubeconfig, "-o", "json")
	require.Contains(t, got.Out, `"mesh": "off"`)
}
