//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/lab"
)

// agreeFor is how long the lab must stay as it should be: longer than what is under way needs. Until it is, BIRD may restart sessions in
// vain a few times, and routes have to spread.
const agreeFor = 2 * time.Second

// The simulator knows what BIRD does with a configuration: it and the lab have the same sessions, and on every node the same number of
// paths to every prefix, from the same neighbours, before and after reflectors are killed.
func TestTheSimulatorAgreesWithBIRD(t *testing.T) {
	lab.SkipLong(t)
	agreeOn(t, configurations())
}

// A sample of it, for every day: one reflector of three, and a spine and a reflector of a rack are lost.
func TestTheSimulatorAgreesWithBIRDOnASample(t *testing.T) {
	agreeOn(t, []configuration{multiCluster3(), hierarchy2x3()})
}

func agreeOn(t *testing.T, configurations []configuration) {
	t.Helper()
	specs := topologyNodes()
	l := start(t, lab.Options{ProbeInterval: time.Second}, specs...)
	w := &writer{t: t, l: l, specs: specs}
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			w.configure(c)
			config := w.simulate(c, "")
			network := config.Network(everyNode)
			w.requireAgreement(network)
			// The comparison is not blind: the simulator is asked for a configuration with a BGPPeer less.
			require.NotEqual(t, simulated(w.simulate(c, c.control).Network(everyNode), w.names()), w.measured(), "without %s", c.control)
			depth := network.Depth(len(c.slots)+1, func(name string) bool { return c.slots[name].name == "" })
			if c.depth > 0 {
				require.GreaterOrEqual(t, depth, c.depth, "rrpool says that it survives more than it does")
			}
			defer w.revive(c.kill)
			for i, name := range c.kill {
				require.NoError(t, l.KillBIRD(name))
				down := c.kill[:i+1]
				left := config.Network(func(name string) bool { return !slices.Contains(down, name) })
				if now := w.requireAgreement(left, down...); len(down) < depth {
					require.Empty(t, now.cutOff(c), "clients that do not reach each other after %d of %d", len(down), depth)
				}
			}
		})
	}
}

func everyNode(string) bool { return true }

// writer writes topologies by hand: slots, cluster IDs and BGPPeers.
type writer struct {
	t     *testing.T
	l     *lab.Lab
	specs []lab.NodeSpec
	// now is what the cluster is configured as.
	now configuration
}

// table is who has sessions with whom, and who knows whose prefixes: as it is in the lab, or as the simulator has it.
type table map[string]row

// cutOff are the pairs of nodes without a slot of which one has no route to the other.
func (t table) cutOff(c configuration) []string {
	var out []string
	for _, to := range slices.Sorted(maps.Keys(t)) {
		for _, from := range slices.Sorted(maps.Keys(t)) {
			if c.slots[to].name == "" && c.slots[from].name == "" && !t[to].from[from].reached {
				out = append(out, from+" → "+to)
			}
		}
	}
	return out
}

// requireAgreement waits until lab and simulator agree, and stay so for a while.
func (w *writer) requireAgreement(n *simulate.Network, down ...string) table {
	w.t.Helper()
	want := simulated(n, w.names(), down...)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	began := time.Now()
	agreed := time.Time{}
	for {
		got := w.measured(down...)
		switch equal := reflect.DeepEqual(got, want); {
		case !equal && ctx.Err() != nil:
			require.Equal(w.t, want, got, "the simulator expects, and the lab has")
		case !equal:
			agreed = time.Time{}
		case agreed.IsZero():
			agreed = time.Now()
		case time.Since(agreed) > agreeFor:
			w.t.Logf("agreed after %s without %v", agreed.Sub(began).Round(100*time.Millisecond), down)
			return got
		}
		watch(w.t.Context(), 200*time.Millisecond)
	}
}

