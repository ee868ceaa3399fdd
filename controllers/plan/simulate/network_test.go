package simulate_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

var (
	// Of each kind there may be several nodes.
	someSelector = rapid.SampledFrom([]string{
		"has(" + role + ")", "!has(" + role + ")", role + " in {'a','b'}", role + " == 'c'", role + " starts with 'a'",
		"zone == 'x'", "zone != 'x' && !has(" + role + ")", plan.RackLabel + " == 'k'", "all()", "no selector",
	})
	someID   = rapid.SampledFrom([]string{"", "", "244.0.0.1", "244.0.0.1", "244.0.0.2", "244.0.0.3"})
	somePeer = rapid.Custom(func(t *rapid.T) plan.Peer {
		p := plan.Peer{Manual: rapid.IntRange(0, 5).Draw(t, "manual") == 0}
		if rapid.IntRange(0, 3).Draw(t, "password") == 0 {
			p.Password = &plan.SecretRef{Name: "bgp", Key: "one"}
		}
		switch rapid.IntRange(0, 9).Draw(t, "near") {
		case 0: // all nodes
		case 1, 2:
			p.Node = fmt.Sprintf("n%d", rapid.IntRange(1, 7).Draw(t, "node"))
		default:
			p.NodeSelector = someSelector.Draw(t, "nodes")
		}
		if rapid.IntRange(0, 3).Draw(t, "far") == 0 {
			p.PeerIP = fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 7).Draw(t, "address"))
		} else {
			p.PeerSelector = someSelector.Draw(t, "peers")
		}
		return p
	})
	someNode = rapid.Custom(func(t *rapid.T) plan.Node {
		n := plan.Node{
			HasRoleLabel: rapid.Bool().Draw(t, "role"), ClusterID: someID.Draw(t, "id"),
			Labels: map[string]string{role: "stale"}, Rack: rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "rack"),
		}
		if n.HasRoleLabel {
			n.Slot = rapid.SampledFrom([]string{"", "a", "ab", "b", "c"}).Draw(t, "slot")
		}
		if zone := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone"); zone != "" {
			n.Labels["zone"] = zone
		}
		return n
	})
	// anyCluster is one that makes no sense, as a rule.
	anyCluster = rapid.Custom(func(t *rapid.T) *oracle {
		o := &oracle{up: map[string]bool{}}
		kinds := rapid.SliceOfN(someNode, 1, 4).Draw(t, "kinds")
		for i := range rapid.IntRange(2, 7).Draw(t, "nodes") {
			n := rapid.SampledFrom(kinds).Draw(t, "kind")
			n.Name = fmt.Sprintf("n%d", i+1)
			o.add(n)
			o.up[n.Name] = rapid.IntRange(0, 7).Draw(t, "up") > 0
		}
		if rapid.IntRange(0, 3).Draw(t, "mesh") > 0 {
			off := false
			o.bgp.Mesh.Enabled = &off
		}
		for i, p := range rapid.SliceOfN(somePeer, 0, 6).Draw(t, "peers") {
			p.Name = fmt.Sprintf("p%d", (i*5)%7) // not sorted
			o.peers = append(o.peers, p)
		}
		return o
	})
	// someTopology has reflectors, some with the same cluster ID, and groups of clients.
	someTopology = rapid.Custom(func(t *rapid.T) *oracle {
		o := &oracle{up: map[string]bool{}}
		off := false
		o.bgp.Mesh.Enabled = &off
		ids := rapid.SampledFrom([]string{"244.0.0.1", "244.0.0.2", "244.0.0.3", "244.0.0.4"}[:rapid.IntRange(1, 4).Draw(t, "ids")])
		for i := range rapid.IntRange(1, 5).Draw(t, "reflectors") {
			slot := rapid.SampledFrom([]string{"a", "b", "c", "spine"}).Draw(t, "slot")
			o.add(plan.Node{Name: fmt.Sprintf("r%d", i+1), HasRoleLabel: true, Slot: slot, ClusterID: ids.Draw(t, "id")})
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
			rack := fmt.Sprintf("k%d", i+1)
			o.client(rack, "c"+rack)
			if rapid.Bool().Draw(t, "two") {
				o.client(rack, "d"+rack)
			}
			slots := rapid.SampledFrom([]string{"R == 'a'", "R in {'a','b'}", "R in {'b','c'}", "has(R)", "R == 'c'"}).Draw(t, "slots")
			o.peer(rack, "!has(R) && "+plan.RackLabel+" == '"+rack+"'", slots)
		}
		if rapid.Bool().Draw(t, "spines") {
			o.peer("spines", "R == 'spine'", "R != 'spine'")
		} else {
			o.peer("reflectors", "has(R)", "has(R)")
		}
		for _, n := range o.nodes {
			o.up[n.Name] = true
		}
		return o
	})
	someCluster = rapid.OneOf(anyCluster, someTopology)
)

