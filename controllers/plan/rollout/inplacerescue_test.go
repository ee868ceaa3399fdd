package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// hindrances are what else may be going on while reflectors lack a session.
var problems = map[string]func(*world, *rollout.Observed){
	"nothing": func(*world, *rollout.Observed) {},
	"the way back to the mesh": func(w *world, o *rollout.Observed) {
		w.d.Mode = v1alpha1.ModeFullMesh
		if on := true; !o.BGP.MeshOn() {
			o.BGP.Mesh.Enabled, o.BGP.Restored = &on, w.now
		}
	},
	"a refusal": func(_ *world, o *rollout.Observed) { o.Problems = []plan.Problem{{Reason: "X", Message: "x"}} },
	"a peer of another client within the cluster": func(_ *world, o *rollout.Observed) {
		o.Peers = append(o.Peers, plan.Peer{Name: "theirs", PeerSelector: "all()"})
	},
	"a cordon on every node": func(_ *world, o *rollout.Observed) {
		for i := range o.Nodes {
			o.Nodes[i].Cordoned = true
		}
	},
}

// puts gives the BGPPeer of this name that a step writes.
func puts(s rollout.Step, name string) (plan.Peer, bool) {
	for _, a := range s.Actions {
		if p, ok := a.(plan.PutPeer); ok && p.Peer.Name == name {
			return p.Peer, true
		}
	}
	return plan.Peer{}, false
}

func TestTheFirstReflectorGetsItsOtherSidesWhateverElseWaits(t *testing.T) {
	for name, hinder := range problems {
		t.Run(name, func(t *testing.T) {
			// The first reflector has the role and no other side yet: the manager was killed in between.
			w := newInPlaceWorld(1, 7, 0, 3)
			o := w.until(t, "PromoteReflectors")
			require.IsType(t, plan.Pause{}, w.next(o).Actions[1], "there is a pause to be killed in")
			w.nextLook = w.now
			w.manage(1)
			o = w.observe()
			hinder(w, &o)
			s := w.next(o)
			clients, found := puts(s, topology.PeerClients)
			require.True(t, found && !clients.Manual, "%s: %s", s.Name, s.Reason)
		})
	}
}

// Two reflectors without the peer between them have no session at all.
func TestAMissingPeeringIsPutBackWhateverElseWaits(t *testing.T) {
	const sessionName = "rrpool.node-01.node-02.v4"
	for name, hinder := range problems {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
			delete(w.peers, sessionName)
			o := w.observe()
			hinder(w, &o)
			s := w.next(o)
			_, found := puts(s, sessionName)
			require.True(t, found, "%s: %s", s.Name, s.Reason)
		})
	}
}

// Killed in between, a role without its pair peers would have no session with the
// other reflectors; pair peers without the role render what is there anyway.
func TestAnImmediatePromotionWritesThePeersFirst(t *testing.T) {
	w := newInPlaceWorld(1, 7, 0, 3)
	w.d.Promotion = v1alpha1.PromotionImmediate
	w.until(t, "PromoteReflectors")
	w.nextLook = w.now
	w.manage(-1)
	s := w.next(w.until(t, "PromoteReflectors"))
	isPeer := func(a plan.Action) bool { _, ok := a.(plan.PutPeer); return ok }
	require.Greater(t, len(s.Actions), 1)
	require.True(t, isPeer(s.Actions[0]), "%v", s.Actions)
	require.Contains(t, s.Actions, plan.SetReflector{Node: "node-02", ClusterID: w.d.ClusterID})
}

// A drain that a disruption budget holds up keeps neither of these waiting.
func TestABlockedDrainDoesNotKeepSilentReflectorsFromBeingAsked(t *testing.T) {
	w := newInPlaceWorld(1, 8, 0, 3)
	w.regular = true
	require.Empty(t, w.settle())
	w.pdb, w.d.Promotion = true, v1alpha1.PromotionDrain
	w.setAlive(false, w.nodes["node-03"])
	require.Empty(t, w.run(300))
	require.Equal(t, "DrainNode", w.next(w.observe()).Name, "the control")
	for _, r := range w.reflectors() {
		w.birdDies(r.Name)
	}
	w.runUnchecked(600)
	require.True(t, w.bgp.MeshOn(), w.story())
}

// With the mesh on, two ordinary nodes with a peer left between them have their session twice, that is, not at all.
func TestABlockedDrainDoesNotKeepStrayPeerings(t *testing.T) {
	w := newInPlaceWorld(1, 8, 0, 3)
	w.d.Promotion = v1alpha1.PromotionDrain
	for i := 0; len(w.reflectors()) < 2; i++ {
		require.Less(t, i, 1200, w.story())
		w.runUnchecked(1)
	}
	w.pdb = true
	w.runUnchecked(60)
	for _, r := range w.reflectors() { // both are set up anew, under their old names and addresses
		w.removeNode(r.Name)
		w.addNode(r.Name, r.Zone, false).Addresses = r.Addresses
	}
	w.runUnchecked(600)
	require.True(t, w.bgp.MeshOn())
	require.True(t, w.reaches(w.nodes["node-01"], w.nodes["node-02"]), w.story())
}

// Nothing takes the place of a reflector before the grace is over, and the very second in which it ends is not one in which nobody looks.
func TestTheGraceForAReflectorEndsWhenItSaysSo(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
	w.setAlive(false, w.nodes["node-02"])
	early := rollout.Next(w.observe(), w.d, w.now.Add(w.d.NotReadyGrace-time.Second))
	require.Empty(t, early.Actions, early.Reason)
	require.LessOrEqual(t, early.Again, time.Second)
	require.Positive(t, early.Again)
	require.NotEmpty(t, rollout.Next(w.observe(), w.d, w.now.Add(w.d.NotReadyGrace)).Actions)
}
