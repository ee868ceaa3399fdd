package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
)

// input is an invented cluster and the default object.
func input(nodes, zones int, provider v1alpha1.ProviderType) Input {
	object := crd.Default()
	c := invent.Cluster{Spec: object.Spec, Nodes: nodes, Zones: invent.Names("zone-", zones)}
	return Input{&snapshot.Snapshot{Object: object, Scope: pool.Scope{Provider: provider, Cluster: c.InFullMesh()}}, cli.Now}
}

func planOf(t require.TestingT, in Input) *Plan {
	f, err := Run(context.Background(), in)
	require.NoError(t, err)
	return f
}

// writes are all changes of all steps.
func (p *Plan) writes() []string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.Writes...)
	}
	return out
}

// after is the input that a plan ends with.
func after(f *Plan, mode v1alpha1.Mode) Input {
	object := f.in.Object.DeepCopy()
	object.Spec.Mode = mode
	cluster := f.final.Cluster
	cluster.Nodes, cluster.Statuses = slices.Clone(cluster.Nodes), maps.Clone(cluster.Statuses)
	scope := pool.Scope{Provider: f.in.Provider, Cluster: cluster, Pool: f.final.Pool}
	return Input{&snapshot.Snapshot{Object: object, Scope: scope, Pods: f.in.Pods}, cli.Now.Add(24 * time.Hour)}
}

// Whatever the cluster, the manager gets to the end, rests there, and gets back. With
// dedicated nodes no packet is lost, with existing ones those of the first node.
func TestEveryPlanEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := rapid.SampledFrom([]v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes}).Draw(t, "provider")
		nodes := rapid.IntRange(3, 7).Draw(t, "nodes")
		in := input(nodes, rapid.IntRange(1, min(3, nodes)).Draw(t, "zones"), provider)
		lost := 0
		if provider == v1alpha1.ProviderExistingNodes {
			lost = 1
			if rapid.Bool().Draw(t, "an idle node") {
				in.Pods, lost = map[string]int{in.Cluster.Nodes[0].Name: 0}, 0
			}
		}
		there := planOf(t, in)
		if there.Problem != nil && there.Problem.Reason == "TooFewNodes" {
			require.Empty(t, there.writes())
			return
		}
		require.True(t, there.Settled, there.Problem)
		require.Len(t, there.Loss, lost)
		require.False(t, there.After.MeshOn)
		require.GreaterOrEqual(t, there.After.Reflectors, 3)

		rest := planOf(t, after(there, v1alpha1.ModeRouteReflector))
		require.True(t, rest.Settled)
		require.Empty(t, rest.writes(), "at rest nothing is written")

		back := planOf(t, after(there, v1alpha1.ModeFullMesh))
		require.True(t, back.Settled)
		require.Len(t, back.Loss, lost)
		require.True(t, back.After.MeshOn)
		require.Zero(t, back.After.Reflectors)
	})
}

// fill sets every field of what is observed, and of what is in it, those that come later too.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	number := byte(*n)
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(cli.Now.Add(-time.Duration(*n) * time.Second)))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{10, 0, 0, number})))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, number, 0}), 24)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text-", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(number))
	default:
		require.Fail(t, "fields of this kind are not filled: "+v.Type().String())
	}
}

// The model of a plan begins as what was observed. What the manager decides by and the model does not have would make a
// plan that the manager does not follow: so these are all exceptions, each with its reason.
func TestAPlanBeginsWithAllThatWasObserved(t *testing.T) {
	var seen plan.Cluster
	n := 0
	fill(t, reflect.ValueOf(&seen).Elem(), &n)
	seen.Peers[0].Peering = ""
	want := seen
	want.Peers = slices.Clone(seen.Peers)
	of := seen.Peers[0]
	of.Name, of.Peering = "of a ClusterPeering", "b"
	seen.Peers = append(seen.Peers, of) // another controller moves it
	want.Routes.Unknown = ""            // the manager may see what this user may not: Assumes says it
	want.Statuses = nil                 // all sessions that are configured count as Established: Assumes says where they are not

	e := newEnvironment(Input{&snapshot.Snapshot{Object: crd.Default(), Scope: pool.Scope{Provider: v1alpha1.ProviderExistingNodes, Cluster: seen}}, cli.Now})
	got, err := e.Observe(t.Context(), plan.DatastoreOptions{})
	require.NoError(t, err)
	got.Statuses = nil
	require.Equal(t, want, got)
}

