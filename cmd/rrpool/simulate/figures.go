package simulate

import (
	"math"
	"math/bits"

	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// figures counts.
func (a *arrangement) figures() *figures {
	f := &figures{Nodes: len(a.nodes), Redundancy: a.Depth, BGPPeers: len(a.Peers), Labelled: len(a.Racks)}
	ids := map[string]bool{}
	for _, s := range a.Seats {
		if s.Node == "" {
			continue
		}
		f.Reflectors++
		ids[s.ClusterID] = true
		if s.Spine {
			f.Spines++
		}
	}
	f.ClusterIDs = len(ids)
	f.FullMesh = f.Nodes * (f.Nodes - 1) / 2
	a.sessions(f)
	a.paths(f)
	var groups spans
	for _, g := range a.Groups {
		if g.Clients > 0 {
			groups.add(g.Clients, 1)
		}
	}
	f.Groups, f.ClientsPerGroup = groups.count, groups.span()
	f.GroupPairs, f.Unreached, _ = a.pairs(a.network)
	f.Memory = estimate(f)
	return f
}

// sessions of clients and reflectors.
func (a *arrangement) sessions(f *figures) {
	var clients, others, all, ofClient spans
	total := 0
	for _, c := range a.classes {
		name, size := c.Nodes[0], len(c.Nodes)
		sessions := a.network.Sessions(name)
		total += sessions * size
		if a.isClient(name) {
			f.Clients += size
			ofClient.add(sessions, size)
			continue
		}
		if !a.reflects(name) {
			continue
		}
		served, joined := a.neighbours(c)
		if !a.seats[name].Spine {
			clients.add(served, size)
		}
		others.add(joined, size)
		all.add(sessions, size)
	}
	f.Sessions = total / 2
	f.ClientsPerReflector, f.ReflectorsPerReflector = clients.span(), others.span()
	f.SessionsPerReflector, f.SessionsPerClient = all.span(), ofClient.span()
}

// neighbours counts the clients and the reflectors that a reflector has sessions with.
func (a *arrangement) neighbours(c simulate.Class) (clients, reflectors int) {
	name := c.Nodes[0]
	for _, o := range a.classes {
		to, size := other(o, name)
		switch {
		case size == 0 || !a.network.Connected(name, to):
		case a.reflects(to):
			reflectors += size
		default:
			clients += size
		}
	}
	return clients, reflectors
}

// paths to the prefixes of clients: reflectors run no pods, and announce nothing.
func (a *arrangement) paths(f *figures) {
	for _, to := range a.classes {
		name := to.Nodes[0]
		prefix, rib := &f.PathsOnReflector, &f.ReflectorRIB
		switch {
		case a.isClient(name):
			prefix, rib = &f.PathsOnClient, &f.ClientRIB
		case !a.reflects(name):
			continue
		}
		var all paths
		for _, from := range a.classes {
			origin, others := other(from, name)
			if others == 0 || !a.isClient(origin) {
				continue
			}
			c := a.network.Paths(origin, name)
			one := paths{Paths: c.Paths, AtLeast: c.More}
			prefix.raise(one)
			all = all.plus(one, others)
		}
		rib.raise(all)
	}
}

// other is a node of the class that is not this one, and how many of these there are.
func other(c simulate.Class, than string) (name string, others int) {
	name, others = c.Nodes[0], len(c.Nodes)
	if name == than {
		if others--; others > 0 {
			name = c.Nodes[1]
		}
	}
	return name, others
}

// raise takes over what is more.
func (p *paths) raise(o paths) {
	if o.Paths > p.Paths || o.Paths == p.Paths && o.AtLeast {
		*p = o
	}
}

// plus adds the paths to several prefixes.
func (p paths) plus(one paths, prefixes int) paths {
	high, low := bits.Mul64(one.Paths, uint64(prefixes)) //nolint:gosec // G115: a count
	sum, carry := bits.Add64(p.Paths, low, 0)
	if high > 0 || carry > 0 {
		return paths{Paths: math.MaxUint64, AtLeast: true}
	}
	return paths{Paths: sum, AtLeast: p.AtLeast || one.AtLeast}
}

// pairs counts the pairs of groups, and those without a route in one direction or the
// other; first is one of these. Groups without a node that is up are not counted.
func (a *arrangement) pairs(n *simulate.Network) (all, unreached int, first []string) {
	for i := range a.Groups {
		for j := range i {
			one, two := a.members[j], a.members[i]
			if one == "" || two == "" {
				continue
			}
			all++
			if n.Paths(one, two).Paths > 0 && n.Paths(two, one).Paths > 0 {
				continue
			}
			unreached++
			if first == nil {
				first = []string{a.Groups[j].Name, a.Groups[i].Name}
			}
		}
	}
	return all, unreached, first
}

// spans gathers a span.
type spans struct {
	least, most, sum, count int
}

func (s *spans) add(value, times int) {
	if s.count == 0 || value < s.least {
		s.least = value
	}
	s.most = max(s.most, value)
	s.sum += value * times
	s.count += times
}

func (s *spans) span() span {
	if s.count == 0 {
		return span{}
	}
	return span{Least: s.least, Most: s.most, Mean: float64(s.sum*100/s.count) / 100}
}
