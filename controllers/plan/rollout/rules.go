package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// rule proposes a step in one situation.
type rule struct {
	// name is stable, for status, logs and metrics.
	name string
	// when says in which situations the rule applies.
	when when
	// propose returns the step, nil if the rule has none.
	propose func(*view) *Step
	// doc says what the rule does, as it stands in docs/architecture.md.
	doc string
}

// when is a set of conditions that all have to hold. An empty condition always holds.
type when struct {
	mode  mode
	nodes nodes
	slots slots
	mesh  mesh
}

type (
	mode  string
	nodes string
	slots string
	mesh  string
)

const (
	toReflectors mode = "to reflectors"
	toMesh       mode = "to the mesh"

	dedicated nodes = "dedicated"
	inPlace   nodes = "in place"

	alike  slots = "alike"
	differ slots = "differ"

	meshOn  mesh = "on"
	meshOff mesh = "off"
)

func (w when) holds(v *view) bool {
	is := when{toReflectors, inPlace, alike, meshOff}
	if v.d.Mode == v1alpha1.ModeFullMesh {
		is.mode = toMesh
	}
	if v.d.Dedicated {
		is.nodes = dedicated
	}
	if v.arranged() {
		is.slots = differ
	}
	if v.BGP.MeshOn() {
		is.mesh = meshOn
	}
	return anyOr(w.mode, is.mode) && anyOr(w.nodes, is.nodes) && anyOr(w.slots, is.slots) && anyOr(w.mesh, is.mesh)
}

// anyOr reports whether a condition is empty or equals is.
func anyOr[T ~string](condition, is T) bool { return condition == "" || condition == is }

// String names the conditions.
func (w when) String() string {
	var out []string
	for _, c := range [][2]string{{"mode", string(w.mode)}, {"nodes", string(w.nodes)}, {"slots", string(w.slots)}, {"mesh", string(w.mesh)}} {
		if c[1] != "" {
			out = append(out, c[0]+" "+c[1])
		}
	}
	return strings.Join(out, ", ")
}

