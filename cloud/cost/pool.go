package cost

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Labels that say what a node is paid for. IBM's own come first: the others can be
// changed by whoever may change nodes.
var (
	flavorLabels = []string{"ibm-cloud.kubernetes.io/machine-type", corev1.LabelInstanceTypeStable}
	regionLabels = []string{"ibm-cloud.kubernetes.io/region", corev1.LabelTopologyRegion}
)

// encrypted is what IKS adds to a flavor whose disks are encrypted, at the same price.
const encrypted = ".encrypted"

// InPool says whether a node with these labels is paid for as one of the worker pool of
// that name.
func InPool(labels map[string]string, name string) bool {
	return name != "" && labels[v1alpha1.PoolLabel] == name
}

// WorkerOf is the worker behind a node with these labels.
func WorkerOf(labels map[string]string, zoneLabel string) Worker {
	return Worker{
		Zone:   cmp.Or(labels[zoneLabel], labels[corev1.LabelTopologyZone]),
		Region: RegionOf(labels),
		Flavor: strings.TrimSuffix(first(labels, flavorLabels), encrypted),
	}
}

// RegionOf is the region that a node's labels name, "" for none.
func RegionOf(labels map[string]string) string { return first(labels, regionLabels) }

func first(labels map[string]string, keys []string) string {
	for _, key := range keys {
		if value := labels[key]; value != "" {
			return value
		}
	}
	return ""
}
