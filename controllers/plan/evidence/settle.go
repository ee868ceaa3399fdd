package evidence

import (
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// settleTime returns how long the busiest reflector may take to send its routes: where all are alike, those of all nodes to each.
func (e *Evidence) settleTime() time.Duration {
	nodes := len(e.Clients) + len(e.Unready)
	routes := nodes * nodes // where each node announces one prefix
	if e.arranged() {
		routes = max(routesSent(e.network.Present), routesSent(e.network.Goal()))
	}
	return SettleTime(float64(routes) * float64(e.announced()) / float64(max(nodes, 1)))
}

// announced counts the prefixes that nodes announce: the blocks of each, at least one, the ranges of services, and the blocks of
// others to which Felix has routes.
func (e *Evidence) announced() (prefixes int) {
	nodes := len(e.Clients) + len(e.Unready) + len(e.network.Wanted)
	for _, r := range e.cluster.BGP.Services {
		if !r.IsSingleIP() {
			prefixes += nodes
		}
	}
	for _, some := range [][]plan.Node{e.Clients, e.Unready} {
		for i := range some {
			prefixes += max(len(some[i].Blocks), 1)
			for _, b := range some[i].Blocks {
				if e.cluster.Routes.Direct(b) {
					prefixes += nodes
				}
			}
		}
	}
	return prefixes
}

// routesSent returns the most routes that a reflector of this network sends, where each node announces one prefix. The paths that a
// node holds come from its reflectors in equal parts.
func routesSent(network *simulate.Network) int {
	classes := network.Classes()
	sent := make([]int, len(classes)+1) // 0 where there are no nodes
	for _, to := range classes {
		var senders []int // the classes
		reflectors := 0
		for i, from := range classes {
			if from.Reflects && network.Connected(from.Nodes[len(from.Nodes)-1], to.Nodes[0]) {
				senders = append(senders, i)
				reflectors += len(from.Nodes)
			}
		}
		if reflectors == 0 {
			continue
		}
		each := len(to.Nodes) * int(min(network.RIB(to.Nodes[0]).Paths, 1<<24)) / reflectors
		for _, i := range senders {
			sent[i] += each
		}
	}
	return slices.Max(sent)
}

// SettleTime returns how long BIRD may take to send so many routes. Measured (docs/capacity.md): up to 7 s per million on a busy machine, 2.5 s
// where nothing else runs, whatever the numbers of clients and prefixes are. More than half an hour's do not count: BIRD cannot hold them.
func SettleTime(routes float64) time.Duration {
	return (5*time.Second + time.Duration(min(routes, 270_000_000)/150_000*float64(time.Second))).Round(time.Second)
}
