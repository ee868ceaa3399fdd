package status

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Facts are all that a status is made of.
type Facts struct {
	// Cluster is the name of the context.
	Cluster string
	Now     time.Time
	// Object is nil while the cluster has no RouteReflectorPool.
	Object *v1alpha1.RouteReflectorPool
	// Nodes are nil when they were not listed.
	Nodes   []corev1.Node
	Manager Manager
	// Mesh is read only while there is no Object.
	Mesh Mesh
	// Events about the object, newest first.
	Events []eventsv1.Event
	// Snapshot is what the manager observes, nil without -v.
	Snapshot *snapshot.Snapshot
	// Unseen names what could not be read, and why.
	Unseen []string
}

// Take reads the cluster. Only the object and the nodes are required; what else cannot be
// read is named in Facts.Unseen. Every error is a sentence for the user.
func Take(ctx context.Context, c *cluster.Connection, namespace string, verbose bool, now time.Time) (*Facts, error) {
	read, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &Facts{Cluster: read.Name, Now: now, Object: read.Pool, Nodes: read.Nodes, Manager: FindManager(ctx, c, namespace, now)}
	if out.Object == nil {
		out.Mesh = findMesh(ctx, c)
	} else if out.Events, err = listEvents(ctx, c); err != nil {
		out.Unseen = append(out.Unseen, "no events are shown: "+iostreams.Sentence(err))
	}
	if verbose {
		if out.Snapshot, err = snapshot.Take(ctx, c, namespace, nil, false); err != nil {
			out.Unseen = append(out.Unseen, "neither workers nor single sessions are shown: "+iostreams.Sentence(err))
		}
	}
	if ctx.Err() != nil {
		return nil, iostreams.ErrInterrupted
	}
	return out, nil
}

// listEvents lists the events about the object. Kubernetes keeps events about objects
// without a namespace in the namespace default.
func listEvents(ctx context.Context, c *cluster.Connection) ([]eventsv1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var list eventsv1.EventList
	about := fields.Set{"regarding.kind": "RouteReflectorPool", "regarding.name": v1alpha1.SingletonName}
	err := c.List(ctx, &list, client.InNamespace("default"), client.MatchingFieldsSelector{Selector: about.AsSelector()})
	if err != nil {
		return nil, c.Explain(err, "list", "events.events.k8s.io")
	}
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Or(eventTime(b).Compare(eventTime(a)), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// eventTime is when an event happened last.
func eventTime(e eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.DeprecatedLastTimestamp.Time
}

// Mesh is the node-to-node mesh.
type Mesh struct {
	// State is on, off, or unknown; Why says why it is unknown.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Nodes that it joins while it is on, 0 where they were not counted; Pooled are those of
	// them in the dedicated pool, NotReady the others that are not Ready. The manager counts
	// neither.
	Nodes    int `json:"nodes,omitempty"`
	Pooled   int `json:"pooled,omitempty"`
	NotReady int `json:"notReady,omitempty"`
}

// The states of the mesh.
const (
	meshOn      = "on"
	meshOff     = "off"
	meshUnknown = "unknown"
)

// Annotations that Calico takes a node's part in BGP from.
const (
	ipv4Annotation      = "projectcalico.org/IPv4Address"
	ipv6Annotation      = "projectcalico.org/IPv6Address"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
)

// count counts the nodes in a mesh that is on: every node that speaks BGP and is no route
// reflector.
func (m *Mesh) count(nodes []corev1.Node, object *v1alpha1.RouteReflectorPool) {
	for _, node := range nodes {
		if m.State != meshOn || !speaksBGP(node) || node.Annotations[clusterIDAnnotation] != "" {
			continue
		}
		m.Nodes++
		dedicated := object != nil && object.Status.Provider != "existing"
		switch {
		case dedicated && node.Labels[v1alpha1.PoolLabel] == object.Spec.Provider.IKS.PoolName:
			m.Pooled++
		case nodeState(node.Name, []corev1.Node{node}) != nodeReady:
			m.NotReady++
		}
	}
}

// speaksBGP: the node has an address that Calico can read.
func speaksBGP(node corev1.Node) bool {
	return slices.ContainsFunc([]string{ipv4Annotation, ipv6Annotation}, func(key string) bool {
		value := node.Annotations[key]
		addr, err := netip.ParseAddr(value)
		if prefix, failed := netip.ParsePrefix(value); failed == nil {
			addr, err = prefix.Addr(), nil
		}
		return err == nil && addr.Unmap().Is4() == (key == ipv4Annotation)
	})
}

// text is the mesh in words.
func (m Mesh) text() string {
	out := m.State
	if m.Why != "" {
		out += ": " + m.Why
	}
	if m.Nodes > 0 {
		out += fmt.Sprintf(", %d nodes", m.Nodes)
	}
	if m.Pooled > 0 {
		out += fmt.Sprintf(", %d of them in the pool", m.Pooled)
	}
	if m.NotReady > 0 {
		out += fmt.Sprintf(", %d not Ready", m.NotReady)
	}
	return out
}

const meshResource = "bgpconfigurations.crd.projectcalico.org"

// findMesh reads whether the mesh is on; without the object it is, as Calico's default.
func findMesh(ctx context.Context, c *cluster.Connection) Mesh {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	found := &unstructured.Unstructured{}
	found.SetAPIVersion("crd.projectcalico.org/v1")
	found.SetKind("BGPConfiguration")
	switch err := c.Get(ctx, client.ObjectKey{Name: "default"}, found); {
	case err == nil, cluster.IsMissing(err):
	case apierrors.IsNotFound(err):
		return Mesh{State: meshUnknown, Why: "the cluster has no " + meshResource + ": is Calico installed?"}
	default:
		return Mesh{State: meshUnknown, Why: c.Explain(err, "get", meshResource).Error()}
	}
	enabled, set, err := unstructured.NestedBool(found.Object, "spec", "nodeToNodeMeshEnabled")
	switch {
	case err != nil:
		return Mesh{State: meshUnknown, Why: "the BGPConfiguration default cannot be read: " + err.Error()}
	case set && !enabled:
		return Mesh{State: meshOff}
	}
	return Mesh{State: meshOn}
}
