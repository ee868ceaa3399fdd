//go:build linux

package lab_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

const (
	otherAS     = 64513
	peeringName = "rrpool-peering-other" // of its filter, and the beginning of its other objects' names
)

var (
	// undeclared is a pool of cluster b that the peering says nothing about, with a route of worker-0's.
	undeclared = netip.MustParsePrefix("10.99.0.0/16")
	// ownPod is another pod of worker-1 in cluster b, with Felix's route to it.
	ownPod = netip.MustParsePrefix("10.245.0.77/32")
)

// Two clusters peer as ClusterPeering has it, each object by hand, and part again. Nothing is lost inside of either, no session of theirs
// restarts, and nothing passes that is not declared.
func TestTwoClustersPeerThroughTheirReflectors(t *testing.T) {
	lab.SkipLong(t)
	a, b := twoClusters(t)
	bringTogether(t, a, b)
	promoteBusyNode(t, a, b)
	takeApart(t, a, b)
}

func bringTogether(t *testing.T, a, b *cluster) {
	t.Helper()
	before := sessions(t, a, b)
	a.Checkpoint("peer")
	for _, c := range []*cluster{a, b} {
		c.advertiseServices(t, true)
		c.setFilter(t, apiv3.BGPFilterSpec{})
		for _, name := range c.other.reflectors {
			c.createPeer(t, name)
		}
	}
	awaitPeered(t, a, b)

	// The negative control: without rules what is not declared passes, and without pools clients learn nothing.
	b.createPool(t, "undeclared", undeclared, false)
	b.route(t, "worker-0", "eth0", undeclared)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, to := range append(b.announced(), undeclared) {
			require.NotEmpty(c, a.hops(t, "reflector-0", to), to)
		}
	}, patience, 50*time.Millisecond)
	for _, to := range b.announced() {
		require.Empty(t, a.hops(t, "worker-0", to), to)
	}
	for _, c := range []*cluster{a, b} {
		c.setFilter(t, c.rules())
		for i, cidr := range c.other.cidrs() {
			c.createPool(t, fmt.Sprintf("%s-%d", peeringName, i), cidr, true)
		}
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, name := range a.Nodes() {
			require.Empty(c, a.hops(t, name, undeclared), name)
		}
	}, patience, 50*time.Millisecond)

	// Every node has multipath routes to the other cluster's reflectors, pods and services alike. Add-path has each reflector pass on what
	// it has from each: on a client reflectors² × the other's reflectors² paths to pods. Services are announced by every node as well, but
	// the rules let only a reflector's own route to them pass.
	for _, c := range []*cluster{a, b} {
		for _, to := range c.other.announced() {
			c.awaitHops(t, to, c.other.addresses(c.other.reflectors...)...)
		}
		awaitPathsOf(t, c.Lab, "worker-0", c.other.Block("worker-0"), 2, 2*2*2)
		awaitPathsOf(t, c.Lab, "worker-0", c.other.ServiceNetwork(), 2, 2*2)
	}
	watch(t.Context(), time.Second)
	requireNothingLostInside(t, "", a, b)
	requireSame(t, before, sessions(t, a, b))
}

func takeApart(t *testing.T, a, b *cluster) {
	t.Helper()
	before := sessions(t, a, b)
	a.Checkpoint("part")
	for _, c := range []*cluster{a, b} {
		for _, name := range c.other.reflectors {
			_, err := c.Calico().BGPPeers().Delete(t.Context(), peeringName+"-"+name, options.DeleteOptions{})
			require.NoError(t, err)
		}
		for i := range c.other.cidrs() {
			_, err := c.Calico().IPPools().Delete(t.Context(), fmt.Sprintf("%s-%d", peeringName, i), options.DeleteOptions{})
			require.NoError(t, err)
		}
		_, err := c.Calico().BGPFilter().Delete(t.Context(), peeringName, options.DeleteOptions{})
		require.NoError(t, err)
		c.advertiseServices(t, false)
	}
	for _, c := range []*cluster{a, b} {
		for _, to := range c.other.announced() {
			c.awaitHops(t, to)
		}
	}
	watch(t.Context(), time.Second)
	requireNothingLostInside(t, "part", a, b)
	requireSame(t, before, sessions(t, a, b))
}

