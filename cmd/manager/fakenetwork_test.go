package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// fakeNetwork is a fakeBGP whose sessions take their time: one whose options change
// goes down at once and is up again after simulate.Connect, in the worst order that there
// can be. It notes every moment at which a node has no way to another.
type fakeNetwork struct {
	fakeBGP
	now func() time.Time

	mu     sync.Mutex
	config *simulate.Configuration
	nodes  map[string]corev1.Node // those that are up and speak BGP
	// since is when a node that was down has come up, or was the last reflector: it has no sessions at first.
	since map[string]time.Time
	links map[[2]string]fakeLink
	// faults are the moments at which an invariant did not hold.
	faults []string
}

// fakeLink is a session, seen from the node that is first by name.
type fakeLink struct {
	mine, yours simulate.Side
	up          time.Time
}

// take lets all nodes take over what is written now, and looks at what comes of it.
func (p *fakeNetwork) take(ctx context.Context, why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list corev1.NodeList
	if err := p.List(ctx, &list); err != nil {
		return err
	}
	configs, err := p.list(ctx, "BGPConfiguration")
	if err != nil {
		return err
	}
	written, err := p.list(ctx, "BGPPeer")
	if err != nil {
		return err
	}
	var nodes []plan.Node
	var former []string
	before, began := p.nodes, p.since
	p.nodes, p.since = map[string]corev1.Node{}, map[string]time.Time{}
	for _, n := range list.Items {
		address, err := netip.ParsePrefix(n.Annotations[ipv4Annotation])
		if err != nil || !isReady(n) {
			continue
		}
		p.nodes[n.Name], p.since[n.Name] = n, began[n.Name]
		if _, was := before[n.Name]; !was && before != nil {
			p.since[n.Name] = p.now()
		}
		if before[n.Name].Annotations[idAnnotation] != "" {
			former = append(former, n.Name)
		}
		slot, reflects := n.Labels[roleLabel]
		nodes = append(nodes, plan.Node{
			Name: n.Name, Labels: n.Labels, Ready: true, Addresses: []netip.Addr{address.Addr()},
			ClusterID: n.Annotations[idAnnotation], RoleLabel: reflects, Slot: slot,
		})
	}
	p.restartLast(nodes, former)
	var peers []plan.Peer
	for _, w := range written {
		peers = append(peers, fakePeer(w))
	}
	p.config = simulate.NewConfiguration(roleLabel, nodes, fakeConfig(configs), peers)
	p.connect()
	p.judge(why)
	return nil
}

// restartLast restarts the sessions of the former reflectors when no reflector is left to carry their routes
// meanwhile: docs/existing-nodes.md.
func (p *fakeNetwork) restartLast(nodes []plan.Node, former []string) {
	if slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.ClusterID != "" }) {
		return
	}
	for _, name := range former {
		p.since[name] = p.now()
	}
}

// connect keeps the sessions whose both sides are as they were.
func (p *fakeNetwork) connect() {
	up := p.now()
	if p.links != nil {
		up = up.Add(simulate.Connect)
	}
	links := map[[2]string]fakeLink{}
	for a := range p.nodes {
		for b := range p.nodes {
			mine, here := p.config.Side(a, b)
			yours, there := p.config.Side(b, a)
			if a >= b || !here || !there || !mine.Fits(yours) {
				continue
			}
			l := fakeLink{mine, yours, up}
			if old, was := p.links[[2]string{a, b}]; was && old.mine == mine && old.yours == yours {
				l.up = old.up
			}
			links[[2]string{a, b}] = l
		}
	}
	p.links = links
}

// established reports whether a session is up.
func (p *fakeNetwork) established(a, b string) bool {
	l, ok := p.links[[2]string{min(a, b), max(a, b)}]
	return ok && !l.up.After(p.now())
}

func (p *fakeNetwork) reflects(node string) bool {
	n := p.nodes[node]
	_, role := n.Labels[roleLabel]
	return role && n.Annotations[idAnnotation] != ""
}

// judge notes what must never be: the mesh off while a client has too few sessions with
// reflectors, or two nodes that run workloads without a route.
func (p *fakeNetwork) judge(why string) {
	var reflectors, clients []string
	for name, n := range p.nodes {
		if p.reflects(name) {
			reflectors = append(reflectors, name)
		}
		if n.Annotations[idAnnotation] == "" && p.working(name) {
			clients = append(clients, name)
		}
	}
	slices.Sort(clients)
	for _, c := range clients {
		have := 0
		for _, r := range reflectors {
			if p.established(c, r) {
				have++
			}
		}
		if !p.config.MeshOn && have < max(1, min(2, len(reflectors))) {
			p.fault("%s: the mesh is off and %s has %d of %d sessions with reflectors", why, c, have, len(reflectors))
		}
		p.judgeRoutes(why, c, clients, reflectors)
	}
}

