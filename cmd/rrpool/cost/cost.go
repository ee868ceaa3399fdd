// Package cost is the command that says what the route-reflector pool costs.
package cost

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// costFlags are the flags of `rrpool cost`.
type costFlags struct {
	cluster.Access
	set                               *pflag.FlagSet
	nodes, clusterNodes, zones, hours iostreams.Count
	flavor, region, currency          word
	price                             price
	priceBook, outputFile             string
	refresh                           bool
	output                            *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &costFlags{
		nodes:        iostreams.Count{Least: 1, Most: 10000},
		clusterNodes: iostreams.Count{Least: 1, Most: 100000},
		zones:        iostreams.Count{Least: 1, Most: 100},
		hours:        iostreams.Count{Value: cost.HoursPerMonth, Least: 1, Most: 744},
		flavor:       word{kind: "flavor", check: cost.CheckFlavor},
		region:       word{kind: "region", check: cost.CheckRegion},
		currency:     word{kind: "currency", check: cost.CheckCurrency, Value: cost.Currency},
		output:       iostreams.NewChoice("table", "json", "csv", "html"),
	}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "What the route-reflector pool costs",
		Long: `What the workers of the route-reflector pool cost per hour, month and year, by zone and flavor; which share
of the bill for all workers of the cluster that is; and what other sizes would cost. The full mesh costs nothing
extra, and neither do reflectors on existing nodes.

Without flags it looks at the cluster of the kubeconfig. With --nodes, --cluster-nodes, --zones, --flavor,
--region or --hourly-price it is about a pool that you think of, and needs no cluster; give --kubeconfig or
--context as well, and what you leave open is taken from that cluster.

Prices are list prices of public sources, each with its date, before tax and discounts. A price that no source
was found for is unknown: give --hourly-price or --price-book, or try --refresh.`,
		Example: `  rrpool cost
  rrpool cost --nodes 6 --zones 3 --hourly-price 0.11
  rrpool cost --cluster-nodes 500 --zones 3 --flavor bx2.4x16 --region eu-de
  rrpool cost -o html --output-file cost.html`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd)
	return cmd
}

func (f *costFlags) register(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.SortFlags = false
	f.set.Var(&f.nodes, "nodes", "workers in the pool, all zones together")
	f.set.Var(&f.clusterNodes, "cluster-nodes", "size the pool for a cluster of that many nodes instead, by the default sizing")
	f.set.Var(&f.zones, "zones", "zones of the pool; default 1")
	f.set.Var(&f.flavor, "flavor", "flavor of the workers, such as bx2.2x8")
	f.set.Var(&f.region, "region", "region of the workers, such as eu-de")
	f.set.Var(&f.price, "hourly-price", "price of one worker of the pool for one hour; counts before any price book")
	f.set.Var(&f.currency, "currency", "currency of the prices")
	f.set.Var(&f.hours, "hours-per-month", "hours in a month; 730 is a twelfth of a year")
	f.set.StringVar(&f.priceBook, "price-book", "", "file with prices that count before the built-in ones")
	f.set.BoolVar(&f.refresh, "refresh", false, "ask the IBM Cloud Global Catalog for the prices first")
	f.output.Register(cmd, "output", "o", "format: table, json, csv or html")
	f.set.StringVar(&f.outputFile, "output-file", "", "write to this file instead of standard output")
	f.Register(f.set)
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, flag := range []string{"nodes", "cluster-nodes", "zones", "flavor", "region", "hourly-price", "currency", "hours-per-month"} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, none))
	}
}

func (f *costFlags) given(flag string) bool { return f.set.Changed(flag) }

// imagined says that the question is about a pool that somebody thinks of.
func (f *costFlags) imagined() bool {
	for _, flag := range []string{"nodes", "cluster-nodes", "zones", "flavor", "region", "hourly-price"} {
		if f.given(flag) {
			return true
		}
	}
	return false
}

func (f *costFlags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if f.given("nodes") && f.given("cluster-nodes") {
		return fmt.Errorf("--nodes %d and --cluster-nodes %d exclude each other: give the size of the pool, or that of the cluster", f.nodes.Value, f.clusterNodes.Value)
	}
	own, err := f.ownPrices()
	if err != nil {
		return err
	}
	found, err := f.look(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w; without a cluster: %s --nodes 3 --hourly-price 0.11", err, cmd.CommandPath())
	}
	question, err := f.question(found)
	if err != nil {
		return err
	}
	shelf, notes, err := f.shelf(cmd.Context(), s, own, question)
	if err != nil {
		return err
	}
	if err := f.priced(shelf, question); err != nil {
		return err
	}
	v := newView(cmd.CommandPath(), question, f.compute(question, shelf, s.Now()), s.Now())
	v.Warnings = append(notes, v.Warnings...)
	render := map[string]func(iostreams.Streams, view) error{"table": tableOf, "json": jsonOf, "csv": csvOf, "html": htmlOf}[f.output.Value]
	return s.Emit("report", f.outputFile, func(s iostreams.Streams) error { return render(s, v) })
}

// compute asks for what the question is about.
func (f *costFlags) compute(q question, shelf cost.Shelf, now time.Time) cost.Report {
	in := cost.Input{
		Pool: q.pool, Existing: q.existing, Rest: q.rest, Prices: shelf, Currency: f.currency.Value,
		HoursPerMonth: f.hours.Value, Sizes: q.sizes(), Model: q.model, Now: now,
	}
	if f.given("hourly-price") {
		in.PoolPrice = &cost.Entry{
			Flavor: q.model.Flavor, Region: q.model.Region, Hourly: f.price.Value, Currency: f.currency.Value,
			Source: "--hourly-price", Date: now,
		}
	}
	return cost.Compute(in)
}

// ownPrices are those of --price-book, empty without one.
func (f *costFlags) ownPrices() (cost.Shelf, error) {
	if !f.given("price-book") {
		return nil, nil
	}
	content, err := os.ReadFile(f.priceBook)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %q cannot be read: %w: give the name of a file (docs/cost.md has one to start from)", f.priceBook, iostreams.Reason(err))
	}
	book, err := cost.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %s: %w", f.priceBook, err)
	}
	own := cost.Shelf{book}
	switch currencies := own.Currencies(); {
	case f.given("currency"):
	case len(currencies) > 1:
		return nil, fmt.Errorf("--price-book: %s has prices in %s: say with --currency which of them count", f.priceBook, strings.Join(currencies, ", "))
	default:
		f.currency.Value = currencies[0]
	}
	return own, nil
}

// look reads the cluster; nil when it is not asked about.
func (f *costFlags) look(ctx context.Context) (*cluster.Cluster, error) {
	if f.imagined() && !f.given("kubeconfig") && !f.given("context") {
		return nil, nil
	}
	connection, err := f.Connect()
	if err != nil {
		return nil, err
	}
	return connection.Read(ctx)
}

func (f *costFlags) question(found *cluster.Cluster) (question, error) {
	switch {
	case found == nil:
		return f.imagine(facts{mode: v1alpha1.ModeRouteReflector}, "")
	case f.imagined():
		return f.imagine(factsOf(found), found.Name)
	default:
		return question{facts: factsOf(found), cluster: found.Name}, nil
	}
}
