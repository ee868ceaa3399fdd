// Package fakenetwork writes the status reports of nodes for a cluster that has an apiserver and no nodes.
package fakenetwork

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// Calico's annotations of Nodes, and the API's default label.
const (
	IPv4Annotation = "projectcalico.org/IPv4Address"
	IDAnnotation   = "projectcalico.org/RouteReflectorClusterID"
	RoleLabel      = "rrpool.io/route-reflector"
)

// Written returns the objects of one of Calico's kinds, in the API group that the cluster has.
func Written(ctx context.Context, reader client.Reader, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(calico.GroupV1.WithKind(kind + "List"))
	err := reader.List(ctx, list)
	if meta.IsNoMatchError(err) {
		list.SetGroupVersionKind(calico.GroupV3.WithKind(kind + "List"))
		err = reader.List(ctx, list)
	}
	return list.Items, err
}

// Network simulates the nodes of the objects in an apiserver by package simulate: they apply changes at once, and a session that restarts is
// Established after simulate.Connect. It writes status reports, and records every time at which a node has no route to another.
type Network struct {
	client.Client
	Now func() time.Time
	// Polls: it reads the objects before each report, not only when Take is called.
	Polls bool
	// Busy returns how long a node with so many sessions does not report after the last of them is Established. Nil: no time.
	Busy func(sessions int) time.Duration

	mu    sync.Mutex
	model *simulate.Model // nil before the first Take
	seen  plan.Cluster
	// since is when a node started, or stopped being the last reflector: its sessions restart then.
	since map[string]time.Time
	// faults describe when an invariant did not hold.
	faults []string
}

// Take makes all nodes apply the objects as they are now, and checks the invariants.
func (p *Network) Take(ctx context.Context, why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, err := p.read(ctx)
	if err != nil {
		return err
	}
	if p.model == nil {
		p.model, p.since = simulate.New(seen, plan.DatastoreOptions{RoleLabel: RoleLabel}, p.Now()), map[string]time.Time{}
		p.seen.Nodes = seen.Nodes
	}
	p.model.Advance(p.Now().Sub(p.model.Now()))
	if reflect.DeepEqual(seen, p.seen) {
		return nil
	}
	p.restart(p.seen.Nodes, seen.Nodes)
	p.seen = seen
	p.model.Reset(seen)
	p.judge(why)
	return nil
}

// read returns the running nodes that speak BGP, and the configuration of BGP.
func (p *Network) read(ctx context.Context) (plan.Cluster, error) {
	var out plan.Cluster
	var list corev1.NodeList
	if err := p.List(ctx, &list); err != nil {
		return out, err
	}
	configs, err := Written(ctx, p, "BGPConfiguration")
	if err != nil {
		return out, err
	}
	out.BGP = Config(configs)
	peers, err := Written(ctx, p, "BGPPeer")
	for _, w := range peers {
		var peer apiv3.BGPPeer
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object, &peer))
		out.Peers = append(out.Peers, plan.Peer{
			Name: peer.Name, Node: peer.Spec.Node, NodeSelector: peer.Spec.NodeSelector, PeerIP: peer.Spec.PeerIP,
			PeerSelector: peer.Spec.PeerSelector, Manual: ptr.Deref(peer.Spec.ReversePeering, "") == apiv3.ReversePeeringManual,
		})
	}
	affinities, blocksErr := Written(ctx, p, "BlockAffinity")
	err = errors.Join(err, blocksErr)
	blocks := map[string][]netip.Prefix{}
	for _, a := range affinities {
		node, _, _ := unstructured.NestedString(a.Object, "spec", "node")
		cidr, _, _ := unstructured.NestedString(a.Object, "spec", "cidr")
		if block, parseErr := netip.ParsePrefix(cidr); parseErr == nil {
			blocks[node] = append(blocks[node], block)
		}
	}
	for _, n := range list.Items {
		address, err := netip.ParsePrefix(n.Annotations[IPv4Annotation])
		if err != nil || !isReady(n) {
			continue
		}
		slot, reflects := n.Labels[RoleLabel]
		_, pooled := n.Labels[v1alpha1.PoolLabel]
		out.Nodes = append(out.Nodes, plan.Node{
			Name: n.Name, Labels: n.Labels, Ready: true, Addresses: []netip.Addr{address.Addr()},
			ClusterID: n.Annotations[IDAnnotation], HasRoleLabel: reflects, Slot: slot, Pooled: pooled, Blocks: blocks[n.Name],
		})
	}
	return out, err
}

// restart records the nodes that start, and former reflectors if no other reflector is left to carry their routes meanwhile
// (docs/existing-nodes.md).
func (p *Network) restart(before, now []plan.Node) {
	reflects := func(n plan.Node) bool { return n.ClusterID != "" }
	for _, n := range now {
		i := slices.IndexFunc(before, func(was plan.Node) bool { return was.Name == n.Name })
		if i < 0 || reflects(before[i]) && !slices.ContainsFunc(now, reflects) {
			p.since[n.Name] = p.Now()
		}
	}
}

