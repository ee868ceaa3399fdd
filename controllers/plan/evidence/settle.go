package evidence

import (
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// settleTime returns how long the busiest reflector may take to send its routes.
// If all reflectors are alike, each sends the routes of all nodes to every node.
func (e *Evidence) settleTime() time.Duration {
	nodes := len(e.Clients) + len(e.Unready)
	routes := nodes * nodes // if each node announces one prefix
	if e.arranged() {
		routes = max(routesSent(e.network.Present), routesSent(e.network.Goal()))
	}
	return SettleTime(float64(routes) * float64(e.announced()) / float64(max(nodes, 1)))
}

// announced counts the prefixes that all nodes announce: each node's blocks (at least one),
// the service ranges, and the blocks of other nodes to which Felix writes direct routes.
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

// routesSent returns the most routes that a reflector of this network sends if each node
// announces one prefix. It assumes that a node gets its paths from its reflectors in equal parts.
func routesSent(network *simulate.Network) int {
	classes := network.Classes()
	sent := make([]int, len(classes)+1) // one more, so that the result is 0 if there are no nodes
	for _, to := range classes {
		var senders []int // indexes of their classes
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

// SettleTime returns how long BIRD may take to send so many routes. Measured (docs/capacity.md): up to 7 s per
// million on a busy machine, which is 1 s per 150,000, and 2.5 s if nothing else runs, whatever the numbers of
// clients and prefixes are. The routes of half an hour, 270 million, are the limit: BIRD cannot hold more.
func SettleTime(routes float64) time.Duration {
	return (5*time.Second + time.Duration(min(routes, 270_000_000)/150_000*float64(time.Second))).Round(time.Second)
}
