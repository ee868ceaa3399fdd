package pool_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

const (
	ourPool  = "route-reflectors"
	ourLabel = v1alpha1.PoolLabel + "=" + ourPool
)

// degraded gives reason and message of the condition Degraded, "" while it is False.
func (e *environment) degraded() string {
	e.Helper()
	if c := e.condition(v1alpha1.ConditionDegraded); c.Status == "True" {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// A person sets another label on the pool, and IBM's command takes all others off. The cluster keeps its reflectors, the
// deletion waits with the pool's name and the label, and goes on when that is back.
func TestThePoolsLabelIsLost(t *testing.T) {
	for _, manager := range []string{"the same", "another", "of an earlier version before"} {
		inCloud(t, func(o *cloudEnvironment) {
			reflectors, before := o.reflectors(), len(o.applied)
			o.server.SetPoolLabels(clusterID, ourPool, map[string]string{"team": "network"})
			if manager == "of an earlier version before" { // which wrote no ID down
				o.edit(func(p *v1alpha1.RouteReflectorPool) { delete(p.Annotations, v1alpha1.PoolsAnnotation) })
			}
			if manager != "the same" {
				o.restart()
			}
			o.pass(10 * time.Minute)
			require.Equal(t, reflectors, o.reflectors())
			require.Len(t, o.applied, before, "routing is left as it is")
			require.True(t, strings.HasPrefix(o.degraded(), "PoolConflict: "), o.degraded())
			require.Contains(t, o.degraded(), ourLabel)
			require.NotContains(t, o.degraded(), "remove that pool")
			require.Equal(t, ourPool, o.object().Status.Pool)

			o.delete()
			o.pass(2 * time.Hour)
			require.False(t, o.gone(), "three workers are paid for")
			require.Contains(t, o.degraded(), ourLabel)
			require.Contains(t, strings.Join(o.object().Status.Step.WaitingFor, ""), "Retain")
			o.server.SetPoolLabels(clusterID, ourPool, map[string]string{"team": "network", v1alpha1.PoolLabel: ourPool})
			require.True(t, o.until(time.Hour, o.gone))
			require.NotContains(t, o.server.Pools(clusterID), ourPool)
			require.Empty(t, o.lost)
		}, deletingThePool)
	}
}

func deletingThePool(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
}

// With Retain the object goes, whatever became of the label.
func TestALostLabelDoesNotHoldWhatIsRetained(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		o.server.SetPoolLabels(clusterID, ourPool, nil)
		o.pass(10 * time.Minute)
		o.delete()
		require.True(t, o.until(time.Hour, o.gone))
		require.Len(t, o.server.Workers(clusterID, ourPool), 3)
	})
}

// What is remembered of our pools is their IDs, on the object. One that is not ours by label or ID is left, and named.
func TestThePoolsThatWereOurs(t *testing.T) {
	e := newEnvironment(t, deletingThePool)
	e.script = always(steady)
	for _, id := range []string{"p1", "p2", "p2", "p3", "p4", "p5"} {
		e.cloud.pool = cloud.Pool{Exists: true, Owned: true, Name: ourPool, ID: id}
		e.after(10 * time.Minute)
	}
	require.Equal(t, "p2,p3,p4,p5", e.object().Annotations[v1alpha1.PoolsAnnotation])
	e.cloud.pool.Owned, e.cloud.pool.Unmarked = false, "it lacks "+ourLabel
	e.after(10 * time.Minute)
	require.Contains(t, e.degraded(), ourLabel)
	e.delete()
	e.after(10 * time.Minute)
	require.False(t, e.gone())
	e.cloud.pool.ID, e.cloud.pool.Unmarked = "theirs", ""
	e.after(10 * time.Minute)
	require.True(t, e.gone())
	require.Zero(t, e.cloud.deleted)
	require.Contains(t, strings.Join(e.emitted, "\n"), "worker pool "+ourPool+", which rrpool did not make, is left as it is")
}

// A policy that refuses the note is told, and holds up neither the looks nor the release.
func TestARefusedNoteHoldsNothingUp(t *testing.T) {
	e := newEnvironment(t, deletingThePool)
	e.script = always(steady)
	e.cloud.pool = cloud.Pool{Exists: true, Owned: true, Name: ourPool, ID: "p1"}
	e.reconciler.Client = interceptor.NewClient(e.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetAnnotations()[v1alpha1.PoolsAnnotation] != "" && len(o.GetFinalizers()) > 0 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "routereflectorpools"}, o.GetName(), errors.New("by a policy"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	for range 3 {
		require.NoError(t, e.reconcile())
		require.Positive(t, e.result.RequeueAfter)
		e.clock = e.clock.Add(10 * time.Minute)
	}
	require.Contains(t, e.degraded(), "by a policy")
	e.delete()
	require.NoError(t, e.reconcile())
	require.True(t, e.gone())
}

// A manager that starts, and a command, look for each of these IDs: those of pools that are gone go from the object.
func TestThePoolsThatAreGoneAreForgotten(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(steady)
	of := func(id string, gone ...string) string {
		e.cloud.pool = cloud.Pool{Exists: id != "", Owned: id != "", Name: ourPool, ID: id, Gone: gone}
		e.after(10 * time.Minute)
		return e.object().Annotations[v1alpha1.PoolsAnnotation]
	}
	require.Equal(t, "p1", of("p1"))
	require.Equal(t, "p1,p2", of("p2"))
	require.Equal(t, "p2", of("p2", "p1"))
	require.Empty(t, of("", "p2"))
	require.NotContains(t, e.object().Annotations, v1alpha1.PoolsAnnotation)

	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused })
	require.Equal(t, "p3", of("p3"), "a pause is no reason to forget")

	inCloud(t, func(o *cloudEnvironment) {
		stale := o.object()
		stale.Annotations = map[string]string{v1alpha1.PoolsAnnotation: "gone-for-long"}
		o.server.RemovePool(clusterID, ourPool)
		o.pass(5 * time.Minute)
		o.restart()
		scope, err := o.reconciler.Look(t.Context(), stale)
		require.NoError(t, err)
		require.Nil(t, scope.ProviderProblem, "a command looks once")
	})
}

