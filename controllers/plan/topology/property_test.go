package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

func all(string) bool { return true }

// settled draws a cluster that has arrived at what is planned, unless that is refused.
func settled(t *rapid.T) (*world, topology.Layout) {
	w := drawWorld(t)
	l, problem := w.settle(rapid.IntRange(1, 9).Draw(t, "sized"))
	if problem != nil {
		require.NotEmpty(t, problem.Message)
		t.Skip(problem.Message)
	}
	return w, l
}

func TestEveryPlanConnectsAllNodesAsDeeplyAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		net := w.network()
		require.Empty(t, net.Unreached(all))
		require.Equal(t, l.Depth, net.Depth(l.Depth+1, isClient))
		if l.Kind != single {
			require.GreaterOrEqual(t, l.Depth, min(w.spec.Redundancy, len(w.reflectors)))
		}
		for range 5 {
			lost := rapid.Permutation(w.reflectors).Draw(t, "lost")[:l.Depth-1]
			require.Empty(t, w.network(names(lost)...).Unreached(isClient), "without %v", names(lost))
		}
	})
}

func TestEveryPlanSurvivesTheLossOfAZone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		if len(w.zones) == 1 || w.spec.Redundancy == 1 && (l.Kind == hierarchy || l.Kind == multi) {
			return
		}
		for _, zone := range w.zones {
			lost := slices.DeleteFunc(slices.Concat(w.clients, w.reflectors), func(n plan.Node) bool { return n.Zone != zone })
			require.Empty(t, w.network(names(lost)...).Unreached(isClient), "without zone %s", zone)
		}
	})
}

func TestEveryPlanKeepsTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		net := w.network()
		counted := 0
		for _, g := range l.Groups {
			counted += g.Clients
		}
		require.Equal(t, len(w.clients), counted)
		classes := net.Classes()
		for _, a := range classes {
			for _, b := range classes {
				if a.Reflects {
					continue // they run no pods, and the prefixes of spines have more
				}
				require.LessOrEqual(t, net.Paths(a.Nodes[0], b.Nodes[len(b.Nodes)-1]).Paths, uint64(w.spec.MaxPaths))
			}
		}
		for _, r := range w.reflectors {
			serves := 0
			for _, class := range classes {
				if class.Reflects || !net.Connected(r.Name, class.Nodes[0]) {
					continue
				}
				for _, n := range class.Nodes {
					if isClient(n) { // a node of the pool without a slot has sessions as well, and is no client
						serves++
					}
				}
			}
			require.LessOrEqual(t, serves, w.spec.MaxClients, r.Slot)
		}
		require.LessOrEqual(t, len(l.Peers), len(l.Groups)+1)
	})
}

func TestAPlanDependsOnNothingElseAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		again := w.arrange()
		require.Empty(t, again.Racks)
		require.Equal(t, l.Slots, again.Slots)
		require.Equal(t, l.Groups, again.Groups)
		require.Equal(t, l.Peers, again.Peers)
		other := *w
		other.clients = rapid.Permutation(w.clients).Draw(t, "clients")
		other.reflectors = rapid.Permutation(w.reflectors).Draw(t, "reflectors")
		other.zones = rapid.Permutation(w.zones).Draw(t, "zones")
		require.Equal(t, again, other.arrange())
	})
}

// A new node has sessions before the manager knows of it, and no other node notices it.
func TestAClientThatJoinsMovesNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		before, slots, keys := w.sessions(), w.perZone, keysOf(w)
		for range rapid.IntRange(1, 30).Draw(t, "newcomers") {
			w.drawClient(t, 3, 2)
		}
		require.Empty(t, w.network().Unreached(all), "before anything is written")
		next := w.arrange()
		for _, n := range w.clients {
			require.False(t, n.Rack != "" && next.Racks[n.Name] != "", "%s changes its rack", n.Name)
		}
		if len(next.Groups) != len(l.Groups) || w.size(slots*len(w.zones)) != nil || w.perZone != slots {
			w.settle(slots * len(w.zones))
		} else {
			w.follow(next)
		}
		if keysOf(w) != keys || w.spec.Kind != hierarchy && w.perZone != slots {
			t.Skip("divided in another way, or another size")
		}
		after := w.sessions()
		for name, peers := range before {
			require.Equal(t, peers, after[name], name)
		}
	})
}

// keysOf are the labels that clients are divided by.
func keysOf(w *world) string {
	by := ""
	for _, key := range []string{zoneLabel, rackLabel, plan.RackLabel} {
		if slices.ContainsFunc(w.peers, func(p plan.Peer) bool { return slices.Contains(strings.Fields(p.NodeSelector), key) }) {
			by += key + " "
		}
	}
	return by
}

// One more reflector in each zone, or one less, costs a client at most one session that
// it had, beyond those to a reflector that goes.
func TestAReflectorMoreOrLessMovesOneSessionOfAClientAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := settled(t)
		for range 3 {
			before := w.sessions()
			if up := rapid.Bool().Draw(t, "more"); up || w.perZone == 1 || w.spec.Kind == hierarchy {
				w.perZone++
			} else {
				w.perZone--
			}
			w.pool()
			w.follow(w.arrange())
			after := w.sessions()
			there := map[string]bool{}
			for _, r := range w.reflectors {
				there[r.Name] = true
			}
			for name, peers := range before {
				lost := slices.DeleteFunc(slices.Clone(peers), func(r string) bool { return !there[r] || slices.Contains(after[name], r) })
				require.LessOrEqual(t, len(lost), 1, "%s had %v and has %v", name, peers, after[name])
			}
		}
	})
}

