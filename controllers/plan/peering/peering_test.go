package peering_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// worldOf is a world whose clusters have that many reflectors.
func worldOf(here, there int) *world {
	w := newWorld(false)
	for range here {
		w.join(0)
	}
	for range there {
		w.join(1)
	}
	return w
}

// peered lets both managers work until there is nothing to do.
func (w *world) peered(t *testing.T) *world {
	t.Helper()
	for range 60 {
		for side := range w.two {
			_, broken := w.manage(side, -1)
			require.Empty(t, broken)
		}
		require.Empty(t, w.tick())
	}
	require.Empty(t, w.unsettled())
	return w
}

// actions are what the first cluster is to do now.
func (w *world) actions() []string {
	var out []string
	for _, a := range peering.Next(w.observed(0), w.two[0].d).Actions {
		out = append(out, a.String())
	}
	return out
}

func (c *cluster) announces(name, cidr string) {
	c.o.Pools = append(c.o.Pools, peering.IPPool{Name: name, CIDR: netip.MustParsePrefix(cidr), ForPods: true, Announced: true})
}

// TestTwoClustersThatCannotBeJoinedAreRefused before anything is written, and what is there stays.
func TestTwoClustersThatCannotBeJoinedAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(here, there *cluster)
		reason string
		says   string
	}{
		"the cluster cannot be served at all": {func(here, _ *cluster) {
			here.o.Cluster.Problems = []plan.Problem{{Reason: "NoBGP", Message: "Calico runs without BGP"}}
		}, "NoBGP", "without BGP"},
		"Calico's datastore is locked": {func(here, _ *cluster) {
			here.o.Cluster.Locked = plan.Problemf("DatastoreLocked", "it is locked")
		}, "DatastoreLocked", "locked"},
		"there is no RouteReflectorPool": {func(here, _ *cluster) { here.d.NotReflecting = "there is none" }, "NotReflecting", "there is none"},
		"no node has the role": {func(here, _ *cluster) {
			for i := range here.o.Cluster.Nodes {
				here.o.Cluster.Nodes[i].HasRoleLabel = false
			}
		}, "NoReflectors", "no node"},
		"BIRD programs no plain routes":       {func(here, _ *cluster) { here.o.Cluster.Routes.Plain.Encapsulation = "None" }, "RoutesNotProgrammed", "programClusterRoutes"},
		"the remote cluster has no reflector": {func(_, there *cluster) { there.o.Cluster.Nodes = nil }, "NoRemoteReflectors", "RouteReflectorPool"},
		"a remote reflector has the address of a node here": {func(_, there *cluster) {
			there.o.Cluster.Nodes[1].Addresses = []netip.Addr{addr("172.16.0.1")}
		}, "AddressInUse", "172.16.0.1 has the address of node r1"},
		"both have one AS number": {func(_, there *cluster) { there.o.Cluster.BGP.ASN = 64512 }, "SameASNumber", "64512"},
		"they have addresses of two families": {func(_, there *cluster) {
			for i := range there.o.Cluster.Nodes {
				there.o.Cluster.Nodes[i].Addresses = []netip.Addr{addr("fd00::7")}
			}
		}, "NoCommonFamily", "fd00::7"},
		"the services are not known":            {func(here, _ *cluster) { here.d.ServiceCIDRs = nil }, "ServiceCIDRUnknown", "spec.advertise.serviceCIDRs"},
		"a default route is announced":          {func(_, there *cluster) { there.announces("all", "::/0") }, "OverlappingCIDRs", "default route"},
		"a remote range lies in a pool of ours": {func(_, there *cluster) { there.announces("x", "10.200.7.0/24") }, "OverlappingCIDRs", "IPPool default"},
		"a remote range holds a pool of ours":   {func(_, there *cluster) { there.announces("x", "10.192.0.0/10") }, "OverlappingCIDRs", "IPPool default"},
		"a remote range is that of a disabled pool of others": {func(here, there *cluster) {
			there.announces("x", "10.230.0.0/16")
			here.o.Pools = append(here.o.Pools, peering.IPPool{Name: "by-hand", CIDR: netip.MustParsePrefix("10.230.0.0/16")})
		}, "OverlappingCIDRs", "IPPool by-hand"},
		"another ClusterPeering brings a remote range": {func(here, there *cluster) {
			there.announces("x", "10.230.0.0/16")
			here.o.Pools = append(here.o.Pools, peering.IPPool{Name: "second", Peering: "third", CIDR: netip.MustParsePrefix("10.230.0.0/16")})
		}, "OverlappingCIDRs", "IPPool second"},
		"a remote range is that of our services, which are not advertised": {func(here, there *cluster) {
			there.announces("x", "10.210.0.0/16")
			here.d.OwnServices, here.d.Services, here.d.Announce = here.d.ServiceCIDRs, false, nil
		}, "OverlappingCIDRs", "services of this cluster"},
		"a remote range is that of services which others announce": {func(here, there *cluster) {
			there.announces("x", "10.230.0.0/16")
			here.o.OtherServices = cidrs("10.230.0.0/24")
		}, "OverlappingCIDRs", "services of this cluster"},
		"a remote range is that of services which another ClusterPeering advertises": {func(here, there *cluster) {
			there.announces("x", "10.230.0.0/16")
			here.d.Announce = append(cidrs("10.230.0.0/24"), here.d.Announce...)
		}, "OverlappingCIDRs", "services of this cluster"},
		"a node lies in a remote range": {func(_, there *cluster) { there.announces("x", "172.16.0.0/24") }, "OverlappingCIDRs", "node r1"},
		"another address of a machine lies in a remote range": {func(here, there *cluster) {
			here.o.Cluster.Nodes[0].MachineAddresses = []netip.Addr{addr("203.0.113.7")}
			there.announces("x", "203.0.113.0/24")
		}, "OverlappingCIDRs", "node r1 (203.0.113.7)"},
		"an apiserver lies in a remote range": {func(here, there *cluster) {
			here.o.Apiservers = []netip.Addr{addr("198.51.100.6"), addr("203.0.113.7")}
			there.announces("x", "203.0.113.0/24")
		}, "OverlappingCIDRs", "the apiserver of this cluster (203.0.113.7)"},
		"the next node may get an address of a remote range": {func(here, there *cluster) {
			here.o.Cluster.Nodes[0].Subnets = cidrs("172.16.0.0/22")
			there.announces("x", "172.16.3.9/32")
		}, "OverlappingCIDRs", "the subnet of node r1 (172.16.0.0/22)"},
		"a remote reflector lies in a remote range": {func(_, there *cluster) { there.announces("x", "172.16.1.0/24") }, "OverlappingCIDRs", "remote reflector"},
		"a range here cannot be read":               {func(here, _ *cluster) { here.o.Unread = "IPPool odd: \"x\" is no CIDR" }, "RangeUnreadable", "IPPool odd: \"x\" is no CIDR: correct it"},
		"a remote range is not allowed": {func(here, there *cluster) {
			there.announces("x", "10.230.0.0/16")
			here.d.Allowed = cidrs("10.201.0.0/16", "10.211.0.0/16", "10.230.0.0/17")
		}, "CIDRNotAllowed", "10.230.0.0/16 of the remote cluster lies in no range of spec.remote.allowedCIDRs"},
		"a remote reflector is a pod here": {func(_, there *cluster) {
			there.o.Cluster.Nodes[1].Addresses = []netip.Addr{addr("10.200.7.7")}
		}, "AddressInUse", "10.200.7.7 lies in IPPool default (10.200.0.0/16)"},
		"a remote reflector is a service here": {func(_, there *cluster) {
			there.o.Cluster.Nodes[1].Addresses = []netip.Addr{addr("10.210.7.7")}
		}, "AddressInUse", "10.210.7.7 lies in the services of this cluster (10.210.0.0/16)"},
		"a remote reflector is a pod of a disabled pool": {func(here, there *cluster) {
			there.o.Cluster.Nodes[1].Addresses = []netip.Addr{addr("10.230.7.7")}
			here.o.Pools = append(here.o.Pools, peering.IPPool{Name: "emptied", CIDR: netip.MustParsePrefix("10.230.0.0/16")})
			here.o.Cluster.Nodes[0].Blocks = cidrs("10.230.7.0/26")
		}, "AddressInUse", "10.230.7.7 lies in block 10.230.7.0/26 of node"},
		"an AS number is larger than Calico's CRD takes": {func(here, there *cluster) {
			here.o.Cluster.CalicoAPI, there.o.Cluster.BGP.ASN = "crd.projectcalico.org/v1", 4200000000
		}, "ASNumberTooLarge", "4200000000"},
		"our BGPFilter's name is taken": {func(here, _ *cluster) {
			create(&here.o.Filters, peering.Filter{Name: "rrpool-peering-other"}, func(f peering.Filter) string { return f.Name })
		}, "NameTaken", "BGPFilter rrpool-peering-other"},
		"the name of a BGPPeer of ours is taken": {func(here, _ *cluster) {
			create(&here.o.Cluster.Peers, plan.Peer{Name: "rrpool-peering-other-172-16-0-1-172-16-1-1", Peering: "third"}, func(p plan.Peer) string { return p.Name })
		}, "NameTaken", "BGPPeer rrpool-peering-other-172-16-0-1-172-16-1-1"},
		"an IPPool's name is taken": {func(here, _ *cluster) {
			p := peering.IPPool{Name: "rrpool-peering-other-10-201-0-0-16", CIDR: netip.MustParsePrefix("10.250.0.0/16")}
			create(&here.o.Pools, p, func(p peering.IPPool) string { return p.Name })
		}, "NameTaken", "IPPool rrpool-peering-other-10-201-0-0-16"},
		"a BGPPeer of others has a session with a remote reflector": {func(here, _ *cluster) {
			here.o.Cluster.Peers = append(here.o.Cluster.Peers, plan.Peer{Name: "by-hand", PeerIP: "172.16.1.2"})
		}, "AlreadyPeered", "BGPPeer by-hand has sessions with 172.16.1.2"},
		"another ClusterPeering has one": {func(here, _ *cluster) {
			here.o.Cluster.Peers = append(here.o.Cluster.Peers, plan.Peer{Name: "rrpool-peering-b-1", Peering: "b", PeerIP: "172.16.1.2"})
		}, "AlreadyPeered", "ClusterPeering b has sessions with 172.16.1.2"},
		"a router would be told of the remote ranges": {func(here, _ *cluster) {
			here.o.Cluster.Peers = append(here.o.Cluster.Peers, plan.Peer{Name: "tor", PeerIP: "192.168.1.2"})
		}, "UnfilteredPeer", "to 192.168.1.2"},
		"and one with a port": {func(here, _ *cluster) {
			here.o.Cluster.Peers = append(here.o.Cluster.Peers, plan.Peer{Name: "tor", PeerIP: "192.168.1.2:1790"})
		}, "UnfilteredPeer", "to 192.168.1.2:1790"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh, peered := worldOf(1, 2), worldOf(1, 2).peered(t)
			require.NotEmpty(t, fresh.actions(), "without it there would be something to write")
			for _, w := range []*world{fresh, peered} {
				c.edit(w.two[0], w.two[1])
				s := peering.Next(w.observed(0), w.two[0].d)
				require.NotNil(t, s.Problem)
				require.Equal(t, c.reason, s.Problem.Reason)
				require.Contains(t, s.Problem.Message, c.says)
				require.Empty(t, s.Actions)
			}
			peered.two[0].d.Deleted, peered.two[0].d.Announce = true, nil
			require.Equal(t, peered.two[0].o.Cluster.Locked != nil, len(peered.actions()) == 0, "deleting it helps all the same, but for a lock")
		})
	}
}

