package simulate_test

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// oracle is the rules of confd and BIRD as they stand, node by node and route by route:
// slow, and with nothing left out because it cannot happen.
type oracle struct {
	sketch
	bgp  plan.BGPConfig
	up   map[string]bool
	lack rule
}

// rule is one that the oracle may lack.
type rule string

const (
	onlyClients    rule = "reflect only from or to a client"
	exportedList   rule = "send no client what carries the own cluster ID"
	importedList   rule = "take from no client what carries the own cluster ID"
	ownRoutes      rule = "take nothing that is one's own"
	notBack        rule = "send nothing back where it came from"
	forwardWins    rule = "a BGPPeer that names the node wins"
	manual         rule = "no other side of a Manual peer"
	addressHasNoID rule = "a peer given by its address has no cluster ID"
)

func (o *oracle) configuration() *simulate.Configuration {
	return simulate.NewConfiguration(role, o.nodes, o.bgp, o.peers)
}

func (o *oracle) isUp(name string) bool { return o.up[name] }

func (o *oracle) node(name string) plan.Node {
	return o.nodes[slices.IndexFunc(o.nodes, func(n plan.Node) bool { return n.Name == name })]
}

func labels(n plan.Node) map[string]string {
	out := maps.Clone(n.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if _, ok := out[plan.RackLabel]; !ok && n.Rack != "" {
		out[plan.RackLabel] = n.Rack
	}
	delete(out, role)
	if n.RoleLabel {
		out[role] = cmp.Or(n.Slot, "true")
	}
	return out
}

func selects(text string, n plan.Node) bool {
	s, err := selector.Parse(text)
	return err == nil && s.Evaluate(labels(n))
}

// near reports whether p has n on its one side, far whether on the other.
func near(p plan.Peer, n plan.Node) bool {
	if p.NodeSelector != "" {
		return selects(p.NodeSelector, n)
	}
	return p.Node == "" || p.Node == n.Name
}

func far(p plan.Peer, n plan.Node) bool {
	if p.PeerSelector != "" {
		return selects(p.PeerSelector, n)
	}
	a, err := netip.ParseAddr(p.PeerIP)
	return err == nil && slices.Contains(n.Addresses, a)
}

func global(p plan.Peer) bool { return p.Node == "" && p.NodeSelector == "" }

// order is that in which BGPPeers win.
func (o *oracle) order() []plan.Peer {
	return slices.SortedStableFunc(slices.Values(o.peers), func(a, b plan.Peer) int {
		return cmp.Or(plan.TrueFirst(global(a), global(b)), plan.TrueFirst(a.PeerIP != "", b.PeerIP != ""), cmp.Compare(a.Name, b.Name))
	})
}

func (o *oracle) side(n, other plan.Node) (simulate.Side, bool) {
	mesh := o.bgp.MeshOn() && n.ClusterID == "" && other.ClusterID == ""
	p, reverse, ok := o.decides(n, other)
	if !ok {
		return simulate.Side{Mesh: true}, mesh
	}
	s := simulate.Side{Twice: mesh && p.PeerIP != "", Global: !reverse && global(p)}
	if p.Password != nil {
		s.Password = p.Password.Name + "/" + p.Password.Key
	}
	id := other.ClusterID
	if p.PeerIP != "" && !reverse {
		id = o.idOf(other)
	}
	if s.Client = n.ClusterID != "" && id != n.ClusterID; s.Client {
		s.ClusterID = n.ClusterID
	}
	return s, true
}

// idOf is the cluster ID of a peer given by its address.
func (o *oracle) idOf(n plan.Node) string {
	if o.lack == addressHasNoID {
		return n.ClusterID
	}
	return ""
}

// decides gives the BGPPeer that does, and whether n is at its other side.
func (o *oracle) decides(n, other plan.Node) (p plan.Peer, reverse, ok bool) {
	for _, reverse := range []bool{o.lack == forwardWins, o.lack != forwardWins} {
		for _, p := range o.order() {
			if !reverse && near(p, n) && far(p, other) {
				return p, false, true
			}
			if reverse && near(p, other) && far(p, n) && (!p.Manual || o.lack == manual) {
				return p, true, true
			}
		}
	}
	return plan.Peer{}, false, false
}

// session gives both sides of one that two nodes have.
func (o *oracle) session(a, b plan.Node) (mine, yours simulate.Side, ok bool) {
	if a.Name == b.Name || !o.up[a.Name] || !o.up[b.Name] {
		return simulate.Side{}, simulate.Side{}, false
	}
	mine, here := o.side(a, b)
	yours, there := o.side(b, a)
	return mine, yours, here && there && mine.Password == yours.Password && !mine.Twice && !yours.Twice
}

// route is one that a node has learned.
type route struct {
	at, from   plan.Node
	originator string
	list       []string
}

// end is what one end of a session is configured to.
type end struct {
	peer        plan.Node
	mine, yours simulate.Side
}

func (o *oracle) ends() map[string][]end {
	out := map[string][]end{}
	for _, a := range o.nodes {
		for _, b := range o.nodes {
			if mine, yours, ok := o.session(a, b); ok {
				out[a.Name] = append(out[a.Name], end{b, mine, yours})
			}
		}
	}
	return out
}

// routes are all that the nodes learn to origin's prefixes.
func (o *oracle) routes(ends map[string][]end, origin plan.Node) []route {
	var out []route
	for _, e := range ends[origin.Name] {
		out = append(out, route{at: e.peer, from: origin})
	}
	for i := 0; i < len(out) && i < 4000; i++ { // without a rule there may be no end
		r := out[i]
		at := slices.IndexFunc(ends[r.at.Name], func(e end) bool { return e.peer.Name == r.from.Name })
		for _, e := range ends[r.at.Name] {
			if next, ok := o.reflect(r, ends[r.at.Name][at].mine, e); ok {
				out = append(out, next)
			}
		}
	}
	return out
}

// reflect exports a route that came on session src, and imports it at the other end of e.
func (o *oracle) reflect(r route, src simulate.Side, e end) (route, bool) {
	if !o.exports(r, src, e) {
		return route{}, false
	}
	p := e.mine
	next := route{at: e.peer, from: r.at, originator: cmp.Or(r.originator, r.from.Name)}
	id := p.ClusterID
	if src.Client {
		id = src.ClusterID
	}
	next.list = append(slices.Clone(r.list), id)
	if src.Client && p.Client && src.ClusterID != p.ClusterID {
		next.list = append(next.list, p.ClusterID)
	}
	return next, o.imports(next, e)
}

func (o *oracle) exports(r route, src simulate.Side, e end) bool {
	p := e.mine
	back := e.peer.Name == r.from.Name && o.lack != notBack
	looped := p.Client && slices.Contains(r.list, p.ClusterID) && o.lack != exportedList
	return !back && !looped && (p.Client || src.Client || o.lack == onlyClients)
}

func (o *oracle) imports(r route, e end) bool {
	own := r.originator == e.peer.Name && o.lack != ownRoutes
	looped := e.yours.Client && slices.Contains(r.list, e.yours.ClusterID) && o.lack != importedList
	return !own && !looped
}

// table is what a network looks like: by origin, by node, how many routes from whom.
type table map[string]map[string]map[string]uint64

func (o *oracle) table() table {
	ends, out := o.ends(), table{}
	for _, origin := range o.nodes {
		out[origin.Name] = map[string]map[string]uint64{}
		for _, r := range o.routes(ends, origin) {
			if r.at.Name == origin.Name {
				continue
			}
			if out[origin.Name][r.at.Name] == nil {
				out[origin.Name][r.at.Name] = map[string]uint64{}
			}
			out[origin.Name][r.at.Name][r.from.Name]++
		}
	}
	return out
}