func TestAReflectorKeepsItsSlotAndItsClusterID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		ids := map[string]string{}
		for _, s := range l.Slots {
			ids[s.Name] = s.ClusterID
		}
		gone := rapid.IntRange(0, len(w.reflectors)-1).Draw(t, "gone")
		zone := w.reflectors[gone].Zone
		w.reflectors = slices.Delete(slices.Clone(w.reflectors), gone, gone+1)
		w.reflectors = append(w.reflectors, w.node("reflector", zone))
		after := w.arrange()
		for _, n := range w.reflectors[:len(w.reflectors)-1] {
			if n.Slot == "" || n.Slot == topology.SlotSingle {
				continue
			}
			i := slices.IndexFunc(after.Slots, func(s topology.Slot) bool { return s.Node == n.Name })
			require.GreaterOrEqual(t, i, 0, n.Slot)
			require.Equal(t, n.Slot, after.Slots[i].Name)
		}
		for _, s := range after.Slots {
			if l.Kind == hierarchy && w.spec.Redundancy > 1 {
				require.Equal(t, ids[s.Name], s.ClusterID, s.Name)
			}
		}
		if w.spec.Redundancy > 1 {
			require.Equal(t, l.Peers, after.Peers)
		}
	})
}

// Racks come and go, and no other's cluster ID changes.
func TestCountingOfClusterIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(hierarchy, 2)
		w.spec.ClusterID = rapid.SampledFrom([]string{"244.0.0.1", "255.255.255.253", "0.0.0.1"}).Draw(t, "first")
		w.spec.RackLabel, w.spec.Redundancy = rackLabel, 2
		ids := map[string]string{}
		for range 6 {
			w.clients = nil
			for _, rack := range rapid.SliceOfNDistinct(rapid.IntRange(1, 9), 1, 8, rapid.ID[int]).Draw(t, "racks") {
				for range 4 {
					n := w.node("client", w.zones[rack%2])
					n.Labels[rackLabel] = fmt.Sprintf("r%d", rack)
					w.clients = append(w.clients, n)
				}
			}
			l, problem := w.settle(1)
			require.Nil(t, problem)
			now, owner := map[string]string{}, map[string]string{}
			for _, s := range l.Slots {
				require.NotEqual(t, "0.0.0.0", s.ClusterID)
				require.NotEqual(t, w.spec.ClusterID, s.ClusterID)
				require.Contains(t, []string{"", s.Group}, owner[s.ClusterID])
				owner[s.ClusterID], now[s.Group] = s.Group, s.ClusterID
			}
			for group, id := range now {
				if had := ids[group]; had != "" && group != "" {
					require.Equal(t, had, id)
				}
			}
			ids = now
		}
	})
}

// However few slots are filled, in their order, all nodes have routes to each other once
// each rack and the spines have one.
func TestSlotsAreFilledInAGoodOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		first := 1
		switch l.Kind {
		case hierarchy:
			first = len(l.Groups)
			if first > 1 {
				first++
			}
		case quorum, multi:
			first = len(l.Slots) - l.Depth + 1
		case single, v1alpha1.TopologyAuto:
		}
		filled := rapid.IntRange(min(first, len(l.Slots)), len(l.Slots)).Draw(t, "filled")
		assigned := map[string]bool{}
		for _, s := range l.Slots[:filled] {
			assigned[s.Node] = true
		}
		missing := slices.DeleteFunc(names(w.reflectors), func(name string) bool { return assigned[name] })
		require.Empty(t, w.network(missing...).Unreached(isClient))
	})
}

// Workers of a pool arrive one by one, and have the role before the next is there.
func TestRacksAndSpinesAreInSeveralZonesInWhateverOrderReflectorsArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(hierarchy, rapid.IntRange(2, 4).Draw(t, "zones"))
		w.spec.Redundancy, w.spec.MaxClients = rapid.IntRange(2, 3).Draw(t, "redundancy"), 10
		zones := w.zones
		if rapid.Bool().Draw(t, "clients in one zone only") {
			w.zones = zones[:1]
		}
		w.joinAll(rapid.IntRange(1, 40).Draw(t, "clients"))
		w.zones = zones
		if problem := w.size(1); problem != nil {
			t.Skip(problem.Message)
		}
		w.pool()
		all := rapid.Permutation(w.reflectors).Draw(t, "order")
		w.reflectors = nil
		for _, n := range all {
			w.reflectors = append(w.reflectors, n)
			w.follow(w.arrange())
		}
		spread := map[string]map[string]bool{}
		for _, s := range w.arrange().Slots {
			i := slices.IndexFunc(w.reflectors, func(n plan.Node) bool { return n.Name == s.Node })
			require.GreaterOrEqual(t, i, 0, "%s is empty", s.Name)
			if spread[s.Group] == nil {
				spread[s.Group] = map[string]bool{}
			}
			spread[s.Group][w.reflectors[i].Zone] = true
		}
		for group, in := range spread {
			require.GreaterOrEqual(t, len(in), 2, "rack %q: %v", group, slices.Sorted(maps.Keys(in)))
		}
	})
}
