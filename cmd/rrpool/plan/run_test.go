package plan

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
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
			if in.Cluster.Nodes[i].RoleLabel {
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
			if n.RoleLabel {
				in.Step.Reflectors = append(in.Step.Reflectors, rollout.Reflector{Node: n.Name, Expected: 8})
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
