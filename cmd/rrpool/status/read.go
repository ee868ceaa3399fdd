package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/pool"
)

// schemaVersion is the version of the format of `status -o json`. It changes when a field changes its meaning or is removed.
const schemaVersion = "rrpool.io/status/v1"

// Status says where a cluster is, as -o json prints it. The table is rendered from it.
type Status struct {
	SchemaVersion string      `json:"schemaVersion"`
	GeneratedAt   metav1.Time `json:"generatedAt"`
	// Cluster is the name of the context.
	Cluster string `json:"cluster"`
	// State says in one word where the cluster is, and Summary in a sentence.
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Mesh is on, off or unknown.
	Mesh    string  `json:"mesh"`
	Manager Manager `json:"manager"`
	// Problems are the bad conditions of the object.
	Problems []metav1.Condition `json:"problems"`
	// Warnings name the reflectors whose node is gone or NotReady, the problems of the pool, and what could not be read, with the reason.
	Warnings []string `json:"warnings"`
	// Events about the object, newest first.
	Events []Event `json:"events"`
	// Object is nil if the cluster has no RouteReflectorPool. If the manager has not reported the cost, it is computed here.
	Object   *v1alpha1.RouteReflectorPool `json:"routeReflectorPool,omitempty"`
	Peerings []v1alpha1.ClusterPeering    `json:"clusterPeerings,omitempty"`
	// Lacking maps each node that lacks sessions to the reflectors with which
	// it has no Established session. Without -v Lacking and Workers are nil.
	Lacking map[string][]string `json:"lacking,omitzero"`
	Workers []cloud.Worker      `json:"workers,omitzero"`
	// Next is the command that the user should run next, empty for none.
	Next string `json:"next,omitempty"`
}

// Event is a Kubernetes event about the object.
type Event struct {
	// Time is when the event happened last, and Count how often it has happened.
	Time   metav1.Time `json:"time"`
	Type   string      `json:"type"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	Count  int32       `json:"count"`
}

// Take reads the cluster. It fails if the object or the nodes cannot be read. If anything
// else cannot be read, that is a warning. Every error is a sentence for the user.
func Take(ctx context.Context, c *cluster.Connection, p Phrase, now time.Time) (*Status, error) {
	object, nodes, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{
		SchemaVersion: schemaVersion, GeneratedAt: metav1.NewTime(now), Cluster: c.Name, Mesh: meshUnknown, Manager: FindManager(ctx, c, p.namespace, now),
		Problems: []metav1.Condition{}, Warnings: []string{}, Events: []Event{}, Object: object,
	}
	if s.Object == nil {
		s.readMesh(ctx, c)
	} else {
		s.describe(nodes)
		s.readEvents(ctx, c)
	}
	if s.Peerings, err = c.Peerings(ctx); err != nil {
		s.warn("no ClusterPeerings are shown: %w", err)
	}
	if p.verbose {
		s.observe(ctx, c, p.namespace)
	}
	s.State, s.Summary = s.Judge()
	s.Next = p.next(s)
	if s.Object != nil {
		s.Object.ManagedFields = nil
	}
	if ctx.Err() != nil {
		return nil, iostreams.ErrInterrupted
	}
	return s, nil
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, iostreams.Sentence(fmt.Errorf(format, args...)))
}

// The states of the node-to-node mesh.
const (
	meshOn      = "on"
	meshOff     = "off"
	meshUnknown = "unknown"
)

// readMesh reads whether the mesh is on. Without a BGPConfiguration the mesh is on by Calico's default.
func (s *Status) readMesh(ctx context.Context, c *cluster.Connection) {
	if err := c.FindCalico(ctx); err != nil {
		s.warn("the mesh is unknown: %w", err)
		return
	}
	resource := "bgpconfigurations." + c.Calico.Group
	var found apiv3.BGPConfiguration
	err := c.Get(ctx, client.ObjectKey{Name: "default"}, &found)
	switch {
	case err == nil && !ptr.Deref(found.Spec.NodeToNodeMeshEnabled, true):
		s.Mesh = meshOff
	case err == nil, cluster.IsMissing(err):
		s.Mesh = meshOn
	case apierrors.IsNotFound(err):
		s.warn("the mesh is unknown: the cluster has no %s: is Calico installed?", resource)
	default:
		s.warn("the mesh is unknown: %s", c.Explain(err, "get", resource))
	}
}

// describe fills in what the object and the nodes show, such as Mesh and Problems.
func (s *Status) describe(nodes []corev1.Node) {
	reported := &s.Object.Status
	switch condition(s.Object, v1alpha1.ConditionMeshDisabled).Status {
	case metav1.ConditionTrue:
		s.Mesh = meshOff
	case metav1.ConditionFalse:
		s.Mesh = meshOn
	case metav1.ConditionUnknown:
	}
	s.Problems = Problems(s.Object)
	for _, r := range reported.Reflectors {
		node := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == r.Node })
		if node < 0 {
			s.warn("the node of route reflector %s is no longer in the cluster", r.Node)
		} else if !slices.ContainsFunc(nodes[node].Status.Conditions, isReady) {
			s.warn("the node of route reflector %s is NotReady", r.Node)
		}
	}
	if workers, existing := bill.PoolOf(s.Object, nodes); reported.Cost == nil && !existing {
		reported.Cost = cost.Builtin().Status(workers)
	}
}

func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// readEvents lists the events about the object. Events about cluster-scoped objects are in the namespace default.
func (s *Status) readEvents(ctx context.Context, c *cluster.Connection) {
	var list eventsv1.EventList
	about := fields.Set{"regarding.kind": "RouteReflectorPool", "regarding.name": v1alpha1.SingletonName}
	if err := c.List(ctx, &list, client.InNamespace("default"), client.MatchingFieldsSelector{Selector: about.AsSelector()}); err != nil {
		s.warn("no events are shown: %s", c.Explain(err, "list", "events.events.k8s.io"))
	}
	for _, e := range list.Items {
		last, count := cmp.Or(e.EventTime.Time, e.DeprecatedLastTimestamp.Time), int32(1)
		if e.Series != nil {
			last, count = e.Series.LastObservedTime.Time, e.Series.Count
		}
		s.Events = append(s.Events, Event{metav1.NewTime(last), e.Type, e.Reason, plan.Plain(e.Note, longest), count})
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return b.Time.Compare(a.Time.Time) })
}

// longest is how many bytes are kept of an event's note, which can have any length.
const longest = 4096

// observe adds the workers and the missing sessions, observed as the manager does.
func (s *Status) observe(ctx context.Context, c *cluster.Connection, namespace string) {
	seen, err := snapshot.Take(ctx, c, namespace, nil, false)
	if err != nil {
		s.warn("neither workers nor single sessions are shown: %s", err)
		return
	}
	s.add(seen.Scope)
}

func (s *Status) add(seen pool.Scope) {
	var problems []string
	if seen.ProviderProblem != nil {
		problems = append(problems, seen.ProviderProblem.Message)
	}
	if seen.Pool != nil {
		problems = append(problems, seen.Pool.Problems...)
		s.Workers = seen.Pool.Workers
	}
	slices.Sort(problems)
	for _, problem := range slices.Compact(problems) {
		s.warn("the pool, as your user sees it: %s", problem)
	}
	s.Lacking = map[string][]string{}
	if seen.Desired.Timer {
		return // sessions are not observed
	}
	for _, r := range seen.Step.Reflectors {
		for _, node := range r.Missing {
			s.Lacking[node] = append(s.Lacking[node], r.Node)
		}
	}
}
