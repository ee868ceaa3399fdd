//go:build linux

package lab_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	roleLabel = "rrpool.io/route-reflector"
	clusterID = "244.0.0.1"
	// peerName is that of the BGPPeer of createPeer.
	peerName = "reflectors"
	// The sessions of the mesh, and those of BGPPeers with selectors, as confd names them.
	meshPrefix, nodePrefix = "Mesh_", "Node_"
)

// reflectors are the dedicated nodes of Dedicated(3).
var reflectors = []string{"reflector-0", "reflector-1", "reflector-2"}

// The negative control: were the probes blind, this would find nothing. The mesh goes, and what is to serve in its stead comes when it
// is gone: were it not waited for, a confd that is slow to see that could leave it up until reflectors serve.
func TestAMigrationAllAtOnceLosesPacketsEverywhere(t *testing.T) {
	l := inMesh(t, "")
	l.Checkpoint("before all at once")
	watch(t.Context(), 2*time.Second)
	requireNothingLost(t, l, "before all at once")
	l.Checkpoint("all at once")
	setMesh(t, l, false, nil)
	awaitNoSession(t, l, meshPrefix)
	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	awaitPaths(t, l, fromReflectors)
	l.Checkpoint("reflected")
	watch(t.Context(), 2*time.Second)
	requireNothingLost(t, l, "reflected")

	report := l.Report()
	t.Log("\n" + report.String())
	migration := report.Phase("all at once")
	require.ErrorContains(t, migration.ZeroLoss(), "lost probes in a row")
	require.Len(t, migration.Pairs, 30)
	for _, pair := range migration.Pairs {
		require.Greater(t, pair.Longest().Duration(), 500*time.Millisecond, pair.String())
	}
	// BIRD waits 2 s before it connects, and counts in whole seconds.
	require.Greater(t, migration.LongestOutage(), time.Second)
}

func TestAGatedMigrationLosesNothing(t *testing.T) {
	for _, tc := range []struct{ name, password string }{{"without passwords", ""}, {"with a mesh password, as on IKS", meshPassword}} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.password != "" && strings.HasPrefix(os.Getenv("RRPOOL_CALICO"), "v3.21.") {
				t.Skip("the mesh has a password from Calico 3.23 on")
			}
			l := inMesh(t, tc.password)
			requirePassword(t, l, "worker-0", meshPrefix, tc.password)
			phase := "gated migration " + tc.name
			l.Checkpoint(phase)
			watch(t.Context(), time.Second)
			createPeer(t, l, passwordRef(tc.password))
			makeReflectors(t, l)
			began := time.Now()
			require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
			t.Logf("all Node_ sessions Established after %s", time.Since(began).Round(time.Millisecond))
			requirePassword(t, l, "worker-0", nodePrefix, tc.password)
			awaitPaths(t, l, fromReflectors)
			if tc.password == "" {
				t.Run("the Routes class lists every path with its peer", func(t *testing.T) { requireEveryPathInStatus(t, l) })
			}
			setMesh(t, l, false, nil)
			awaitNoSession(t, l, meshPrefix)
			watch(t.Context(), 2*time.Second)
			require.Len(t, requireNothingLost(t, l, phase).Pairs, 30)
			t.Log("\n" + l.Report().String())
			sessions, err := l.Sessions("worker-0")
			require.NoError(t, err)
			require.Len(t, sessions, 3, "the mesh is still there: %v", sessions)
		})
	}
}

// requireReturn undoes a migration in the order in which nothing is lost, but for single probes: it is too short to count these.
func requireReturn(t *testing.T, l *lab.Lab, password string) {
	t.Helper()
	const phase = "return to the mesh"
	l.Checkpoint(phase)
	setMesh(t, l, true, passwordRef(password))
	awaitPaths(t, l, fromItself)
	for _, name := range reflectors {
		patchRole(t, l, name, "null", "null")
	}
	_, err := l.Calico().BGPPeers().Delete(t.Context(), peerName, options.DeleteOptions{})
	require.NoError(t, err)
	awaitNoSession(t, l, nodePrefix)
	require.NoError(t, l.WaitMesh(t.Context()))
	report := l.Report().Phase(phase)
	require.Len(t, report.Pairs, 30)
	for _, pair := range report.Pairs {
		require.LessOrEqual(t, pair.LongestRun, 1, pair.String())
	}
	l.Checkpoint("between tests")
}

// awaitPaths waits until every worker has a path to every other one's pods from each of these neighbours.
func awaitPaths(t *testing.T, l *lab.Lab, neighbours func(to string) []string) {
	t.Helper()
	workers := slices.DeleteFunc(l.Nodes(), func(name string) bool { return !l.Block(name).IsValid() })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, on := range workers {
			paths, err := l.Paths(on)
			require.NoError(c, err)
			for _, to := range workers {
				for _, from := range neighbours(to) {
					require.True(c, on == to || paths[l.Block(to)][l.Address(from)] > 0, "%s has no path to %s from %s", on, to, from)
				}
			}
		}
	}, patience, 100*time.Millisecond)
}

func fromReflectors(string) []string    { return reflectors }
func fromItself(worker string) []string { return []string{worker} }

// awaitNoSession waits until no node has a session of a kind, whatever its state.
func awaitNoSession(t *testing.T, l *lab.Lab, prefix string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, name := range l.Nodes() {
			sessions, err := l.Sessions(name)
			require.NoError(c, err)
			for _, session := range sessions {
				require.False(c, strings.HasPrefix(session.Name, prefix), "%s: %+v", name, session)
			}
		}
	}, patience, 100*time.Millisecond)
}

// makeReflectors gives the dedicated nodes the role label and the cluster ID.
func makeReflectors(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, name := range reflectors {
		patchRole(t, l, name, `""`, fmt.Sprintf("%q", clusterID))
	}
}

// patchRole writes label and cluster ID, in JSON.
func patchRole(t *testing.T, l *lab.Lab, name, label, id string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s},"annotations":{"projectcalico.org/RouteReflectorClusterID":%s}}}`, roleLabel, label, id)
	_, err := l.Kube().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// createPeer makes every node peer with every reflector.
func createPeer(t *testing.T, l *lab.Lab, password *apiv3.BGPPassword) {
	t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name = peerName
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
