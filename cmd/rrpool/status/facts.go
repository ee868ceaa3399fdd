package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
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
	// Object is nil while nobody has asked for route reflectors.
	Object *v1alpha1.RouteReflectorPool
	// Nodes are nil when nobody has looked.
	Nodes   []corev1.Node
	Manager Manager
	// Mesh is looked at only while there is no Object to tell.
	Mesh Mesh
	// Events about the object, newest first.
	Events []eventsv1.Event
	// Survey is what the manager sees, nil when nobody has looked with its eyes.
	Survey *snapshot.Snapshot
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
		if out.Survey, err = snapshot.Take(ctx, l.connection, l.namespace, nil, false); err != nil {
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