// rules are sorted by urgency: the first one that returns a step decides.
var rules = []rule{
	{"Locked", when{}, locked, "nothing is written while Calico's datastore is locked, or its objects are moved to another API group"},
	{"SafetyNet", when{mesh: meshOff}, safetyNet, "the mesh comes on where too few reflectors serve"},
	{"Reconnect", when{mesh: meshOff}, reconnect, "the mesh comes on for nodes that have no session with any reflector, and whose BIRD runs"},
	{"Connect", when{nodes: inPlace}, connect, "reflectors with workloads get the BGPPeers without which they have no sessions"},
	{"RefuseSpec", when{}, refuseSpec, "a spec that cannot be carried out is named, and nothing is touched"},
	{"RestoreMesh", when{mode: toMesh}, restoreMesh, "the mesh comes on, as it was"},
	{"UndoCordon", when{}, undoCordon, "rrpool's cordon goes from a node that needs it no more"},
	{"HealUnread", when{}, healUnread, "a lost role is put back although Calico cannot read an object"},
	{"Hold", when{}, hold, "nothing goes on while the datastore reports a problem"},
	{"Refuse", when{mode: toReflectors}, refuse, "a cluster that rrpool cannot handle is named, and nothing is touched"},
	{"AwaitMesh", when{mode: toReflectors, mesh: meshOff}, awaitMesh, "a migration does not begin while the mesh is off, and not by rrpool"},
	{"AwaitBGP", when{mode: toReflectors}, awaitBGP, "where nothing shows that calico-node runs BIRD, nodes are asked for a session first"},
	{"NoteMesh", when{mode: toReflectors, mesh: meshOff}, noteMesh, "the note of how the mesh was is written again, should it be lost"},
	{"StrayLabels", when{}, strayLabels, "the role label goes from nodes that others put it on"},
	{"HealRoles", when{}, healRoles, "a reflector gets back the label or cluster ID that others took"},
	{"Relabel", when{}, relabel, "reflectors get the label that spec.bgp.nodeLabel names now, beside the former one"},
	{"Reselect", when{mode: toMesh, nodes: inPlace}, reselect, "BGPPeers of existing nodes select by that label before a node gives the role back"},
	{"PutInRacks", when{mode: toReflectors, slots: differ}, putInRacks, "clients get the label of their rack"},
	{"WritePeers", when{mode: toReflectors}, writePeers, "BGPPeers become what they should be; where that restarts sessions, the mesh takes over first"},
	{"ClearPaths", when{mode: toReflectors, slots: differ, mesh: meshOn}, clearPaths, "BGPPeers that are not wanted go under the mesh where they multiply the paths"},
	{"StrayPeerings", when{mesh: meshOn}, deleteStrayPeerings, "BGPPeers between two nodes go when one has given its role back"},
	{"Promote", when{mode: toReflectors, nodes: dedicated}, promote, "wanted nodes that are Ready get the role"},
	{"PromoteInPlace", when{mode: toReflectors, nodes: inPlace}, promoteInPlace, "the next node gets the role, once the other reflectors carry its routes"},
	{"AwaitProvider", when{mode: toReflectors, nodes: dedicated}, awaitProvider, "nothing is ordered while the state of the pool is unknown"},
	{"EmptyZones", when{mode: toReflectors, nodes: dedicated}, emptyZones, "zones that are given up are emptied before the cloud would refill them"},
	{"GrowPool", when{mode: toReflectors, nodes: dedicated}, growPool, "the pool gets its size, and what has failed is replaced"},
	{"OrderSubstitutes", when{mode: toReflectors, nodes: dedicated}, orderSubstitutes, "a reflector that is about to go gets a substitute while others are away"},
	{"AwaitWorkers", when{mode: toReflectors, nodes: dedicated}, awaitWorkers, "dedicated nodes are waited for"},
	{"JoinPool", when{mode: toReflectors, nodes: inPlace}, joinPool, "the next node is chosen"},
	{"ChangeID", when{mode: toReflectors, slots: alike}, changeID, "reflectors get the wanted cluster ID, one at a time"},
	{"Reassign", when{mode: toReflectors, slots: differ}, reassign, "reflectors move to the slot they should have"},
	{"StrayPeeringsOffMesh", when{mesh: meshOff}, deleteStrayPeerings, "BGPPeers between two nodes go when one has given its role back"},
	{"Trim", when{mode: toReflectors, nodes: inPlace, mesh: meshOn}, trim, "surplus reflectors give the role back before the mesh goes"},
	{"AwaitNodesUnderMesh", when{mode: toReflectors, nodes: inPlace, mesh: meshOn}, awaitNodes, "it is said why too few nodes can be reflectors, as the mesh would wait for them"},
	{"AwaitMeshOwner", when{mode: toReflectors, mesh: meshOn}, awaitMeshOwner, "a mesh that others switch on again and again stays on"},
	{"DisableMesh", when{mode: toReflectors, mesh: meshOn}, disableMesh, "the mesh goes off once every node has what it needs from the reflectors"},
	{"RetireWorkers", when{mode: toReflectors, nodes: dedicated}, retireWorkers, "the worker of a reflector that gave the role back goes before the next one"},
	{"RemoveSurplus", when{mode: toReflectors, nodes: dedicated}, removeSurplus, "surplus reflectors give the role back, one at a time, while the others serve"},
	{"AwaitRoleRest", when{mode: toReflectors, nodes: inPlace}, awaitRoleRest, "a role that has just moved stays where it is for a while"},
	{"RemoveInPlace", when{mode: toReflectors, nodes: inPlace}, removeInPlace, "a node that is no longer chosen gives the role back, while the others serve"},
	{"ShrinkPool", when{mode: toReflectors, nodes: dedicated}, shrinkPool, "the pool gets the smaller size, and gives zones up, once the workers are gone"},
	{"LeavePool", when{mode: toReflectors, nodes: inPlace}, leavePool, "a node without the role that is no longer chosen leaves the pool"},
	{"Narrow", when{mode: toReflectors, slots: differ}, narrow, "BGPPeers that are to select fewer nodes are written, one at a time"},
	{"StrayPeers", when{mode: toReflectors}, deleteStrayPeers, "rrpool's BGPPeers that are not wanted go"},
	{"Demote", when{mode: toMesh}, demote, "reflectors give the role back, one at a time, once the mesh carries every pair of nodes"},
	{"DeletePeers", when{mode: toMesh}, deletePeers, "all of rrpool's BGPPeers go"},
	{"ClearRacks", when{}, clearRacks, "rack labels go once no BGPPeer asks for them"},
	{"Substitute", when{mode: toReflectors, nodes: dedicated}, substitute, "before a reflector goes that is cordoned or outdated, each zone gets one more worker"},
	{"AwaitReports", when{mode: toReflectors}, awaitReports, "reflectors that do not answer are waited for"},
	{"AwaitNodes", when{mode: toReflectors, nodes: inPlace, mesh: meshOff}, awaitNodes, "it is said why too few nodes can be reflectors"},
	{"DeleteEmptied", when{mode: toReflectors, nodes: dedicated}, deleteEmptied, "a worker pool that has given way to another is deleted"},
	{"AwaitRoutes", when{mode: toReflectors, mesh: meshOff}, awaitRoutes, "while the BGPPeers and roles do not connect all Ready nodes, nothing is called steady"},
	{"ForgetMesh", when{mode: toMesh}, forgetMesh, "what was kept on the BGPConfiguration goes"},
	{"ReleasePool", when{mode: toMesh, nodes: inPlace}, releasePool, "the choice of existing nodes is given up"},
	{"KeepNote", when{mode: toMesh, mesh: meshOn}, keepNote, "the note of how the mesh was stays where others have changed the mesh"},
	{"Steady", when{}, steady, "there is nothing to do"},
}

// steady returns the step with nothing to do, which says what carries the routes. If the cloud
// has given up the deletion of a worker, the step asks for it again, without waiting for it.
func steady(v *view) *Step {
	s := &Step{Name: Steady}
	switch {
	case v.d.Mode != v1alpha1.ModeFullMesh:
		in := ""
		if v.arranged() {
			in = fmt.Sprintf(" in topology %s", v.arrangement.Kind)
		}
		s.Reason = fmt.Sprintf("%d route reflectors%s serve %d nodes; the node-to-node mesh is off%s", len(v.wanted), in, len(v.Clients), v.whyLarger())
	case v.BGP.MeshOn():
		s.Reason = fmt.Sprintf("the node-to-node mesh carries %d nodes", len(v.Clients))
	default:
		s.Reason = "nothing of rrpool is left; the node-to-node mesh is off, and rrpool did not switch it off"
	}
	gaveUp := func(w ObservedWorker) bool { return w.DeleteFailed }
	if v.Pool != nil && v.d.Mode != v1alpha1.ModeFullMesh && slices.ContainsFunc(v.Pool.Workers, gaveUp) {
		s.Actions = []plan.Action{plan.EnsurePool{Want: v.poolForNow}}
	}
	return s
}
