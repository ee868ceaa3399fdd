// Package cost is the command `rrpool cost`: what the nodes of the pool cost.
package cost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/cost/catalog"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
)

type flags struct {
	cluster.Access
	set                              *pflag.FlagSet
	nodes, reflectors, zones, hours  iostreams.Count
	flavor, region, currency, hourly string
	priceBook                        string
	refresh                          bool
	output                           *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{
		nodes:      iostreams.Count{Least: 1, Most: 100000},
		reflectors: iostreams.Count{Least: 1, Most: 10000},
		zones:      iostreams.Count{Least: 1, Most: 100},
		hours:      iostreams.Count{Value: cost.HoursPerMonth, Least: 1, Most: 744},
		currency:   cost.Currency,
		output:     iostreams.NewChoice("table", "json", "yaml"),
	}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "What the pool of route reflectors costs",
		Long: `What the workers of the pool cost per hour, month and year, by zone and flavor; their share of the bill for all
workers of the cluster; and what other sizes would cost. The full mesh costs nothing extra, and neither do route
reflectors on existing nodes.

Without flags the report is about the cluster of the kubeconfig. With --nodes, --reflectors, --zones, --flavor,
--region or --hourly-price it is about a pool that these describe, and no cluster is read. Add --kubeconfig or
--context to take from that cluster what the flags leave open.

Prices are list prices of public sources, each with its date, before tax and discounts. A price without a source is
unknown: give --hourly-price or --price-book, or try --refresh.`,
		Example: `  rrpool cost
  rrpool cost --nodes 300 --zones 3 --hourly-price 0.11
  rrpool cost --reflectors 6 --zones 3 --flavor bx2.4x16 --region eu-de
  rrpool cost -o json`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd)
	return cmd
}

// description are the flags that describe a pool.
var description = []string{"nodes", "reflectors", "zones", "flavor", "region", "hourly-price"}

func (f *flags) register(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.SortFlags = false
	f.set.Var(&f.nodes, "nodes", "nodes that run workloads: the pool gets the size that spec.sizing gives for them")
	f.set.Var(&f.reflectors, "reflectors", "size of the pool, all zones together")
	f.set.Var(&f.zones, "zones", "zones of the pool; default 1")
	f.set.Func("flavor", "`flavor` of the workers, such as bx2.2x8", checked(&f.flavor, cost.CheckFlavor))
	f.set.Func("region", "`region` of the workers, such as eu-de", checked(&f.region, cost.CheckRegion))
	f.set.Func("hourly-price", "`price` of one worker of the pool for one hour; comes before every price book", checked(&f.hourly, func(amount string) error {
		_, err := cost.ParseDecimal(amount)
		return err
	}))
	f.set.Func("currency", "`currency` of the prices; default USD", checked(&f.currency, cost.CheckCurrency))
	f.set.Var(&f.hours, "hours-per-month", "hours in a month; 730 is a twelfth of a year")
	f.set.StringVar(&f.priceBook, "price-book", "", "`file` with prices that come before the built-in ones")
	f.set.BoolVar(&f.refresh, "refresh", false, "get the prices of the IBM Cloud Global Catalog first")
	f.output.Register(cmd, "output", "o", "format: table, json or yaml")
	f.Register(f.set)
	for _, flag := range append(description, "currency", "hours-per-month") {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// checked is a flag for a string that check accepts. pflag names the flag and the value, so
// only the remedy is left of check's error.
func checked(to *string, check func(string) error) func(string) error {
	return func(value string) error {
		if err := check(value); err != nil {
			if _, remedy, found := strings.Cut(err.Error(), ": write "); found {
				return errors.New("write " + remedy)
			}
			return err
		}
		*to = value
		return nil
	}
}

func (f *flags) given(flag string) bool { return f.set.Changed(flag) }

// describes: the report is about a pool that flags describe.
func (f *flags) describes() bool {
	return slices.ContainsFunc(description, f.given)
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if f.given("nodes") && f.given("reflectors") {
		return fmt.Errorf("--nodes %d and --reflectors %d exclude each other: give the nodes that run workloads, or the size of the pool", f.nodes.Value, f.reflectors.Value)
	}
	prices, err := f.ownPrices()
	if err != nil {
		return err
	}
	read, err := f.read(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w; without a cluster: %s --nodes 300 --hourly-price 0.11", err, cmd.CommandPath())
	}
	p, err := factsOf(read)
	if err == nil && f.describes() {
		err = f.describe(&p)
	}
	if err != nil {
		return err
	}
	prices, notes, err := f.addPrices(cmd.Context(), s, prices, p)
	if err != nil {
		return err
	}
	if err := f.checkPrice(prices, p); err != nil {
		return err
	}
	v := newView(cmd.CommandPath(), p, cost.Compute(f.input(p, prices, s.Now())), s.Now())
	v.Warnings = append(notes, v.Warnings...)
	render := map[string]func(iostreams.Streams, view) error{
		"table": renderTable,
		"json":  func(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) },
		"yaml":  func(s iostreams.Streams, v view) error { return iostreams.WriteYAML(s.Out, v) },
	}[f.output.Value]
	return s.Emit("report", "", func(s iostreams.Streams) error { return render(s, v) })
}

// read gives the cluster, nil when the report needs none.
func (f *flags) read(ctx context.Context) (*cluster.Cluster, error) {
	if f.describes() && !f.given("kubeconfig") && !f.given("context") {
		return nil, nil
	}
	connection, err := f.Connect()
	if err != nil {
		return nil, err
	}
	return connection.Read(ctx)
}

func (f *flags) input(p facts, prices cost.Shelf, now time.Time) cost.Input {
	in := cost.Input{
		Pool: p.pool, Existing: p.existing, Rest: p.rest, Prices: prices, Currency: f.currency,
		HoursPerMonth: f.hours.Value, Sizes: p.sizes(), Model: p.model, Now: now,
	}
	if amount, err := cost.ParseDecimal(f.hourly); err == nil {
		in.PoolPrice = &cost.Entry{
			Flavor: p.model.Flavor, Region: p.model.Region, Hourly: amount, Currency: f.currency, Source: "--hourly-price", Date: now,
		}
	}
	return in
}

// ownPrices are those of --price-book.
func (f *flags) ownPrices() (cost.Shelf, error) {
	if !f.given("price-book") {
		return nil, nil
	}
	content, err := os.ReadFile(f.priceBook)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %q cannot be read: %w: give the name of a file (docs/cost.md has an example)", f.priceBook, iostreams.Reason(err))
	}
	book, err := cost.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("--price-book: %s: %w", f.priceBook, err)
	}
	own := cost.Shelf{book}
	switch currencies := own.Currencies(); {
	case f.given("currency"):
	case len(currencies) > 1:
		return nil, fmt.Errorf("--price-book: %s has prices in %s: choose one with --currency", f.priceBook, strings.Join(currencies, ", "))
	default:
		f.currency = currencies[0]
	}
	return own, nil
}