// promoteBusyNode: a reflector that runs pods has a route to each, which is no other cluster's business, as its block is announced.
func promoteBusyNode(t *testing.T, a, b *cluster) {
	t.Helper()
	const busy = "worker-1"
	b.route(t, busy, "cali0", ownPod)
	b.promote(t, busy)
	b.reflectors = append(b.reflectors, busy)
	a.createPeer(t, busy)
	awaitPeered(t, a, b)
	require.Empty(t, a.hops(t, "reflector-0", ownPod))
	more := b.rules()
	more.ExportV4 = slices.Insert(more.ExportV4, 0, apiv3.BGPFilterRuleV4{CIDR: b.PodNetwork().String(), MatchOperator: apiv3.In, Action: apiv3.Accept})
	b.setFilter(t, more)
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.NotEmpty(c, a.hops(t, "worker-0", ownPod)) }, patience, 50*time.Millisecond)
	b.setFilter(t, b.rules())
	a.awaitHops(t, ownPod)
}

// cluster is one of two, with its peering with the other as a person writes it.
type cluster struct {
	*lab.Lab
	other      *cluster
	name       string
	as         uint32
	reflectors []string
}

// twoClusters makes clusters a and b in one network, each with two workers, and two reflectors that carry it alone. The nodes of both have
// the same names.
func twoClusters(t *testing.T) (a, b *cluster) {
	t.Helper()
	a = &cluster{name: "a", as: ownAS, reflectors: []string{"reflector-0", "reflector-1"}}
	b = &cluster{name: "b", as: otherAS, reflectors: slices.Clone(a.reflectors), other: a}
	a.other = b
	nodes := append(lab.Workers(2), lab.Dedicated(2)...)
	a.Lab = start(t, lab.Options{Name: a.name, ASNumber: a.as, Service: true}, nodes...)
	b.Lab = start(t, lab.Options{Name: b.name, ASNumber: b.as, Service: true, Beside: a.Lab}, nodes...)
	for _, c := range []*cluster{a, b} {
		c.promote(t, c.reflectors...)
		createPeer(t, c.Lab, nil)
	}
	for _, c := range []*cluster{a, b} {
		require.NoError(t, c.WaitReflected(t.Context(), c.reflectors...))
		setMesh(t, c.Lab, false)
		awaitNoMesh(t, c.Lab)
	}
	return a, b
}