// judgeRoutes notes the clients that one of them has no route to.
func (p *fakeNetwork) judgeRoutes(why, from string, clients, reflectors []string) {
	for _, to := range clients {
		if from != to && !p.reaches(from, to, reflectors) {
			p.fault("%s: %s has no route to %s", why, from, to)
		}
	}
}

func (p *fakeNetwork) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// working: the node runs workloads. Those of the pool are tainted, or have been emptied,
// and one that has just come up is not reached by others at first.
func (p *fakeNetwork) working(node string) bool {
	_, pooled := p.nodes[node].Labels[v1alpha1.PoolLabel]
	return !pooled && p.now().Sub(p.since[node]) > simulate.Connect
}

// reaches: to has b's routes, from itself or reflected once.
func (p *fakeNetwork) reaches(to, origin string, reflectors []string) bool {
	if p.established(to, origin) {
		return true
	}
	return slices.ContainsFunc(reflectors, func(via string) bool {
		if via == to || via == origin || !p.established(via, to) || !p.established(via, origin) {
			return false
		}
		viaOrigin, _ := p.config.Side(via, origin)
		viaTo, _ := p.config.Side(via, to)
		toVia, _ := p.config.Side(to, via)
		// BIRD refuses, on a session with a client, what carries its own cluster ID.
		looped := toVia.Client && (toVia.ClusterID == viaOrigin.ClusterID || toVia.ClusterID == viaTo.ClusterID)
		return (viaOrigin.Client || viaTo.Client) && !looped
	})
}

// broken gives the moments at which an invariant did not hold, and forgets them.
func (p *fakeNetwork) broken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

// run answers for the reporters of all nodes.
func (p *fakeNetwork) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			reports, _ := p.list(ctx, "CalicoNodeStatus")
			for i := range reports {
				_ = p.fill(ctx, &reports[i], func(asked apiv3.CalicoNodeStatusSpec) (apiv3.CalicoNodeStatusStatus, bool) {
					return p.status(asked.Node, slices.Contains(asked.Classes, apiv3.NodeStatusClassTypeRoutes))
				})
			}
		}
	}
}

// status is what the reporter of a node says; a node that is down has none.
func (p *fakeNetwork) status(self string, routes bool) (status apiv3.CalicoNodeStatusStatus, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, up = p.nodes[self]; !up {
		return status, false
	}
	ready := apiv3.BGPDaemonStatus{State: apiv3.BGPDaemonStateReady}
	status.Agent = apiv3.CalicoNodeAgentStatus{BIRDV4: ready, BIRDV6: ready}
	names := make([]string, 0, len(p.nodes))
	for name := range p.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, other := range names {
		side, configured := p.config.Side(self, other)
		if !configured {
			continue
		}
		ip, _, _ := strings.Cut(p.nodes[other].Annotations[ipv4Annotation], "/")
		peer := apiv3.CalicoNodePeer{PeerIP: ip, Type: apiv3.BGPPeerTypeNodePeer, State: apiv3.BGPSessionStateConnect, Since: "2026-01-01"}
		if side.Mesh {
			peer.Type = apiv3.BGPPeerTypeNodeMesh
		}
		if p.established(self, other) {
			peer.State = apiv3.BGPSessionStateEstablished
			status.BGP.NumberEstablishedV4++
		} else {
			status.BGP.NumberNotEstablishedV4++
		}
		status.BGP.PeersV4 = append(status.BGP.PeersV4, peer)
	}
	if routes {
		// Every node has routes of its own. More than that is the lab's to show.
		status.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{
			Type: apiv3.RouteTypeFIB, Destination: "10.1.0.0/24",
			LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeDirect},
		}}
	}
	return status, true
}

func isReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// fakeConfig reads the default BGPConfiguration, as far as sessions depend on it.
func fakeConfig(written []unstructured.Unstructured) plan.BGPConfig {
	var out plan.BGPConfig
	for _, w := range written {
		if on, found, _ := unstructured.NestedBool(w.Object, "spec", "nodeToNodeMeshEnabled"); found && w.GetName() == "default" {
			out.Mesh.Enabled = &on
		}
	}
	return out
}

// fakePeer reads a BGPPeer, as far as sessions depend on it.
func fakePeer(w unstructured.Unstructured) plan.Peer {
	field := func(name string) string {
		value, _, _ := unstructured.NestedString(w.Object, "spec", name)
		return value
	}
	return plan.Peer{
		Name: w.GetName(), Node: field("node"), NodeSelector: field("nodeSelector"), PeerIP: field("peerIP"),
		PeerSelector: field("peerSelector"), Manual: field("reversePeering") == string(apiv3.ReversePeeringManual),
	}
}