// What is not known is never shown as right.
func TestAPlanSaysWhatItAssumes(t *testing.T) {
	unknown := func(in Input) Input {
		in.Name, in.Cluster.Routes.Unknown = "prod", "ippools: forbidden"
		in.Step.Problem = &plan.Problem{Reason: "RoutesUnknown"}
		return in
	}
	for name, c := range map[string]struct {
		in   Input
		says string
		code error
	}{
		"who programs routes": {unknown(input(6, 3, v1alpha1.ProviderIKS)), "‼ whether BGP carries the routes to pods is not known: ippools: forbidden; the steps below", iostreams.ExitError(2)},
		"no provider": {func() Input {
			in := input(6, 3, v1alpha1.ProviderIKS)
			in.Name, in.ProviderProblem = "prod", &plan.Problem{Reason: "CredentialsMissing", Message: "store one"}
			return in
		}(), "‼ First: CredentialsMissing: store one", errors.New("CredentialsMissing: store one")},
		"a provider that is busy": {func() Input {
			in := input(6, 3, v1alpha1.ProviderIKS)
			in.Name, in.ProviderProblem = "prod", &plan.Problem{Reason: "CloudRateLimited", Message: "wait"}
			return in
		}(), "‼ First: CloudRateLimited: wait", iostreams.ExitError(2)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := planOf(t, c.in)
			Show(cli.Defaults(iostreams.Streams{Out: &out}), p)
			require.True(t, p.Settled, "the steps are shown")
			require.Contains(t, out.String(), c.says)
			require.NotContains(t, out.String(), "√")
			require.Equal(t, c.code, p.Verdict())
		})
	}
}

// Where the mesh is off and was so before, a plan claims no outage that it cannot see.
func TestAPlanClaimsNoOutageThatItCannotSee(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*plan.Cluster)
		lost  int
		shows string
	}{
		"routers outside": {func(c *plan.Cluster) { c.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001}} }, 0, "routers outside, 6 nodes"},
		"routers of some": {func(c *plan.Cluster) {
			c.Peers = []plan.Peer{{Name: "tor", Node: c.Nodes[0].Name, PeerIP: "192.0.2.1"}}
		}, 5, "routers outside, 6 nodes"},
		"Felix":     {func(c *plan.Cluster) { c.Routes.Pools = []plan.PoolRoutes{{CIDR: "10.0.0.0/8", Felix: true}} }, 0, "no mesh, 6 nodes"},
		"not known": {func(c *plan.Cluster) { c.Routes.Unknown = "forbidden" }, 0, "no mesh, 6 nodes"},
		"nothing":   {func(*plan.Cluster) {}, 6, "no mesh, 6 nodes"},
		"reflectors made by hand": {func(c *plan.Cluster) {
			c.Nodes[0].ClusterID = "1.0.0.1"
			c.Peers = []plan.Peer{{Name: "p", PeerIP: c.Nodes[0].Addresses[0].String()}}
		}, 0, "other reflectors, 6 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(6, 3, v1alpha1.ProviderExistingNodes)
			off := false
			in.Cluster.BGP.Mesh.Enabled = &off
			c.edit(&in.Cluster)
			p := planOf(t, in)
			require.Len(t, p.LostAlready, c.lost)
			require.NotNil(t, p.Problem)
			require.Empty(t, p.writes())
			require.Equal(t, c.shows, p.Before.routes())
		})
	}
}

