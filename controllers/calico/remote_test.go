package calico

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/test/controlplane"
)

// remoteBench is a cluster that has Calico's objects in the group only, as a cluster that is followed has.
func remoteBench(t *testing.T) *bench {
	t.Helper()
	if group == GroupV1 {
		return newBench(t)
	}
	dir := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), dir))
	own, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{dir, controlplane.OwnCRDs()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	b := &bench{t: t, plane: own, clock: newClock(), user: "native", groups: []string{"system:masters"}, other: othersOf(t, own)}
	b.kube, err = client.New(own.AdminConfig(), client.Options{})
	require.NoError(t, err)
	b.Adapter = b.adapter()
	return b
}

// reflector makes a node that is in the role, or not, and Ready, or not.
func (b *bench) reflector(name string, role, ready bool) {
	b.t.Helper()
	n := b.node(name, func(n *corev1.Node) {
		n.Annotations[clusterIDAnnotation] = "244.0.0.1"
		if role {
			n.Labels = map[string]string{scope.RoleLabel: ""}
		}
	})
	b.setReady(n, ready)
}

func (b *bench) setReady(n *corev1.Node, ready bool) {
	b.t.Helper()
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[ready]
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	require.NoError(b.t, b.kube.Status().Update(b.t.Context(), n))
}

// ClusterRole rrpool-remote is all that another cluster needs to be followed, and each of its rights is needed.
func TestAnotherClusterIsReadWithTheRightsOfRrpoolRemote(t *testing.T) {
	notInEtcd(t, "its objects are not in its apiserver")
	b := remoteBench(t)
	scheme := b.kube.Scheme()
	require.NoError(t, rbacv1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	text, err := os.ReadFile("../../config/rbac/remote.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(text, role))
	require.Equal(t, "rrpool-remote", role.Name)
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "neighbour"}},
	}
	for _, o := range []client.Object{role, binding, pool} {
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(b.kube.Delete(context.Background(), o))) })
	}
	b.giveConfig(withPassword)
	for name, spec := range map[string]map[string]any{
		"used": {"cidr": "10.5.0.0/16"}, "six": {"cidr": "fd00:5::/64"},
		"disabled": {"cidr": "10.6.0.0/16", "disabled": true}, "secret": {"cidr": "10.7.0.0/16", "disableBGPExport": true},
	} {
		o := b.custom(apiv3.KindIPPool, name)
		o.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), o))
	}
	b.reflector("10.0.0.2", true, true)
	b.reflector("10.0.0.1", true, true)
	b.reflector("10.0.0.3", true, false)
	b.reflector("10.0.0.4", false, true)
	b.node("10.0.0.5", func(n *corev1.Node) { n.Labels = map[string]string{scope.RoleLabel: ""} }) // without a cluster ID

	cfg := b.plane.UserConfig("neighbour", "system:authenticated")
	want := peering.Side{
		ASN: 64999, Reflectors: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
		Pods: cidrs("fd00:5::/64", "10.5.0.0/16"), Services: cidrs("172.21.0.0/16"),
	}
	read := func(ok func(peering.Side, error) bool, what string) {
		t.Helper()
		var last string
		require.Eventually(t, func() bool {
			side, err := ReadSide(t.Context(), cfg)
			slices.SortFunc(side.Pods, func(a, b netip.Prefix) int { return b.Addr().Compare(a.Addr()) })
			last = fmt.Sprint(side, err)
			return ok(side, err)
		}, time.Minute, 20*time.Millisecond, "%s: %s", what, &last)
	}
	all := func(side peering.Side, err error) bool {
		return err == nil && fmt.Sprint(side) == fmt.Sprint(want)
	}
	read(all, "with all rights")
	rules := role.Rules
	for i, rule := range rules {
		if group == GroupV1 && (rule.APIGroups[0] == "migration.projectcalico.org" || rule.APIGroups[0] == "apiextensions.k8s.io") {
			continue // where the first group is, there is nothing to ask
		}
		role.Rules = slices.Delete(slices.Clone(rules), i, i+1)
		require.NoError(t, b.kube.Update(t.Context(), role))
		lacks := fmt.Sprintf("cannot %s resource %q", rule.Verbs[0], rule.Resources[0])
		read(func(_ peering.Side, err error) bool { return err != nil && strings.Contains(err.Error(), lacks) }, "without "+rule.Resources[0])
	}
	role.Rules = rules
	require.NoError(t, b.kube.Update(t.Context(), role))
	read(all, "with all rights again")

	for _, name := range []string{"10.0.0.1", "10.0.0.2"} {
		b.setReady(b.liveNode(name), false)
	}
	want.Reflectors = append(want.Reflectors, netip.MustParseAddr("10.0.0.3"))
	read(all, "where none is Ready, all count")
	require.NoError(t, b.kube.Delete(t.Context(), b.custom(apiv3.KindBGPConfiguration, defaultConfig)))
	require.NoError(t, b.kube.Delete(t.Context(), pool))
	want.Reflectors, want.Services, want.ASN = nil, nil, defaultASN
	read(all, "without a RouteReflectorPool it has no reflectors, which is a problem that the plan names")
}

func TestAClusterWithoutCalicoIsAnErrorAndNotAClusterWithoutPods(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
	require.ErrorContains(t, err, "reading the remote cluster: it has no IPPools of group crd.projectcalico.org: is its network Calico")
}

// A remote cluster is not trusted: its answers are of limited size, and the token goes nowhere else.
func TestWhatARemoteClusterAnswersIsBounded(t *testing.T) {
	pools := func(w http.ResponseWriter, r *http.Request, n int) {
		if !strings.HasSuffix(r.URL.Path, "/ippools") {
			http.NotFound(w, r)
			return
		}
		list := apiv3.IPPoolList{}
		for i := range n {
			list.Items = append(list.Items, apiv3.IPPool{Spec: apiv3.IPPoolSpec{CIDR: fmt.Sprintf("10.%d.0.0/16", i)}})
		}
		assert.NoError(t, json.NewEncoder(w).Encode(list))
	}
	for says, handler := range map[string]http.HandlerFunc{
		"answers with a redirection (302 Found), which is not followed": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
		},
		"request body too large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, largestAnswer+1)) },
		"it has 101 reflectors, ranges of pods, or ranges of services: more than 100 are not taken": func(w http.ResponseWriter, r *http.Request) { pools(w, r, 101) },
		"": func(w http.ResponseWriter, r *http.Request) { pools(w, r, 100) },
	} {
		server := httptest.NewServer(handler)
		_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
		server.Close()
		if says == "" {
			require.NoError(t, err, "the negative control")
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
