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
	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// facts are the pool that the report is about, and the other workers of its cluster.
type facts struct {
	// cluster is the context that was read, empty when none was.
	cluster string
	// stored: the cluster has a RouteReflectorPool. described: flags describe the pool.
	stored, described bool
	object            *v1alpha1.RouteReflectorPool
	// Input is what is computed. Its Rest is nil when no cluster was read, its Model one worker that would be added.
	cost.Input
	// currency is that of all prices.
	currency string
	zones    []string
	// wanted is the size of the complete pool, 0 when it is unknown.
	wanted int
	// nodes is the value of --nodes.
	nodes int
}

// factsOf reads the facts of a cluster, nil for none.
func factsOf(c *cluster.Cluster) facts {
	f := facts{object: crd.Default()}
	if c == nil {
		return f
	}
	f.cluster, f.Rest, f.stored, f.object = c.Name, []cost.Worker{}, c.Pool != nil, cmp.Or(c.Pool, f.object)
	f.Pool, f.Existing = PoolOf(f.object, c.Nodes)
	spec := f.object.Spec
	for _, node := range c.Nodes {
		if !inPool(node, f.Existing, spec.Provider.IKS.PoolName) {
			f.Rest = append(f.Rest, cost.WorkerOf(node.Labels, spec.Topology.ZoneLabel))
			f.zones = append(f.zones, f.Rest[len(f.Rest)-1].Zone)
		}
	}
	if len(spec.Provider.IKS.Zones) > 0 && !f.Existing {
		f.zones = spec.Provider.IKS.Zones
	}
	f.zones = slices.Compact(slices.Sorted(slices.Values(f.zones)))
	if spec.Mode != v1alpha1.ModeFullMesh {
		f.wanted = wanted(f.object, len(f.Rest), len(f.zones))
	}
	f.Model = f.another(spec.Provider.IKS.Flavor)
	return f
}

// PoolOf gives the workers of the pool. existing: they are existing nodes, which cost nothing extra.
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
	pool := node.Labels[v1alpha1.PoolLabel]
	return existing && pool != "" || pool == poolName
}

// wanted is the size in the status, else what spec.sizing gives for the nodes.
func wanted(object *v1alpha1.RouteReflectorPool, nodes, zones int) int {
	total := 0
	for _, zone := range object.Status.Zones {
		total += int(zone.Desired)
	}
	if total > 0 || zones == 0 {
		return total
	}
	perZone, _ := invent.PerZone(object.Spec.Sizing, nodes, 0, zones) // 0 is unknown
	return perZone * zones
}

// classicZone is the form of a zone of classic infrastructure, such as dal10.
var classicZone = regexp.MustCompile(`^[a-z]{3}\d{2}$`)

// another is a worker like those of the pool, else as the spec or the provider has it.
func (f *facts) another(flavor string) cost.Worker {
	var out cost.Worker
	for _, worker := range slices.Concat(f.Pool, f.Rest) {
		out.Region = cmp.Or(out.Region, worker.Region)
	}
	if len(f.Pool) > 0 && !f.Existing {
		flavor = f.Pool[0].Flavor
	}
	out.Flavor = cmp.Or(flavor, iks.DefaultFlavorVPC)
	if flavor == "" && slices.ContainsFunc(f.zones, classicZone.MatchString) {
		out.Flavor = iks.DefaultFlavorClassic
	}
	return out
}

// describe replaces the pool by the one that the flags describe.
func (f *flags) describe(p *facts) error {
	p.described, p.Existing, p.nodes = true, false, f.nodes.Value
	p.Model.Flavor, p.Model.Region = cmp.Or(f.flavor, p.Model.Flavor), cmp.Or(f.region, p.Model.Region)
	if p.Model.Flavor == "" && f.hourly == "" {
		p.Model.Flavor = iks.DefaultFlavorVPC
	}
	if f.given("zones") || len(p.zones) == 0 {
		p.zones = invent.Names("zone-", max(f.zones.Value, 1))
	}
	zones := len(p.zones)
	perZone := p.wanted / zones
	if perZone == 0 || f.given("nodes") || f.given("zones") || f.given("reflectors") {
		var err error
		if perZone, err = invent.PerZone(p.object.Spec.Sizing, p.nodes, f.reflectors.Value, zones); err != nil {
			return err
		}
	}
	p.Pool, p.wanted = nil, perZone*zones
	for _, zone := range p.zones {
		p.Pool = append(p.Pool, slices.Repeat([]cost.Worker{{Zone: zone, Region: p.Model.Region, Flavor: p.Model.Flavor}}, perZone)...)
	}
	return nil
}

// String is what the report is about.
func (f *facts) String() string {
	what := "pool of " + iostreams.Number(len(f.Pool), "worker")
	switch {
	case f.nodes > 0:
		what = fmt.Sprintf("a %s, for %s that run workloads", what, iostreams.Number(f.nodes, "node"))
	case f.described:
		what = "a " + what
	case !f.Existing:
		what = "the " + what
	default:
		what = "route reflectors on " + iostreams.Number(len(f.Pool), "existing node")
	}
	if f.cluster != "" {
		what += ", cluster " + f.cluster
	}
	return what
}

// note says what of the pool costs, or does not yet; "" for nothing.
func (f *facts) note() string {
	missing, mesh := f.wanted-len(f.Pool), f.object.Spec.Mode == v1alpha1.ModeFullMesh
	switch {
	case f.Existing:
		return "Existing nodes cost nothing extra."
	case f.described:
		return ""
	case len(f.Pool) > 0 && (mesh || !f.stored):
		return "The pool still exists, and costs until it is deleted."
	case missing > 0 && !f.stored:
		return "With the defaults the pool would have " + iostreams.Number(f.wanted, "worker") + "."
	case missing > 0:
		return fmt.Sprintf("The pool gets %s, and %d of them are not nodes yet: a worker costs from the end of its provisioning.",
			iostreams.Number(f.wanted, "worker"), missing)
	}
	return ""
}