// TestWhatIsWritten is each decision that the world of the property does not come to, or does not look at.
func TestWhatIsWritten(t *testing.T) {
	const name = "rrpool-peering-other"
	write := func(s string) string { return "write BGPPeer " + name + "-172-16-0-" + s }
	for sentence, c := range map[string]struct {
		world *world
		edit  func(w *world, here, there *cluster)
		want  []string
	}{
		"sessions come last": {worldOf(2, 1), nil, []string{
			"write BGPFilter " + name, "write IPPool " + name + "-10-201-0-0-16 for 10.201.0.0/16", "announce the service addresses [10.210.0.0/16]",
			write("1-172-16-1-1"), write("2-172-16-1-1"),
		}},
		"while the remote cluster is not known nothing changes": {worldOf(1, 1).peered(t), func(w *world, here, there *cluster) {
			here.unknown, here.d.KeepNextHop, here.d.Pods = true, true, false
			w.join(0)
			there.o.Pools = nil
		}, nil},
		"a BGPPeer on a node that is no reflector any more goes all the same, once a reflector has a session": {worldOf(2, 2).peered(t), func(_ *world, here, _ *cluster) {
			here.unknown, here.o.Cluster.Nodes[0].HasRoleLabel = true, false
		}, []string{"delete BGPPeer " + name + "-172-16-0-1-172-16-1-2"}},
		"and stays while none has": {worldOf(2, 2).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Nodes[0].HasRoleLabel = false
			here.d.NotReflecting, here.o.Cluster.Statuses["r2"] = "there is none", plan.Status{}
		}, nil},
		"when the sessions are gone all else goes, also where the remote cluster is not known": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.unknown, here.d.Deleted, here.d.Announce, here.o.Cluster.Peers = true, true, nil, nil
		}, []string{
			"announce the service addresses []", "delete IPPool " + name + "-10-201-0-0-16",
			"delete IPPool " + name + "-10-211-0-0-16", "delete BGPFilter " + name,
		}},
		"the range of services is announced on where another ClusterPeering needs it": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.d.Deleted, here.o.Pools, here.o.Cluster.Peers = true, nil, nil
		}, []string{"delete BGPFilter " + name}},
		"a range with an address of a node by now is let in no more": {worldOf(1, 1).peered(t), func(w *world, here, _ *cluster) {
			here.o.Cluster.Nodes = append(here.o.Cluster.Nodes, plan.Node{Name: "new", MachineAddresses: []netip.Addr{addr("10.201.3.3")}})
			s := peering.Next(w.observed(0), here.d)
			require.Equal(t, "OverlappingCIDRs", s.Problem.Reason)
			require.Equal(t, cidrs("10.211.0.0/16"), s.Actions[0].(plan.PutFilter).Filter.Import)
			here.unknown = true
		}, []string{"write BGPFilter " + name}},
		"nor one with an apiserver by now": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Apiservers, here.unknown = []netip.Addr{addr("10.201.3.3")}, true
		}, []string{"write BGPFilter " + name}},
		"nor is that written to a datastore that is locked": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Nodes = append(here.o.Cluster.Nodes, plan.Node{Name: "new", MachineAddresses: []netip.Addr{addr("10.201.3.3")}})
			here.o.Cluster.Locked = plan.Problemf("DatastoreLocked", "it is locked")
		}, nil},
		"a subnet that has pods as well is not one for nodes": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Nodes[0].Subnets = cidrs("10.0.0.0/8")
		}, nil},
		"of a datastore that is locked nothing goes": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.d.Deleted, here.o.Cluster.Locked = true, plan.Problemf("DatastoreLocked", "it is locked")
		}, nil},
		"sessions go first": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) { here.d.Deleted = true }, []string{"delete BGPPeer " + name + "-172-16-0-1-172-16-1-1"}},
		"a session of a node whose role went keeps its BGPPeer until a reflector has one": {worldOf(1, 1).peered(t), func(w *world, here, _ *cluster) {
			here.o.Cluster.Nodes[0].HasRoleLabel, here.o.Cluster.Statuses = false, map[string]plan.Status{}
			w.join(0)
			require.Equal(t, []string{write("2-172-16-1-1")}, w.actions())
			_, broken := w.manage(0, -1)
			require.Empty(t, broken)
		}, nil},
		"a range that others announce is not announced again": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Services, here.o.OtherServices = nil, here.o.Services
		}, nil},
		"a range that others announce no more is announced": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Services = nil
		}, []string{"announce the service addresses [10.210.0.0/16]"}},
		"the order in which ranges are announced does not matter": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Services, here.d.Announce = cidrs("10.212.0.0/16", "10.210.0.0/16"), cidrs("10.210.0.0/16", "10.212.0.0/16")
			here.d.ServiceCIDRs = here.d.Announce
		}, []string{"write BGPFilter " + name}},
		"what was edited is mended": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Peers[3].Extra = `{"ttlSecurity":1}`
			here.o.Cluster.Statuses["r1"] = plan.Status{Updated: time.Unix(2e9, 0), Sessions: here.o.Cluster.Statuses["r1"].Sessions}
		}, []string{write("1-172-16-1-1")}},
		"a filter whose rules are not such as ours, and a pool that was enabled, come before that": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Peers[3].KeepNextHop = true
			here.o.Filters[2].Rules, here.o.Pools[1].Announced = nil, true
		}, []string{"write BGPFilter " + name, "write IPPool " + name + "-10-201-0-0-16 for 10.201.0.0/16"}},
		"a change waits for a report that shows the last one": {worldOf(1, 1).peered(t), func(w *world, here, _ *cluster) {
			here.d.KeepNextHop = true
			here.o.Cluster.Peers[3].Written = w.now
		}, []string{"ask node r1 for a new status"}},
		"an IPPool that lies in another is left out": {worldOf(1, 1).peered(t), func(_ *world, _, there *cluster) {
			there.announces("x", "10.201.128.0/17")
		}, []string{"write BGPFilter " + name}},
		"the session to a reflector that is gone goes as soon as there is another": {worldOf(1, 2).peered(t), func(w *world, _, there *cluster) {
			there.o.Cluster.Nodes[0].Ready = false
			w.join(1)
			require.Equal(t, []string{write("1-172-16-1-3")}, w.actions())
			_, broken := w.manage(0, -1)
			require.Empty(t, broken)
		}, []string{"delete BGPPeer " + name + "-172-16-0-1-172-16-1-1"}},
		"a reflector that is not Ready keeps its session until another has one": {worldOf(1, 1).peered(t), func(w *world, here, _ *cluster) {
			here.o.Cluster.Nodes[0].Ready = false
			w.join(0)
			require.Equal(t, []string{write("2-172-16-1-1")}, w.actions())
			_, broken := w.manage(0, -1)
			require.Empty(t, broken)
		}, nil},
		"reflectors of which none is Ready keep their sessions": {worldOf(2, 2).peered(t), func(_ *world, here, there *cluster) {
			for i := range 2 {
				here.o.Cluster.Nodes[i].Ready, there.o.Cluster.Nodes[i].Ready = false, false
			}
		}, nil},
		"a node with another address gets another BGPPeer": {worldOf(1, 1).peered(t), func(_ *world, here, _ *cluster) {
			here.o.Cluster.Nodes[0].Addresses = []netip.Addr{addr("172.16.0.9")}
		}, []string{write("9-172-16-1-1")}},
		"an IPPool without pods, and external IPs, may hold the remote reflectors": {worldOf(1, 1).peered(t), func(_ *world, here, there *cluster) {
			here.o.Pools = append(here.o.Pools, peering.IPPool{Name: "nodes", CIDR: netip.MustParsePrefix("172.16.0.0/12")})
			here.o.OtherServices = cidrs("172.16.0.0/12")
			there.announces("x", "10.220.0.0/16")
		}, []string{"write BGPFilter " + name, "write IPPool " + name + "-10-220-0-0-16 for 10.220.0.0/16"}},
		"a cluster that tells of nothing is peered with": {worldOf(1, 1).peered(t), func(_ *world, _, there *cluster) {
			there.o.Pools, there.o.Services = nil, nil
		}, []string{"write BGPFilter " + name}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.edit != nil {
				c.edit(c.world, c.world.two[0], c.world.two[1])
			}
			require.Equal(t, c.want, c.world.actions())
		})
	}
}

