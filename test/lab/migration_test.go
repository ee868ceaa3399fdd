//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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
	"github.com/rrpool/rrpool/test/lab/probe"
)

// patience is how long a wait may take on a slow machine. It guards against hanging, and says nothing about any program's speed.
const patience = 3 * time.Minute

func TestMain(m *testing.M) { lab.Main(m) }

// start makes a lab with a mesh for one test, and dumps it when the test fails.
func start(t *testing.T, options lab.Options, nodes ...lab.NodeSpec) *lab.Lab {
	t.Helper()
	began := time.Now()
	l, err := lab.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			dir := filepath.Join(os.TempDir(), "rrlab-failed-"+t.Name())
			t.Logf("dumped to %s (%v)", dir, l.Dump(dir))
		}
		require.NoError(t, l.Stop())
	})
	require.NoError(t, l.AddNodes(t.Context(), nodes...))
	require.NoError(t, l.WaitMesh(t.Context()))
	t.Logf("mesh of %d nodes after %s", len(nodes), time.Since(began).Round(time.Millisecond))
	return l
}

// meshPassword is that of the mesh where there is one.
const meshPassword = "correct-horse"

// inMesh makes a lab of six workers and three dedicated nodes, in a mesh with this password or none.
func inMesh(t *testing.T, password string) *lab.Lab {
	t.Helper()
	return start(t, lab.Options{MeshPassword: password}, append(lab.Workers(6), lab.Dedicated(3)...)...)
}

// passwordRef refers to the Secret with it, unless the password is "".
func passwordRef(password string) *apiv3.BGPPassword {
	if password == "" {
		return nil
	}
	return lab.PasswordRef()
}

// watch lets the probes run for a while.
func watch(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// requireNothingLost judges the phase that is under way, and returns what it has judged. Where the machine stood
// still for a moment, the phase goes on until that was a small part of it.
func requireNothingLost(t *testing.T, l *lab.Lab, phase string, without ...string) probe.Report {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; watch(t.Context(), time.Second) {
		report := l.Report().Phase(phase).Without(without...)
		err := report.ZeroLoss()
		if err == nil || !strings.Contains(err.Error(), "not probed often enough") || time.Now().After(end) {
			require.NoError(t, err)
			return report
		}
		t.Log(err)
	}
}

func TestASessionIsTheSameUntilItRestarts(t *testing.T) {
	was := lab.Session{Name: "Mesh_172_20_0_11", State: "Established", ProtocolState: "up", Since: "07:36:51"}
	for name, tc := range map[string]struct {
		change func(*lab.Session)
		want   bool
	}{
		"nothing has changed":              {func(*lab.Session) {}, true},
		"the other clock's second":         {func(s *lab.Session) { s.Since = "07:36:50" }, true},
		"it has restarted":                 {func(s *lab.Session) { s.Since = "07:36:53" }, false},
		"it is down":                       {func(s *lab.Session) { s.State = "Connect" }, false},
		"it is up, but exchanges nothing":  {func(s *lab.Session) { s.ProtocolState = "wait" }, false},
		"another one took its place":       {func(s *lab.Session) { s.Name = "Node_172_20_0_11" }, false},
		"there is none any more":           {func(s *lab.Session) { *s = lab.Session{} }, false},
		"BIRD says the day, after a while": {func(s *lab.Session) { s.Since = "2026-11-22" }, false},
	} {
		is := was
		tc.change(&is)
		require.Equal(t, tc.want, was.Same(is), name)
		require.Equal(t, tc.want, is.Same(was), name)
	}
}

const (
	roleLabel = "rrpool.io/route-reflector"
	clusterID = "244.0.0.1"
	// The sessions of the mesh, and those of BGPPeers with selectors, as confd names them.
	meshPrefix, nodePrefix = "Mesh_", "Node_"
)

var reflectors = []string{"reflector-0", "reflector-1", "reflector-2"}

// The negative control: were the probes blind, this would find nothing. The mesh goes, and what is to serve in its stead comes when it
// is gone: were it not waited for, a confd that is slow to see that could leave it up until reflectors serve.
func TestAMigrationAllAtOnceLosesPacketsEverywhere(t *testing.T) {
	l := inMesh(t, "")
	l.Checkpoint("before all at once")
	watch(t.Context(), 2*time.Second)
	requireNothingLost(t, l, "before all at once")
	l.Checkpoint("all at once")
	setMesh(t, l, false)
	awaitNoMesh(t, l)
	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	awaitPaths(t, l)
	l.Checkpoint("reflected")
	watch(t.Context(), 2*time.Second)
	requireNothingLost(t, l, "reflected")

	report := l.Report()
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
			awaitPaths(t, l)
			if tc.password == "" {
				t.Run("the Routes class lists every path with its peer", func(t *testing.T) {
					want := []netip.Addr{l.Address("worker-1")}
					for _, name := range reflectors {
						want = append(want, l.Address(name))
					}
					slices.SortFunc(want, netip.Addr.Compare)
					createStatus(t, l, "routes", "worker-0", 1, apiv3.NodeStatusClassTypeRoutes)

					var best []apiv3.CalicoNodeRouteType
					require.EventuallyWithT(t, func(c *assert.CollectT) {
						var from []netip.Addr
						best = nil
						for _, route := range getStatus(t, l, "routes").Status.Routes.RoutesV4 {
							if route.Destination == l.Block("worker-1").String() {
								from = append(from, netip.MustParseAddr(route.LearnedFrom.PeerIP))
								best = append(best, route.Type)
							}
						}
						slices.SortFunc(from, netip.Addr.Compare)
						require.Equal(c, want, from)
					}, patience, 100*time.Millisecond)
					slices.Sort(best)
					require.Equal(t, []apiv3.CalicoNodeRouteType{"FIB", "RIB", "RIB", "RIB"}, best, "one path is the best, the others are listed too")
				})
			}
			setMesh(t, l, false)
			awaitNoMesh(t, l)
			watch(t.Context(), 2*time.Second)
			require.Len(t, requireNothingLost(t, l, phase).Pairs, 30)
			sessions, err := l.Sessions("worker-0")
			require.NoError(t, err)
			require.Len(t, sessions, 3, "the mesh is still there: %v", sessions)
		})
	}
}

