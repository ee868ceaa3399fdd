package calico

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
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
		_, err := etcdOf(t).kv.Put(t.Context(), "/other", "x")
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

// The client of etcd reads the CA once.
func TestACAThatIsReplacedEndsTheProcess(t *testing.T) {
	onlyInEtcd(t)
	one, two := newAuthority(t, "ca"), newAuthority(t, "ca")
	two.sign("server", &x509.Certificate{}, time.Hour)
	etcd, err := controlplane.StartEtcd(t.Context(), t.TempDir(), "--cert-file="+two.path("server.crt"), "--key-file="+two.path("server.key"))
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	file := t.TempDir() + "/ca.crt"
	mount := func(a *authority) {
		content, err := os.ReadFile(a.path("ca.crt"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	mount(one)
	e, err := newEtcd(apiconfig.EtcdConfig{EtcdEndpoints: etcd.URL, EtcdCACertFile: file})
	require.NoError(t, err)
	err = e.alive(t.Context())
	require.ErrorContains(t, err, "does not prove the certificate")
	require.NotErrorIs(t, err, errNewCA)
	mount(two)
	require.ErrorIs(t, e.alive(t.Context()), errNewCA)

	// A file may have several certificates; one that has expired does no harm.
	two.sign("expired", &x509.Certificate{}, -time.Hour)
	expired, err := os.ReadFile(two.path("expired.crt"))
	require.NoError(t, err)
	valid, err := os.ReadFile(two.path("ca.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(expired, valid...), 0o600))
	require.NoError(t, e.checkFiles(time.Now()))
	require.NoError(t, os.WriteFile(file, expired, 0o600))
	require.ErrorContains(t, e.checkFiles(time.Now()), "has expired")
}

// A watch that is interrupted after a deletion goes on, and block affinities of old have an empty value.
func TestADeletionIsAPlaceToGoOnFrom(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	b.node(five, nil)
	b.run()
	kv := etcdOf(t).kv
	_, err := kv.Put(t.Context(), affinities+five+"/ipv4/block/10.1.2.0-26", "")
	require.NoError(t, err)
	b.await("the block", func(c plan.Cluster) bool { return len(c.Nodes) == 1 && len(c.Nodes[0].Blocks) == 1 })
	_, err = kv.Delete(t.Context(), affinities, clientv3.WithPrefix())
	require.NoError(t, err)
	b.await("its end", func(c plan.Cluster) bool { return len(c.Nodes[0].Blocks) == 0 })
	peer := apiv3.NewBGPPeer()
	peer.Name, peer.Spec.PeerIP = "x", "192.0.2.1"
	require.NoError(t, b.kube.Create(t.Context(), peer))
	b.await("the BGPPeer", func(c plan.Cluster) bool { return len(c.Peers) == 1 })
	require.NoError(t, b.kube.Delete(t.Context(), peer))
	b.await("its end", func(c plan.Cluster) bool { return len(c.Peers) == 0 })
	e := b.calico.client.(*Etcd)
	e.mu.Lock()
	e.interrupt()
	e.mu.Unlock()
	require.Never(t, func() bool { err := b.Failing(); return err != nil && strings.Contains(err.Error(), "parsing") }, 2*time.Second, 5*time.Millisecond)
}

// What the environment says for other programs is none of ours with the Kubernetes datastore.
func TestTheEnvironmentOfOthersIsNotRead(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.Contains(name, "ETCD_") || name == datastoreVariable {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("K8S_DISABLE_NODE_POLL", "perhaps")
	for _, set := range []bool{false, true} {
		if set {
			t.Setenv(datastoreVariable, "kubernetes")
		}
		config, err := datastoreConfig()
		require.NoError(t, err)
		require.Nil(t, config)
	}
	t.Setenv(datastoreVariable, "etcdv3")
	_, err := datastoreConfig()
	require.Error(t, err)
}