// addPrices puts the catalog's prices and the built-in ones behind the user's. A catalog
// that does not answer is a warning, no failure.
func (f *flags) addPrices(ctx context.Context, s iostreams.Streams, prices cost.Shelf, p facts) (cost.Shelf, []string, error) {
	builtin, err := cost.Builtin()
	if err != nil || !f.refresh {
		return append(prices, builtin), nil, err
	}
	if f.currency != catalog.Currency {
		return nil, nil, fmt.Errorf("--refresh: the catalog is read in %s, and --currency is %q: leave one of them out", catalog.Currency, f.currency)
	}
	_, _ = fmt.Fprintln(s.Err, "asking the IBM Cloud Global Catalog for prices …")
	reader := catalog.Client{HTTP: s.Web, Endpoint: s.Getenv("IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT"), UserAgent: version.UserAgent(iostreams.Program), Now: s.Now()}
	fresh, missing, err := reader.Prices(ctx, p.flavors())
	var notes []string
	switch {
	case ctx.Err() != nil:
		return nil, nil, iostreams.ErrInterrupted
	case err != nil:
		notes = append(notes, "the prices were not refreshed: "+iostreams.Sentence(err))
	case len(missing) > 0:
		notes = append(notes, "the catalog has no plain hourly price for "+strings.Join(missing, ", "))
	}
	return append(prices, fresh, builtin), notes, nil
}

// checkPrice refuses a described pool without a price, with what the user can choose.
func (f *flags) checkPrice(prices cost.Shelf, p facts) error {
	worker := p.model
	if _, known := prices.Find(worker.Flavor, worker.Region, f.currency); known || !p.described || f.given("hourly-price") {
		return nil
	}
	regions := prices.Regions(worker.Flavor, f.currency)
	if len(regions) == 0 {
		return fmt.Errorf("--flavor: no price in %s is known for %q, only for %s: give --hourly-price, a --price-book that has it, or --refresh",
			f.currency, worker.Flavor, strings.Join(prices.Flavors(f.currency), ", "))
	}
	return fmt.Errorf("--region: no price of %s is known in %q, only in %s: choose one of these, or give --hourly-price, a --price-book that has it, or --refresh",
		worker.Flavor, worker.Region, strings.Join(regions, ", "))
}
