package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

func supply() group {
	return group{"Provider", []check{
		{"provider", kind},
		{"eligible", eligible},
		{"chosen", chosen},
		{"credentials", credentials},
		{"cluster-id", clusterID},
		{"cloud", cloudAnswers},
		{"worker-pool", workerPool},
		{"autoscaler", autoscaler},
		{"quota", quota},
	}}
}

func kind(f facts) *Result {
	if f.snapshot == nil {
		return unseen("where route reflectors would come from", lookFirst)
	}
	how := ""
	if f.object.Spec.Provider.Type == v1alpha1.ProviderAuto {
		how = ", as spec.provider.type is Auto"
	}
	if f.iks() {
		return fine("route reflectors are workers of IBM Cloud Kubernetes Service%s", how)
	}
	return fine("route reflectors are nodes that are there already%s", how)
}

// eligible: on existing nodes there have to be enough that can reflect, and one more.
func eligible(f facts) *Result {
	if f.snapshot == nil || f.iks() || len(clients(f)) == 0 {
		return nil
	}
	d := f.snapshot.Desired
	rules := selection.Rules{PerZone: d.Pool.SizePerZone, Zones: d.Pool.Zones, Preferred: d.Preferred, Excluded: d.Excluded}.Of(f.snapshot.Cluster.Nodes)
	want := rules.Total()
	if want == 0 {
		return note("how many route reflectors are wanted is not decided: mode %s, or a spec that is refused", f.object.Spec.Mode)
	}
	able, unfit := ableOf(f.snapshot.Cluster.Nodes, rules)
	speaking := len(clients(f))
	switch {
	case speaking <= want:
		return fail("%d route reflectors are wanted of %d nodes that speak BGP: nobody would be left to be their client", want, speaking).also(capped(unfit)...).
			reason("TooFewNodes").do("add nodes, or lower spec.sizing.min or spec.sizing.minPerZone")
	case able < want:
		return fail("%d of %d nodes can be route reflectors, and %d are wanted", able, len(f.snapshot.Cluster.Nodes), want).also(capped(unfit)...).reason("AwaitNodes").
			do("repair or add nodes, or lower spec.sizing.min")
	case able == want:
		return warn("%d nodes can be route reflectors, and that many are wanted: none could take the place of one that fails", able).also(capped(unfit)...).
			do("add a node, or repair those named")
	}
	return fine("%d nodes can be route reflectors, and %d are wanted", able, want)
}

// ableOf counts the nodes that can reflect, and says of the others why not.
func ableOf(nodes []plan.Node, rules selection.Rules) (able int, unfit []string) {
	for _, n := range nodes {
		if rules.Counts(n) || rules.Eligible(n) {
			able++
			continue
		}
		unfit = append(unfit, n.Name+": "+cmp.Or(rules.Unfit(n), "it is not Ready"))
	}
	return able, unfit
}

// chosen: on existing nodes, how those fare that are chosen.
func chosen(f facts) *Result {
	if f.snapshot == nil || f.iks() {
		return nil
	}
	p, reason := f.snapshot.Pool, f.obstacle()
	switch {
	case reason == "CloudUnauthorized":
		return unseen("how the chosen nodes fare", f.snapshot.Obstacle.Message).reason(reason) // it is the user who may not
	case reason != "":
		return warn("something is wrong with the chosen nodes: %s", f.snapshot.Obstacle.Message).reason(reason).do("see what to do about %s:", reason)
	case p == nil || !p.Exists:
		return nil
	}
	return fine("%s chosen for route reflectors", count(len(p.Workers), "node is", "nodes are"))
}

// capped is few for details.
func capped(lines []string) []string {
	const most = 5
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
}
