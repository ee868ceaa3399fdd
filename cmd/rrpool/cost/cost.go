// Package cost is the command `rrpool cost`: what the nodes of the pool cost.
package cost

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

type flags struct {
	cluster.Access
	hourly, priceBook string
	output            string
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "cost",
		Short: "What the pool of route reflectors costs",
		Long: `What the workers of the pool cost per month and year, by zone and flavor; their share of the bill for all
workers of the cluster; and what other sizes would cost. The full mesh costs nothing extra, and neither do route
reflectors on existing nodes. Without a cluster, rrpool plan --nodes says what the pool of an invented one costs.

Prices are list prices of public sources, each with its date, before tax and discounts. A price without a source is
unknown: give --hourly-price or --price-book.`,
		Example: `  rrpool cost
  rrpool cost --hourly-price 0.11
  rrpool cost -o json`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	set := cmd.Flags()
	set.Func("hourly-price", "`price` of one worker of the pool for one hour; comes before every price book", func(amount string) error {
		f.hourly = amount
		_, err := cost.ParseDecimal(amount)
		return err
	})
	iostreams.CompleteNothing(cmd, "hourly-price")
	set.StringVar(&f.priceBook, "price-book", "", "`file` with prices that come before the built-in ones")
	iostreams.Output(cmd, &f.output)
	f.Register(set)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	prices, err := f.prices()
	if err != nil {
		return err
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	object, nodes, err := connection.Read(cmd.Context())
	if err != nil {
		return err
	}
	p := factsOf(connection.Name, object, nodes)
	p.Prices, p.Sizes = prices, sets.List(sets.New(1, 3, 6, 9, len(p.Pool), p.wanted).Delete(0))
	if f.hourly != "" {
		p.PoolPrice = &cost.Entry{
			Flavor: p.Model.Flavor, Region: p.Model.Region, Price: cost.Amount(f.hourly), Currency: prices[0].Currency,
			Source: "--hourly-price", Date: s.Now().UTC().Format(time.DateOnly),
		}
	}
	v := newView(cmd.CommandPath(), p, s.Now())
	return s.Print("report", f.output, v, func(s iostreams.Streams) { printTable(s, v) })
}

// prices returns the prices of --price-book, followed by the built-in prices if both have the same currency.
func (f *flags) prices() (cost.Book, error) {
	if f.priceBook == "" {
		return cost.Builtin(), nil
	}
	content, err := os.ReadFile(f.priceBook)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %q cannot be read: %w: give the name of a file (docs/cost.md has an example)", f.priceBook, iostreams.Reason(err))
	}
	own, err := cost.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %s: %w", f.priceBook, err)
	}
	if own[0].Currency == cost.Currency {
		own = append(own, cost.Builtin()...)
	}
	return own, nil
}

// facts are the workers of a cluster, in its pool and outside the pool.
type facts struct {
	// cluster is the name of the kubeconfig's context.
	cluster string
	// object has all defaults if none is stored.
	object *v1alpha1.RouteReflectorPool
	stored bool
	// Input is what the costs are computed from. Its Model is the kind of worker that would be added to the pool.
	cost.Input
	// wanted is the size that the pool is to have, 0 when it is unknown.
	wanted int
}

func factsOf(name string, object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) facts {
	f := facts{cluster: name, object: cmp.Or(object, crd.Default()), stored: object != nil}
	f.Rest = []cost.Machine{}
	f.Pool, f.Existing = PoolOf(f.object, nodes)
	spec := f.object.Spec
	for _, node := range nodes {
		if !inPool(node, f.Existing, spec.Provider.IKS.PoolName) {
			f.Rest = append(f.Rest, cost.MachineOf(node.Labels, spec.Topology.ZoneLabel))
		}
	}
	zones := sets.New(spec.Provider.IKS.Zones...)
	if len(zones) == 0 || f.Existing {
		zones = sets.New[string]()
		for _, worker := range f.Rest {
			zones.Insert(worker.Zone)
		}
	}
	if spec.Mode != v1alpha1.ModeFullMesh {
		f.wanted = wanted(f.object, len(f.Rest), len(zones))
	}
	f.Model = f.another(spec.Provider.IKS.Flavor, sets.List(zones))
	return f
}

