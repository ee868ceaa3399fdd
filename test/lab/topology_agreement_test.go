//go:build linux

package lab_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
			w.requireControl(c)
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

// requireControl demands that the comparison is not blind: the simulator is asked for a configuration with a BGPPeer less.
func (w *writer) requireControl(c configuration) {
	w.t.Helper()
	now, err := measured(w.l)
	require.NoError(w.t, err)
	require.NotEqual(w.t, simulated(w.simulate(c, c.control).Network(everyNode), w.names()), now, "without %s", c.control)
}

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
		got, err := measured(w.l, down...)
		require.NoError(w.t, err)
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
			Name: spec.Name, Ready: true, Addresses: w.addresses(spec.Name), Labels: map[string]string{zone: spec.Zone}, Zone: spec.Zone,
			RoleLabel: s.name != "", Slot: s.name, ClusterID: s.clusterID, Rack: c.racks[spec.Name],
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
