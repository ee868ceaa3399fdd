//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	// ownAS is that of the nodes, routerAS another.
	ownAS, routerAS = 64512, 65001

	// The services of the test, with the ranges that they are of: one of many addresses, the others of one.
	clusterRange, balancerRange, localAddress = "10.255.0.0/16", "203.0.113.0/25", "203.0.113.1"
	singleBalancer, singleExternal            = "203.0.113.200", "198.51.100.200"
)

// What routers outside learn of pods and services, in the mesh, on reflectors, and in the mesh again. Calico's rules, not ours: see docs/faq.md.
func TestWhatRoutersOutsideLearn(t *testing.T) {
	lab.SkipLong(t)
	l := inMesh(t, "")
	all, workers := l.Nodes(), l.Nodes()[:6]
	block, single, external := l.Block("worker-0").String(), singleBalancer+"/32", singleExternal+"/32"
	announceServices(t, l, "worker-0")
	everyNode := addRouter(t, l, 3, routerAS, "", nil)
	only := addRouter(t, l, 4, routerAS, "has("+roleLabel+")", nil)
	kept := addRouter(t, l, 5, routerAS, "has("+roleLabel+")", func(s *apiv3.BGPPeerSpec) { s.KeepOriginalNextHop = true })
	internal := addRouter(t, l, 6, ownAS, "has("+roleLabel+")", nil)
	clients := addRouter(t, l, 7, routerAS, "!has("+roleLabel+")", nil)
	origin := []string{"worker-0"}

	inTheMesh := func() {
		awaitNextHops(t, l, everyNode, map[string][]string{
			clusterRange: all, balancerRange: all, localAddress + "/32": all, block: all, single: origin, external: origin,
		})
		for _, r := range []*lab.Router{only, kept, internal} {
			awaitNextHops(t, l, r, map[string][]string{})
		}
	}
	inTheMesh()
	// All the time it is looked whether the router lacks one of the prefixes.
	ctx, stop := context.WithCancel(t.Context())
	lacking := make(chan []string, 1)
	want := known(l)
	go func() {
		var out []string
		for ; ctx.Err() == nil; watch(ctx, 100*time.Millisecond) {
			answer, err := everyNode.Ask("show route")
			for _, prefix := range want {
				if err != nil || !strings.Contains(answer, prefix+" ") {
					out = append(out, fmt.Sprint(prefix, err))
				}
			}
		}
		lacking <- out
	}()
	missed := sync.OnceValue(func() []string { stop(); return <-lacking })
	defer missed()
	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	awaitPaths(t, l)
	setMesh(t, l, false)
	awaitNoMesh(t, l)
	awaitNextHops(t, l, everyNode, map[string][]string{
		clusterRange: all, balancerRange: all, localAddress + "/32": all, block: all, single: append(origin, reflectors...), external: origin,
	})
	awaitNextHops(t, l, only, map[string][]string{
		clusterRange: reflectors, balancerRange: reflectors, localAddress + "/32": reflectors, block: reflectors, single: reflectors,
	})
	for _, r := range []*lab.Router{kept, internal} {
		awaitNextHops(t, l, r, map[string][]string{clusterRange: reflectors, balancerRange: reflectors, localAddress + "/32": origin, block: origin, single: origin})
	}
	awaitNextHops(t, l, clients, map[string][]string{
		clusterRange: workers, balancerRange: workers, localAddress + "/32": workers, block: workers, single: origin, external: origin,
	})
	awaitPathsOf(t, l, "worker-1", netip.MustParsePrefix(external), 0, 0) // reflectors do not pass it on to clients

	// Reflectors that a label keeps from announcing services do not pass on those of cluster IPs either.
	exclude := func(value string) {
		patchReflectors(t, l, `{"metadata":{"labels":{"`+corev1.LabelNodeExcludeBalancers+`":`+value+`}}}`)
	}
	exclude(`"true"`)
	awaitNextHops(t, l, only, map[string][]string{balancerRange: reflectors, localAddress + "/32": reflectors, block: reflectors, single: reflectors})
	exclude("null")

	setMesh(t, l, true)
	awaitPathsOf(t, l, "worker-1", l.Block("worker-0"), 1+len(reflectors), 1)
	patchReflectors(t, l, `{"metadata":{"labels":{"`+roleLabel+`":null},"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`)
	inTheMesh()
	require.Empty(t, missed(), "a router that peers with every node lacks nothing in between")
}

func known(l *lab.Lab) []string {
	return []string{clusterRange, balancerRange, localAddress + "/32", l.Block("worker-0").String(), singleBalancer + "/32", singleExternal + "/32"}
}

// Felix's routes to the blocks of others, on a node's own interface, are learned by BIRD and announced as if they were the node's. Felix writes
// them with CrossSubnet, and where programClusterRoutes says so; here they are written by hand, to one block.
func TestNodesAnnounceBlocksThatFelixHasRoutesTo(t *testing.T) {
	lab.SkipLong(t)
	l := inMesh(t, "")
	of, control := l.Block("worker-1"), l.Block("worker-2")
	routeTo(t, l, "worker-1", 80)
	others := len(l.Nodes()) - 1
	awaitPathsOf(t, l, "worker-0", of, others, 1)
	awaitPathsOf(t, l, "worker-0", control, 1, 1)

	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	setMesh(t, l, false)
	awaitNoMesh(t, l)
	awaitPathsOf(t, l, "worker-0", of, len(reflectors), others)
	awaitPathsOf(t, l, "worker-0", control, len(reflectors), 1)

	// What has a path to such a block from every reflector does not prove that its node has a session with one. It needs none.
	const phase = "without BIRD"
	l.Checkpoint(phase)
	require.NoError(t, l.StopBIRD("worker-1"))
	require.NoError(t, l.StopBIRD("worker-2"))
	awaitPathsOf(t, l, "worker-0", control, 0, 0)
	awaitPathsOf(t, l, "worker-0", of, len(reflectors), others-2)
	watch(t.Context(), 2*time.Second)
	requireNothingLost(t, l, phase, "worker-2")
	for _, name := range []string{"worker-1", "worker-2"} {
		require.NoError(t, l.StartBIRD(t.Context(), name))
	}
	awaitPaths(t, l)
	routeTo(t, l, "worker-1", 12) // BIRD's own number: it takes it for its route
	awaitPathsOf(t, l, "worker-0", of, len(reflectors), 1)
}