// PoolOf returns the workers of the pool, and whether they are existing nodes, which cost nothing extra.
func PoolOf(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) (workers []cost.Machine, existing bool) {
	spec := object.Spec
	switch {
	case object.Status.Provider != "":
		existing = object.Status.Provider == "existing"
	case spec.Provider.Type != v1alpha1.ProviderAuto && spec.Provider.Type != "":
		existing = spec.Provider.Type == v1alpha1.ProviderExistingNodes
	default: // as the manager resolves Auto
		existing = !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "ibm://") })
	}
	for _, node := range nodes {
		if inPool(node, existing, spec.Provider.IKS.PoolName) {
			workers = append(workers, cost.MachineOf(node.Labels, spec.Topology.ZoneLabel))
		}
	}
	return workers, existing
}

func inPool(node corev1.Node, existing bool, poolName string) bool {
	pool := node.Labels[v1alpha1.PoolLabel]
	return existing && pool != "" || pool == poolName
}

// wanted returns the pool's desired size in the status, else its size by spec.sizing; 0 is unknown.
func wanted(object *v1alpha1.RouteReflectorPool, nodes, zones int) int {
	total := 0
	for _, zone := range object.Status.Zones {
		total += int(zone.Desired)
	}
	if total > 0 || zones == 0 {
		return total
	}
	perZone, _ := sizing.Reflectors(object.Spec.Sizing, nodes, zones) // 0 on an error: unknown
	return perZone * zones
}

// classicZone matches a zone of classic infrastructure, such as dal10.
var classicZone = regexp.MustCompile(`^[a-z]{3}\d{2}$`)

// another returns a worker as it would be added, with the flavor of the pool's workers, else of the spec, else the default.
func (f *facts) another(flavor string, zones []string) cost.Machine {
	var out cost.Machine
	for _, worker := range slices.Concat(f.Pool, f.Rest) {
		out.Region, out.OpenShift = cmp.Or(out.Region, worker.Region), out.OpenShift || worker.OpenShift
	}
	if len(f.Pool) > 0 && !f.Existing {
		flavor = f.Pool[0].Flavor
	}
	out.Flavor = cmp.Or(flavor, DefaultFlavor(f.Rest, zones))
	return out
}

// DefaultFlavor returns the flavor that is ordered if the spec names none. It depends on the zones and on
// rest, the cluster's other workers. If a zone does not offer this flavor, the provider orders another.
func DefaultFlavor(rest []cost.Machine, zones []string) string {
	machines := map[string]int{}
	for _, worker := range rest {
		machines[worker.Flavor]++
	}
	return iks.DefaultFlavors(slices.ContainsFunc(zones, classicZone.MatchString), machines)[0]
}

// String says what the report is about.
func (f *facts) String() string {
	what := "the pool of " + iostreams.Number(len(f.Pool), "worker")
	if f.Existing {
		what = "route reflectors on " + iostreams.Number(len(f.Pool), "existing node")
	}
	return what + ", cluster " + f.cluster
}

// note says if the workers cost nothing, cost until the pool is deleted, or do not cost yet; else it is empty.
func (f *facts) note() string {
	missing, mesh := f.wanted-len(f.Pool), f.object.Spec.Mode == v1alpha1.ModeFullMesh
	switch {
	case f.Existing:
		return "Existing nodes cost nothing extra."
	case len(f.Pool) > 0 && (mesh || !f.stored):
		return "The pool still exists, and costs until it is deleted."
	case missing > 0 && !f.stored:
		return fmt.Sprintf("With the defaults the pool would have %s of flavor %s.", iostreams.Number(f.wanted, "worker"), f.Model.Flavor)
	case missing > 0:
		return fmt.Sprintf("The pool gets %s of flavor %s, and %d of them are not nodes yet: a worker costs from the end of its provisioning.",
			iostreams.Number(f.wanted, "worker"), f.Model.Flavor, missing)
	}
	return ""
}
