package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// What is ordered for a reflector that is about to go, at rest.
func TestWhenSubstitutesAreOrdered(t *testing.T) {
	cordon := func(w *world, o *rollout.Observed) { seen(w, o, 0).Cordoned = true }
	for name, tc := range map[string]struct {
		do   func(*world, *rollout.Observed)
		want int // workers per zone: 1 is what there are
	}{
		"none at rest":                {func(*world, *rollout.Observed) {}, 1},
		"one for a cordoned node":     {cordon, 2},
		"one for a node with a taint": {func(w *world, o *rollout.Observed) { seen(w, o, 0).Leaving = true }, 2},
		"one for outdated workers, however many": {func(_ *world, o *rollout.Observed) {
			for i := range o.Pool.Workers {
				o.Pool.Workers[i].Outdated = true
			}
		}, 2},
		"none for our own cordon": {func(w *world, o *rollout.Observed) {
			cordon(w, o)
			seen(w, o, 0).CordonedByUs = true
		}, 1},
		"none for a worker that the cloud deletes": {func(w *world, o *rollout.Observed) {
			cordon(w, o)
			o.Pool.Workers[0].Deleting = true
		}, 1},
		"none for a worker that the cloud reloads": {func(w *world, o *rollout.Observed) {
			cordon(w, o)
			o.Pool.Workers[0].Pending = true
		}, 1},
		"one while another reflector is away": {func(w *world, o *rollout.Observed) { cordon(w, o); unready(w, o, 1) }, 2},
		"none while the mesh is on": {func(w *world, o *rollout.Observed) {
			cordon(w, o)
			o.BGP.Mesh.Enabled, o.BGP.Restored = nil, w.now.Add(-time.Hour)
		}, 1},
		"none for a cordon that may be over soon": {func(w *world, o *rollout.Observed) {
			cordon(w, o)
			o.LeavingSince = w.now.Add(-89 * time.Second)
		}, 1},
		"none for a cordon that is seen first": {func(w *world, o *rollout.Observed) { cordon(w, o); o.LeavingSince = time.Time{} }, 1},
		"none while the pool is unknown":       {func(w *world, o *rollout.Observed) { cordon(w, o); o.Pool = nil }, 1},
		"none for a node of others": {func(_ *world, o *rollout.Observed) {
			for i := range o.Nodes {
				o.Nodes[i].Cordoned = !o.Nodes[i].Pooled
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			reported(w, &o)
			o.LeavingSince = w.now.Add(-90 * time.Second)
			tc.do(w, &o)
			require.Equal(t, tc.want, max(ensured(w.next(o)).SizePerZone, w.d.Pool.SizePerZone))
		})
	}
}

// A worker that is there for a while only, and dead, is replaced in the zone that needs it.
func TestADeadSubstituteIsReplacedWhereOneIsNeeded(t *testing.T) {
	for zone, replaced := range map[int][]string{0: {"dead"}, 1: nil} {
		w, o := migrated(t)
		reported(w, &o)
		o.LeavingSince = w.now.Add(-90 * time.Second)
		seen(w, &o, 0).Cordoned = true
		dead := w.addNode("dead", seen(w, &o, zone).Zone, true).Node
		dead.Ready, dead.ReadyChanged = false, w.now.Add(-16*time.Minute)
		o.Nodes, o.Pool.SizePerZone = append(o.Nodes, dead), 2
		o.Pool.Workers = append(o.Pool.Workers, rollout.ObservedWorker{ID: "dead", Node: "dead", Zone: dead.Zone})
		want := w.d.Pool
		want.SizePerZone, want.Replace = 2, replaced
		require.Equal(t, []plan.Action{plan.EnsurePool{Want: want}}, w.next(o).Actions)
	}
}

// Of two reflectors of a zone one is dead and one is cordoned, and elsewhere a worker goes. The dead one is no substitute: it waits.
func TestADeadReflectorIsNotReplacedAsASubstitute(t *testing.T) {
	w, _ := migrated(t)
	w.d.Pool.SizePerZone = 2
	require.Empty(t, w.settle())
	o := w.observe()
	reported(w, &o)
	o.LeavingSince = w.now.Add(-90 * time.Second)
	cordoned := seen(w, &o, 0)
	cordoned.Cordoned = true
	dead := &o.Nodes[slices.IndexFunc(o.Nodes, func(n plan.Node) bool { return n.Pooled && n.Zone == cordoned.Zone && !n.Cordoned })]
	dead.Ready, dead.ReadyChanged = false, w.now.Add(-16*time.Minute)
	for name := range o.Statuses {
		editStatus(&o, name, func(s *plan.Status) {
			s.Sessions = slices.DeleteFunc(s.Sessions, func(p plan.Session) bool { return p.Peer == dead.Addresses[0] })
		})
	}
	o.Pool.Workers = append(o.Pool.Workers, rollout.ObservedWorker{ID: "going", Zone: seen(w, &o, 1).Zone, Deleting: true})
	want := w.d.Pool
	want.SizePerZone = 3
	require.Equal(t, []plan.Action{plan.EnsurePool{Want: want}}, w.next(o).Actions)
}

// Workers that come are as outdated as those that are there: no more are ordered than one for each zone, and none is removed.
func TestOutdatedWorkersAreNotReplacedByOutdatedOnes(t *testing.T) {
	w, _ := migrated(t)
	before := w.reflectors()
	for range 1200 {
		disturbances["workers outdated"](w, 0)
		require.Empty(t, w.run(1))
	}
	require.Equal(t, before, w.reflectors())
	require.Len(t, w.pool.Workers, 6)
	require.Contains(t, w.story(), "is outdated and so are the new ones")
}

// With several reflectors in a zone each gets its substitute, and the pool ends as large as it was.
func TestAllWorkersOfALargerPoolAreRenewed(t *testing.T) {
	w, _ := migrated(t)
	w.d.Pool.SizePerZone = 3
	require.Empty(t, w.settle())
	disturbances["workers outdated"](w, 0)
	require.Empty(t, w.settle())
	require.Len(t, w.reflectors(), 9)
	require.Len(t, w.pool.Workers, 9)
	for _, x := range w.pool.Workers {
		require.False(t, x.Outdated, x.ID)
	}
}
