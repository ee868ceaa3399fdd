//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	cnet "github.com/projectcalico/calico/libcalico-go/lib/net"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/programs"
)

const (
	// SecretNamespace is the namespace in which confd reads passwords.
	SecretNamespace = "kube-system"
	passwordSecret  = "bgp-password"
	passwordKey     = "password"
	// podNamespace is the namespace of workload pods.
	podNamespace = "default"
	podPrefix    = "pod-"

	// The users of the lab and of calico-node in the audit log.
	labUser   = "lab"
	agentUser = "lab-calico-node"
)

func (l *Lab) createCluster(ctx context.Context) error {
	if err := l.createIPPools(ctx); err != nil {
		return err
	}
	release, _, err := programs.Calico()
	if err != nil {
		return err
	}
	info := apiv3.NewClusterInformation()
	info.Name = "default"
	info.Spec = apiv3.ClusterInformationSpec{ClusterGUID: "0", ClusterType: "k8s,bgp,kdd", CalicoVersion: release, DatastoreReady: ptr.To(true)}
	if _, err := l.calico.ClusterInformation().Create(ctx, info, options.SetOptions{}); err != nil {
		return fmt.Errorf("creating the cluster information: %w", err)
	}
	return l.createBGPConfiguration(ctx)
}

func (l *Lab) createIPPools(ctx context.Context) error {
	for i, network := range l.Families(l.PodNetwork()) {
		pool := apiv3.NewIPPool()
		pool.Name = fmt.Sprintf("default-ipv%d-ippool", 4+2*i)
		pool.Spec = apiv3.IPPoolSpec{
			CIDR: network.String(), BlockSize: blockBits + 96*i, NATOutgoing: true, NodeSelector: "all()",
			IPIPMode: apiv3.IPIPModeNever, VXLANMode: apiv3.VXLANModeNever,
		}
		if _, err := l.calico.IPPools().Create(ctx, pool, options.SetOptions{}); err != nil {
			return fmt.Errorf("creating the IP pool: %w", err)
		}
	}
	return nil
}

// createBGPConfiguration creates one where the options differ from Calico's defaults.
func (l *Lab) createBGPConfiguration(ctx context.Context) error {
	config := apiv3.NewBGPConfiguration()
	config.Name = "default"
	if l.options.ASNumber != 0 {
		config.Spec.ASNumber = ptr.To(numorstring.ASNumber(l.options.ASNumber))
	}
	config.Spec.ListenPort = l.options.ListenPort
	if l.options.MeshPassword != "" {
		if err := l.createMeshPassword(ctx); err != nil {
			return err
		}
		config.Spec.NodeToNodeMeshEnabled, config.Spec.NodeMeshPassword = ptr.To(true), PasswordRef()
	}
	if l.options.ASNumber == 0 && l.options.MeshPassword == "" && l.options.ListenPort == 0 {
		return nil
	}
	if _, err := l.calico.BGPConfigurations().Create(ctx, config, options.SetOptions{}); err != nil {
		return fmt.Errorf("creating the BGP configuration: %w", err)
	}
	return nil
}

func (l *Lab) createMeshPassword(ctx context.Context) error {
	_, err := l.kube.CoreV1().Secrets(SecretNamespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: passwordSecret},
		StringData: map[string]string{passwordKey: l.options.MeshPassword},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the mesh password: %w", err)
	}
	return nil
}

// PasswordRef returns a reference to the Secret of Options.MeshPassword.
func PasswordRef() *apiv3.BGPPassword {
	return &apiv3.BGPPassword{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: passwordSecret}, Key: passwordKey,
	}}
}

