package plan

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// On a real apiserver: what a user must be allowed, one right after the other, and the
// plan for a cluster with and without a RouteReflectorPool.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "planner")
	admin := a.Admin
	for i := range 5 {
		a.Node(fmt.Sprintf("node-%d", i), "a", fmt.Sprintf("10.9.0.%d", i+1))
	}
	args := []string{"plan", "-o", "table", "--kubeconfig", a.Kubeconfig()}
	asked := func() cli.Answer { return cli.Ask(t, New, args...) }
	role, rights := metav1.ObjectMeta{Name: "rrpool-planner"}, cli.Roles(t, "plan")[0].Rules
	for i, missing := range []string{"may not get routereflectorpools.rrpool.io", "", "crd.projectcalico.org"} {
		a.Grant(role, rights[:i]...)
		got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, missing) })
		require.Empty(t, got.Out)
		cli.RequireSentence(t, got.Err)
	}
	a.Grant(role, rights[:3]...)
	got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 })
	require.Contains(t, got.Out, "The pods were not counted: the user of context \"rrpool\" may not list pods")
	require.Contains(t, got.Out, "Next: rrpool migrate")
	a.Grant(role, rights...)
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 && strings.Contains(a.Out, "runs no pods") })
	require.Contains(t, got.Out, "√ No packet between pods is lost.")
	require.Contains(t, got.Out, "has no RouteReflectorPool")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	object.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, admin.Create(t.Context(), object))
	got = cli.Ask(t, New, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "There is nothing to do.")
	got = cli.Ask(t, New, append(args, "--mode", "RouteReflector")...)
	require.Equal(t, 2, got.Code)
	require.NotContains(t, got.Out, "has no RouteReflectorPool")
	got = cli.Ask(t, New, append(args, "-f", cli.PoolFile(t, "{provider: {type: IKS}}"))...)
	require.Equal(t, 2, got.Code)
	require.Contains(t, got.Out, "‼ First: ClusterIDUnknown")
	require.Contains(t, got.Out, "Next: rrpool check")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bgppeers.crd.projectcalico.org"}}
	require.NoError(t, admin.Delete(t.Context(), crd))
	// The CRD goes by and by: its watch may end before its list does.
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, "CalicoNotInstalled") })
	cli.RequireSentence(t, got.Err, "CalicoNotInstalled")
}

// A server that lists but never answers a watch does not hold the command up.
func TestAWatchThatHangs(t *testing.T) {
	hang, watched := make(chan struct{}), atomic.Bool{}
	defer close(hang)
	path := cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			watched.Store(true)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/routereflectorpools/default"):
			cli.Fail(w, cli.NotFound)
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"crd.projectcalico.org/v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		}
	}))
	done := make(chan cli.Answer, 1)
	go func() { done <- cli.Ask(t, New, "plan", "--kubeconfig", path, "--request-timeout", "2s") }()
	select {
	case got := <-done:
		require.True(t, watched.Load(), "it came as far as that: %s", got.Err)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the command hangs")
	}
}