// TestTheFilter says what is let through, and what is withheld of what the cluster announces beside that.
func TestTheFilter(t *testing.T) {
	for sentence, c := range map[string]struct {
		edit func(o *peering.Observed, d *peering.Desired)
		want plan.PeeringFilter
	}{
		"pods and services":     {func(*peering.Observed, *peering.Desired) {}, plan.PeeringFilter{Pods: cidrs("10.200.0.0/16"), Services: cidrs("10.210.0.0/16")}},
		"services, and no pods": {func(_ *peering.Observed, d *peering.Desired) { d.Pods = false }, plan.PeeringFilter{Services: cidrs("10.210.0.0/16"), Withhold: cidrs("10.200.0.0/16")}},
		"pods, and no services": {func(_ *peering.Observed, d *peering.Desired) { d.Services = false }, plan.PeeringFilter{Pods: cidrs("10.200.0.0/16"), Withhold: cidrs("10.210.0.0/16")}},
		"nothing":               {func(_ *peering.Observed, d *peering.Desired) { d.Pods, d.Services = false, false }, plan.PeeringFilter{Withhold: cidrs("10.200.0.0/16", "10.210.0.0/16")}},
		"not what others announce": {func(o *peering.Observed, _ *peering.Desired) {
			o.OtherServices = cidrs("10.240.0.0/24", "10.210.0.9/32")
		}, plan.PeeringFilter{Pods: cidrs("10.200.0.0/16"), Services: cidrs("10.210.0.0/16"), Withhold: cidrs("10.240.0.0/24")}},
		"a part of the services": {func(o *peering.Observed, d *peering.Desired) {
			o.OtherServices, d.ServiceCIDRs, d.Announce = d.ServiceCIDRs, cidrs("10.210.4.0/24"), cidrs("10.210.4.0/24")
		}, plan.PeeringFilter{Pods: cidrs("10.200.0.0/16"), Services: cidrs("10.210.4.0/24"), Withhold: cidrs("10.210.0.0/16")}},
		"not what another one is told": {func(_ *peering.Observed, d *peering.Desired) {
			d.Announce = append(d.Announce, cidrs("10.240.0.0/24")...)
		}, plan.PeeringFilter{Pods: cidrs("10.200.0.0/16"), Services: cidrs("10.210.0.0/16"), Withhold: cidrs("10.240.0.0/24")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := worldOf(1, 1)
			o, d := w.observed(0), w.two[0].d
			c.edit(&o, &d)
			c.want.Import = cidrs("10.201.0.0/16")
			s := peering.Next(o, d)
			require.Equal(t, plan.PutFilter{Name: "rrpool-peering-other", Peering: "other", Filter: c.want}, s.Actions[0])
			require.Equal(t, slices.Concat(c.want.Pods, c.want.Services), s.Advertised)
		})
	}
}