// differences are what a network says that the oracle does not.
func differences(o *oracle, n *simulate.Network) []string {
	var out []string
	differ := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			out = append(out, fmt.Sprintf("%s: the oracle says %s, the network %s", what, w, g))
		}
	}
	all, rib, ends := o.table(), map[string]uint64{}, o.ends()
	var unreached []simulate.Pair
	for _, a := range o.nodes {
		differ("sessions of "+a.Name, len(ends[a.Name]), n.Sessions(a.Name))
		for _, b := range o.nodes {
			_, _, connected := o.session(a, b)
			differ(fmt.Sprintf("%s with %s", a.Name, b.Name), connected, n.Connected(a.Name, b.Name))
			from, paths := all[a.Name][b.Name], uint64(0)
			for _, count := range from {
				paths += count
			}
			rib[b.Name] += paths
			what := fmt.Sprintf("paths to %s on %s", a.Name, b.Name)
			differ(what, simulate.Count{Paths: paths}, n.Paths(a.Name, b.Name))
			differ("senders of "+what, slices.Sorted(maps.Keys(from)), n.Senders(a.Name, b.Name))
			if paths == 0 && a.Name != b.Name && o.up[a.Name] && o.up[b.Name] {
				unreached = append(unreached, simulate.Pair{From: b.Name, To: a.Name})
			}
		}
	}
	for _, a := range o.nodes {
		differ("RIB of "+a.Name, simulate.Count{Paths: rib[a.Name]}, n.RIB(a.Name))
	}
	got := n.Unreached(o.isUp)
	differ("some unreached", len(unreached) > 0, len(got) > 0)
	for _, p := range got {
		differ(fmt.Sprint(p, " unreached"), true, slices.Contains(unreached, p))
	}
	return out
}

// What the classes say is what each node by itself would: sessions, routes, from whom.
func TestNetworkIsWhatTheRulesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := someCluster.Draw(t, "cluster")
		n := o.configuration().Network(o.isUp)
		require.Empty(t, differences(o, n))
		require.Empty(t, differences(o, o.sessions()))
		var standing []string
		for _, c := range n.Classes() {
			standing = append(standing, c.Nodes...)
		}
		for _, a := range o.nodes {
			require.Equal(t, o.up[a.Name], slices.Contains(standing, a.Name))
		}
	})
}

// Without a mesh, the nodes that have a session are those that BGPPeers give one.
func TestPeered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := someCluster.Draw(t, "cluster")
		off := false
		o.bgp.Mesh.Enabled = &off
		c := o.configuration()
		n := c.Network(func(string) bool { return true })
		for _, a := range o.nodes {
			for _, b := range o.nodes {
				require.Equal(t, n.Connected(a.Name, b.Name), c.Peered(a.Name, b.Name, b.Addresses[0]), "%s with %s", a.Name, b.Name)
			}
		}
	})
}

