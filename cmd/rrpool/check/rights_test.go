package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/test/cli"
)

// The manager's own role is enough to see everything that decides, and what it does not
// let one look at is never right.
func TestTheManagersOwnRole(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(3, "", "zone-a", "zone-b")
	w.calico("kube-system", 6)
	for _, o := range objects(t, "../../../config/rbac/role.yaml") {
		var role rbacv1.Role
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		w.allow("as-manager", role.Namespace, role.Rules...)
	}
	all := fmt.Sprintf("all %d things", len(rbac.Rights("")))
	checks := w.eventually("as-manager", "manager-rights", func(c Result) bool { return strings.Contains(c.Message, all) })
	require.Equal(t, OK, checks["manager-rights"].Status, "who guards the metrics may ask what others may do")
	for _, id := range []string{"sight", "decision", "calico", "bgp", "node-status", "mesh", "as-numbers", "eligible", "zones"} {
		require.Contains(t, []Status{OK, Note}, checks[id].Status, "%s: %s", id, checks[id].Message)
	}
	for id, resource := range map[string]string{
		"crd": "customresourcedefinitions.apiextensions.k8s.io", "manager": "deployments.apps", "datastore": "clusterinformations",
		"calico-node": "daemonsets.apps",
	} {
		require.Equal(t, Warning, checks[id].Status, id)
		require.True(t, checks[id].Unchecked, id)
		require.Contains(t, checks[id].Message, "may not", id)
		require.Contains(t, checks[id].Message, resource, id)
	}
	got := cli.Ask(t, New, "check", "--kubeconfig", w.kubeconfig("as-manager"))
	require.Zero(t, got.Code, "there is no ×")
	require.Contains(t, got.Out, "\nFit, as far as could be seen: 0 ×, ")
}

// The negative control: one right is taken from the manager, and it is named.
func TestOneRightIsMissing(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(3, "", "zone-a", "zone-b")
	role := &rbacv1.ClusterRole{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "rrpool-manager"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/eviction") })
	require.NoError(t, w.Admin.Update(t.Context(), role))
	checks := w.eventually("", "manager-rights", func(c Result) bool { return c.Status == Error })
	require.Equal(t, fmt.Sprintf("the manager lacks 1 of the %d rights that it needs: create pods/eviction", len(rbac.Rights(""))), checks["manager-rights"].Message)
	require.Contains(t, checks["manager-rights"].Remedy, "kubectl apply --server-side -k config/rbac")
}
