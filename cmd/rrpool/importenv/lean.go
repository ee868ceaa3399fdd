package importenv

import (
	"fmt"
	"slices"
)

// lean prepares for reflectors that have pods: a node without pods becomes a reflector
// that treats each of them as its client, whatever becomes of their own cluster IDs. A
// peer given by its address has no cluster ID for Calico, so the helper's side renders
// the same before and after; the other side, which Calico adds by itself, is that of an
// ordinary client as long as both have the same cluster ID.
func (w *way) lean() {
	helper := w.chooseHelper()
	switch {
	case helper != nil:
		w.seat(*helper)
	case len(w.reflectors) > 1 && len(w.busy()) > 0 && !w.everyone:
		w.peerWithAll()
	}
	if w.helper != nil {
		w.hold()
	}
}

// seat gives the helper its place. The operator's peers must not match it: of two that
// match the same pair Calico does not say which counts.
func (w *way) seat(n Node) {
	id := w.sharedID()
	without := fmt.Sprintf("!has(%s) && !has(%s)", w.f.Label, helperLabel)
	s := Step{
		Title: fmt.Sprintf("Let %s lean in", n.Name),
		Why: fmt.Sprintf("No pod on %s has an address of its own, so its sessions may restart for free. As a reflector beside the others, with the same cluster ID, "+
			"it will carry the routes of each reflector while that becomes an ordinary node.", n.Name),
		Cost: "none",
	}
	if slices.Contains(w.f.Peers, clientsPeer) && w.f.ClientsSelector != without {
		s.Actions = append(s.Actions, Action{
			Verb: "patch", Resource: calico("bgppeers"), Names: []string{clientsPeer},
			Body: map[string]any{"spec": map[string]any{"nodeSelector": without}},
		})
	}
	s.Actions = append(s.Actions,
		applyPeer(helperPeer, map[string]any{"nodeSelector": without, "peerSelector": "has(" + helperLabel + ")"}),
		patchNode(n.Name, map[string]any{w.f.Label: nil, helperLabel: ""}, map[string]any{idAnnotation: id}),
	)
	same := func(other Node) bool { return other.Name == n.Name }
	w.reflectors = slices.DeleteFunc(w.reflectors, same)
	w.ordinary = slices.DeleteFunc(w.ordinary, same)
	w.helper = &n
	s.Waits = []Wait{w.wait(n, 0, len(w.ordinary))}
	w.add(s)
}

// sharedID is that of the reflectors.
func (w *way) sharedID() string {
	for _, n := range w.reflectors {
		if n.ClusterID != "" {
			return n.ClusterID
		}
	}
	return oldClusterID
}

// hold makes the helper treat each reflector as its client.
func (w *way) hold() {
	s := Step{
		Title: fmt.Sprintf("Let %s carry the reflectors' routes", w.helper.Name),
		Why: "One BGPPeer for each reflector, by its address: neither side of such a session depends on the role of the reflector, so it does not restart when that goes. " +
			"The sessions are new, and nobody relies on them yet.",
		Cost:  "none",
		Waits: []Wait{w.wait(*w.helper, 0, len(w.ordinary)+len(w.reflectors))},
		Then:  w.settled(),
	}
	for _, n := range w.reflectors {
		for _, peer := range w.byAddress(n) {
			if !slices.Contains(w.f.Ours, peer.name) {
				s.Actions = append(s.Actions, applyPeer(peer.name,
					map[string]any{"node": w.helper.Name, "peerIP": peer.address, "asNumber": int64(n.ASN)}))
			}
		}
	}
	if len(s.Actions) > 0 {
		w.add(s)
	}
}

type byAddress struct{ name, address string }

// byAddress are the BGPPeers with a reflector: one for each address family that the
// helper has as well.
func (w *way) byAddress(n Node) []byAddress {
	out := []byAddress{{helperPrefix + n.Name, n.Address}}
	if n.Address6 != "" && w.helper.Address6 != "" {
		out = append(out, byAddress{helperPrefix + n.Name + "-v6", n.Address6})
	}
	return out
}

// stand makes the helper what it was. Its peers go first: between two ordinary nodes one
// would make a second session beside that of the mesh.
func (w *way) stand() {
	if w.helper == nil {
		return
	}
	w.ordinary = append(w.ordinary, *w.helper)
	s := Step{
		Title: fmt.Sprintf("Make %s an ordinary node again", w.helper.Name),
		Why:   "All others have the mesh. First its BGPPeers by address go, which changes no session now, then its role.",
		Cost:  "none: no pod on it has an address of its own",
		Waits: []Wait{w.wait(*w.helper, len(w.ordinary)-1, 0)},
		Then:  w.settled(),
	}
	var names []string
	for _, n := range w.ordinary {
		for _, peer := range w.byAddress(n) {
			if slices.Contains(w.f.Ours, peer.name) || w.plans(peer.name) {
				names = append(names, peer.name)
			}
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		s.Actions = append(s.Actions, Action{Verb: "delete", Resource: calico("bgppeers"), Names: names})
	}
	s.Actions = append(s.Actions, patchNode(w.helper.Name, map[string]any{helperLabel: nil}, map[string]any{idAnnotation: nil}))
	w.helper = nil
	w.add(s)
}

// plans reports whether a step before makes that BGPPeer.
func (w *way) plans(name string) bool {
	return slices.ContainsFunc(w.steps, func(s Step) bool {
		return slices.ContainsFunc(s.Actions, func(a Action) bool { return a.Verb == "apply" && a.Names[0] == name })
	})
}

// peerWithAll: in topology multi each node peers with three reflectors only. Once these
// are ordinary nodes it would have no way to the pods of those that are still
// reflectors, which are not in the mesh.
func (w *way) peerWithAll() {
	n := len(w.reflectors)
	s := Step{
		Title: "Let every node peer with every reflector",
		Why: "In topology multi each node has three reflectors of its own. When these are ordinary nodes, it would have no way to the pods on the others, which are not in the mesh " +
			"yet. The new sessions render as the old ones where there are both.",
		Cost: fmt.Sprintf("none in packets. With %d cluster IDs a node then has up to %d paths to each prefix; beyond some thousands calico-node takes memory and minutes", n, paths(n)),
		Actions: []Action{applyPeer(everyonePeer,
			map[string]any{"nodeSelector": fmt.Sprintf("!has(%s)", w.f.Label), "peerSelector": fmt.Sprintf("has(%s)", w.f.Label)})},
		Then: w.settled(),
	}
	w.everyone = true
	s.Waits = w.sample()
	w.add(s)
}

// paths is how many ways a prefix can take through reflectors that treat each other as
// clients, all with add-path.
func paths(reflectors int) int {
	sum, product := 0, 1
	for k := range min(reflectors, 10) {
		product *= reflectors - k
		sum += product
	}
	return sum
}
