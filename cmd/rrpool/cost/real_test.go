package cost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// A real apiserver answers as the other tests assume for a missing right, object and CRD,
// and the two rights of the docs are enough.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "reader")
	args := []string{"cost", "--kubeconfig", a.Kubeconfig()}
	asked := func() cli.Answer { return ask(t, args...) }

	got := ask(t, args...)
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "may not get routereflectorpools.rrpool.io")

	written, _, _ := docs(t)
	a.Grant(written.ObjectMeta, written.Rules[0])
	got = a.Eventually(asked, func(a cli.Answer) bool {
		return a.Code == 1 && a.Err != "" && !strings.Contains(a.Err, "routereflectorpools")
	})
	cli.RequireSentence(t, got.Err, "may not list nodes")

	a.Grant(written.ObjectMeta, written.Rules...)
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 0 })
	require.Contains(t, got.Out, "The cluster has no RouteReflectorPool.")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	require.NoError(t, a.Admin.Create(t.Context(), object))
	for i, node := range migrated().nodes {
		node.Name = fmt.Sprintf("node-%d", i)
		require.NoError(t, a.Admin.Create(t.Context(), &node))
	}
	got = ask(t, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the pool of 6 workers")
	require.Contains(t, got.Out, "4.6 %")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "routereflectorpools.rrpool.io"}}
	require.NoError(t, a.Admin.Delete(t.Context(), crd))
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 })
	cli.RequireSentence(t, got.Err, "does not know routereflectorpools.rrpool.io", "install rrpool's CRD")
}