// Without staged promotion, the plan names the nodes that lose packets.
func TestAPlanNamesTheNodesThatLosePackets(t *testing.T) {
	in := input(6, 3, v1alpha1.ProviderExistingNodes)
	in.Object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionImmediate
	in.Pods = map[string]int{}
	for i, n := range in.Cluster.Nodes {
		in.Pods[n.Name] = 10 + i
	}
	f := planOf(t, in)
	require.True(t, f.Settled)
	require.Len(t, f.Loss, 3, "every node whose role changes")
	for _, l := range f.Loss {
		require.Equal(t, "PromoteReflectors", l.Step)
		require.GreaterOrEqual(t, l.Pods, 10)
	}
}

// The BGPPeers of a ClusterPeering, which another controller moves, neither stop a plan nor are in it.
func TestAClusterPeeringChangesNoPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		provider v1alpha1.ProviderType
		mode     v1alpha1.Mode
		least    int
	}{
		"to fewer workers":          {v1alpha1.ProviderIKS, v1alpha1.ModeRouteReflector, 3},
		"to fewer existing nodes":   {v1alpha1.ProviderExistingNodes, v1alpha1.ModeRouteReflector, 3},
		"at rest":                   {v1alpha1.ProviderIKS, v1alpha1.ModeRouteReflector, 6},
		"back to the mesh":          {v1alpha1.ProviderIKS, v1alpha1.ModeFullMesh, 6},
		"back, with existing nodes": {v1alpha1.ProviderExistingNodes, v1alpha1.ModeFullMesh, 6},
	} {
		t.Run(name, func(t *testing.T) {
			first := input(12, 3, tc.provider)
			first.Object.Spec.Sizing.Min = 6
			there := planOf(t, first)
			require.True(t, there.Settled, there.Problem)
			run := func(peered bool) *Plan {
				in := after(there, tc.mode)
				in.Object.Spec.Sizing.Min = int32(tc.least)
				in.Cluster.Peers, in.Cluster.Statuses = slices.Clone(in.Cluster.Peers), maps.Clone(in.Cluster.Statuses)
				for _, n := range in.Cluster.Nodes {
					if peered && n.ClusterID != "" {
						in.Cluster.Peers = append(in.Cluster.Peers, plan.Peer{
							Name: "rrpool-peering-b-" + n.Name, Peering: "b", Node: n.Name, PeerIP: "10.9.0.7", ASN: 64513, Filters: []string{"rrpool-peering-b"},
						})
						st := in.Cluster.Statuses[n.Name]
						st.Sessions = append(slices.Clone(st.Sessions), plan.Session{Peer: netip.MustParseAddr("10.9.0.7"), Kind: plan.SessionNode, Established: true})
						in.Cluster.Statuses[n.Name] = st
					}
				}
				return planOf(t, in)
			}
			got, want := run(true), run(false)
			require.Nil(t, got.Problem)
			require.True(t, got.Settled)
			require.Equal(t, want.Steps, got.Steps)
		})
	}
}

// A pool that grows and shrinks, and one that is drained first.
func TestPlansOfChanges(t *testing.T) {
	there := planOf(t, input(9, 3, v1alpha1.ProviderIKS))
	grow := after(there, v1alpha1.ModeRouteReflector)
	grow.Object.Spec.Sizing.Min = 6
	bigger := planOf(t, grow)
	require.True(t, bigger.Settled)
	require.Equal(t, 6, bigger.After.Reflectors)
	require.Empty(t, bigger.Loss)

	shrink := after(bigger, v1alpha1.ModeRouteReflector)
	shrink.Object.Spec.Sizing.Min = 3
	smaller := planOf(t, shrink)
	require.True(t, smaller.Settled, smaller.Problem)
	require.Equal(t, 3, smaller.After.Reflectors)
	require.Empty(t, smaller.Loss)

	in := input(6, 3, v1alpha1.ProviderExistingNodes)
	in.Object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
	in.Pods = map[string]int{"node-1": 2, "node-2": 2, "node-3": 2, "node-4": 2, "node-5": 2, "node-6": 2}
	drained := planOf(t, in)
	require.True(t, drained.Settled)
	require.Equal(t, []Loss{{Node: "node-1", Pods: -1, Step: "PromoteReflectors"}}, drained.Loss, "the number of pods that stay, such as those of DaemonSets, is unknown")
	require.Contains(t, drained.writes()[0], "into the pool")
}

