package cost

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

// facts are the pool that the report is about, and the other workers of its cluster.
type facts struct {
	// cluster is the context that was read, empty when none was.
	cluster string
	// stored: the cluster has a RouteReflectorPool. described: flags describe the pool.
	// existing: the reflectors are existing nodes.
	stored, described, existing bool
	mode                        v1alpha1.Mode
	sizing                      v1alpha1.SizingSpec
	// rest are the cluster's workers outside the pool, nil when no cluster was read.
	pool, rest []cost.Worker
	zones      []string
	// wanted is the size of the complete pool, 0 when it is unknown.
	wanted int
	// nodes is the value of --nodes.
	nodes int
	// model is one worker that would be added.
	model cost.Worker
}

// factsOf reads the facts of a cluster, nil for none.
func factsOf(c *cluster.Cluster) (facts, error) {
	object, err := crd.Default()
	if err != nil {
		return facts{}, err
	}
	if c == nil {
		return facts{mode: object.Spec.Mode, sizing: object.Spec.Sizing}, nil
	}
	f := facts{cluster: c.Name, stored: c.Pool != nil, rest: []cost.Worker{}}
	if f.stored {
		object = c.Pool
	}
	spec := object.Spec
	f.mode, f.sizing = spec.Mode, spec.Sizing
	f.pool, f.existing = PoolOf(object, c.Nodes)
	ready := 0
	isReady := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	for _, node := range c.Nodes {
		if inPool(node, f.existing, spec.Provider.IKS.PoolName) {
			continue
		}
		worker := cost.WorkerOf(node.Labels, spec.Topology.ZoneLabel)
		f.rest = append(f.rest, worker)
		f.zones = append(f.zones, worker.Zone)
		if slices.ContainsFunc(node.Status.Conditions, isReady) {
			ready++
		}
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
	return f, nil
}

// PoolOf gives the workers of the pool. existing: they are existing nodes, which cost
// nothing extra.
func PoolOf(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) (workers []cost.Worker, existing bool) {
	spec := object.Spec
	switch {
	case object.Status.Provider != "":
		existing = object.Status.Provider == "existing"
	case spec.Provider.Type != v1alpha1.ProviderAuto && spec.Provider.Type != "":
		existing = spec.Provider.Type == v1alpha1.ProviderExistingNodes
	default: // as the manager would resolve it
		existing = !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "ibm://") })
	}
	for _, node := range nodes {
		if inPool(node, existing, spec.Provider.IKS.PoolName) {
			workers = append(workers, cost.WorkerOf(node.Labels, spec.Topology.ZoneLabel))
		}
	}
	return workers, existing
}

func inPool(node corev1.Node, existing bool, poolName string) bool {
	return existing && node.Labels[v1alpha1.PoolLabel] != "" || cost.InPool(node.Labels, poolName)
}

// wanted is the size in the status, else what spec.sizing gives for the Ready nodes.
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

// classicZone is the form of a zone of classic infrastructure, such as dal10.
var classicZone = regexp.MustCompile(`^[a-z]{3}\d{2}$`)

// another is a worker like those of the pool, else as the spec or the provider has it.
func (f *facts) another(flavor string) cost.Worker {
	var out cost.Worker
	for _, worker := range slices.Concat(f.pool, f.rest) {
		out.Region = cmp.Or(out.Region, worker.Region)
	}
	if len(f.pool) > 0 && !f.existing {
		flavor = f.pool[0].Flavor
	}
	out.Flavor = cmp.Or(flavor, iks.DefaultFlavorVPC)
	if flavor == "" && slices.ContainsFunc(f.zones, classicZone.MatchString) {
		out.Flavor = iks.DefaultFlavorClassic
	}
	return out
}

// describe replaces the pool by the one that the flags describe.
func (f *flags) describe(p *facts) error {
	p.described, p.existing, p.nodes = true, false, f.nodes.Value
	p.model.Flavor = cmp.Or(f.flavor, p.model.Flavor)
	if p.model.Flavor == "" && !f.given("hourly-price") {
		p.model.Flavor = iks.DefaultFlavorVPC
	}
	p.model.Region = cmp.Or(f.region, p.model.Region)
	if f.given("zones") || len(p.zones) == 0 {
		p.zones = nil
		for i := range max(f.zones.Value, 1) {
			p.zones = append(p.zones, fmt.Sprintf("zone %d", i+1))
		}
	}
	perZone, err := f.perZone(*p)
	if err != nil {
		return err
	}
	p.pool, p.wanted = nil, perZone*len(p.zones)
	for _, zone := range p.zones {
		p.pool = append(p.pool, slices.Repeat([]cost.Worker{{Zone: zone, Region: p.model.Region, Flavor: p.model.Flavor}}, perZone)...)
	}
	return nil
}

// perZone is the number of workers in each zone, as --reflectors, the cluster or the sizing
// has it.
func (f *flags) perZone(p facts) (int, error) {
	zones, reflectors := len(p.zones), f.reflectors.Value
	switch {
	case reflectors%zones != 0:
		remedy := fmt.Sprint((reflectors/zones + 1) * zones)
		if below := reflectors / zones * zones; below > 0 {
			remedy = fmt.Sprintf("%d or %s", below, remedy)
		}
		return 0, fmt.Errorf("--reflectors: %d workers cannot be the same number in each of %d zones, as a worker pool has them: use %s, or other --zones", reflectors, zones, remedy)
	case reflectors > 0:
		return reflectors / zones, nil
	case !f.given("nodes") && !f.given("zones") && p.wanted >= zones:
		return p.wanted / zones, nil
	}
	size, err := sizing.Reflectors(p.sizing, p.nodes, zones)
	if err != nil {
		return 0, fmt.Errorf("--zones: %d does not fit the sizing: %w; or give --reflectors", zones, err)
	}
	return size.PerZone, nil
}

// sizes to compare: three usual ones, and those of the pool.
func (f *facts) sizes() []int {
	out := []int{3, 6, 9, len(f.pool), f.wanted}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(size int) bool { return size == 0 })
}

// flavors that the report needs prices of.
func (f *facts) flavors() []string {
	out := []string{f.model.Flavor}
	for _, worker := range slices.Concat(f.pool, f.rest) {
		out = append(out, worker.Flavor)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(flavor string) bool { return flavor == "" })
}
