package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
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
	// Survey is what the manager sees, nil without -v.
	Snapshot *snapshot.Snapshot
	// Unseen says what could not be looked at, and why.
	Unseen []string
}

// look says where and how thoroughly to look.
type look struct {
	connection *cluster.Connection
	// namespace of the manager.
	namespace string
	verbose   bool
}

// take looks at the cluster. What is not the object or the nodes may be out of reach:
// then it is named in Facts.Unseen. Every error is a sentence for the user.
func (l look) take(ctx context.Context, now time.Time) (*Facts, error) {
	read, err := l.connection.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &Facts{Cluster: read.Name, Now: now, Object: read.Pool, Nodes: read.Nodes}
	out.Manager = FindManager(ctx, l.connection, l.namespace, now)
	if out.Object == nil {
		out.Mesh = findMesh(ctx, l.connection)
	} else if out.Events, err = listEvents(ctx, l.connection); err != nil {
		out.Unseen = append(out.Unseen, "no events are shown: "+iostreams.Sentence(err))
	}
	if l.verbose {
		if out.Snapshot, err = snapshot.Take(ctx, l.connection, l.namespace, nil, false); err != nil {
			out.Unseen = append(out.Unseen, "neither workers nor single sessions are shown: "+iostreams.Sentence(err))
		}
	}
	if ctx.Err() != nil {
		return nil, iostreams.ErrInterrupted
	}
	return out, nil
}

// eventNamespace is where Kubernetes keeps the events about what has no namespace.
const eventNamespace = "default"

func listEvents(ctx context.Context, c *cluster.Connection) ([]eventsv1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var list eventsv1.EventList
	about := fields.Set{"regarding.kind": "RouteReflectorPool", "regarding.name": v1alpha1.SingletonName}
	err := c.List(ctx, &list, client.InNamespace(eventNamespace), client.MatchingFieldsSelector{Selector: about.AsSelector()})
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

// eventCount is how often it happened.
func eventCount(e eventsv1.Event) int {
	if e.Series != nil {
		return int(e.Series.Count)
	}
	return 1
}

// Mesh is the node-to-node mesh.
type Mesh struct {
	// State is on, off, or unknown.
	State string `json:"state"`
	// Why it is unknown.
	Why string `json:"why,omitempty"`
	// Nodes that it joins while it is on, 0 where they were not counted; Pooled are those of
	// them in the dedicated pool, NotReady those that Kubernetes calls so. The manager
	// counts neither.
	Nodes    int `json:"nodes,omitempty"`
	Pooled   int `json:"pooled,omitempty"`
	NotReady int `json:"notReady,omitempty"`
}

// Annotations that Calico takes a node's part in BGP from.
const (
	ipv4Annotation      = "projectcalico.org/IPv4Address"
	ipv6Annotation      = "projectcalico.org/IPv6Address"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
)

// count counts the nodes in a mesh that is on: every node that speaks BGP and is no route
// reflector.
func (m *Mesh) count(nodes []corev1.Node, object *v1alpha1.RouteReflectorPool) {
	if m.State != meshOn {
		return
	}
	for _, node := range nodes {
		if !speaksBGP(node) || node.Annotations[clusterIDAnnotation] != "" {
			continue
		}
		m.Nodes++
		if dedicated(node, object) {
			m.Pooled++
		} else if nodeState(node.Name, []corev1.Node{node}) != nodeReady {
			m.NotReady++
		}
	}
}

// dedicated: the node is there for nothing but reflecting.
func dedicated(node corev1.Node, object *v1alpha1.RouteReflectorPool) bool {
	return object != nil && object.Status.Provider != "existing" && node.Labels[v1alpha1.PoolLabel] == object.Spec.Provider.IKS.PoolName
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

// The states of the mesh.
const (
	meshOn      = "on"
	meshOff     = "off"
	meshUnknown = "unknown"
)

const (
	meshPath     = "/apis/crd.projectcalico.org/v1/bgpconfigurations/default"
	meshResource = "bgpconfigurations.crd.projectcalico.org"
)

// findMesh reads the switch of the mesh. Without the right to, or without Calico, it
// says so.
func findMesh(ctx context.Context, c *cluster.Connection) Mesh {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	raw, err := coordination.NewForConfig(c.Config)
	if err != nil {
		return Mesh{State: meshUnknown, Why: err.Error()}
	}
	result := raw.RESTClient().Get().AbsPath(meshPath).Do(ctx)
	switch err := result.Error(); {
	case err == nil:
	case cluster.IsMissing(err):
		return Mesh{State: meshOn} // Calico's own default
	case apierrors.IsNotFound(err):
		return Mesh{State: meshUnknown, Why: "the cluster has no " + meshResource + ": is Calico installed?"}
	default:
		return Mesh{State: meshUnknown, Why: c.Explain(err, "get", meshResource).Error()}
	}
	var found struct {
		Spec struct {
			Enabled *bool `json:"nodeToNodeMeshEnabled"`
		} `json:"spec"`
	}
	content, err := result.Raw()
	switch err := errors.Join(err, json.Unmarshal(content, &found)); {
	case err != nil:
		return Mesh{State: meshUnknown, Why: "the BGPConfiguration default cannot be read: " + err.Error()}
	case found.Spec.Enabled != nil && !*found.Spec.Enabled:
		return Mesh{State: meshOff}
	}
	return Mesh{State: meshOn}
}
