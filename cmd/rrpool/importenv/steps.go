package importenv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// What the way puts into the cluster, and takes out again.
const (
	// helperLabel is carried by the node that leans in.
	helperLabel = "rrpool.io/takeover"
	// helperPrefix begins the names of the way's BGPPeers, watchPrefix those of its
	// CalicoNodeStatuses.
	helperPrefix = "rrpool-takeover-"
	watchPrefix  = "takeover-"
	helperPeer   = helperPrefix + "clients"
	everyonePeer = helperPrefix + "everyone"
)

// Step is one step of the way. Its actions belong together.
type Step struct {
	Title string
	// Why it is next, and safe.
	Why string
	// Cost in packets, and whose. Free: none is lost.
	Cost    string
	Free    bool
	Actions []Action
	// Commands besides the actions, for what is not the cluster's.
	Commands []string
	// Then says how to see that it is done; Waits are sessions that are to be up.
	Then  string
	Waits []Wait
}

// Wait asks for the IPv4 sessions of a node: so many of each kind Established, and no
// other ones. The kinds tell a node that has changed from one that has not yet.
type Wait struct {
	Node                string
	Mesh, Peers, Global int
}

// way makes the steps from what is left.
type way struct {
	f     *Found
	steps []Step
	// ordinary, reflectors and helper are the nodes, as they will be when the step that
	// is being made begins.
	ordinary, reflectors []Node
	helper               *Node
	// everyone: all ordinary nodes peer with all reflectors.
	everyone bool
}

// Steps are those that are left, in their order.
func (f *Found) Steps() []Step {
	w := &way{f: f}
	for _, n := range f.Nodes {
		switch {
		case n.Helper:
			w.helper = &n
		case n.reflector():
			w.reflectors = append(w.reflectors, n)
		case !n.Marked:
			w.ordinary = append(w.ordinary, n)
		}
	}
	w.everyone = slices.Contains(f.Peers, clientsPeer) || slices.Contains(f.Ours, everyonePeer)
	w.pause()
	w.stop()
	if len(w.reflectors) > 0 || w.helper != nil {
		w.mesh()
		w.watch()
		w.lean()
		w.retire()
		w.stand()
	}
	w.clean()
	w.remove()
	return w.steps
}

func (w *way) add(s Step) {
	s.Free = strings.HasPrefix(s.Cost, free)
	w.steps = append(w.steps, s)
}

// free begins the cost of a step that loses nothing.
const free = "none"

// pause: rrpool would begin by itself the moment nothing is in its way any more.
func (w *way) pause() {
	if w.f.RRPool == "" || w.f.RRPool == v1alpha1.ModePaused || len(w.reflectors) == 0 {
		return
	}
	w.add(Step{
		Title:    "Pause rrpool",
		Why:      "There is a RouteReflectorPool that is not paused. It refuses while the operator's reflectors are there, and would begin in the middle of the way.",
		Cost:     "none",
		Commands: []string{`kubectl patch rrp default --type=merge -p '{"spec":{"mode":"Paused"}}'`},
		Then:     "kubectl get rrp shows Paused",
	})
}

// stop comes first: whatever else is done, a running operator undoes.
func (w *way) stop() {
	s := Step{
		Title: "Stop the operator",
		Why: "At every pass it deletes each BGPPeer that it did not make itself, rrpool's and those of this way included, and gives the role back to the nodes that it is taken from. " +
			"Also switch off what would start it again: Helm, Argo CD, Flux, OLM.",
		Cost: "none. From now on nobody replaces a reflector that fails, so go on to the mesh at once",
	}
	var done []string
	for _, o := range w.f.Operators {
		if o.Wanted > 0 || o.Running > 0 {
			s.Actions = append(s.Actions, Action{Verb: "scale", Resource: deploymentResource, Namespace: o.Namespace, Names: []string{o.Name}})
			done = append(done, fmt.Sprintf("kubectl --namespace %s get deployment %s shows 0/0", o.Namespace, o.Name))
		}
	}
	s.Then = strings.Join(done, ", and ")
	switch {
	case len(s.Actions) > 0:
		w.add(s)
	case len(w.f.Operators) == 0 && len(w.f.Peers) > 0:
		s.Title = "Make sure that the operator does not run"
		s.Why = "No Deployment of it was found, but its BGPPeers are there. It can also run outside of the cluster. " + s.Why
		s.Then = "a BGPPeer that you change stays as it is for some minutes: it writes its own anew all the time"
		w.add(s)
	}
}

// mesh gives all ordinary nodes a second way.
func (w *way) mesh() {
	n := len(w.ordinary)
	s := Step{
		Title: "Switch the mesh on",
		Why: "The ordinary nodes then reach each other without any reflector. Nodes with a cluster ID stay out of the mesh, whatever it is: Calico renders no mesh " +
			"session to or from them. So the reflectors keep all their sessions. If the mesh had a password before, put it into the same patch, as nodeMeshPassword.",
		Cost: fmt.Sprintf("none: sessions are added (%d for each ordinary node, %d in all), none is taken away. Beyond some hundred nodes that takes memory and minutes", max(n-1, 0), n*(n-1)/2),
		Actions: []Action{{
			Verb: "patch", Resource: calico("bgpconfigurations"), Names: []string{"default"},
			Body: map[string]any{"spec": map[string]any{"nodeToNodeMeshEnabled": true}},
		}},
		Then: "the next step shows it",
	}
	if !w.f.Mesh {
		w.add(s)
	}
}

