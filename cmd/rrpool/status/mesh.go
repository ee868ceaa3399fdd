package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Mesh is the node-to-node mesh.
type Mesh struct {
	// State is on, off, or unknown.
	State string `json:"state"`
	// Why it is unknown.
	Why string `json:"why,omitempty"`
	// Nodes that it joins while it is on, 0 where nobody has looked; Pooled are those of
	// them in the dedicated pool, NotReady those that Kubernetes calls so. The manager
	// counts only whom it has to carry: it leaves both out.
	Nodes    int `json:"nodes,omitempty"`
	Pooled   int `json:"pooled,omitempty"`
	NotReady int `json:"notReady,omitempty"`
}

// Annotations that Calico takes a node's part in BGP from.
const (
	ipv4Annotation      = "projectcalico.org/IPv4Address"
	ipv6Annotation      = "projectcalico.org/IPv6Address"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
)

// count looks whom a mesh that is on joins: every node that speaks BGP and is no route
// reflector.
func (m *Mesh) count(nodes []corev1.Node, object *v1alpha1.RouteReflectorPool) {
	if m.State != meshOn {
		return
	}
	for _, node := range nodes {
		if !speaksBGP(node) || node.Annotations[clusterIDAnnotation] != "" {
			continue
		}
		m.Nodes++
		if dedicated(node, object) {
			m.Pooled++
		} else if nodeState(node.Name, []corev1.Node{node}) != nodeReady {
			m.NotReady++
		}
	}
}

// dedicated: the node is there for nothing but reflecting.
func dedicated(node corev1.Node, object *v1alpha1.RouteReflectorPool) bool {
	return object != nil && object.Status.Provider != "existing" && node.Labels[v1alpha1.PoolLabel] == object.Spec.Provider.IKS.PoolName
}

// speaksBGP: the node has an address that Calico can read.
func speaksBGP(node corev1.Node) bool {
	return slices.ContainsFunc([]string{ipv4Annotation, ipv6Annotation}, func(key string) bool {
		value := node.Annotations[key]
		addr, err := netip.ParseAddr(value)
		if prefix, failed := netip.ParsePrefix(value); failed == nil {
			addr, err = prefix.Addr(), nil
		}
		return err == nil && addr.Unmap().Is4() == (key == ipv4Annotation)
	})
}

// text is the mesh in words.
func (m Mesh) text() string {
	out := m.State
	if m.Why != "" {
		out += ": " + m.Why
	}
	if m.Nodes > 0 {
		out += fmt.Sprintf(", %d nodes", m.Nodes)
	}
	if m.Pooled > 0 {
		out += fmt.Sprintf(", %d of them in the pool", m.Pooled)
	}
	if m.NotReady > 0 {
		out += fmt.Sprintf(", %d not Ready", m.NotReady)
	}
	return out
}

// The states of the mesh.
const (
	meshOn      = "on"
	meshOff     = "off"
	meshUnknown = "unknown"
)

const (
	meshPath     = "/apis/crd.projectcalico.org/v1/bgpconfigurations/default"
	meshResource = "bgpconfigurations.crd.projectcalico.org"
)

// findMesh reads the switch of the mesh. Without the right to, or without Calico, it
// says so.
func findMesh(ctx context.Context, c *cluster.Connection) Mesh {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	raw, err := coordination.NewForConfig(c.Config)
	if err != nil {
		return Mesh{State: meshUnknown, Why: err.Error()}
	}
	result := raw.RESTClient().Get().AbsPath(meshPath).Do(ctx)
	switch err := result.Error(); {
	case err == nil:
	case cluster.IsMissing(err):
		return Mesh{State: meshOn} // Calico's own default
	case apierrors.IsNotFound(err):
		return Mesh{State: meshUnknown, Why: "the cluster has no " + meshResource + ": is Calico installed?"}
	default:
		return Mesh{State: meshUnknown, Why: c.Explain(err, "get", meshResource).Error()}
	}
	var found struct {
		Spec struct {
			Enabled *bool `json:"nodeToNodeMeshEnabled"`
		} `json:"spec"`
	}
	content, err := result.Raw()
	switch err := errors.Join(err, json.Unmarshal(content, &found)); {
	case err != nil:
		return Mesh{State: meshUnknown, Why: "the BGPConfiguration default cannot be read: " + err.Error()}
	case found.Spec.Enabled != nil && !*found.Spec.Enabled:
		return Mesh{State: meshOff}
	}
	return Mesh{State: meshOn}
}