// simulate gives the simulator a configuration, without one of its BGPPeers.
func (w *writer) simulate(c configuration, without string) *simulate.Configuration {
	w.t.Helper()
	off := false
	bgp := plan.BGPConfig{Exists: true, ASN: asNumber}
	if !c.mesh {
		bgp.Mesh.Enabled = &off
	}
	var nodes []plan.Node
	for _, spec := range w.specs {
		s := c.slots[spec.Name]
		nodes = append(nodes, plan.Node{
			Name: spec.Name, Ready: true, Addresses: []netip.Addr{w.l.Address(spec.Name)}, Labels: map[string]string{zone: spec.Zone}, Zone: spec.Zone,
			HasRoleLabel: s.name != "", Slot: s.name, ClusterID: s.clusterID, Rack: c.racks[spec.Name],
		})
	}
	peers := slices.DeleteFunc(w.resolved(c.peers), func(p plan.Peer) bool { return p.Name == without })
	return simulate.NewConfiguration(roleLabel, nodes, bgp, peers)
}

// One write at a time: what the nodes do with their sessions is what the simulator says.
func TestTheSimulatorKnowsWhatAWriteDoesToSessions(t *testing.T) {
	lab.SkipLong(t)
	specs := topologyNodes()
	l := start(t, lab.Options{ProbeInterval: time.Second}, specs...)
	w := &writer{t: t, l: l, specs: specs}
	c := single(4)
	w.configure(c)
	w.requireAgreement(w.simulate(c, "").Network(everyNode))
	for _, step := range []struct {
		name string
		edit func(*configuration)
		want simulate.Change
	}{
		{"the mesh comes", func(c *configuration) { c.mesh = true }, simulate.Change{Added: 45}},
		{"the mesh goes", func(c *configuration) { c.mesh = false }, simulate.Change{Removed: 45}},
		{"a slot gets another name", func(c *configuration) { c.slots[reflector(2)] = slot{"slot-2", id(1)} }, simulate.Change{}},
		{"clients lose the one in that slot", func(c *configuration) {
			c.peers[0] = peer("clients", isClient, anyReflector+" && "+roleLabel+" != 'slot-2'")
		}, simulate.Change{Removed: 10}},
		{"they get it back", func(c *configuration) { c.peers[0] = peer("clients", isClient, anyReflector) }, simulate.Change{Added: 10}},
		{"a reflector gets another cluster ID", func(c *configuration) { c.slots[reflector(1)] = slot{"true", id(2)} }, simulate.Change{Restarted: 13}},
		{"a reflector leaves its slot", func(c *configuration) { delete(c.slots, reflector(4)) }, simulate.Change{Removed: 10, Restarted: 3}},
		{"a client becomes a reflector", func(c *configuration) { c.slots[reflector(5)] = slot{"true", id(1)} }, simulate.Change{Added: 10, Restarted: 3}},
		{"a BGPPeer for the same sessions comes", func(c *configuration) { c.peers = append(c.peers, peer("second", among(zone1), anyReflector)) }, simulate.Change{}},
		{"it goes", func(c *configuration) { c.peers = c.peers[:2] }, simulate.Change{}},
		// What nodes with workloads are made reflectors by, without loss.
		{"all reflectors have one cluster ID again", func(c *configuration) { c.slots[reflector(1)] = slot{"true", id(1)} }, simulate.Change{Restarted: 13}},
		{"reflectors peer by address", func(c *configuration) { c.peers = append(c.peers[:1], inOrder(1, 2, 3, 5)...) }, simulate.Change{Restarted: 6}},
		{"so do they with a client", func(c *configuration) { c.peers = append(c.peers[:1], inOrder(1, 2, 3, 5, 6)...) }, simulate.Change{}},
		{"which becomes a reflector, and keeps its sessions with them", func(c *configuration) {
			c.slots[reflector(6)] = slot{"true", id(1)}
		}, simulate.Change{Added: 9}},
		{"and gives the role back", func(c *configuration) { delete(c.slots, reflector(6)) }, simulate.Change{Removed: 9}},
	} {
		t.Run(step.name, func(t *testing.T) {
			w.t = t
			old, before := w.simulate(c, ""), w.sessions()
			c.slots, c.peers = maps.Clone(c.slots), slices.Clone(c.peers)
			step.edit(&c)
			w.configure(c)
			w.requireAgreement(w.simulate(c, "").Network(everyNode))
			require.Equal(t, step.want, w.changed(before), "the lab")
			require.Equal(t, step.want, simulate.Compare(old, w.simulate(c, "")), "the simulator")
		})
	}
}

