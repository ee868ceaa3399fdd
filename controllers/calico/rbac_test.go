package calico

import (
	"os"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/controllers/plan"
)

// grantManagerRole lets user do what config/rbac lets the manager do cluster-wide.
func grantManagerRole(b *bench, user string) {
	b.t.Helper()
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	require.NoError(b.t, err)
	role := &rbacv1.ClusterRole{}
	for doc := range strings.SplitSeq(string(text), "---\n") {
		if strings.Contains(doc, "kind: ClusterRole\n") {
			require.NoError(b.t, yaml.UnmarshalStrict([]byte(doc), role))
		}
	}
	require.NotEmpty(b.t, role.Rules)
	role.Name = "calico-rbac-test"
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), role))
	require.NoError(b.t, b.kube.Create(b.t.Context(), binding))
}

func TestTheManagersOwnRoleIsEnough(t *testing.T) {
	b := newBench(t)
	b.node("10.240.0.5", nil)
	b.user, b.groups = "manager", nil
	grantManagerRole(b, b.user)
	b.Adapter = b.adapter()
	b.nodes = b.kube // the manager's cache, which lists and watches
	b.run()
	b.await("the node", func(c plan.Cluster) bool { return len(c.Nodes) == 1 })
	_, err := b.Watch(t.Context(), []plan.Watch{{Node: "10.240.0.5", Period: time.Second}})
	require.NoError(t, err)
	b.fill("10.240.0.5", func(*apiv3.CalicoNodeStatusStatus) {})
	for _, action := range []plan.Action{
		plan.SetReflector{Node: "10.240.0.5", ClusterID: "244.0.0.1"},
		plan.CordonNode{Node: "10.240.0.5"},
		plan.UncordonNode{Node: "10.240.0.5"},
		plan.PutPeer{Peer: clients},
		plan.RefreshStatus{Node: "10.240.0.5"},
		plan.DisableMesh{SavedAbsent: true},
		plan.RestoreMesh{},
		plan.ForgetMesh{},
		plan.ClearReflector{Node: "10.240.0.5"},
		plan.SetRack{Node: "10.240.0.5", Rack: "a"},
		plan.DeletePeer{Name: clients.Name},
	} {
		b.apply(action, true)
	}
	did, err := b.Watch(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, did)
	require.Nil(t, b.config())
}
