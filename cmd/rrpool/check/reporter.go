package check

import (
	"time"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// patience is how long a reporter may take, beyond some of its periods.
const patience = time.Minute

func (r report) fresh(now time.Time) bool {
	return !r.updated.IsZero() && now.Sub(r.updated) <= 3*r.period+patience
}

func (r report) dead(now time.Time) bool {
	return r.updated.IsZero() && now.Sub(r.touched) > 3*r.period+patience
}

// reporter: calico-node writes a report when there is something new to say, so an old one
// proves nothing, but one that stays blank does.
var reporter = withCalico(func(f facts) *Result {
	r := f.calico.reports
	if f.timer() || r.hidden != "" || !r.found {
		return nil
	}
	ready := map[string]bool{}
	for _, n := range f.snapshot.Cluster.Nodes {
		ready[n.Name] = n.Ready
	}
	var all, fresh int
	var dead []string
	for _, report := range r.value {
		if report.period == 0 || !ready[report.node] {
			continue
		}
		all++
		switch {
		case report.dead(f.now):
			dead = append(dead, report.node)
		case report.fresh(f.now):
			fresh++
		}
	}
	switch {
	case all == 0:
		return note("whether calico-node fills in reports cannot be seen: there are none, as rrpool makes them when it begins")
	case len(dead) > 0:
		return fail("calico-node does not fill in the report of %s: %s", count(len(dead), "Ready node", "Ready nodes"), iostreams.Few(dead)).
			do("look at calico-node on these nodes; restart it there if it is Ready")
	case fresh == 0:
		return note("whether calico-node still fills in reports cannot be seen: none of %d is recent, and it writes only when there is news", all)
	}
	return fine("calico-node reports sessions: %d of %d reports are recent", fresh, all)
})