// changed counts what has become of sessions. Each has two sides.
func (w *writer) changed(before map[string]lab.Session) simulate.Change {
	w.t.Helper()
	after := w.sessions()
	var out simulate.Change
	for i, a := range w.names() {
		for _, b := range w.names()[:i] {
			one, two := a+"→"+w.l.Address(b).String(), b+"→"+w.l.Address(a).String()
			up := func(all map[string]lab.Session) bool { return all[one].Established() && all[two].Established() }
			stayed := before[one].Same(after[one]) && before[two].Same(after[two])
			switch was, is := up(before), up(after); {
			case is && !was:
				out.Added++
			case was && !is:
				out.Removed++
			case is && !stayed:
				out.Restarted++
			}
		}
	}
	return out
}

type row struct {
	// sessions are the nodes that it has one with, sorted; count is their number.
	sessions string
	count    int
	// from gives, by node, what it knows of that node's prefix; rib is the number of all paths.
	from map[string]cell
	rib  string
}

type cell struct {
	paths string
	// senders are the neighbours that have sent them, sorted.
	senders string
	// reached: the kernel has a route.
	reached bool
}

// measured reads the table of the nodes that are up from BIRD and the kernel.
func (w *writer) measured(down ...string) table {
	w.t.Helper()
	names := map[string]string{}
	for _, node := range w.l.Nodes() {
		names[w.l.Address(node).String()] = node
	}
	out := table{}
	for _, node := range w.l.Nodes() {
		if !slices.Contains(down, node) {
			out[node] = w.measuredRow(node, names)
		}
	}
	return out
}

func (w *writer) measuredRow(node string, names map[string]string) row {
	w.t.Helper()
	sessions, err := w.l.Sessions(node)
	require.NoError(w.t, err)
	var with []string
	for _, s := range sessions {
		if s.Established() {
			with = append(with, names[s.Peer.String()])
		}
	}
	slices.Sort(with)
	paths, err := w.l.Paths(node)
	require.NoError(w.t, err)
	out := row{sessions: strings.Join(with, " "), count: len(with), from: map[string]cell{}}
	rib := 0
	for _, from := range w.l.Nodes() {
		var senders []string
		count := 0
		for sender, n := range paths[w.l.Block(from)] {
			senders = append(senders, names[sender.String()])
			count += n
		}
		slices.Sort(senders)
		reached, err := w.l.Reaches(node, from)
		require.NoError(w.t, err)
		rib += count
		out.from[from] = cell{paths: fmt.Sprint(count), senders: strings.Join(senders, " "), reached: reached || from == node}
	}
	out.rib = fmt.Sprint(rib)
	return out
}

// simulated is the table that the simulator has for these nodes, some of which may be down.
func simulated(n *simulate.Network, nodes []string, down ...string) table {
	out := table{}
	for _, node := range nodes {
		if slices.Contains(down, node) {
			continue
		}
		var with []string
		for _, other := range nodes {
			if n.Connected(node, other) {
				with = append(with, other)
			}
		}
		slices.Sort(with)
		r := row{sessions: strings.Join(with, " "), count: n.Sessions(node), from: map[string]cell{}, rib: count(n.RIB(node))}
		for _, from := range nodes {
			paths := n.Paths(from, node)
			r.from[from] = cell{paths: count(paths), senders: strings.Join(n.Senders(from, node), " "), reached: paths.Paths > 0 || from == node}
		}
		out[node] = r
	}
	return out
}