// The plan says what the manager refuses, and ends with its context.
func TestPlansWithoutAnEnd(t *testing.T) {
	in := input(6, 3, v1alpha1.ProviderIKS)
	in.Cluster.Nodes[2].ASN = 64513
	f := planOf(t, in)
	require.False(t, f.Settled)
	require.NotNil(t, f.Problem)
	require.Empty(t, f.writes())

	paused := input(6, 3, v1alpha1.ProviderIKS)
	paused.Object.Spec.Mode = v1alpha1.ModePaused
	f = planOf(t, paused)
	require.Empty(t, f.writes())

	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Run(ctx, input(6, 3, v1alpha1.ProviderIKS))
	require.ErrorIs(t, err, context.Canceled)
}

// Pools half built, address families, clusters with problems.
func TestPlansOfClustersWithProblems(t *testing.T) {
	there := planOf(t, input(6, 3, v1alpha1.ProviderIKS))

	t.Run("workers that have no node yet", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		spec := in.Object.Spec.Provider.IKS
		in.Pool = &cloud.Pool{
			Exists: true, Owned: true, Name: spec.PoolName, SizePerZone: 1, Zones: []string{"zone-1", "zone-2", "zone-3"},
			Taints: []cloud.Taint{{Key: spec.Taint.Key, Value: spec.Taint.Value, Effect: string(spec.Taint.Effect)}},
		}
		for i, zone := range in.Pool.Zones {
			in.Pool.Workers = append(in.Pool.Workers, cloud.Worker{ID: fmt.Sprintf("kube-%d", i), Zone: zone, State: cloud.WorkerProvisioning})
		}
		f := planOf(t, in)
		require.True(t, f.Settled, f.Problem)
		require.Equal(t, 3, f.After.Reflectors)
		require.Contains(t, strings.Join(f.writes(), "\n"), "make node new-zone-1-1 ")
	})
	// What the provider would order is said as it says it, else as the cluster's workers show it.
	t.Run("the flavor of a pool to be ordered", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		in.Object.Spec.Provider.IKS.Flavor = ""
		for i := range in.Cluster.Nodes {
			in.Cluster.Nodes[i].Labels = map[string]string{"ibm-cloud.kubernetes.io/machine-type": "bx3d.8x40", "ibm-cloud.kubernetes.io/region": "eu-de"}
		}
		said := func() string {
			f := planOf(t, in)
			f.describe("")
			return f.After.Cost.Source
		}
		require.Contains(t, said(), "no price is known of bx3d.4x20 in eu-de")
		in.Pool = &cloud.Pool{Name: "route-reflectors", Flavor: "bx3d.8x40", ClusterZones: []string{"zone-1", "zone-2", "zone-3"}}
		require.Contains(t, said(), "no price is known of bx3d.8x40 in eu-de")
	})
	t.Run("writes that nobody can try", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		in.Untried = fmt.Errorf("trying whether the datastore lets rrpool write BGPPeer a: %w", webhookerrors.NewDryRunUnsupportedErr("policy.example.com"))
		notes := func() string {
			f := planOf(t, in)
			f.describe("")
			return strings.Join(f.Notes, "\n")
		}
		require.Contains(t, notes(), "takes no dry runs: trying whether the datastore lets rrpool write BGPPeer a: ")
		require.Contains(t, notes(), "policy.example.com")
		in.Untried = errors.New("nodes is forbidden")
		require.Contains(t, notes(), "could not be tried with your rights")
		in.Untried, in.Cluster.CalicoAPI, in.Step.Ahead = nil, calico.EtcdAPI, []plan.Action{plan.DisableMesh{}}
		require.Contains(t, notes(), "Calico's etcd would take what is written is not known")
	})
	t.Run("two address families", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		for i := range in.Cluster.Nodes {
			in.Cluster.Nodes[i].Addresses = append(in.Cluster.Nodes[i].Addresses, netip.AddrFrom16([16]byte{0xfd, 15: byte(i + 1)}))
		}
		require.True(t, planOf(t, in).Settled)
	})
	t.Run("a pool with another owner", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		in.Pool = &cloud.Pool{Exists: true, Name: "route-reflectors", SizePerZone: 1, Zones: []string{"zone-1"}}
		f := planOf(t, in)
		require.False(t, f.Settled)
		require.Equal(t, "PoolConflict", f.Problem.Reason)
	})
	t.Run("a zone that the cloud does not have", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		in.Pool = &cloud.Pool{ClusterZones: []string{"zone-1", "zone-2", "zone-3"}}
		in.Object.Spec.Provider.IKS.Zones = []string{"zone-1", "nowhere-1"}
		f := planOf(t, in)
		require.Contains(t, f.Problem.Message, "the cluster has no zone nowhere-1, it has zone-1, zone-2, zone-3")
		require.Equal(t, plan.Docs+"runbook/conditions.md#cloudinvalidinput", Page(f.Problem.Reason))
	})
	t.Run("no node is Ready", func(t *testing.T) {
		in := input(6, 3, v1alpha1.ProviderIKS)
		for i := range in.Cluster.Nodes {
			in.Cluster.Nodes[i].Ready = false
		}
		f := planOf(t, in)
		require.False(t, f.Settled)
		require.Equal(t, "Waits", f.Problem.Reason)
	})
	t.Run("all reflectors dead while the mesh is off", func(t *testing.T) {
		in := after(there, v1alpha1.ModeRouteReflector)
		for i := range in.Cluster.Nodes {
			if in.Cluster.Nodes[i].HasRoleLabel {
				in.Cluster.Nodes[i].Ready, in.Cluster.Nodes[i].ReadyChanged = false, in.Now.Add(-time.Hour)
			}
		}
		f := planOf(t, in)
		require.Len(t, f.LostAlready, 6, "all, not two for all")
		require.Empty(t, f.Loss)
		require.Contains(t, f.writes()[0], "switch the node-to-node mesh on")
	})
	t.Run("sessions that are down", func(t *testing.T) {
		in := after(there, v1alpha1.ModeRouteReflector)
		in.Name = "prod"
		for name, st := range in.Cluster.Statuses {
			st.Sessions = slices.Clone(st.Sessions)
			for i := range st.Sessions {
				st.Sessions[i].Established = false
			}
			in.Cluster.Statuses[name] = st
		}
		in.Step = rollout.Step{Name: "RestoreMesh", Urgent: true}
		in.Status.Step.Name = "RestoreMesh"
		for _, n := range in.Cluster.Nodes {
			if n.HasRoleLabel {
				in.Step.Reflectors = append(in.Step.Reflectors, evidence.Reflector{Node: n.Name, Expected: 8})
			}
		}
		v := planOf(t, in)
		v.describe("")
		require.True(t, v.Changes, "never code 0")
		require.Contains(t, v.Assumes, "24 sessions with route reflectors are not Established now")
		require.Equal(t, "RestoreMesh", v.Now.Name)
	})
	t.Run("a deletion while paused", func(t *testing.T) {
		in := after(there, v1alpha1.ModePaused)
		in.Object.DeletionTimestamp = &metav1.Time{Time: in.Now}
		f := planOf(t, in)
		require.True(t, f.Settled)
		require.True(t, f.After.MeshOn)
		require.Contains(t, subject(f.in), "deleted, so back to the full mesh")
	})
}

