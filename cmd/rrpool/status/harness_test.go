package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

const meshPath = "/apis/crd.projectcalico.org/v1/bgpconfigurations/default"

// ask calls the command as a user does, whose kubeconfig is the current one.
func ask(t *testing.T, a http.Handler, args ...string) cli.Answer {
	t.Helper()
	return askIn(t, iostreams.Streams{}, a, args...)
}

// askIn is ask with some of the streams given.
func askIn(t *testing.T, s iostreams.Streams, a http.Handler, args ...string) cli.Answer {
	t.Helper()
	t.Setenv("KUBECONFIG", cli.Serve(t, a))
	return cli.AskIn(t, s, New, append([]string{"status"}, args...)...)
}

// api is an apiserver as far as the command asks it.
type api struct {
	sync.Mutex
	pool       *v1alpha1.RouteReflectorPool
	nodes      []corev1.Node
	events     []eventsv1.Event
	lease      *coordinationv1.Lease
	deployment *appsv1.Deployment
	// mesh is a BGPConfiguration as JSON; empty is a cluster without Calico.
	mesh string
	// refuse answers in its place when it is not nil.
	refuse func(path string) *metav1.Status
}

func (a *api) answer(path string) (any, bool) {
	switch path {
	case cli.NodesPath:
		return cli.NodeList(a.nodes...), true
	case cli.PoolPath:
		return a.pool, a.pool != nil
	case "/apis/events.k8s.io/v1/namespaces/default/events":
		return eventsv1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "events.k8s.io/v1"}, Items: a.events}, true
	case "/apis/coordination.k8s.io/v1/namespaces/rrpool-system/leases/rrpool-manager":
		return a.lease, a.lease != nil
	case "/apis/apps/v1/namespaces/rrpool-system/deployments/rrpool-manager":
		return a.deployment, a.deployment != nil
	case meshPath:
		const kind = `{"apiVersion":"crd.projectcalico.org/v1","kind":"BGPConfiguration",`
		return json.RawMessage(strings.Replace(a.mesh, "{", kind, 1)), a.mesh != "" && a.mesh != "absent"
	}
	return nil, false
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	w.Header().Set("Content-Type", "application/json")
	status := cli.NotFound
	content, found := a.answer(r.URL.Path)
	if a.refuse != nil {
		if refused := a.refuse(r.URL.Path); refused != nil {
			status, found = *refused, false
		}
	}
	switch {
	case found:
		_ = json.NewEncoder(w).Encode(content)
	case r.URL.Path == meshPath && a.mesh == "" && a.refuse == nil:
		http.NotFound(w, r)
	default:
		cli.Fail(w, status)
	}
}

// refusing makes requests fail whose path has that word.
func (a *api) refusing(word string, code int32, reason metav1.StatusReason, message string) *api {
	a.refuse = func(path string) *metav1.Status {
		if !strings.Contains(path, word) {
			return nil
		}
		return &metav1.Status{Code: code, Reason: reason, Message: message}
	}
	return a
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(cli.Now.Add(-d)) }

var zones = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

// clusterOf has twenty nodes in each of three zones, and as many route reflectors of the pool as given.
func clusterOf(poolPerZone int) []corev1.Node {
	var out []corev1.Node
	add := func(name, zone, flavor, pool string) {
		node := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelTopologyZone: zone, "ibm-cloud.kubernetes.io/region": "eu-de", "ibm-cloud.kubernetes.io/machine-type": flavor,
			}},
			Spec:   corev1.NodeSpec{ProviderID: "ibm://account///cluster/worker"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if pool != "" {
			node.Labels[v1alpha1.PoolLabel] = pool
		}
		out = append(out, node)
	}
	for z, zone := range zones {
		for i := range 20 {
			add(fmt.Sprintf("10.%d.0.%d", z+1, i+1), zone, "bx2.4x16", "")
		}
		for i := range poolPerZone {
			add(fmt.Sprintf("10.%d.9.%d", z+1, i+1), zone, "bx2.2x8", "route-reflectors")
		}
	}
	return out
}

