package rollout_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// backup is what of us a backup of the apiserver holds.
type backup struct {
	bgp   plan.BGPConfig
	peers map[string]plan.Peer
	nodes map[string]plan.Node
}

func (w *world) backup() backup {
	b := backup{bgp: w.bgp, peers: maps.Clone(w.peers), nodes: map[string]plan.Node{}}
	for name, m := range w.nodes {
		b.nodes[name] = m.Node
	}
	return b
}

// restore puts a backup back. A node that joined since registers itself anew, without what was written on it.
func (w *world) restore(b backup) {
	w.bgp, w.peers = b.bgp, maps.Clone(b.peers)
	for name, m := range w.nodes {
		n := b.nodes[name]
		m.RoleLabel, m.ClusterID, m.Marked, m.RoleSince, m.Slot = n.RoleLabel, n.ClusterID, n.Marked, n.RoleSince, n.Slot
	}
	w.crash()
	w.changed()
}

// What docs/operations.md says of disasters: whatever is lost at once is back within the
// time that the mesh takes to come up, and the cluster gets by itself to where it was.
func TestDisasters(t *testing.T) {
	for name, tc := range map[string]struct {
		strike func(*world)
		// first is the step that the manager takes first, "" when there is nothing to do.
		first string
		free  bool
	}{
		// To a manager, which remembers nothing, the same as another cluster into which the
		// BGPConfiguration and the BGPPeers of this one were restored.
		"the worker pool is deleted with all reflectors": {strike: func(w *world) {
			for _, r := range w.reflectors() {
				w.removeNode(r.Name)
			}
			w.pool = rollout.Pool{}
			w.crash()
		}, first: "RestoreMesh"},
		"the apiserver is restored to before the migration": {strike: func(w *world) {
			w.restore(newWorld(1, 6, 3).backup())
		}, first: "WritePeers"},
		"the apiserver is restored to after it": {strike: func(w *world) { w.restore(w.backup()) }, free: true},
		"the object is gone for a day, and made again": {strike: func(w *world) {
			for range 24 * 60 {
				w.now = w.now.Add(59 * time.Second)
				w.tick()
			}
			w.crash()
		}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := migrated(t)
			w.narrative, w.writes = nil, 0
			tc.strike(w)
			if tc.free {
				require.Empty(t, w.settle())
				require.Zero(t, w.writes, w.story())
				return
			}
			w.forgive()
			struck, lost := w.now, time.Duration(0)
			for range 120 {
				_ = w.run(1)
				if len(w.apart(hasPods)) > 0 {
					lost = w.now.Sub(struck)
				}
			}
			require.LessOrEqual(t, lost, 20*time.Second, "what docs/failure-modes.md says")
			require.Empty(t, w.settle(), w.story())
			require.Contains(t, w.narrative[0], " "+tc.first+":", w.story())
			require.False(t, w.bgp.MeshOn(), w.story())
			require.Len(t, w.reflectors(), 3)
		})
	}
	t.Run("negative control: with no manager the pool's loss lasts", func(t *testing.T) {
		w, _ := migrated(t)
		for _, r := range w.reflectors() {
			w.removeNode(r.Name)
		}
		w.asleep = w.now.Add(time.Hour)
		w.forgive()
		require.Contains(t, w.run(120), "has no route")
	})
}