// scene is a question, and the exit code of its answer.
type scene struct {
	args []string
	code int
}

// scenes are the questions. The answers to some are kept.
func scenes(t *testing.T) map[string]scene {
	t.Helper()
	file := func(spec string) string { return cli.PoolFile(t, spec) }
	return map[string]scene{
		"dedicated-small": {[]string{"--nodes", "6", "--zones", "1"}, 2},
		"existing":        {[]string{"--nodes", "5", "--zones", "2", "-f", file("{provider: {type: ExistingNodes}}")}, 2},
		"immediate": {[]string{
			"--nodes", "4", "--zones", "1", "-f", file("{provider: {type: ExistingNodes, existingNodes: {promotion: Immediate}}}"),
		}, 2},
		"own-sizing":     {[]string{"--nodes", "40", "--zones", "2", "-f", file("{sizing: {method: Linear, ratio: '0.1'}, provider: {iks: {flavor: own.2x4}}}")}, 2},
		"on-the-mesh":    {[]string{"--nodes", "10", "--mode", "FullMesh"}, 0},
		"paused":         {[]string{"--nodes", "10", "-f", file("{mode: Paused}")}, 0},
		"too-few-nodes":  {[]string{"--nodes", "3", "-f", file("{provider: {type: ExistingNodes}}")}, 1},
		"too-many-zones": {[]string{"--nodes", "60", "--zones", "30"}, 1},
		"quorum":         {[]string{"--nodes", "60", "-f", file("{topology: {type: Quorum}, sizing: {min: 9}}")}, 2},
		"racks-by-size":  {[]string{"--nodes", "60", "--zones", "1", "-f", file("{topology: {type: Hierarchy, maxClientsPerReflector: 30}}")}, 2},
		"too-many-paths": {[]string{"--nodes", "60", "-f", file("{topology: {type: MultiCluster}, sizing: {min: 9}}")}, 1},
	}
}