// routeTo writes the route to a node's block on all others as Felix does, or as BIRD does.
func routeTo(t *testing.T, l *lab.Lab, to string, protocol netlink.RouteProtocol) {
	t.Helper()
	block := l.Block(to)
	for _, on := range l.Nodes() {
		if on == to {
			continue
		}
		require.NoError(t, l.Enter(on, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.RouteReplace(&netlink.Route{
				LinkIndex: link.Attrs().Index, Gw: l.Address(to).AsSlice(), Protocol: protocol, Flags: int(netlink.FLAG_ONLINK),
				Dst: &net.IPNet{IP: block.Addr().AsSlice(), Mask: net.CIDRMask(block.Bits(), 32)},
			})
		}))
	}
}

// awaitPathsOf waits until a node has so many paths to a block from each of so many neighbours.
func awaitPathsOf(t *testing.T, l *lab.Lab, on string, block netip.Prefix, neighbours, each int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		paths, err := l.Paths(on)
		require.NoError(c, err)
		require.Len(c, paths[block], neighbours, "%v", paths[block])
		for from, n := range paths[block] {
			require.Equal(c, each, n, "from %s", from)
		}
	}, patience, 100*time.Millisecond)
}

// addRouter adds a router of an AS, with a BGPPeer to it: it takes one path a prefix from each node.
func addRouter(t *testing.T, l *lab.Lab, number byte, as uint32, selector string, edit func(*apiv3.BGPPeerSpec)) *lab.Router {
	t.Helper()
	address, name := netip.AddrFrom4([4]byte{172, 20, 0, number}), fmt.Sprintf("router-%d", number)
	config := fmt.Sprintf("router id %s; protocol device {} protocol direct {}\n", address)
	for i, node := range l.Nodes() {
		config += fmt.Sprintf("protocol bgp n%d { local %s as %d; neighbor %s as %d; passive; multihop; import all; export none; }\n", i, address, as, l.Address(node), ownAS)
	}
	r, err := l.AddRouter(t.Context(), name, address, config)
	require.NoError(t, err)
	peer := apiv3.NewBGPPeer()
	peer.Name, peer.Spec = name, apiv3.BGPPeerSpec{PeerIP: address.String(), ASNumber: numorstring.ASNumber(as), NodeSelector: selector}
	if edit != nil {
		edit(&peer.Spec)
	}
	_, err = l.Calico().BGPPeers().Create(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err)
	return r
}

// awaitNextHops waits until a router has exactly these nodes as next hops to what is asked for, and no other prefix of ours.
func awaitNextHops(t *testing.T, l *lab.Lab, r *lab.Router, want map[string][]string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, prefix := range known(l) {
			answer, err := r.Ask("show route for " + prefix)
			if err != nil {
				answer = err.Error()
			}
			hops := []string{}
			for _, name := range l.Nodes() {
				if strings.Contains(answer, prefix) && strings.Contains(answer, "via "+l.Address(name).String()+" ") {
					hops = append(hops, name)
				}
			}
			require.ElementsMatch(c, append([]string{}, want[prefix]...), hops, "%s: %s", prefix, answer)
		}
	}, patience, 200*time.Millisecond)
}

// announceServices makes services with externalTrafficPolicy Local whose one endpoint is on a node.
func announceServices(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	setMesh(t, l, true) // which makes the BGPConfiguration
	config, err := l.Calico().BGPConfigurations().Get(t.Context(), "default", options.GetOptions{})
	require.NoError(t, err)
	config.Spec.ServiceClusterIPs = []apiv3.ServiceClusterIPBlock{{CIDR: clusterRange}}
	config.Spec.ServiceLoadBalancerIPs = []apiv3.ServiceLoadBalancerIPBlock{{CIDR: balancerRange}, {CIDR: singleBalancer + "/32"}}
	config.Spec.ServiceExternalIPs = []apiv3.ServiceExternalIPBlock{{CIDR: singleExternal + "/32"}}
	_, err = l.Calico().BGPConfigurations().Update(t.Context(), config, options.SetOptions{})
	require.NoError(t, err)
	services, slices := l.Kube().CoreV1().Services("default"), l.Kube().DiscoveryV1().EndpointSlices("default")
	for name, addresses := range map[string][2]string{"one-of-many": {localAddress, ""}, "single": {singleBalancer, singleExternal}} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: []corev1.ServicePort{{Port: 80}},
		}}
		if addresses[1] != "" {
			service.Spec.ExternalIPs = addresses[1:]
		}
		service, err := services.Create(t.Context(), service, metav1.CreateOptions{})
		require.NoError(t, err)
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addresses[0]}}
		_, err = services.UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = slices.Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{l.Block(node).Addr().Next().String()}, NodeName: ptr.To(node)}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}