// promote gives nodes the role of a reflector.
func (c *cluster) promote(t *testing.T, names ...string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:""},"annotations":{"projectcalico.org/RouteReflectorClusterID":%q}}}`, roleLabel, clusterID)
	for _, name := range names {
		_, err := c.Kube().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// cidrs are those that the cluster declares, and announced the prefixes that its nodes announce of them.
func (c *cluster) cidrs() []netip.Prefix { return []netip.Prefix{c.PodNetwork(), c.ServiceNetwork()} }

func (c *cluster) announced() []netip.Prefix {
	return []netip.Prefix{c.Block("worker-0"), c.Block("worker-1"), c.ServiceNetwork()}
}

// rules let pass what is declared, and nothing else, not even the route to services that all other nodes announce too. What a reflector
// itself announces is left to Calico, which joins its pods to their block.
func (c *cluster) rules() (out apiv3.BGPFilterSpec) {
	const learned = apiv3.BGPFilterSourceRemotePeers
	out.ExportV4 = []apiv3.BGPFilterRuleV4{{CIDR: c.ServiceNetwork().String(), MatchOperator: apiv3.Equal, Source: learned, Action: apiv3.Reject}}
	for _, cidr := range c.cidrs() {
		out.ExportV4 = append(out.ExportV4, apiv3.BGPFilterRuleV4{CIDR: cidr.String(), MatchOperator: apiv3.In, Source: learned, Action: apiv3.Accept})
	}
	for _, cidr := range c.other.cidrs() {
		out.ImportV4 = append(out.ImportV4, apiv3.BGPFilterRuleV4{CIDR: cidr.String(), MatchOperator: apiv3.In, Action: apiv3.Accept})
	}
	out.ExportV4 = append(out.ExportV4, apiv3.BGPFilterRuleV4{Source: learned, Action: apiv3.Reject})
	out.ImportV4 = append(out.ImportV4, apiv3.BGPFilterRuleV4{Action: apiv3.Reject})
	return out
}

func (c *cluster) setFilter(t *testing.T, spec apiv3.BGPFilterSpec) {
	t.Helper()
	filters := c.Calico().BGPFilter()
	f, err := filters.Get(t.Context(), peeringName, options.GetOptions{})
	if err == nil {
		f.Spec = spec
		_, err = filters.Update(t.Context(), f, options.SetOptions{})
	} else {
		f = apiv3.NewBGPFilter()
		f.Name, f.Spec = peeringName, spec
		_, err = filters.Create(t.Context(), f, options.SetOptions{})
	}
	require.NoError(t, err)
}

func (c *cluster) createPool(t *testing.T, name string, cidr netip.Prefix, disabled bool) {
	t.Helper()
	pool := apiv3.NewIPPool()
	pool.Name = name
	pool.Spec = apiv3.IPPoolSpec{
		CIDR: cidr.String(), IPIPMode: apiv3.IPIPModeNever, VXLANMode: apiv3.VXLANModeNever, Disabled: disabled, NodeSelector: "all()",
	}
	_, err := c.Calico().IPPools().Create(t.Context(), pool, options.SetOptions{})
	require.NoError(t, err)
}

// advertiseServices has every node of the cluster announce its services, or none.
func (c *cluster) advertiseServices(t *testing.T, on bool) {
	t.Helper()
	config, err := c.Calico().BGPConfigurations().Get(t.Context(), "default", options.GetOptions{})
	require.NoError(t, err)
	config.Spec.ServiceClusterIPs = nil
	if on {
		config.Spec.ServiceClusterIPs = []apiv3.ServiceClusterIPBlock{{CIDR: c.ServiceNetwork().String()}}
	}
	_, err = c.Calico().BGPConfigurations().Update(t.Context(), config, options.SetOptions{})
	require.NoError(t, err)
}

// createPeer has all reflectors peer with one of the other cluster's.
func (c *cluster) createPeer(t *testing.T, with string) {
	t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name = peeringName + "-" + with
	peer.Spec = apiv3.BGPPeerSpec{
		NodeSelector: "has(" + roleLabel + ")", PeerIP: c.other.Address(with).String(), ASNumber: numorstring.ASNumber(c.other.as),
		Filters: []string{peeringName},
	}
	_, err := c.Calico().BGPPeers().Create(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err)
}

func (c *cluster) addresses(names ...string) []netip.Addr {
	out := []netip.Addr{}
	for _, name := range names {
		out = append(out, c.Address(name))
	}
	return out
}

func (c *cluster) hops(t *testing.T, on string, to netip.Prefix) []netip.Addr {
	t.Helper()
	hops, err := c.NextHops(on, to)
	require.NoError(t, err)
	return hops
}

// awaitHops waits until every node's kernel has exactly these next hops.
func (c *cluster) awaitHops(t *testing.T, to netip.Prefix, want ...netip.Addr) {
	t.Helper()
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		for _, on := range c.Nodes() {
			require.ElementsMatch(collect, want, c.hops(t, on, to), "%s/%s to %s", c.name, on, to)
		}
	}, patience, 50*time.Millisecond)
}

// route writes a route on a node as Felix does.
func (c *cluster) route(t *testing.T, on, device string, to netip.Prefix) {
	t.Helper()
	require.NoError(t, c.Enter(on, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index, Protocol: 80, Scope: netlink.SCOPE_LINK,
			Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)},
		})
	}))
}

// awaitPeered waits until each reflector has an Established session with each of the other cluster's, and half a second more.
func awaitPeered(t *testing.T, a, b *cluster) {
	t.Helper()
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		now := sessions(t, a, b)
		for _, c := range []*cluster{a, b} {
			for _, on := range c.reflectors {
				for _, with := range c.other.addresses(c.other.reflectors...) {
					key := fmt.Sprintf("%s/%s Node_%s", c.name, on, strings.ReplaceAll(with.String(), ".", "_"))
					require.True(collect, now[key].Established(), "%s: %+v", key, now[key])
				}
			}
		}
	}, patience, 100*time.Millisecond)
	watch(t.Context(), 500*time.Millisecond)
}

// sessions are those of all nodes, by node and name, such as "a/worker-0 Node_172_20_0_12".
func sessions(t *testing.T, clusters ...*cluster) map[string]lab.Session {
	t.Helper()
	out := map[string]lab.Session{}
	for _, c := range clusters {
		for _, name := range c.Nodes() {
			all, err := c.Sessions(name)
			require.NoError(t, err)
			for _, s := range all {
				out[c.name+"/"+name+" "+s.Name] = s
			}
		}
	}
	return out
}

// requireSame fails when a session that was Established has restarted.
func requireSame(t *testing.T, before, after map[string]lab.Session) {
	t.Helper()
	for name, session := range after {
		was, known := before[name]
		require.True(t, !known || !was.Established() || session.Same(was), "%s restarted: %+v, was %+v", name, session, was)
	}
}

// requireNothingLostInside judges a phase that is under way, or all until now, inside of each cluster.
func requireNothingLostInside(t *testing.T, phase string, clusters ...*cluster) {
	t.Helper()
	for _, c := range clusters {
		requireNothingLostIn(t, func() probe.Report {
			report := c.Report().Between(c.name+"/", c.name+"/")
			if phase != "" {
				report = report.Phase(phase)
			}
			return report
		})
	}
}