// TestAReflectorThatJoinsChangesFewSessions of those that there are.
func TestAReflectorThatJoinsChangesFewSessions(t *testing.T) {
	changed, of := 0, 0
	for here := 1; here <= 6; here++ {
		for there := 1; there <= 6; there++ {
			w := worldOf(here, there)
			before := peering.Next(w.observed(0), w.two[0].d).Expected
			w.join(1)
			after := peering.Next(w.observed(0), w.two[0].d).Expected
			for _, s := range before {
				of++
				if !slices.ContainsFunc(after, func(a peering.Session) bool { return a.Node == s.Node && a.Peer == s.Peer }) {
					changed++
				}
			}
		}
	}
	require.Less(t, 2*changed, of, "%d of %d sessions", changed, of)
	t.Logf("%d of %d sessions", changed, of)
}

// What is allowed, or is no more than Calico's own etcd takes, is written: the negative control of the refusals.
func TestWhatIsAllowedIsTaken(t *testing.T) {
	w := worldOf(1, 2)
	w.two[0].d.Allowed = cidrs("10.201.0.0/16", "10.0.0.0/8")
	w.two[0].o.Cluster.CalicoAPI, w.two[1].o.Cluster.BGP.ASN = "etcdv3", 4200000000
	s := peering.Next(w.observed(0), w.two[0].d)
	require.Nil(t, s.Problem)
	require.NotEmpty(t, s.Actions)
	w.two[0].o.Cluster.CalicoAPI, w.two[1].o.Cluster.BGP.ASN = "projectcalico.org/v3", 2147483647
	require.Nil(t, peering.Next(w.observed(0), w.two[0].d).Problem)
}

