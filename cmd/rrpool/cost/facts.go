package cost

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

const (
	providerScheme = "ibm://"
	// existingProvider is how a status calls nodes that are there anyway.
	existingProvider = "existing"
)

// classicZone is the form of a zone of classic infrastructure, such as dal10.
var classicZone = regexp.MustCompile(`^[a-z]{3}\d{2}$`)

// facts are what a cluster says about the cost of its pool.
type facts struct {
	exists, existing bool
	mode             v1alpha1.Mode
	pool, rest       []cost.Worker
	zones            []string
	// wanted is the size of the pool when it is complete, 0 when it cannot be told.
	wanted int
	// model is one worker that would be added.
	model cost.Worker
}

func factsOf(c *cluster.Cluster) facts {
	object := c.Pool
	if object == nil {
		object = &v1alpha1.RouteReflectorPool{Spec: defaults()}
	}
	spec := object.Spec
	f := facts{exists: c.Pool != nil, mode: spec.Mode}
	f.pool, f.existing = PoolOf(object, c.Nodes)
	ready := 0
	for _, node := range c.Nodes {
		if pooled(node, f.existing, spec.Provider.IKS.PoolName) {
			continue
		}
		worker := cost.WorkerOf(node.Labels, spec.Topology.ZoneLabel)
		f.rest = append(f.rest, worker)
		f.zones = append(f.zones, worker.Zone)
		if isReady(node) {
			ready++
		}
	}
	if f.rest == nil {
		f.rest = []cost.Worker{}
	}
	slices.Sort(f.zones)
	f.zones = slices.Compact(f.zones)
	if len(spec.Provider.IKS.Zones) > 0 && !f.existing {
		f.zones = slices.Sorted(slices.Values(spec.Provider.IKS.Zones))
	}
	if f.mode != v1alpha1.ModeFullMesh {
		f.wanted = wanted(object, ready, len(f.zones))
	}
	f.model = f.another(spec.Provider.IKS.Flavor)
	return f
}

// PoolOf gives the nodes of the pool as somebody pays for them. existing: they are nodes
// that the cluster has anyway, and cost nothing extra.
func PoolOf(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) (workers []cost.Worker, existing bool) {
	spec := object.Spec
	existing = existingNodes(object, nodes)
	for _, node := range nodes {
		if pooled(node, existing, spec.Provider.IKS.PoolName) {
			workers = append(workers, cost.WorkerOf(node.Labels, spec.Topology.ZoneLabel))
		}
	}
	return workers, existing
}

// defaults is the spec of a pool that nobody has asked for yet, as far as we use it.
func defaults() v1alpha1.RouteReflectorPoolSpec {
	return v1alpha1.RouteReflectorPoolSpec{
		Provider: v1alpha1.ProviderSpec{Type: v1alpha1.ProviderAuto, IKS: v1alpha1.IKSSpec{PoolName: "route-reflectors"}},
		Sizing:   v1alpha1.SizingSpec{Method: v1alpha1.SizingPerHundred, Ratio: "0.005", Min: 3, Max: 25, MinPerZone: 1},
		Topology: v1alpha1.TopologySpec{ZoneLabel: corev1.LabelTopologyZone},
	}
}

// existingNodes is what the manager has found out, else what it would.
func existingNodes(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) bool {
	if object.Status.Provider != "" {
		return object.Status.Provider == existingProvider
	}
	if kind := object.Spec.Provider.Type; kind != v1alpha1.ProviderAuto && kind != "" {
		return kind == v1alpha1.ProviderExistingNodes
	}
	return !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, providerScheme) })
}

func pooled(node corev1.Node, existing bool, poolName string) bool {
	return existing && node.Labels[v1alpha1.PoolLabel] != "" || cost.InPool(node.Labels, poolName)
}

func isReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// wanted is what the manager works towards, else what the rule gives for the nodes
// that are Ready.
func wanted(object *v1alpha1.RouteReflectorPool, ready, zones int) int {
	total := 0
	for _, zone := range object.Status.Zones {
		total += int(zone.Desired)
	}
	if total > 0 || zones == 0 {
		return total
	}
	size, err := sizing.Reflectors(object.Spec.Sizing, ready, zones)
	if err != nil {
		return 0
	}
	return size.PerZone * zones
}

// another is a worker like those that are there, or as the spec has it.
func (f facts) another(flavor string) cost.Worker {
	out := cost.Worker{Region: region(f.pool, f.rest), Flavor: flavor}
	if len(f.pool) > 0 && !f.existing {
		out.Flavor = f.pool[0].Flavor
	}
	if out.Flavor == "" {
		out.Flavor = iks.DefaultFlavorVPC
		if slices.ContainsFunc(f.zones, classicZone.MatchString) {
			out.Flavor = iks.DefaultFlavorClassic
		}
	}
	return out
}

// region is the one that the first worker says it is in.
func region(lists ...[]cost.Worker) string {
	for _, worker := range slices.Concat(lists...) {
		if worker.Region != "" {
			return worker.Region
		}
	}
	return ""
}