// createNode creates the objects of a node that kubelet and calico-node create: it is not Ready, and has an address block.
func (l *Lab) createNode(ctx context.Context, n *node) error {
	labels := map[string]string{corev1.LabelHostname: n.spec.Name, corev1.LabelOSStable: "linux"}
	if n.spec.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.spec.Zone
	}
	maps.Copy(labels, n.spec.Labels)
	annotations := map[string]string{
		"projectcalico.org/IPv4Address": inNodeNetwork(n.spec.Address).String(),
	}
	if l.options.DualStack {
		annotations["projectcalico.org/IPv6Address"] = V6(inNodeNetwork(n.spec.Address)).String()
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	_, err := l.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.spec.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: n.spec.ProviderID, Taints: n.spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.spec.Address.String()}, {Type: corev1.NodeHostName, Address: n.spec.Name}},
			Conditions: []corev1.NodeCondition{readyCondition(corev1.ConditionFalse)},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}, metav1.CreateOptions{})
	if err == nil && l.options.Etcd {
		err = l.createOwnNode(ctx, n, labels)
	}
	if err != nil || n.spec.Pods == 0 {
		return err
	}
	return l.createBlock(ctx, n)
}

// createOwnNode creates Calico's own Node, as calico-node does, with the labels that Calico's kube-controllers copy.
func (l *Lab) createOwnNode(ctx context.Context, n *node, labels map[string]string) error {
	o := libapiv3.NewNode()
	o.Name, o.Labels = l.calicoName(n), labels
	o.Spec.OrchRefs = []libapiv3.OrchRef{{Orchestrator: "k8s", NodeName: n.spec.Name}}
	o.Spec.BGP = &libapiv3.NodeBGPSpec{IPv4Address: inNodeNetwork(n.spec.Address).String()}
	_, err := l.calico.Nodes().Create(ctx, o, options.SetOptions{})
	return err
}

// createBlock assigns the node its address block, as Calico's IPAM does.
func (l *Lab) createBlock(ctx context.Context, n *node) error {
	if l.options.Etcd {
		_, err := l.backend.Create(ctx, &model.KVPair{
			Key: l.blockKey(n), Value: &model.BlockAffinity{State: model.StateConfirmed},
		})
		return err
	}
	for _, block := range l.Families(n.block) {
		affinity := libapiv3.NewBlockAffinity()
		affinity.Name = n.blockName(block)
		affinity.Spec = libapiv3.BlockAffinitySpec{
			State: string(model.StateConfirmed), Node: n.spec.Name, Type: "host", CIDR: block.String(), Deleted: "false",
		}
		if _, err := l.calico.BlockAffinities().Create(ctx, affinity, options.SetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// deleteNode deletes the objects of a node: Node, address block and pods. They may be deleted already.
func (l *Lab) deleteNode(ctx context.Context, n *node) error {
	errs := []error{l.kube.CoreV1().Nodes().Delete(ctx, n.spec.Name, metav1.DeleteOptions{})}
	if l.options.Etcd {
		_, err := l.calico.Nodes().Delete(ctx, l.calicoName(n), options.DeleteOptions{})
		_, blockErr := l.backend.Delete(ctx, l.blockKey(n), "")
		for _, err := range []error{err, blockErr} {
			if _, gone := err.(cerrors.ErrorResourceDoesNotExist); !gone { //nolint:errorlint // it is not wrapped
				errs = append(errs, err)
			}
		}
	}
	for _, block := range l.Families(n.block) {
		path := "/apis/crd.projectcalico.org/v1/blockaffinities/" + n.blockName(block)
		errs = append(errs, l.kube.CoreV1().RESTClient().Delete().AbsPath(path).Do(ctx).Error())
	}
	errs = append(errs, l.deleteCalicoNode(ctx, n))
	pods, err := l.kube.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.spec.Name})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		errs = append(errs, l.removePod(ctx, &pods.Items[i]))
	}
	return errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}

// calicoName returns Calico's name of a node. With its own etcd it differs from that of Kubernetes, to test that.
func (l *Lab) calicoName(n *node) string {
	if l.options.Etcd {
		return "calico-" + n.spec.Name
	}
	return n.spec.Name
}

func (l *Lab) blockKey(n *node) model.BlockAffinityKey {
	return model.BlockAffinityKey{CIDR: cnet.MustParseCIDR(n.block.String()), Host: l.calicoName(n), AffinityType: "host"}
}

func (n *node) blockName(block netip.Prefix) string {
	return n.spec.Name + "-" + strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(block.String())
}
