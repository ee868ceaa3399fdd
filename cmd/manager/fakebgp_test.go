package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	ipv4Annotation = "projectcalico.org/IPv4Address"
	idAnnotation   = "projectcalico.org/RouteReflectorClusterID"
	roleLabel      = "rrpool.io/route-reflector"
)

var calicoGroup = schema.GroupVersion{Group: "crd.projectcalico.org", Version: "v1"}

// fakeBGP reports, for every node that is asked for, the sessions that Calico
// would have made of what is written, all Established at once. No packet moves:
// the lab is for that. It is here so that the manager's wiring sees a whole migration.
type fakeBGP struct {
	client.Client
}

func (p fakeBGP) run(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.report(ctx)
		}
	}
}

func (p fakeBGP) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(calicoGroup.WithKind(kind + "List"))
	err := p.List(ctx, list)
	return list.Items, err
}

func (p fakeBGP) report(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := p.List(ctx, &nodes); err != nil {
		return err
	}
	configs, _ := p.list(ctx, "BGPConfiguration")
	mesh := true
	for _, c := range configs {
		if on, found, _ := unstructured.NestedBool(c.Object, "spec", "nodeToNodeMeshEnabled"); found {
			mesh = on
		}
	}
	peers, _ := p.list(ctx, "BGPPeer")
	reports, err := p.list(ctx, "CalicoNodeStatus")
	for i := range reports {
		name, _, _ := unstructured.NestedString(reports[i].Object, "spec", "node")
		for _, node := range nodes.Items {
			if node.Name == name {
				_ = p.answer(ctx, &reports[i], node, nodes.Items, mesh, len(peers) > 0)
			}
		}
	}
	return err
}

// answer fills in the report of a node.
func (p fakeBGP) answer(
	ctx context.Context, report *unstructured.Unstructured, self corev1.Node, nodes []corev1.Node, mesh, peered bool,
) error {
	status := apiv3.CalicoNodeStatusStatus{
		Agent: apiv3.CalicoNodeAgentStatus{
			BIRDV4: apiv3.BGPDaemonStatus{State: apiv3.BGPDaemonStateReady},
			BIRDV6: apiv3.BGPDaemonStatus{State: apiv3.BGPDaemonStateReady},
		},
	}
	for _, other := range nodes {
		kind := sessionKind(self, other, mesh, peered)
		if other.Name == self.Name || kind == "" || other.Annotations[ipv4Annotation] == "" {
			continue
		}
		ip, _, _ := strings.Cut(other.Annotations[ipv4Annotation], "/")
		status.BGP.PeersV4 = append(status.BGP.PeersV4, apiv3.CalicoNodePeer{
			PeerIP: ip, Type: kind, State: apiv3.BGPSessionStateEstablished, Since: "2026-01-01",
		})
	}
	status.BGP.NumberEstablishedV4 = len(status.BGP.PeersV4)
	return p.fill(ctx, report, func(asked apiv3.CalicoNodeStatusSpec) (apiv3.CalicoNodeStatusStatus, bool) {
		if slices.Contains(asked.Classes, apiv3.NodeStatusClassTypeRoutes) {
			// Every node has routes of its own. More than that is the lab's to show.
			status.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{
				Type: apiv3.RouteTypeFIB, Destination: "10.1.0.0/24",
				LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeDirect},
			}}
		}
		return status, true
	})
}

// fill writes what a reporter says to what it is asked, when that differs from the last; a
// node that is not up says nothing.
func (p fakeBGP) fill(
	ctx context.Context, report *unstructured.Unstructured, says func(apiv3.CalicoNodeStatusSpec) (status apiv3.CalicoNodeStatusStatus, up bool),
) error {
	var before apiv3.CalicoNodeStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(report.Object, &before); err != nil {
		return fmt.Errorf("reading a report: %w", err)
	}
	status, up := says(before.Spec)
	last := before.Status.LastUpdated
	before.Status.LastUpdated = metav1.Time{}
	if !up || !last.IsZero() && reflect.DeepEqual(before.Status, status) {
		return nil
	}
	status.LastUpdated = metav1.Now()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	report.Object["status"] = content
	return p.Update(ctx, report)
}

// sessionKind is Calico's rule: a reflector has no mesh sessions, and BGPPeers
// join everyone to those that carry the role label.
func sessionKind(a, b corev1.Node, mesh, peered bool) apiv3.BGPPeerType {
	_, aReflects := a.Labels[roleLabel]
	_, bReflects := b.Labels[roleLabel]
	switch {
	case peered && (aReflects || bReflects):
		return apiv3.BGPPeerTypeNodePeer
	case mesh && a.Annotations[idAnnotation] == "" && b.Annotations[idAnnotation] == "":
		return apiv3.BGPPeerTypeNodeMesh
	}
	return ""
}

func machine(t *testing.T, name, worker, zone string) *corev1.Node {
	t.Helper()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone},
			Annotations: map[string]string{ipv4Annotation: name + "/24"},
		},
		Spec: corev1.NodeSpec{ProviderID: "ibm://account///" + testClusterID + "/" + worker},
	}
}