// However often a remote cluster changes, few changes are taken; where it stays with one, that is.
func TestARemoteClusterThatChangesRepeatedlyIsDamped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d peering.Damping
		now, taken, changes := time.Unix(1e9, 0), map[string]int{}, 0
		side := func(i int) peering.Side {
			return peering.Side{ASN: 64513, Pods: cidrs(fmt.Sprintf("10.%d.0.0/16", i)), Reflectors: []netip.Addr{addr(fmt.Sprintf("10.250.0.%d", i))}}
		}
		last, held := d.Take(side(0), now)
		require.Equal(t, side(0), last)
		require.Empty(t, held)
		const looks = 360 // an hour
		for range looks {
			declared := side(rapid.IntRange(0, 3).Draw(t, "declared"))
			now = now.Add(10 * time.Second)
			got, held := d.Take(declared, now)
			require.Equal(t, fmt.Sprint(got) == fmt.Sprint(declared), held == "", "what is held back is said, and nothing else")
			if fmt.Sprint(got.Pods) != fmt.Sprint(last.Pods) {
				changes++
			}
			taken[fmt.Sprint(got.Reflectors)]++
			last = got
		}
		require.LessOrEqual(t, changes, 5, "of ranges within an hour, none of which lasts for ten minutes")
		for range 61 {
			now = now.Add(10 * time.Second)
			last, held = d.Take(side(4), now)
		}
		require.Equal(t, side(4), last)
		require.Empty(t, held)
	})
}