func count(c simulate.Count) string {
	if c.More {
		return fmt.Sprintf("≥%d", c.Paths)
	}
	return fmt.Sprint(c.Paths)
}

const anyReflector = "has(" + roleLabel + ")"

// configure turns the cluster into a configuration, whatever it was.
func (w *writer) configure(c configuration) {
	w.t.Helper()
	for _, name := range w.names() {
		if w.now.racks[name] != c.racks[name] {
			w.patch(name, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, plan.RackLabel, orNull(c.racks[name])))
		}
		if s := c.slots[name]; w.now.slots[name] != s {
			w.patch(name, fmt.Sprintf(`{"metadata":{"labels":{%q:%s},"annotations":{"projectcalico.org/RouteReflectorClusterID":%s}}}`,
				roleLabel, orNull(s.name), orNull(s.clusterID)))
		}
	}
	for _, old := range w.now.peers {
		if !slices.ContainsFunc(c.peers, func(p plan.Peer) bool { return p.Name == old.Name }) {
			_, err := w.l.Calico().BGPPeers().Delete(w.t.Context(), old.Name, options.DeleteOptions{})
			require.NoError(w.t, err)
		}
	}
	for _, p := range w.resolved(c.peers) {
		w.write(p)
	}
	setMesh(w.t, w.l, c.mesh)
	w.now = c
}

func (w *writer) revive(names []string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.l.StartBIRD(w.t.Context(), name))
	}
}

func (w *writer) names() []string {
	var names []string
	for _, spec := range w.specs {
		names = append(names, spec.Name)
	}
	return names
}

// resolved are peers with addresses where they name nodes.
func (w *writer) resolved(peers []plan.Peer) []plan.Peer {
	peers = slices.Clone(peers)
	for i, p := range peers {
		if p.PeerIP != "" {
			peers[i].PeerIP = w.l.Address(p.PeerIP).String()
		}
	}
	return peers
}

// orNull is a JSON string, or what takes a value away in a merge patch.
func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return fmt.Sprintf("%q", s)
}

func (w *writer) patch(node, patch string) {
	w.t.Helper()
	_, err := w.l.Kube().CoreV1().Nodes().Patch(w.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

func (w *writer) write(p plan.Peer) {
	w.t.Helper()
	peer, err := w.l.Calico().BGPPeers().Get(w.t.Context(), p.Name, options.GetOptions{})
	if err != nil {
		peer = apiv3.NewBGPPeer()
		peer.Name = p.Name
	}
	peer.Spec = apiv3.BGPPeerSpec{
		Node: p.Node, NodeSelector: p.NodeSelector, PeerIP: p.PeerIP, PeerSelector: p.PeerSelector, ASNumber: numorstring.ASNumber(p.ASN),
	}
	if p.MaxRestartTime != nil {
		peer.Spec.MaxRestartTime = &metav1.Duration{Duration: *p.MaxRestartTime}
	}
	if peer.ResourceVersion == "" {
		_, err = w.l.Calico().BGPPeers().Create(w.t.Context(), peer, options.SetOptions{})
	} else {
		_, err = w.l.Calico().BGPPeers().Update(w.t.Context(), peer, options.SetOptions{})
	}
	require.NoError(w.t, err)
}

// sessions are those of all nodes, keyed by "on→with", from both sides.
func (w *writer) sessions() map[string]lab.Session {
	w.t.Helper()
	all := map[string]lab.Session{}
	for _, on := range w.l.Nodes() {
		sessions, err := w.l.Sessions(on)
		require.NoError(w.t, err)
		for _, session := range sessions {
			all[on+"→"+session.Peer.String()] = session
		}
	}
	return all
}
