package calico

import (
	"os/exec"
	"testing"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/controlplane"
)

// An etcd that is restored from a backup has a lower revision. A watch from a later one brings nothing, and says nothing.
func TestEtcdThatIsRestoredIsListedAnew(t *testing.T) {
	onlyInEtcd(t)
	now, backup := t.TempDir(), t.TempDir()
	etcd, err := controlplane.StartEtcd(t.Context(), now)
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	b := newBench(t)
	b.moveTo(etcd)
	b.node(five, nil)
	config := apiv3.NewBGPConfiguration()
	config.Name, config.Spec.NodeToNodeMeshEnabled = defaultConfig, ptr.To(false)
	require.NoError(t, b.kube.Create(t.Context(), config))
	require.NoError(t, etcd.Pause())
	said, err := exec.CommandContext(t.Context(), "cp", "-r", now+"/etcd", backup+"/etcd").CombinedOutput()
	require.NoError(t, err, string(said))
	require.NoError(t, etcd.Resume())
	for range 50 {
		_, err := keysOf(t).Put(t.Context(), "/other", "x")
		require.NoError(t, err)
	}
	config.Spec.NodeToNodeMeshEnabled = ptr.To(true)
	require.NoError(t, b.kube.Update(t.Context(), config))
	b.run()
	b.await("the mesh", func(c plan.Cluster) bool { return c.BGP.Exists && *c.BGP.Mesh.Enabled })
	require.NoError(t, etcd.Restart(t.Context(), backup))
	b.await("what was restored", func(c plan.Cluster) bool { return !*c.BGP.Mesh.Enabled })
	b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}, true)
	b.await("the role", func(c plan.Cluster) bool { return c.Nodes[0].HasRoleLabel })
}
