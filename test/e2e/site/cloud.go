//go:build linux

package site

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

func (s *Site) zone(i int) string {
	if s.options.Generation == iksserver.Classic {
		return fmt.Sprintf("dal1%d", 2*i)
	}
	return fmt.Sprintf("us-south-%d", i+1)
}

// cluster returns the cluster to seed: its zones and the default pool.
func (s *Site) cluster() iksserver.Cluster {
	c := iksserver.Cluster{ID: ClusterID, Name: "demo", Provider: s.options.Generation, VPCID: "r006-demo", ResourceGroup: "5f1e0c2a"}
	pool := iksserver.Pool{Name: "default", Flavor: "bx2.4x16", SizePerZone: s.options.Workers / s.options.Zones}
	for i := range s.options.Zones {
		z := iksserver.Zone{ID: s.zone(i)}
		if s.options.Generation == iksserver.Classic {
			z.VLANs = []iksserver.VLAN{
				{ID: fmt.Sprintf("%d1", i+1), Type: "private", Router: "bcr01a"}, {ID: fmt.Sprintf("%d2", i+1), Type: "public", Router: "fcr01a"},
			}
		} else {
			z.Subnets = []iksserver.Subnet{{ID: fmt.Sprintf("0717-subnet-%d", i+1), CIDR: "172.20.0.0/16", Available: 200}}
		}
		c.Zones = append(c.Zones, z)
		pool.Zones = append(pool.Zones, z.ID)
	}
	c.Pools = []iksserver.Pool{pool}
	return c
}

// hosts returns the nodes of the default pool's seeded workers.
func (s *Site) hosts() []lab.NodeSpec {
	var specs []lab.NodeSpec
	for _, w := range s.Cloud.Workers(ClusterID, "default") {
		spec := s.host(w)
		spec.Pods = 1
		specs = append(specs, spec)
	}
	return specs
}

// host returns the node of a worker, with name, labels, taints and providerID as on IKS.
func (s *Site) host(w iksserver.Worker) lab.NodeSpec {
	spec := lab.NodeSpec{
		Name: w.IP, Zone: w.Zone, Address: netip.MustParseAddr(w.IP),
		ProviderID: fmt.Sprintf("ibm://%s///%s/%s", account, ClusterID, w.ID),
		Labels: map[string]string{
			"ibm-cloud.kubernetes.io/worker-id":        w.ID,
			"ibm-cloud.kubernetes.io/worker-pool-id":   w.PoolID,
			"ibm-cloud.kubernetes.io/worker-pool-name": w.PoolName,
			"ibm-cloud.kubernetes.io/internal-ip":      w.IP,
			"ibm-cloud.kubernetes.io/machine-type":     w.Flavor,
			"ibm-cloud.kubernetes.io/zone":             w.Zone,
			"ibm-cloud.kubernetes.io/region":           "us-south",
		},
	}
	maps.Copy(spec.Labels, w.Labels)
	for k, v := range w.Taints {
		value, effect, _ := strings.Cut(v, ":")
		spec.Taints = append(spec.Taints, corev1.Taint{Key: k, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return spec
}

// join adds the node of a deployed worker to the cluster. While the apiserver is down it retries, as a kubelet does.
func (s *Site) join(ctx context.Context, w iksserver.Worker) {
	for err := s.Lab.AddNodes(ctx, s.host(w)); err != nil; err = s.Lab.AddNodes(ctx, s.host(w)) {
		s.progress("worker %s could not join: %v", w.ID, err)
		_ = s.Lab.Kube().CoreV1().Nodes().Delete(ctx, w.IP, metav1.DeleteOptions{}) // an earlier try may have created it
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	s.progress("worker %s is deployed in %s and joins as node %s", w.ID, w.Zone, w.IP)
}

func (s *Site) leave(ctx context.Context, w iksserver.Worker) {
	if err := s.Lab.RemoveNode(ctx, w.IP); err != nil {
		s.progress("node %s could not leave: %v", w.IP, err)
		return
	}
	s.progress("worker %s is deleted, node %s is gone", w.ID, w.IP)
}

// install applies what a user applies before the manager starts: the manifests of config/rbac and, with a cloud, the credentials. The ConfigMap
// that IKS creates is created even with Options.Bare.
func (s *Site) install(ctx context.Context) error {
	var objects []client.Object
	if s.Cloud != nil {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-system"},
			Data:       map[string]string{"cluster-config.json": fmt.Sprintf(`{"cluster_id":%q,"name":"demo"}`, ClusterID)},
		})
	}
	if !s.options.Bare {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}})
		rights, err := controlplane.Rights("service_account.yaml", "role.yaml", "bindings.yaml", "remote.yaml")
		if err != nil {
			return err
		}
		objects = append(objects, rights...)
	}
	if !s.options.Bare && s.Cloud != nil {
		objects = append(objects, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: Namespace}, StringData: map[string]string{"apikey": APIKey},
		})
	}
	for _, o := range objects {
		if err := s.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("installing %T %q: %w", o, o.GetName(), err)
		}
	}
	return nil
}
