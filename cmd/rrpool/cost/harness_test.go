package cost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// ask calls the command as a user does.
func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, args...)
}

// askIn is ask with some of the streams given.
func askIn(t *testing.T, s iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	return cli.AskIn(t, s, New, args...)
}

// api is an apiserver as far as the program asks it.
type api struct {
	pool  *v1alpha1.RouteReflectorPool
	nodes []corev1.Node
	// refuse answers in its place when it is not nil.
	refuse func(path string) *metav1.Status
	asked  []string
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	if a.refuse != nil {
		if status := a.refuse(r.URL.Path); status != nil {
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
			return
		}
	}
	switch r.URL.Path {
	case "/api/v1/nodes":
		_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: a.nodes})
	case "/apis/rrpool.io/v1alpha1/routereflectorpools/default":
		if a.pool == nil {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
				Details: &metav1.StatusDetails{Group: "rrpool.io", Kind: "routereflectorpools", Name: "default"},
			})
			return
		}
		_ = json.NewEncoder(w).Encode(a.pool)
	default:
		http.NotFound(w, r)
	}
}

func poolObject(edit func(*v1alpha1.RouteReflectorPool)) *v1alpha1.RouteReflectorPool {
	object := &v1alpha1.RouteReflectorPool{
		TypeMeta:   metav1.TypeMeta{Kind: "RouteReflectorPool", APIVersion: "rrpool.io/v1alpha1"},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec:       defaults(),
	}
	object.Spec.Mode = v1alpha1.ModeRouteReflector
	if edit != nil {
		edit(object)
	}
	return object
}

// nodesOf makes as many nodes in each zone, with labels on top of the zone's.
func nodesOf(perZone int, zones []string, providerID string, labels map[string]string) []corev1.Node {
	var out []corev1.Node
	for _, zone := range zones {
		for i := range perZone {
			node := corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", zone, i), Labels: map[string]string{corev1.LabelTopologyZone: zone}},
				Spec:       corev1.NodeSpec{ProviderID: providerID},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}
			for key, value := range labels {
				node.Labels[key] = value
			}
			out = append(out, node)
		}
	}
	return out
}

const ibm = "ibm://account///cluster/worker"

var frankfurt = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

func labelled(flavor, region string, more ...string) map[string]string {
	out := map[string]string{"ibm-cloud.kubernetes.io/machine-type": flavor, "ibm-cloud.kubernetes.io/region": region}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// migrated is a cluster of 60 nodes in three zones with a pool of six.
func migrated() *api {
	return &api{
		pool: poolObject(nil),
		nodes: append(nodesOf(20, frankfurt, ibm, labelled("bx2.4x16.encrypted", "eu-de")),
			nodesOf(2, frankfurt, ibm, labelled("bx2.2x8", "eu-de", v1alpha1.PoolLabel, "route-reflectors"))...),
	}
}
