package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

func nodes() group {
	return group{"Cluster", []check{
		{"size", size},
		{"readiness", readiness},
		{"zones", zones},
	}}
}

// meshIsFine is the number of nodes up to which the mesh does well.
const meshIsFine = 100

// clients are the nodes that route reflectors would serve.
func clients(f facts) []plan.Node {
	return slices.DeleteFunc(slices.Clone(f.snapshot.Cluster.Nodes), func(n plan.Node) bool { return !n.SpeaksBGP() })
}

func size(f facts) *Result {
	if f.snapshot == nil {
		return unseen("the number of nodes", lookFirst)
	}
	switch n := len(clients(f)); {
	case n == 0:
		return nil // which check bgp says
	case n < meshIsFine:
		return note("%s BGP: up to about %d the mesh is fine as well", count(n, "node speaks", "nodes speak"), meshIsFine)
	default:
		return fine("%d nodes speak BGP", n)
	}
}

func readiness(f facts) *Result {
	if f.snapshot == nil || len(f.snapshot.Cluster.Nodes) == 0 {
		return nil
	}
	var bad []string
	for _, n := range f.snapshot.Cluster.Nodes {
		if !n.Ready {
			bad = append(bad, n.Name)
		}
	}
	if len(bad) > 0 {
		return warn("%s not Ready: %s", count(len(bad), "node is", "nodes are"), iostreams.Few(bad)).
			do("kubectl describe node %s; sessions with it are not waited for until it is Ready", bad[0])
	}
	return fine("all %d nodes are Ready", len(f.snapshot.Cluster.Nodes))
}

func zones(f facts) *Result {
	if f.snapshot == nil {
		return nil
	}
	label, in := f.object.Spec.Topology.ZoneLabel, map[string]int{}
	var without []string
	for _, n := range clients(f) {
		if in[n.Zone]++; n.Zone == "" {
			without = append(without, n.Name)
		}
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(in)) {
		if zone != "" {
			parts = append(parts, fmt.Sprintf("%s (%d)", zone, in[zone]))
		}
	}
	switch {
	case len(in) == 0:
		return nil
	case len(parts) == 0:
		return warn("no node has the zone label %s: all count as one zone, and nothing is spread", label).
			do("label the nodes, or say with spec.topology.zoneLabel which label has the zone; in a cluster of one place there is nothing to do")
	case len(without) > 0:
		return warn("%s the zone label %s: %s", count(len(without), "node lacks", "nodes lack"), label, iostreams.Few(without)).
			also("zones: " + iostreams.Few(parts)).do("label them: nodes without it count as a zone of their own")
	case len(parts) == 1:
		return warn("all nodes are in one zone, %s: when it is gone, so are all route reflectors", parts[0]).
			do("nothing, if the cluster is to have one zone")
	}
	return fine("%d zones: %s", len(parts), iostreams.Few(parts))
}