// kept are the scenes whose tables are kept. docs/plan.md has the one of a dedicated pool.
var kept = []string{"existing", "paused", "quorum", "too-many-paths"}

// Each scene as a table; on narrow terminals all have narrow lines.
func TestTables(t *testing.T) {
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"plan"}, tc.args...)
			got := cli.Ask(t, New, args...)
			require.Equal(t, tc.code, got.Code, got.Err)
			if name == "immediate" {
				require.Contains(t, got.Out, "‼ Packets are lost: any pods on node-1 at PromoteReflectors, any pods on node-2 at PromoteReflectors, any pods on node-3 at PromoteReflectors and 1 more")
			}
			if slices.Contains(kept, name) {
				cli.Golden(t, name+".golden", got.Out)
			}
			switch tc.code {
			case 0:
				require.Contains(t, got.Out, "√ There is nothing to do.")
				require.Empty(t, got.Err, "nothing but the plan")
			case 1:
				require.Contains(t, got.Out, "× It does nothing: ")
				cli.RequireSentence(t, got.Err)
			default:
				require.Contains(t, got.Out, " steps, about ")
				require.Empty(t, got.Err, "nothing but the plan")
			}
			s := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
			small := cli.AskIn(t, s, New, args...)
			require.Equal(t, tc.code, small.Code, small.Err)
			cli.RequireWidth(t, small.Out, 60)
		})
	}
	cli.Golden(t, "existing.json.golden", cli.Ask(t, New, append([]string{"plan", "-o", "json"}, scenes(t)["existing"].args...)...).Out)
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	cli.RequireBad(t, New, "plan", map[string]cli.Bad{
		"too many nodes":                {[]string{"--nodes", "5001"}, []string{"--nodes", `"5001"`, "from 3 to 5000"}},
		"zones without nodes":           {[]string{"--zones", "3"}, []string{"--zones", "give --nodes as well"}},
		"an unknown mode":               {[]string{"--mode", "Mesh"}, []string{"--mode", `"Mesh"`, "RouteReflector, FullMesh"}},
		"a cluster and an invented one": {[]string{"--nodes", "9", "--context", "x"}, []string{"[context nodes] were all set"}},
		"a region that cannot be":       {[]string{"--nodes", "9", "--region", "Frankfurt am Main"}, []string{"--region", "such as eu-de"}},
		"zones of a real cluster":       {[]string{"--nodes", "9", "-f", cli.PoolFile(t, "{provider: {iks: {zones: [eu-de-1]}}}")}, []string{"spec.provider.iks.zones", "leave the field out"}},
		"no kubeconfig":                 {[]string{"--kubeconfig", "/nonexistent"}, []string{"--kubeconfig", "without a cluster: rrpool plan --nodes 500 --zones 3"}},
	})
}

