package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

func shows(words string) func(cli.Answer) bool {
	return func(a cli.Answer) bool { return a.Code == 0 && strings.Contains(a.Out, words) }
}

// What the other tests believe about apiservers, seen on a real one: each right of the
// docs is needed, and enough for what the docs say it is for.
func TestARealApiserver(t *testing.T) {
	w := cli.RealApiserver(t, "reader")
	args := []string{"status", "--kubeconfig", w.Kubeconfig()}
	asking := func(wanted func(cli.Answer) bool, more ...string) cli.Answer {
		return w.Eventually(func() cli.Answer { return cli.Ask(t, New, append(args, more...)...) }, wanted)
	}
	grant := func(role rbacv1.Role) { w.Grant(role.ObjectMeta, role.Rules...) }
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-system"}})
	roles := cli.Roles(t, "status")
	require.Len(t, roles, 4)
	needed, events, manager, verbose := roles[0], roles[1], roles[2], roles[3]
	got := asking(func(a cli.Answer) bool { return a.Code == 1 })
	cli.RequireSentence(t, got.Err, "may not get routereflectorpools.rrpool.io")

	grant(needed)
	got = asking(shows("NoPool"))
	require.Contains(t, got.Out, "‼ the mesh is unknown: the user of context \"rrpool\" may not get bgpconfigurations.crd.projectcalico.org")
	require.Contains(t, got.Out, "Next: rrpool plan --kubeconfig ")

	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.Create(pool)
	for i := range 6 {
		w.Node(fmt.Sprintf("n%d", i), "z1", fmt.Sprintf("10.0.0.%d", i+1), func(n *corev1.Node) {
			if i >= 4 { // it is a reflector by rrpool's doing
				n.Labels[v1alpha1.PoolLabel], n.Labels["rrpool.io/route-reflector"] = "existing-nodes", ""
				n.Annotations["projectcalico.org/RouteReflectorClusterID"], n.Annotations["rrpool.io/reflector-since"] = "224.0.0.1", "2026-11-21T08:00:00Z"
			}
		})
	}
	got = asking(shows("Stale"))
	require.Contains(t, got.Out, "the manager has not yet observed the RouteReflectorPool")
	require.Contains(t, got.Out, "‼ no events are shown: the user of context \"rrpool\" may not list events.events.k8s.io")

	pool.Status = object(nil).Status
	pool.Status.ObservedGeneration, pool.Status.Provider, pool.Status.Reflectors = pool.Generation, "existing", nil
	require.NoError(t, w.Admin.Status().Update(t.Context(), pool))
	for i, about := range []string{"RouteReflectorPool", "RouteReflectorPool", "Node"} {
		w.Create(&eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", i), Namespace: "default"}, EventTime: metav1.NowMicro(),
			Regarding: corev1.ObjectReference{Kind: about, Name: "default"}, Type: "Normal", Reason: fmt.Sprintf("Reason%d", i), Action: "Act",
			Note: "something happened", ReportingController: "rrpool.io/manager", ReportingInstance: "m1",
		})
	}
	grant(events)
	got = asking(shows("Reason1"))
	require.Contains(t, got.Out, "Reason0")
	require.NotContains(t, got.Out, "Reason2", "it is about something else")
	require.Contains(t, got.Out, "√ Ready")

	grant(manager)
	got = asking(shows("Manager    unknown: there is neither a lease nor a Deployment"), "-v")
	require.Contains(t, got.Out, "‼ neither workers nor single sessions are shown: ")

	grant(verbose)
	got = asking(func(a cli.Answer) bool { return a.Code == 0 && !strings.Contains(a.Out, "neither workers") }, "-v", "-o", "json")
	var v Status
	require.NoError(t, json.Unmarshal([]byte(got.Out), &v))
	require.Empty(t, v.Warnings)
	require.Equal(t, []string{"n4", "n5"}, v.Lacking["n3"], "neither has reported any session")

	require.NoError(t, w.Admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "routereflectorpools.rrpool.io"}}))
	got = asking(func(a cli.Answer) bool { return a.Code == 1 })
	cli.RequireSentence(t, got.Err, "does not know routereflectorpools.rrpool.io", "install rrpool's CRD")
}
