package peering_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// spared reports whether each family has a session without that node.
func (w *world) spared(side int, n plan.Node) bool {
	for _, four := range w.families {
		if !slices.ContainsFunc(w.working(four), func(key pair) bool { return !slices.Contains(n.Addresses, key[side]) }) {
			return false
		}
	}
	return true
}

// disturb changes one thing, where that leaves a session.
func (w *world) disturb(t *rapid.T, side int) {
	c := w.two[side]
	switch rapid.SampledFrom([]string{"join", "node", "node", "next hop", "pods", "services"}).Draw(t, "event") {
	case "join":
		if len(c.reflectors()) < 5 {
			w.join(side)
		}
	case "node":
		w.disturbNode(t, side)
	case "next hop":
		if len(w.working(true)) > 1 { // of one session, a change is a loss
			c.d.KeepNextHop = !c.d.KeepNextHop
		}
	case "pods":
		more := peering.IPPool{Name: "more", CIDR: cidrs("10.220.0.0/16", "10.221.0.0/16")[side], ForPods: true, Announced: true}
		if at := slices.Index(c.o.Pools, more); at < 0 {
			c.o.Pools = append(slices.Clone(c.o.Pools), more)
		} else {
			c.o.Pools = slices.Delete(slices.Clone(c.o.Pools), at, at+1)
		}
	case "services":
		c.d.Services, c.d.Announce = !c.d.Services, nil
		if c.d.Services {
			c.d.Announce = c.d.ServiceCIDRs
		}
	}
}

// disturbNode lets a node lose its role, crash, go for good, or become Ready or NotReady while all goes on.
func (w *world) disturbNode(t *rapid.T, side int) {
	c := w.two[side]
	i := rapid.IntRange(0, len(c.o.Cluster.Nodes)-1).Draw(t, "node")
	n := &c.o.Cluster.Nodes[i]
	kind := rapid.SampledFrom([]string{"leave", "crash", "remove", "flap"}).Draw(t, "what it does")
	switch spared := w.spared(side, *n); {
	case kind == "leave" && spared:
		n.HasRoleLabel, n.ClusterID = false, ""
	case kind == "crash" && spared:
		n.Ready, c.down[n.Name] = false, true
	case kind == "remove" && spared:
		c.o.Cluster.Nodes = slices.Delete(slices.Clone(c.o.Cluster.Nodes), i, i+1)
	case kind == "flap" && len(c.down) == 0:
		n.Ready = !n.Ready
	}
}

// live takes two clusters through their peering and gives the first rule that is broken, "" for none.
func live(t *rapid.T, w *world) string {
	for side := range w.two {
		for range rapid.IntRange(1, 4).Draw(t, "reflectors") {
			w.join(side)
		}
	}
	before := [2]string{w.two[0].objects(), w.two[1].objects()}
	settle := func() string {
		if broken := w.run(t, 600); broken != "" {
			return broken
		}
		return w.unsettled()
	}
	if broken := settle(); broken != "" {
		return broken
	}
	for range rapid.IntRange(1, 8).Draw(t, "events") {
		side := rapid.IntRange(0, 1).Draw(t, "side")
		unknown := rapid.IntRange(0, 5).Draw(t, "unknown") == 0
		w.two[1-side].unknown = unknown
		w.disturb(t, side)
		if unknown {
			if broken := w.run(t, 600); broken != "" {
				return broken
			}
			w.two[1-side].unknown = false
		}
		if broken := settle(); broken != "" {
			return broken
		}
	}
	return w.end(t, before)
}

// end deletes both ClusterPeerings, one after the other.
func (w *world) end(t *rapid.T, before [2]string) string {
	first := rapid.IntRange(0, 1).Draw(t, "first to go")
	for _, side := range []int{first, 1 - first} {
		w.two[side].d.Deleted, w.two[side].d.Announce = true, nil
		if broken := w.run(t, 600); broken != "" {
			return broken
		}
	}
	for side, c := range w.two {
		c.o.Pools = slices.DeleteFunc(slices.Clone(c.o.Pools), func(p peering.IPPool) bool { return p.Name == "more" })
		if after := c.objects(); after != before[side] {
			return "d: after the end there is\n" + after + "\ninstead of\n" + before[side]
		}
	}
	return ""
}

func TestTwoClustersStayJoinedWhateverChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		require.Empty(t, live(t, newWorld(rapid.Bool().Draw(t, "dual stack"))))
	})
}

// brokenDecisions break each rule on purpose.
var brokenDecisions = map[string]struct {
	rule string
	next func(side int, o peering.Observed, d peering.Desired) peering.Decision
}{
	"a: what is no longer wanted goes at once": {"a: no session left", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		for _, p := range o.Cluster.Peers {
			if p.Peering == d.Name && !slices.ContainsFunc(s.Expected, func(e peering.Session) bool { return e.Node == p.Node && e.Peer.String() == p.PeerIP }) {
				s.Actions = append(s.Actions, plan.DeletePeer{Name: p.Name})
			}
		}
		return s
	}},
	"a: a report from before a change is believed": {"a: two sessions restart", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		for i := range o.Cluster.Peers {
			o.Cluster.Peers[i].Written = o.Cluster.Peers[i].Written.Add(-time.Hour)
		}
		return peering.Next(o, d)
	}},
	"b: one side ranks its reflectors by itself": {"b:", func(side int, o peering.Observed, d peering.Desired) peering.Decision {
		if side == 0 && o.Remote != nil && len(o.Remote.Reflectors) > 3 {
			o.Remote.Reflectors = o.Remote.Reflectors[1:]
		}
		return peering.Next(o, d)
	}},
	"c: nothing is taken away": {"c:", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		s.Actions = slices.DeleteFunc(s.Actions, func(a plan.Action) bool { _, is := a.(plan.DeletePeer); return is && !d.Deleted })
		return s
	}},
	"c: all with all": {"c:", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		if len(s.Actions) == 0 && len(o.Cluster.Peers) > 4 {
			p := o.Cluster.Peers[len(o.Cluster.Peers)-1]
			p.Name += "-more"
			s.Actions = append(s.Actions, plan.PutPeer{Peer: p})
		}
		return s
	}},
	"d: the filter is left": {"d:", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		if d.Deleted {
			s.Actions = slices.DeleteFunc(s.Actions, func(a plan.Action) bool { return a.String() == "delete BGPFilter rrpool-peering-other" })
		}
		return s
	}},
	"d: a BGPPeer of another ClusterPeering goes": {"d:", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		if d.Deleted && len(s.Actions) > 0 {
			s.Actions = append(s.Actions, plan.DeletePeer{Name: "rrpool-peering-third-1"})
		}
		return s
	}},
	"e: BGPPeers come before their filter, and go after it": {"e:", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		s := peering.Next(o, d)
		slices.Reverse(s.Actions)
		return s
	}},
	"e: the filter goes first": {"e: a filter goes", func(_ int, o peering.Observed, d peering.Desired) peering.Decision {
		with := o.Cluster.Peers
		o.Cluster.Peers = nil
		s := peering.Next(o, d)
		o.Cluster.Peers = with
		if d.Deleted && len(s.Actions) > 0 {
			return s
		}
		return peering.Next(o, d)
	}},
}

func TestABrokenDecisionIsCaught(t *testing.T) {
	for name, broken := range brokenDecisions {
		t.Run(name, func(t *testing.T) {
			lives := rapid.Custom(func(t *rapid.T) string {
				w := newWorld(rapid.Bool().Draw(t, "dual stack"))
				w.next = broken.next
				return live(t, w)
			})
			caught := ""
			for seed := 0; seed < 300 && !strings.HasPrefix(caught, broken.rule); seed++ {
				caught = lives.Example(seed)
			}
			require.Contains(t, caught, broken.rule)
		})
	}
}