// judge records violations of the invariants: the mesh is off while a client has too few sessions with reflectors, or two nodes with workloads have no route.
func (p *Network) judge(why string) {
	seen := p.model.Observe()
	reflectors := slices.DeleteFunc(slices.Clone(seen.Nodes), func(n plan.Node) bool { return !n.HasRoleLabel || n.ClusterID == "" })
	for _, c := range seen.Nodes {
		have := 0
		for _, r := range reflectors {
			if p.model.Connected(c.Name, r.Name) {
				have++
			}
		}
		if p.working(c) && !seen.BGP.MeshOn() && have < max(1, min(2, len(reflectors))) {
			p.fault("%s: the mesh is off and %s has %d of %d sessions with reflectors", why, c.Name, have, len(reflectors))
		}
	}
	for _, pair := range p.model.Unreached(p.working) {
		p.fault("%s: %s has no route to %s", why, pair.From, pair.To)
	}
}

// working reports whether the node is a client that runs workloads. Nodes of the pool are tainted or drained, and a node that has just started
// has no sessions at first.
func (p *Network) working(n plan.Node) bool {
	return n.ClusterID == "" && !n.Pooled && p.Now().Sub(p.since[n.Name]) > simulate.Connect
}

func (p *Network) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// Broken returns the violations of invariants since the last call.
func (p *Network) Broken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

// Run writes the status reports of all nodes until ctx ends.
func (p *Network) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.report(ctx) // retried with the next tick
		}
	}
}

func (p *Network) report(ctx context.Context) error {
	if p.Polls {
		if err := p.Take(ctx, "a look"); err != nil {
			return err
		}
	}
	objects, err := Written(ctx, p, "CalicoNodeStatus")
	for i := range objects {
		var asked apiv3.CalicoNodeStatus
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &asked))
		routes := slices.Contains(asked.Spec.Classes, apiv3.NodeStatusClassTypeRoutes)
		if st, up := p.reported(asked.Spec.Node, routes); up {
			status := statusOf(st, routes)
			err = errors.Join(err, p.fill(ctx, &objects[i], asked.Status, status))
		}
	}
	return err
}

// reported returns a node's report, and whether the node is neither down nor busy.
func (p *Network) reported(node string, routes bool) (st plan.Status, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.model == nil || !slices.ContainsFunc(p.seen.Nodes, func(n plan.Node) bool { return n.Name == node }) {
		return st, false
	}
	now := p.Now()
	p.model.Advance(now.Sub(p.model.Now()))
	st = p.model.Report(node, routes)
	if p.Busy == nil {
		return st, true
	}
	busy := p.Busy(len(st.Sessions))
	return st, !slices.ContainsFunc(st.Sessions, func(s plan.Session) bool { return s.Established && now.Sub(s.Since) < busy })
}

// fill writes a report if it differs from the last.
func (p *Network) fill(ctx context.Context, report *unstructured.Unstructured, last, status apiv3.CalicoNodeStatusStatus) error {
	at := last.LastUpdated
	last.LastUpdated = metav1.Time{}
	if !at.IsZero() && reflect.DeepEqual(last, status) {
		return nil
	}
	status.LastUpdated = metav1.Now()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	report.Object["status"] = content
	if report.GroupVersionKind().Group == calico.GroupV3.Group {
		return p.Status().Update(ctx, report)
	}
	return p.Update(ctx, report)
}

// statusOf returns a report as a CalicoNodeStatus.
func statusOf(st plan.Status, routes bool) (status apiv3.CalicoNodeStatusStatus) {
	ready := apiv3.BGPDaemonStatus{State: apiv3.BGPDaemonStateReady}
	status.Agent = apiv3.CalicoNodeAgentStatus{BIRDV4: ready, BIRDV6: ready}
	for _, s := range st.Sessions {
		peer := apiv3.CalicoNodePeer{PeerIP: s.Peer.String(), Type: apiv3.BGPPeerTypeNodePeer, State: apiv3.BGPSessionStateConnect, Since: "2026-01-01"}
		if s.Kind == plan.SessionMesh {
			peer.Type = apiv3.BGPPeerTypeNodeMesh
		}
		if s.Established {
			peer.State = apiv3.BGPSessionStateEstablished
			status.BGP.NumberEstablishedV4++
		} else {
			status.BGP.NumberNotEstablishedV4++
		}
		status.BGP.PeersV4 = append(status.BGP.PeersV4, peer)
	}
	if routes {
		// Every node has routes to its own pods.
		status.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{
			Type: apiv3.RouteTypeFIB, Destination: "10.1.0.0/24",
			LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeDirect},
		}}
		for _, r := range st.Routes {
			status.Routes.RoutesV4 = append(status.Routes.RoutesV4, apiv3.CalicoNodeRoute{
				Type: apiv3.RouteTypeFIB, Destination: r.Prefix.String(),
				LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeBGPPeer, PeerIP: r.From.String()},
			})
		}
	}
	return status
}

func isReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Config returns the fields of the default BGPConfiguration that sessions depend on.
func Config(written []unstructured.Unstructured) plan.BGPConfig {
	var out plan.BGPConfig
	for _, w := range written {
		if on, found, _ := unstructured.NestedBool(w.Object, "spec", "nodeToNodeMeshEnabled"); found && w.GetName() == "default" {
			out.Mesh.Enabled = &on
		}
	}
	return out
}