// A pool that was never looked at is not known to be gone.
func TestNothingIsReleasedUnseen(t *testing.T) {
	e := newEnvironment(t, deletingThePool)
	e.script = always(steady)
	e.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "observing", Message: "no answer"}
	e.delete()
	e.settle(5)
	require.False(t, e.gone())
	require.Zero(t, e.cloud.deleted)
	e.cloud.observeErr = nil
	e.after(10 * time.Minute)
	require.True(t, e.gone())
}

// The pool, and a worker, do not go: what the cloud says of it is said, and in the end that it may take a person.
func TestWhatStaysOnItsWayOutIsSaid(t *testing.T) {
	e := newEnvironment(t, deletingThePool)
	e.script = always(steady)
	words := "worker w9 in zone z1: Deleting (Incorrect account for worker)"
	e.cloud.pool = cloud.Pool{Exists: true, Owned: true, Name: ourPool, ID: "p1", Workers: []cloud.Worker{
		{ID: "w9", Zone: "z1", State: cloud.WorkerDeleting, Message: "Incorrect account for worker"},
	}}
	e.settle(2)
	require.Empty(t, e.degraded())
	e.after(15 * time.Minute)
	require.Empty(t, e.degraded())
	e.after(30 * time.Minute)
	require.True(t, strings.HasPrefix(e.degraded(), "PoolProblem: ") && strings.Contains(e.degraded(), words), e.degraded())

	for range 20 {
		e.cloud.deletion = append(e.cloud.deletion, cloud.Progress{WaitingFor: "the pool to be deleted (" + words + ")"})
	}
	e.cloud.pool.Workers = nil
	e.after(10 * time.Minute)
	e.delete()
	e.after(10 * time.Minute)
	require.Empty(t, e.degraded())
	e.after(40 * time.Minute)
	e.after(40 * time.Minute)
	require.True(t, strings.HasPrefix(e.degraded(), "WorkersLate: ") && strings.Contains(e.degraded(), words), e.degraded())
	require.False(t, e.gone())
}

// A worker is set up for ever, and another one of its zone is dead: both are replaced in the end, and it is said. A deletion that
// fails is asked for again, though nothing else is left to do.
func TestWhatNeverEndsHoldsNothingUp(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		stuck := o.server.Workers(clusterID, ourPool)[0]
		o.server.Break(clusterID, stuck.ID, "provisioning", "pending", "waiting for a machine")
		o.server.Hold(clusterID, stuck.ID)
		dead := o.server.Workers(clusterID, ourPool)[1]
		require.Equal(t, stuck.Zone, dead.Zone)
		o.fail(stuck.IP)
		o.die(dead.IP)
		o.pass(time.Hour)
		require.Contains(t, ids(o), dead.ID, "its zone is getting one")
		require.True(t, o.until(2*time.Hour, func() bool {
			return strings.Contains(o.degraded(), "being set up for more than 2h") && strings.Contains(o.degraded(), "waiting for a machine")
		}), o.degraded())
		require.True(t, o.until(3*time.Hour, o.at(rollout.Steady)))
		require.NotContains(t, ids(o), stuck.ID)
		require.NotContains(t, ids(o), dead.ID)
		require.Empty(t, o.lost)

		o.server.Break(clusterID, ids(o)[0], "delete_failed", "critical", "Incorrect account")
		failed := ids(o)[0]
		require.True(t, o.until(3*time.Hour, func() bool { return !slices.Contains(ids(o), failed) }))
		require.True(t, o.until(3*time.Hour, o.at(rollout.Steady)))
		require.Len(t, ids(o), 6)
	}, size(2))
}

func ids(o *cloudEnvironment) (out []string) {
	for _, w := range o.server.Workers(clusterID, ourPool) {
		out = append(out, w.ID)
	}
	return out
}

// A node that is no worker of the cluster, whatever it registers with, does not cut the manager off from the cloud.
func TestANodeOfAnotherKindJoins(t *testing.T) {
	for _, id := range []string{"ibm:///us-south/0717_instance", "ibm://acc///other/w", "ibm://x", "ibm:///a/b/c/d/e"} {
		inCloud(t, func(o *cloudEnvironment) {
			o.model.Join(plan.Node{Name: "10.0.0.77", Zone: "z1", Ready: true, Created: time.Now(), ReadyChanged: time.Now(), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.77")}, ProviderID: id})
			o.pass(10 * time.Minute)
			require.True(t, o.is("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected"), "%s: %v", id, o.object().Status.Conditions)
		})
	}
}
