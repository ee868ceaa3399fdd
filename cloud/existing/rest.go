package existing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// rest says what is missing when nothing can be changed.
func rest(nodes, chosen []plan.Node, rules selection.Rules) cloud.Progress {
	var missing []string
	switch short := rules.Total() - len(chosen); {
	case rules.Total() == 0:
		missing = append(missing, "the cluster to have a node that announces a BGP address")
	case short > 0:
		missing = append(missing, fmt.Sprintf("%d more eligible nodes (%s)", short, candidates(nodes, rules)))
	}
	for _, n := range nodes {
		if text := hindrance(n, chosen, rules); n.Pooled && text != "" {
			missing = append(missing, place(n)+" "+text)
		}
	}
	if len(missing) == 0 {
		return cloud.Progress{Done: true}
	}
	return cloud.Progress{WaitingFor: capped(missing, "; ")}
}

// hindrance says what has to become of a member, "" for nothing.
func hindrance(n plan.Node, chosen []plan.Node, rules selection.Rules) string {
	switch reason := rules.Unfit(n); {
	case reason != "":
		return "to be retired: " + reason
	case !rules.Counts(n):
		return "to be Ready again, or replaced"
	case !slices.ContainsFunc(chosen, func(c plan.Node) bool { return c.Name == n.Name }):
		return fmt.Sprintf("to be retired: it is more than the %d wanted", rules.Total())
	case !n.Ready:
		return "to be Ready again"
	}
	return ""
}

// candidates says why nodes that are not in the pool cannot join, the likeliest
// first: those that need only become Ready, then those that speak BGP.
func candidates(nodes []plan.Node, rules selection.Rules) string {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return n.Pooled })
	slices.SortFunc(others, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(rules.Unfit(a) == "", rules.Unfit(b) == ""),
			plan.TrueFirst(a.SpeaksBGP(), b.SpeaksBGP()),
			cmp.Compare(a.Name, b.Name),
		)
	})
	var reasons []string
	for _, n := range others {
		reasons = append(reasons, fmt.Sprintf("%s: %s", n.Name, cmp.Or(rules.Unfit(n), "it is NotReady")))
	}
	if len(reasons) == 0 {
		return "there are no others"
	}
	return capped(reasons, ", ")
}

// capped joins the first few of many.
func capped(items []string, separator string) string {
	const most = 5
	if len(items) > most {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(items, separator)
}
