//go:build linux

package lab_test

import (
	"fmt"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	roleLabel = "rrpool.io/route-reflector"
	clusterID = "244.0.0.1"
	// settle is how long Calico's own end-to-end test lets Established sessions exchange their routes.
	settle = 5 * time.Second
)

// reflectors are the dedicated nodes of Dedicated(3).
var reflectors = []string{"reflector-0", "reflector-1", "reflector-2"}

// The negative control: were the probes blind, this would find nothing.
func TestAMigrationAllAtOnceLosesPacketsEverywhere(t *testing.T) {
	l := start(t, lab.Options{}, append(lab.Workers(6), lab.Dedicated(3)...)...)
	l.Checkpoint("mesh")
	watch(t.Context(), 2*time.Second)
	l.Checkpoint("all at once")
	makeReflectors(t, l)
	createPeer(t, l, nil)
	setMesh(t, l, false, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	l.Checkpoint("reflected")
	watch(t.Context(), 2*time.Second)

	report := l.Report()
	t.Log("\n" + report.String())
	require.NoError(t, report.Phase("mesh").ZeroLoss())
	migration := report.Phase("all at once")
	require.ErrorContains(t, migration.ZeroLoss(), "lost probes in a row")
	require.Len(t, migration.Pairs, 30)
	for _, pair := range migration.Pairs {
		require.Greater(t, pair.Longest().Duration(), 500*time.Millisecond, pair.String())
	}
	// BIRD waits 2 s before it connects, less what confd on the two sides is apart; 1.6–5.8 s were measured.
	require.Greater(t, migration.LongestOutage(), time.Second)
	require.NoError(t, report.Phase("reflected").ZeroLoss())
}

func TestAGatedMigrationLosesNothing(t *testing.T) {
	for name, password := range map[string]string{"without passwords": "", "with a mesh password, as on IKS": "correct-horse"} {
		t.Run(name, func(t *testing.T) {
			options := lab.Options{MeshPassword: password}
			var ref *apiv3.BGPPassword
			if password != "" {
				ref = lab.PasswordRef()
			}
			l := start(t, options, append(lab.Workers(6), lab.Dedicated(3)...)...)
			requirePassword(t, l, "worker-0", "Mesh_", password)
			l.Checkpoint("mesh")
			watch(t.Context(), 2*time.Second)
			l.Checkpoint("reflectors join")
			createPeer(t, l, ref)
			makeReflectors(t, l)
			began := time.Now()
			require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
			t.Logf("all Node_ sessions Established after %s", time.Since(began).Round(time.Millisecond))
			requirePassword(t, l, "worker-0", "Node_", password)
			watch(t.Context(), settle)
			l.Checkpoint("mesh off")
			setMesh(t, l, false, nil)
			watch(t.Context(), settle)

			report := l.Report()
			t.Log("\n" + report.String())
			sessions, err := l.Sessions("worker-0")
			require.NoError(t, err)
			require.Len(t, sessions, 3, "the mesh is still there: %v", sessions)
			require.Len(t, report.Pairs, 30)
			require.NoError(t, report.ZeroLoss())
		})
	}
}

// makeReflectors gives the dedicated nodes the role label and the cluster ID.
func makeReflectors(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, name := range reflectors {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:""},"annotations":{"projectcalico.org/RouteReflectorClusterID":%q}}}`, roleLabel, clusterID)
		_, err := l.Kube().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// createPeer makes every node peer with every reflector.
func createPeer(t *testing.T, l *lab.Lab, password *apiv3.BGPPassword) {
	t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name = "reflectors"
	peer.Spec = apiv3.BGPPeerSpec{NodeSelector: "all()", PeerSelector: "has(" + roleLabel + ")", Password: password}
	_, err := l.Calico().BGPPeers().Create(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err)
}

// setMesh switches the mesh: with this password, or none, when it comes; without any when it goes, which Calico insists on.
func setMesh(t *testing.T, l *lab.Lab, on bool, password *apiv3.BGPPassword) {
	t.Helper()
	config, err := l.Calico().BGPConfigurations().Get(t.Context(), "default", options.GetOptions{})
	if err != nil {
		config = apiv3.NewBGPConfiguration()
		config.Name = "default"
	}
	config.Spec.NodeToNodeMeshEnabled = &on
	config.Spec.NodeMeshPassword = nil
	if on {
		config.Spec.NodeMeshPassword = password
	}
	if config.ResourceVersion == "" {
		_, err = l.Calico().BGPConfigurations().Create(t.Context(), config, options.SetOptions{})
	} else {
		_, err = l.Calico().BGPConfigurations().Update(t.Context(), config, options.SetOptions{})
	}
	require.NoError(t, err)
}

// requirePassword checks that confd has rendered the password, or none, for a node's sessions of a kind.
func requirePassword(t *testing.T, l *lab.Lab, node, prefix, password string) {
	t.Helper()
	config, err := l.BIRDConfig(node)
	require.NoError(t, err)
	require.Contains(t, config, "protocol bgp "+prefix)
	if password == "" {
		require.NotContains(t, config, "password")
	} else {
		require.Contains(t, config, fmt.Sprintf("password %q;", password))
	}
}