// An order that changes is no change, and reflectors are followed while nodes are replaced one after the other.
func TestAnHonestRemoteClusterIsFollowedAtOnce(t *testing.T) {
	var d peering.Damping
	now := time.Unix(1e9, 0)
	for i := range 61 {
		s := peering.Side{
			ASN: 64513, Pods: cidrs("10.1.0.0/16", "10.2.0.0/16"), Services: cidrs("10.3.0.0/16", "10.4.0.0/16"), Reflectors: []netip.Addr{addr(fmt.Sprintf("10.250.0.%d", i))},
		}
		if i%2 > 0 {
			slices.Reverse(s.Pods)
			slices.Reverse(s.Services)
		}
		now = now.Add(50 * time.Second)
		got, held := d.Take(s, now)
		require.Empty(t, held, i)
		require.Equal(t, s.Reflectors, got.Reflectors)
	}
	_, held := d.Take(peering.Side{ASN: 64514, Pods: cidrs("10.1.0.0/16", "10.2.0.0/16"), Services: cidrs("10.3.0.0/16", "10.4.0.0/16")}, now)
	require.Contains(t, held, "has changed its reflectors 60 times within 1h0m0s: what it declares now is taken when it has stayed so for 10m0s")
}

// What is held back is taken after the time that is said, and what was changed long ago does not count.
func TestAChangeThatIsHeldBackIsTakenInTime(t *testing.T) {
	var d peering.Damping
	now := time.Unix(1e9, 0)
	take := func(i int, after time.Duration) bool {
		now = now.Add(after)
		_, held := d.Take(peering.Side{ASN: 64513, Pods: cidrs(fmt.Sprintf("10.%d.0.0/16", i))}, now)
		return held == ""
	}
	for i := range 6 {
		require.True(t, take(i, 10*time.Second), i)
	}
	require.False(t, take(6, 10*time.Second))
	require.False(t, take(6, 10*time.Minute-time.Second))
	require.True(t, take(6, time.Second))
	require.False(t, take(7, 10*time.Second), "the others are not an hour ago")
	require.True(t, take(8, time.Hour))
}

// FuzzParse: what is read is what Calico and BIRD understand in the same way, and nothing else is.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::1%eth0", "0.0.0.0/0", "223.255.255.255", "2000::/16", "fdff::1", "64:ff9b::/96", "10.0.0.1/8", "010.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := peering.ParseRange(text); err == nil {
			_, theirs, err := net.ParseCIDR(text)
			require.NoError(t, err)
			require.Equal(t, theirs.String(), p.String())
			require.True(t, p.Addr().IsGlobalUnicast() && p.Bits() >= 8, text)
		}
		if a, err := peering.ParseAddr(text); err == nil {
			require.True(t, a.IsGlobalUnicast() && !a.Is4In6() && a.Zone() == "", text)
			require.Equal(t, net.ParseIP(text).String(), a.String())
		}
	})
}
