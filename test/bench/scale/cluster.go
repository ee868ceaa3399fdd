package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/fakenetwork"
	"github.com/rrpool/rrpool/test/iksserver"
)

const (
	clusterID = "cs9scale0rrpool0000"
	poolName  = "route-reflectors"
	namespace = "rrpool-system"
	apiKey    = "rrpool-scale-api-key" //nolint:gosec // G101: made for the bench
	zones     = 3
	// atOnce is how many objects are written at a time.
	atOnce = 16
	// images and heartbeats of a real node.
	images         = 50
	leaseEvery     = 10 * time.Second
	heartbeatEvery = 5 * time.Minute
	kubeSystem     = "kube-system"
	leases         = "kube-node-lease"
)

func zone(i int) string { return fmt.Sprintf("us-south-%d", i%zones+1) }

// install creates the objects that exist before the manager starts: rights, credentials and IKS' ConfigMap.
func install(ctx context.Context, admin client.Client) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: namespace}, StringData: map[string]string{"apikey": apiKey},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: kubeSystem},
			Data:       map[string]string{"cluster-config.json": fmt.Sprintf(`{"cluster_id":%q}`, clusterID)},
		},
	}
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cidr": "10.128.0.0/9", "ipipMode": "Always"}}}
	pool.SetGroupVersionKind(calico.GroupV1.WithKind("IPPool"))
	pool.SetName("default-ipv4-ippool")
	objects = append(objects, pool)
	rights, err := controlplane.Rights("service_account.yaml", "role.yaml", "bindings.yaml")
	if err != nil {
		return err
	}
	for _, o := range append(objects, rights...) {
		if err := admin.Create(ctx, o); err != nil {
			return fmt.Errorf("installing %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// each calls do for each number below n, several at a time.
func each(n int, do func(i int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, atOnce)
	for w := range atOnce {
		wait.Go(func() {
			for i := w; i < n && errs[w] == nil; i += atOnce {
				errs[w] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// join creates a worker's node, as large as real ones, with an address block and a calico-node pod.
func join(ctx context.Context, admin client.Client, w iksserver.Worker) error {
	address := netip.MustParseAddr(w.IP)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.IP, Annotations: map[string]string{fakenetwork.IPv4Annotation: w.IP + "/16"},
			Labels: map[string]string{
				corev1.LabelTopologyZone: w.Zone, corev1.LabelHostname: w.IP, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				"ibm-cloud.kubernetes.io/worker-id": w.ID, "ibm-cloud.kubernetes.io/worker-pool-name": w.PoolName,
				"ibm-cloud.kubernetes.io/region": "us-south", "ibm-cloud.kubernetes.io/machine-type": "bx2.4x16",
			},
		},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("ibm://account///%s/%s", clusterID, w.ID)},
	}
	for key, value := range w.Labels {
		node.Labels[key] = value
	}
	for key, value := range w.BornTaints {
		value, effect, _ := strings.Cut(value, ":")
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	if err := admin.Create(ctx, node); err != nil {
		return fmt.Errorf("creating node %s: %w", w.IP, err)
	}
	node.Status = status(address, time.Now())
	if err := admin.Status().Update(ctx, node); err != nil {
		return fmt.Errorf("filling in node %s: %w", w.IP, err)
	}
	a := address.As4()
	n := (int(a[2])<<8 | int(a[3])) << 6
	block := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"state": "confirmed", "node": w.IP, "type": "host", "cidr": fmt.Sprintf("10.%d.%d.%d/26", 128+n>>16, n>>8&255, n&255), "deleted": "false",
	}}}
	block.SetGroupVersionKind(calico.GroupV1.WithKind("BlockAffinity"))
	block.SetName(w.IP)
	if err := admin.Create(ctx, block); err != nil {
		return fmt.Errorf("creating the block affinity of %s: %w", w.IP, err)
	}
	return runCalicoNode(ctx, admin, w.IP)
}

func status(address netip.Addr, now time.Time) corev1.NodeStatus {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
	out := corev1.NodeStatus{
		Capacity: size, Allocatable: size, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}},
		NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.33.1+IKS", OperatingSystem: "linux", Architecture: "amd64", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://1.7.27"},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
		is := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			is = corev1.ConditionTrue
		}
		out.Conditions = append(out.Conditions, corev1.NodeCondition{
			Type: kind, Status: is, Reason: "KubeletHasIt", Message: "kubelet says so", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		})
	}
	for i := range images {
		name := fmt.Sprintf("registry.example.com/team-%02d/application-number-%02d", i%7, i)
		out.Images = append(out.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064d", name, i), name + ":v1.2.3"}, SizeBytes: 123456789})
	}
	return out
}

func runCalicoNode(ctx context.Context, admin client.Client, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "calico-node-" + node, Namespace: kubeSystem, Labels: map[string]string{"k8s-app": "calico-node"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node", UID: "calico-node", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: "calico-node", Image: "quay.io/calico/node:v3.31.0"}}},
	}
	if err := admin.Create(ctx, pod); err != nil {
		return fmt.Errorf("creating the calico-node pod of %s: %w", node, err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}}
	if err := admin.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("running the calico-node pod of %s: %w", node, err)
	}
	return nil
}

// kubelets renews the lease of each node every 10 s, and writes its status every 5 minutes, spread evenly.
func kubelets(ctx context.Context, kubelet client.Client, nodes []iksserver.Worker) {
	for w := range atOnce {
		go func() {
			for i := w % len(nodes); ctx.Err() == nil; i = (i + atOnce) % len(nodes) {
				heartbeat(ctx, kubelet, nodes[i].IP)
				if rand.N(heartbeatEvery) < leaseEvery { //nolint:gosec // G404: not a secret
					patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
					node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[i].IP}}
					_ = kubelet.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
				}
				time.Sleep(leaseEvery * atOnce / time.Duration(len(nodes)))
			}
		}()
	}
}

func heartbeat(ctx context.Context, kubelet client.Client, node string) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: leases}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())}
	if err := kubelet.Patch(ctx, lease, client.MergeFrom(&coordinationv1.Lease{ObjectMeta: lease.ObjectMeta})); apierrors.IsNotFound(err) {
		_ = kubelet.Create(ctx, lease)
	}
}
