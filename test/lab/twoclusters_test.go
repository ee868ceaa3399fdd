//go:build linux

package lab_test

import (
	"fmt"
	"net/netip"
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

	"github.com/rrpool/rrpool/test/lab"
)

const otherAS = 64513

// peeringMark is on all objects of a peering.
var peeringMark = map[string]string{"app.kubernetes.io/managed-by": "rrpool", "rrpool.io/peering": "other"}

// cluster is one of two, with its peering with the other as a person writes it.
type cluster struct {
	*lab.Lab
	name       string
	as         uint32
	reflectors []string
}

// twoClusters makes clusters a and b in one network, each with two workers, and with two reflectors that carry it alone. Their nodes have the same names.
func twoClusters(t *testing.T) (a, b *cluster) {
	t.Helper()
	a = &cluster{name: "a", as: ownAS, reflectors: []string{"reflector-0", "reflector-1"}}
	b = &cluster{name: "b", as: otherAS, reflectors: a.reflectors}
	nodes := append(lab.Workers(2), lab.Dedicated(2)...)
	a.Lab = start(t, lab.Options{Name: a.name, ASNumber: a.as, Service: true}, nodes...)
	b.Lab = start(t, lab.Options{Name: b.name, ASNumber: b.as, Service: true, Beside: a.Lab}, nodes...)
	for _, c := range []*cluster{a, b} {
		c.setRole(t, true, c.reflectors...)
		createPeer(t, c.Lab, nil)
		require.NoError(t, c.WaitReflected(t.Context(), c.reflectors...))
	}
	for _, c := range []*cluster{a, b} {
		setMesh(t, c.Lab, false)
		awaitNoMesh(t, c.Lab)
	}
	return a, b
}

// setRole gives nodes the role of a reflector, or takes it.
func (c *cluster) setRole(t *testing.T, has bool, names ...string) {
	t.Helper()
	label, id := `""`, `"`+clusterID+`"`
	if !has {
		label, id = "null", "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s},"annotations":{"projectcalico.org/RouteReflectorClusterID":%s}}}`, roleLabel, label, id)
	for _, name := range names {
		_, err := c.Kube().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// cidrs are those that the cluster advertises: pods and services.
func (c *cluster) cidrs() []netip.Prefix { return []netip.Prefix{c.PodNetwork(), c.ServiceNetwork()} }

// rules let these prefixes through, and nothing else.
func rules(cidrs []netip.Prefix) (out []apiv3.BGPFilterRuleV4) {
	for _, cidr := range cidrs {
		out = append(out, apiv3.BGPFilterRuleV4{CIDR: cidr.String(), MatchOperator: apiv3.In, Action: apiv3.Accept})
	}
	return append(out, apiv3.BGPFilterRuleV4{Action: apiv3.Reject})
}

const filterName = "rrpool-peering-other"

func (c *cluster) createFilter(t *testing.T, remote *cluster) {
	t.Helper()
	f := apiv3.NewBGPFilter()
	f.Name, f.Labels = filterName, peeringMark
	f.Spec = apiv3.BGPFilterSpec{ImportV4: rules(remote.cidrs()), ExportV4: rules(c.cidrs())}
	_, err := c.Calico().BGPFilter().Create(t.Context(), f, options.SetOptions{})
	require.NoError(t, err)
}

func (c *cluster) deleteFilter(t *testing.T) {
	t.Helper()
	_, err := c.Calico().BGPFilter().Delete(t.Context(), filterName, options.DeleteOptions{})
	require.NoError(t, err)
}

// createPools lets the remote's routes through to our own nodes.
func (c *cluster) createPools(t *testing.T, remote *cluster) {
	t.Helper()
	for i, cidr := range remote.cidrs() {
		pool := apiv3.NewIPPool()
		pool.Name, pool.Labels = fmt.Sprintf("rrpool-peering-other-%d", i), peeringMark
		pool.Spec = apiv3.IPPoolSpec{
			CIDR: cidr.String(), IPIPMode: apiv3.IPIPModeNever, VXLANMode: apiv3.VXLANModeNever, Disabled: true,
			NodeSelector: "all()",
		}
		_, err := c.Calico().IPPools().Create(t.Context(), pool, options.SetOptions{})
		require.NoError(t, err)
	}
}

func (c *cluster) deletePools(t *testing.T) {
	t.Helper()
	for i := range 2 {
		_, err := c.Calico().IPPools().Delete(t.Context(), fmt.Sprintf("rrpool-peering-other-%d", i), options.DeleteOptions{})
		require.NoError(t, err)
	}
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

func peerName(address netip.Addr) string {
	return "rrpool-peering-other-" + strings.ReplaceAll(address.String(), ".", "-")
}

// createPeers makes a BGPPeer to each of these reflectors of the remote.
func (c *cluster) createPeers(t *testing.T, remote *cluster, filtered, keepNextHop bool, reflectors ...string) {
	t.Helper()
	for _, name := range reflectors {
		peer := apiv3.NewBGPPeer()
		peer.Name, peer.Labels = peerName(remote.Address(name)), peeringMark
		peer.Spec = apiv3.BGPPeerSpec{
			NodeSelector: "has(" + roleLabel + ")", PeerIP: remote.Address(name).String(), ASNumber: numorstring.ASNumber(remote.as), KeepOriginalNextHop: keepNextHop,
		}
		if filtered {
			peer.Spec.Filters = []string{filterName}
		}
		_, err := c.Calico().BGPPeers().Create(t.Context(), peer, options.SetOptions{})
		require.NoError(t, err)
	}
}

func (c *cluster) deletePeers(t *testing.T, addresses ...netip.Addr) {
	t.Helper()
	for _, address := range addresses {
		_, err := c.Calico().BGPPeers().Delete(t.Context(), peerName(address), options.DeleteOptions{})
		require.NoError(t, err)
	}
}

func (c *cluster) addresses(names ...string) (out []netip.Addr) {
	for _, name := range names {
		out = append(out, c.Address(name))
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// announced are the prefixes that the cluster's nodes announce.
func (c *cluster) announced() []netip.Prefix {
	return []netip.Prefix{c.Block("worker-0"), c.Block("worker-1"), c.ServiceNetwork()}
}

var _ = time.Second