// watched is how many ordinary nodes are looked at.
const watched = 3

// watch asks calico-node for what it sees.
func (w *way) watch() {
	nodes := slices.Clone(w.reflectors)
	if w.helper != nil {
		nodes = append(nodes, *w.helper)
	} else if helper := w.chooseHelper(); helper != nil {
		nodes = append(nodes, *helper)
	}
	nodes = append(nodes, w.looked()...)
	s := Step{
		Title: "Watch the sessions",
		Why:   "Each further step waits for sessions that it relies on. calico-node reports them into these objects; they change nothing.",
		Cost:  free,
		Waits: w.sample(),
	}
	if !w.f.Statuses {
		s.Why = "Each further step waits for sessions that it relies on. This Calico has no CalicoNodeStatus (it came with 3.21): log in to the nodes and run calicoctl node status."
		w.add(s)
		return
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range slices.CompactFunc(nodes, func(a, b Node) bool { return a.Name == b.Name }) {
		if !w.isWatched(n) {
			s.Actions = append(s.Actions, applyCalico("caliconodestatuses", "CalicoNodeStatus", watchPrefix+n.Name,
				map[string]any{"node": n.Name, "classes": []any{"Agent", "BGP"}, "updatePeriodSeconds": int64(5)}))
		}
	}
	if len(s.Actions) > 0 {
		w.add(s)
	}
}

func (w *way) isWatched(n Node) bool { return slices.Contains(w.f.Watches, watchPrefix+n.Name) }

// looked are the ordinary nodes that are looked at: those that are already, else some
// that will stay ordinary.
func (w *way) looked() []Node {
	helper := w.chooseHelper()
	nodes := slices.DeleteFunc(slices.Clone(w.ordinary), func(n Node) bool { return helper != nil && n.Name == helper.Name })
	if known := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !w.isWatched(n) }); len(known) > 0 {
		nodes = known
	}
	return nodes[:min(watched, len(nodes))]
}

// sample are the waits of some ordinary nodes.
func (w *way) sample() []Wait {
	var out []Wait
	for _, n := range w.looked() {
		out = append(out, w.client(n))
	}
	return out
}

// client is what an ordinary node has with the mesh on. In topology multi it has
// reflectors of its own choice, up to three.
func (w *way) client(n Node) Wait {
	peers := len(w.reflectors)
	if !w.everyone {
		peers = min(peers, 3)
	}
	return w.wait(n, len(w.ordinary)-1, peers)
}

// former is what a node has that was a reflector. Without BGPPeers for everyone nobody
// made any for it as a client.
func (w *way) former(n Node) Wait {
	if w.everyone {
		return w.client(n)
	}
	return w.wait(n, len(w.ordinary)-1, 0)
}

// wait adds the session with the helper, and those with routers outside of the cluster.
func (w *way) wait(n Node, mesh, peers int) Wait {
	if w.helper != nil && w.helper.Name != n.Name {
		peers++
	}
	return Wait{Node: n.Name, Mesh: mesh, Peers: peers + n.Outside, Global: n.Global}
}

// clean deletes the BGPPeers, which match nothing any more.
func (w *way) clean() {
	names := slices.Concat(w.f.Peers, w.f.Ours)
	for _, s := range w.steps {
		for _, a := range s.Actions {
			switch {
			case a.Verb == "apply" && strings.HasPrefix(a.Names[0], helperPrefix):
				names = append(names, a.Names...)
			case a.Verb == "delete":
				names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(a.Names, name) })
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return
	}
	w.add(Step{
		Title:   "Delete the BGPPeers",
		Why:     "No node has the label that they ask for, so no session comes from them any more. rrpool refuses while they are there (ForeignInClusterPeer).",
		Cost:    "none",
		Actions: []Action{{Verb: "delete", Resource: calico("bgppeers"), Names: names}},
		Then:    "kubectl get bgppeers.crd.projectcalico.org shows what you know, routers outside the cluster for example",
	})
}

// remove takes away what is left, and hands over.
func (w *way) remove() {
	s := Step{Title: "Remove the rest", Why: "Nothing uses it any more.", Cost: "none"}
	watches := slices.Clone(w.f.Watches)
	for _, step := range w.steps {
		for _, a := range step.Actions {
			if a.Resource == calico("caliconodestatuses") {
				watches = append(watches, a.Names...)
			}
		}
	}
	if len(watches) > 0 {
		s.Commands = append(s.Commands, "kubectl get caliconodestatuses.crd.projectcalico.org --output name | grep '/"+watchPrefix+"' | xargs kubectl delete --ignore-not-found")
	}
	if w.f.settings() {
		s.Why = "Nothing uses it any more. Its settings are kept in pool.yaml before they go with it."
		s.Commands = append(s.Commands, "rrpool import-env --from-cluster > pool.yaml")
	}
	for _, object := range w.f.Leftovers {
		s.Commands = append(s.Commands, "kubectl delete "+object)
	}
	if len(s.Commands) > 0 {
		w.add(s)
	}
}