// The comparison sees each rule: without one of them something differs.
func TestEachRuleMatters(t *testing.T) {
	for r, clusters := range map[rule]*rapid.Generator[*oracle]{
		onlyClients: someTopology, exportedList: someTopology, importedList: someTopology, ownRoutes: someTopology,
		forwardWins: anyCluster, manual: anyCluster, addressHasNoID: anyCluster,
	} {
		t.Run(string(r), func(t *testing.T) {
			for seed := range 2000 {
				o := clusters.Example(seed)
				o.lack = r
				if len(differences(o, o.configuration().Network(o.isUp))) > 0 {
					return
				}
			}
			t.Fatal("the comparison does not see it")
		})
	}
}

// A rule of BIRD's that never decides anything as Calico configures it, on which the
// network relies: no route would go back where it came from.
func TestNothingWouldGoBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := someCluster.Draw(t, "cluster")
		o.lack = notBack
		require.Empty(t, differences(o, o.configuration().Network(o.isUp)))
	})
}

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

// sessions is the network of the nodes that are up, each by itself.
func (o *oracle) sessions() *simulate.Network {
	var names []string
	for _, n := range o.nodes {
		if o.up[n.Name] {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	c := o.configuration()
	return simulate.NetworkOf(names, func(a, b string) (mine, yours simulate.Side, up bool) {
		mine, here := c.Side(a, b)
		yours, there := c.Side(b, a)
		return mine, yours, here && there && mine.Fits(yours)
	})
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
	if n.HasRoleLabel {
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

// BGPPeers of others are read within bounds, each alone and all together: they may be anything.
func TestSelectorsAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("(", n) + "all()" + strings.Repeat(")", n) }
	many := func(n int) (out []plan.Peer) {
		for i := range n {
			out = append(out, plan.Peer{Name: fmt.Sprint("p", i), NodeSelector: "has(" + strings.Repeat("a", 1019) + ")", PeerIP: "192.0.2.1"})
		}
		return out
	}
	edited := func(peers []plan.Peer, edit func(*plan.Peer)) []plan.Peer {
		for i := range peers {
			edit(&peers[i])
		}
		return peers
	}
	for name, c := range map[string]struct {
		peers  []plan.Peer
		unread int
	}{
		"as people write them":       {[]plan.Peer{{Name: "p", NodeSelector: "a == 'b' && (has(a) || has(x))"}}, 0},
		"nested as deep as it may":   {[]plan.Peer{{Name: "p", NodeSelector: nested(63)}}, 0},
		"nested deeper":              {[]plan.Peer{{Name: "p", NodeSelector: nested(64)}}, 1},
		"nested beyond any stack":    {[]plan.Peer{{Name: "p", PeerSelector: strings.Repeat("(", 2_000_000)}}, 1},
		"as long as it may":          {[]plan.Peer{{Name: "p", NodeSelector: "a == '" + strings.Repeat("b", simulate.LongestSelector-7) + "'"}}, 0},
		"longer":                     {[]plan.Peer{{Name: "p", NodeSelector: "a == '" + strings.Repeat("b", simulate.LongestSelector-6) + "'"}}, 1},
		"as much as all may":         {many(64), 0},
		"more":                       {many(80), 16},
		"more, of what they select":  {edited(many(80), func(p *plan.Peer) { p.Node, p.NodeSelector, p.PeerSelector, p.PeerIP = "x", "", p.NodeSelector, "" }), 16},
		"ours do not count":          {append(edited(many(80), func(p *plan.Peer) { p.Owned = true }), many(64)...), 0},
		"nested there":               {[]plan.Peer{{Name: "p", PeerSelector: nested(64)}}, 1},
		"ours, as many as there are": {[]plan.Peer{{Name: "p", Owned: true, NodeSelector: nested(64)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, simulate.Unread(c.peers), c.unread)
			from, _ := simulate.Sides(c.peers[len(c.peers)-1], []plan.Node{{Name: "n", Labels: map[string]string{"a": "b"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}, "rr")
			require.Equal(t, strings.HasPrefix(name, "as people") || strings.HasSuffix(name, "as deep as it may"), from == 1, "what is not read selects none")
		})
	}
}