// object is a RouteReflectorPool at rest on six reflectors, which edit changes.
func object(edit func(*v1alpha1.RouteReflectorPool)) *v1alpha1.RouteReflectorPool {
	out := crd.Default()
	out.Generation, out.UID, out.CreationTimestamp = 3, "u1", ago(48*time.Hour)
	out.Status = v1alpha1.RouteReflectorPoolStatus{ObservedGeneration: 3, Provider: "iks", Pool: "route-reflectors", Nodes: 60}
	for z, zone := range zones {
		out.Status.Zones = append(out.Status.Zones, v1alpha1.ZoneStatus{Name: zone, Desired: 2, Ready: 2})
		for i := range 2 {
			out.Status.Reflectors = append(out.Status.Reflectors, v1alpha1.ReflectorStatus{
				Node: fmt.Sprintf("10.%d.9.%d", z+1, i+1), Zone: zone, ClusterID: "224.0.0.1", SessionsEstablished: 65, SessionsExpected: 65,
			})
		}
	}
	out.Status.Step = v1alpha1.StepStatus{
		Name: "Steady", Reason: "6 route reflectors serve 60 nodes; the node-to-node mesh is off", Since: ago(time.Hour),
	}
	set(out, "Ready", "True", "Steady", out.Status.Step.Reason)
	set(out, "ProviderReady", "True", "PoolReady", "worker pool route-reflectors: 6 of 6 workers deployed")
	set(out, "ReflectorsEstablished", "True", "AllEstablished", "6 route reflectors have all their sessions")
	set(out, "MeshDisabled", "True", "MeshOff", "the node-to-node mesh is off")
	set(out, "Progressing", "False", "Steady", "there is nothing to do")
	set(out, "Degraded", "False", "AsExpected", "nothing is wrong")
	if edit != nil {
		edit(out)
	}
	return out
}

// set writes a condition that has been so for an hour.
func set(o *v1alpha1.RouteReflectorPool, kind, status, reason, message string) {
	if kind == "Degraded" && status != "False" || kind == "ProviderReady" && strings.HasPrefix(reason, "C") || status == "Unknown" && kind == "Ready" {
		message = plan.Linked(message, reason, longest) // as the manager does it
	}
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		ObservedGeneration: o.Status.ObservedGeneration, LastTransitionTime: ago(time.Hour),
	}
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

func replicas(wanted, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: ManagerName, Namespace: "rrpool-system"},
		Spec:       appsv1.DeploymentSpec{Replicas: &wanted},
		Status:     appsv1.DeploymentStatus{AvailableReplicas: available},
	}
}

func event(name string, before time.Duration, kind, reason, note string) eventsv1.Event {
	return eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		EventTime:  metav1.NewMicroTime(cli.Now.Add(-before)), Type: kind, Reason: reason, Note: note,
	}
}

// atRest is a cluster on route reflectors.
func atRest(edit func(*v1alpha1.RouteReflectorPool)) *api {
	return &api{
		pool: object(edit), nodes: clusterOf(2), lease: cli.Lease(5 * time.Second),
		events: []eventsv1.Event{
			event("a", time.Hour, "Normal", "MeshDisabled", "switch the node-to-node mesh off: every node has its routes from every route reflector"),
			event("b", 90*time.Minute, "Normal", "ReflectorAdded", "make node 10.1.9.1 a route reflector with cluster ID 224.0.0.1: all workers are there"),
		},
	}
}

// migrating is a cluster that waits for sessions.
func migrating() *api {
	a := atRest(func(o *v1alpha1.RouteReflectorPool) {
		const reason = "the mesh stays on until every node has its routes from every route reflector"
		o.Status.Step = v1alpha1.StepStatus{
			Name: "AwaitSessions", Reason: reason, Since: ago(3 * time.Minute),
			WaitingFor: []string{"10.1.9.1 ↔ 10.2.0.7 to be Established", "10.3.9.2 ↔ 10.2.0.7 to be Established"},
		}
		o.Status.Reflectors[0].SessionsEstablished, o.Status.Reflectors[5].SessionsEstablished = 64, 40
		set(o, "Ready", "False", "AwaitSessions", reason+"; waiting for 10.1.9.1 ↔ 10.2.0.7 to be Established, 10.3.9.2 ↔ 10.2.0.7 to be Established")
		set(o, "Progressing", "True", "AwaitSessions", reason)
		set(o, "ReflectorsEstablished", "False", "SessionsMissing", "10.1.9.1 has 64 of 65 sessions, 10.3.9.2 has 40 of 65 sessions")
		set(o, "MeshDisabled", "False", "MeshOn", "the node-to-node mesh is on")
	})
	a.events = a.events[1:]
	return a
}