// awaitPaths waits until every worker has a path to every other one's pods from each reflector.
func awaitPaths(t *testing.T, l *lab.Lab) {
	t.Helper()
	workers := slices.DeleteFunc(l.Nodes(), func(name string) bool { return !l.Block(name).IsValid() })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, on := range workers {
			paths, err := l.Paths(on)
			require.NoError(c, err)
			for _, to := range workers {
				for _, from := range reflectors {
					require.True(c, on == to || paths[l.Block(to)][l.Address(from)] > 0, "%s has no path to %s from %s", on, to, from)
				}
			}
		}
	}, patience, 100*time.Millisecond)
}

// awaitNoMesh waits until no node has a session of the mesh, whatever its state.
func awaitNoMesh(t *testing.T, l *lab.Lab) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, name := range l.Nodes() {
			sessions, err := l.Sessions(name)
			require.NoError(c, err)
			for _, session := range sessions {
				require.False(c, session.Mesh(), "%s: %+v", name, session)
			}
		}
	}, patience, 100*time.Millisecond)
}

func makeReflectors(t *testing.T, l *lab.Lab) {
	t.Helper()
	patchReflectors(t, l, fmt.Sprintf(`{"metadata":{"labels":{%q:""},"annotations":{"projectcalico.org/RouteReflectorClusterID":%q}}}`, roleLabel, clusterID))
}

func patchReflectors(t *testing.T, l *lab.Lab, patch string) {
	t.Helper()
	for _, name := range reflectors {
		_, err := l.Kube().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

func createPeer(t *testing.T, l *lab.Lab, password *apiv3.BGPPassword) {
	t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name = "reflectors"
	peer.Spec = apiv3.BGPPeerSpec{NodeSelector: "all()", PeerSelector: "has(" + roleLabel + ")", Password: password}
	_, err := l.Calico().BGPPeers().Create(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err)
}

// setMesh switches the mesh, without a password, which it may not keep when it goes.
func setMesh(t *testing.T, l *lab.Lab, on bool) {
	t.Helper()
	config, err := l.Calico().BGPConfigurations().Get(t.Context(), "default", options.GetOptions{})
	if err != nil {
		config = apiv3.NewBGPConfiguration()
		config.Name = "default"
	}
	config.Spec.NodeToNodeMeshEnabled, config.Spec.NodeMeshPassword = &on, nil
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
