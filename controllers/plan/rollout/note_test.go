package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// withPassword is a world whose mesh has a password, at rest on reflectors.
func withPassword(t *testing.T, regular bool) *world {
	t.Helper()
	w := newWorld(3, 6, 3)
	w.regular = regular
	w.bgp = plan.BGPConfig{Exists: true, ASN: 64512, Mesh: plan.Mesh{Password: &plan.SecretRef{Name: "bgp", Key: "password"}}}
	w.changed()
	for range 60 {
		w.tick()
	}
	w.nextLook = w.now
	return atRest(t, w)
}

// The note of how the mesh was is removed, and is not there again when the reflectors' nodes go: what relies on them is seen
// from the BGPPeers that are left.
func TestALostNoteAndLostReflectorsBringTheMesh(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"their nodes go, and new workers come": func(w *world) {
			for _, r := range w.reflectors() {
				w.removeNode(r.Name)
			}
			w.pool = rollout.ObservedPool{}
		},
		"their nodes go, and the cloud is silent": func(w *world) {
			for _, r := range w.reflectors() {
				w.removeNode(r.Name)
			}
			w.cloudSilent = true
		},
		"their roles are taken, and the cloud is silent": func(w *world) {
			for _, r := range w.reflectors() {
				r.HasRoleLabel, r.ClusterID, r.Marked, r.Slot = false, "", false, ""
			}
			w.cloudSilent = true
		},
	} {
		for _, kind := range append(kinds, "existing nodes") {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				w := newInPlaceWorld(1, 9, 0, 3)
				if kind != "existing nodes" {
					w = newWorld(1, 9, 3)
					require.Empty(t, w.want(kind, 2, 3))
				}
				w = atRest(t, w)
				w.bgp.Saved = nil
				lose(w)
				w.changed()
				_, on := w.meshComesOn(60)
				require.True(t, on, w.story())
				w.runUnchecked(1200)
				require.Empty(t, w.apart(hasPods), w.story())
			})
		}
	}
}

// It is written again, with what our BGPPeers have of it, and no more often than it is removed.
func TestALostNoteIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := withPassword(t, true)
	before := w.bgp.Saved.Password
	w.bgp.Saved = nil
	w.changed()
	require.Empty(t, w.run(30))
	require.NotNil(t, w.bgp.Saved)
	require.Equal(t, before, w.bgp.Saved.Password)
	writes := w.writes
	require.Empty(t, w.run(120))
	require.Equal(t, writes, w.writes)
	w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
	require.Empty(t, w.settle(), w.story())
	require.Equal(t, before, w.bgp.Mesh.Password)

	w = withPassword(t, true) // one that cannot be read is no better than none
	w.bgp.Saved, w.bgp.SavedUnread = &plan.Mesh{}, "it is spoiled"
	w.changed()
	require.Contains(t, w.next(w.observe()).Reason, "cannot be read (it is spoiled)")
	require.Empty(t, w.run(30))
	require.Empty(t, w.bgp.SavedUnread)
	require.Equal(t, before, w.bgp.Saved.Password)

	w = newWorld(1, 5, 3) // the control: a mesh that others keep off gets no note
	w.bgp.Mesh.Enabled = new(bool)
	w.changed()
	w.runUnchecked(120)
	require.Nil(t, w.bgp.Saved)
}

// On the way back the mesh ends with the password that it had, whoever has taken that away meanwhile, and when. No packet is lost by it.
func TestTheMeshEndsWithItsPassword(t *testing.T) {
	t.Parallel()
	on, hour := true, time.Hour
	for name, by := range map[string]func(w *world){
		"switched on without it, by hand": func(w *world) { w.bgp.Mesh = plan.Mesh{Enabled: &on}; w.d.Mode = v1alpha1.ModeFullMesh },
		"taken away once it was restored": func(w *world) {
			w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
			w.runUnchecked(5)
			w.bgp.Mesh.Password = nil
		},
		"another one, and another restart time": func(w *world) {
			w.bgp.Mesh = plan.Mesh{Enabled: &on, Password: &plan.SecretRef{Name: "b", Key: "c"}, MaxRestartTime: &hour}
			w.d.Mode = v1alpha1.ModeFullMesh
		},
	} {
		for _, regular := range []bool{true, false} {
			for _, dead := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s, regular %t, %d dead", name, regular, dead), func(t *testing.T) {
					t.Parallel()
					w := withPassword(t, regular)
					before := *w.bgp.Saved
					w.setAlive(false, w.reflectors()[:dead]...)
					w.cloudSilent = dead > 0
					w.runUnchecked(200)
					by(w)
					w.changed()
					w.runUnchecked(60) // what the person's own change restarts is not ours
					for range 3600 {
						w.runUnchecked(1)
						require.Empty(t, w.apart(hasPods), w.story())
					}
					require.Empty(t, w.reflectors(), w.story())
					require.Equal(t, before, w.bgp.Mesh, w.story())
					require.Nil(t, w.bgp.Saved)
				})
			}
		}
	}
}

// Where calico-node has gone from some reflectors on nodes that stay Ready, the others carry the routes, or none does.
func TestTheWayBackDoesNotWaitForReflectorsWithoutCalicoNode(t *testing.T) {
	t.Parallel()
	for dead := 1; dead <= 3; dead++ {
		w := withPassword(t, true)
		before, on := *w.bgp.Saved, true
		for _, r := range w.reflectors()[:dead] {
			w.stopCalicoNode(r.Name, true)
		}
		w.runUnchecked(200)
		w.bgp.Mesh, w.d.Mode = plan.Mesh{Enabled: &on}, v1alpha1.ModeFullMesh
		w.changed()
		w.runUnchecked(3600)
		require.Empty(t, w.reflectors(), "%d dead: %s", dead, w.story())
		if dead == 3 {
			require.Equal(t, "ForgetMesh", w.next(w.observe()).Name)
			continue
		}
		require.Equal(t, before, w.bgp.Mesh, w.story())
		require.Nil(t, w.bgp.Saved)
	}
}

// Without a reflector to carry the routes meanwhile nothing is restarted: what is missing is named, and the note stays.
func TestAPasswordThatCannotBePutBackIsNamed(t *testing.T) {
	t.Parallel()
	w := withPassword(t, true)
	on := true
	w.bgp.Mesh, w.d.Mode, w.cloudSilent = plan.Mesh{Enabled: &on}, v1alpha1.ModeFullMesh, true
	w.setAlive(false, w.reflectors()...)
	w.changed()
	w.runUnchecked(3600)
	s := w.next(w.observe())
	require.Equal(t, "ForgetMesh", s.Name, w.story())
	require.Equal(t, []string{"the default BGPConfiguration to have nodeMeshPassword of Secret bgp, key password, as before rrpool"}, s.WaitingFor)
	require.Empty(t, s.Actions)
	require.NotNil(t, w.bgp.Saved)
	w.bgp.Mesh.Password = w.bgp.Saved.Password // a person does it
	w.changed()
	w.runUnchecked(120)
	require.Nil(t, w.bgp.Saved, w.story())
}