func TestMain(m *testing.M) { cli.Main(m) }

func TestTheExamplesOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "plan", func(args ...string) cli.Answer { return cli.Ask(t, New, args...) })
}

// On a real apiserver: what a user must be allowed, one right after the other, and the
// plan for a cluster with and without a RouteReflectorPool.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "planner")
	admin := a.Admin
	for i := range 5 {
		a.Node(fmt.Sprintf("node-%d", i), "a", fmt.Sprintf("10.9.0.%d", i+1))
	}
	args := []string{"plan", "-o", "table", "--kubeconfig", a.Kubeconfig()}
	asked := func() cli.Answer { return cli.Ask(t, New, args...) }
	role, rights := metav1.ObjectMeta{Name: "rrpool-planner"}, cli.Roles(t, "plan")[0].Rules
	for i, missing := range []string{"may not get routereflectorpools.rrpool.io", "", "crd.projectcalico.org"} {
		a.Grant(role, rights[:i]...)
		got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, missing) })
		require.Empty(t, got.Out)
		cli.RequireSentence(t, got.Err)
	}
	a.Grant(role, rights[:3]...)
	got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 })
	require.Contains(t, got.Out, "The pods were not counted: the user of context \"rrpool\" may not list pods")
	require.Contains(t, got.Out, "Next: rrpool migrate")
	a.Grant(role, rights...)
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 && strings.Contains(a.Out, "runs no pods") })
	require.Contains(t, got.Out, "Whether calico-node runs BIRD is not known: no pod of calico-node is seen")
	require.Contains(t, got.Out, "\nNo packet between pods is lost by these steps.", "no √ about what was not seen")
	require.Contains(t, got.Out, "has no RouteReflectorPool")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	object.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, admin.Create(t.Context(), object))
	got = cli.Ask(t, New, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "There is nothing to do.")
	got = cli.Ask(t, New, append(args, "--mode", "RouteReflector")...)
	require.Equal(t, 2, got.Code)
	require.NotContains(t, got.Out, "has no RouteReflectorPool")
	got = cli.Ask(t, New, append(args, "-f", cli.PoolFile(t, "{provider: {type: IKS}}"))...)
	require.Equal(t, 1, got.Code, "as check does")
	cli.RequireSentence(t, got.Err, "ClusterIDUnknown")
	require.Contains(t, got.Out, "‼ First: ClusterIDUnknown")
	require.Contains(t, got.Out, "Next: rrpool check")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bgppeers.crd.projectcalico.org"}}
	require.NoError(t, admin.Delete(t.Context(), crd))
	// The CRD goes by and by: its watch may end before its list does.
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, "CalicoNotInstalled") })
	cli.RequireSentence(t, got.Err, "CalicoNotInstalled")
}

// A server that lists but never answers a watch does not hold the command up.
func TestAWatchThatHangs(t *testing.T) {
	var watched atomic.Bool
	path := cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			watched.Store(true)
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/routereflectorpools/default"):
			cli.Fail(w, cli.NotFound)
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"crd.projectcalico.org/v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		}
	}))
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	got := cli.Run(ctx, iostreams.Streams{}, cli.Root(New), "plan", "--kubeconfig", path, "--request-timeout", "2s")
	require.NoError(t, ctx.Err(), "the command hangs")
	require.True(t, watched.Load(), "it came as far as that: %s", got.Err)
}
