package iks

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Platform is the cloud.Platform of IBM Cloud Kubernetes Service.
type Platform struct{}

var _ cloud.Platform = Platform{}

// Type implements cloud.Platform.
func (Platform) Type() v1alpha1.ProviderType { return v1alpha1.ProviderIKS }

// workerIDLabel is IKS's label for a node's worker ID.
const workerIDLabel = "ibm-cloud.kubernetes.io/worker-id"

// providerIDPattern matches ibm://account///cluster/worker. Other providerIDs of IBM Cloud begin in the same way, as karpenter's ibm:///region/instance.
var providerIDPattern = regexp.MustCompile(`^ibm://[^/]*///([A-Za-z0-9][A-Za-z0-9_-]{0,63})/([A-Za-z0-9][A-Za-z0-9._-]{0,127})$`)

// IdentityOf implements cloud.Platform.
func (Platform) IdentityOf(n plan.Node) (out cloud.Identity) {
	out.OfCloud = strings.HasPrefix(n.ProviderID, "ibm://")
	if parts := providerIDPattern.FindStringSubmatch(n.ProviderID); parts != nil {
		out.ClusterID, out.WorkerID = parts[1], parts[2]
	}
	if id := n.Labels[workerIDLabel]; id != "" {
		out.WorkerID, out.Protected = id, true
	}
	return out
}

// Names of zones: a VPC zone has its region's, us-south-1, and a classic one that of its metro, dal10. IBM's list of locations gives the
// regions of the metros.
var (
	zonePattern = regexp.MustCompile(`^(?:([a-z]+-[a-z]+)-\d+|([a-z]{3})\d+)$`)
	metros      = map[string]string{
		"dal": "us-south", "wdc": "us-east", "fra": "eu-de", "lon": "eu-gb", "mad": "eu-es", "tok": "jp-tok",
		"osa": "jp-osa", "syd": "au-syd", "tor": "ca-tor", "sao": "br-sao",
	}
)

// regionOf gives the region of a zone, or its metro in classic; "" for a name of another form.
func regionOf(zone string) string {
	if parts := zonePattern.FindStringSubmatch(zone); parts != nil {
		return parts[1] + parts[2]
	}
	return ""
}

// Region implements cloud.Platform. The first node that has a region counts, by a label or by its zone.
func (Platform) Region(nodes []plan.Node) string {
	for _, label := range []string{"ibm-cloud.kubernetes.io/region", corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion} {
		for _, node := range nodes {
			if name := node.Labels[label]; name != "" {
				return name
			}
		}
	}
	for _, label := range []string{"ibm-cloud.kubernetes.io/zone", corev1.LabelTopologyZone} {
		for _, node := range nodes {
			region := regionOf(node.Labels[label])
			if of, classic := metros[region]; classic {
				return of
			}
			if strings.Contains(region, "-") {
				return region
			}
		}
	}
	return ""
}

// clusterInfo is the ConfigMap in which IKS writes a cluster's own ID, under clusterInfoKey.
var clusterInfo = client.ObjectKey{Namespace: "kube-system", Name: "cluster-info"}

const clusterInfoKey = "cluster-config.json"

// clusterIDPattern is what spec.provider.iks.clusterID must match, as the ID becomes part of the URLs of requests.
var clusterIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ClusterID implements cloud.Platform.
func (Platform) ClusterID(ctx context.Context, live client.Reader) (string, error) {
	unknown := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("ConfigMap %q in namespace %q "+format, append([]any{clusterInfo.Name, clusterInfo.Namespace}, args...)...)
	}
	info := &corev1.ConfigMap{}
	switch err := live.Get(ctx, clusterInfo, info); {
	case apierrors.IsNotFound(err):
		return unknown("does not exist")
	case err != nil:
		return unknown("cannot be read: %w", err)
	}
	var content struct {
		ClusterID string `json:"cluster_id"`
	}
	if err := json.Unmarshal([]byte(info.Data[clusterInfoKey]), &content); err != nil || content.ClusterID == "" {
		return unknown("has no field cluster_id in its key %s", clusterInfoKey)
	}
	if !clusterIDPattern.MatchString(content.ClusterID) {
		return unknown("has %.80q as cluster_id in its key %s, which is no cluster ID", content.ClusterID, clusterInfoKey)
	}
	return content.ClusterID, nil
}
