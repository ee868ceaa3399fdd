// Package cost is the command `rrpool cost`: what the nodes of the pool cost.
package cost

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

type flags struct {
	cluster.Access
	cmd                      *cobra.Command
	nodes, reflectors, zones iostreams.Count
	flavor, region, hourly   string
	priceBook                string
	output                   *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{
		nodes:      iostreams.Count{Least: 1, Most: 100000},
		reflectors: iostreams.Count{Least: 1, Most: 10000},
		zones:      iostreams.Count{Least: 1, Most: 100},
		output:     iostreams.NewChoice("table", "json", "yaml"),
	}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "cost",
		Short: "What the pool of route reflectors costs",
		Long: `What the workers of the pool cost per month and year, by zone and flavor; their share of the bill for all
workers of the cluster; and what other sizes would cost. The full mesh costs nothing extra, and neither do route
reflectors on existing nodes.

Without flags the report is about the cluster of the kubeconfig. With --nodes, --reflectors, --zones, --flavor,
--region or --hourly-price it is about a pool that these describe, and no cluster is read. Add --kubeconfig or
--context to take from that cluster what the flags leave open.

Prices are list prices of public sources, each with its date, before tax and discounts. A price without a source is
unknown: give --hourly-price or --price-book.`,
		Example: `  rrpool cost
  rrpool cost --nodes 300 --zones 3 --hourly-price 0.11
  rrpool cost --reflectors 6 --zones 3 --flavor bx2.4x16 --region eu-de
  rrpool cost -o json`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	f.cmd = cmd
	set := cmd.Flags()
	text := func(to *string, name, usage string, check func(string) error) {
		set.Func(name, usage, func(value string) error {
			*to = value
			return check(value)
		})
		iostreams.CompleteNothing(cmd, name)
	}
	f.nodes.Register(cmd, "nodes", "nodes that run workloads: the pool gets the size that spec.sizing gives for them")
	f.reflectors.Register(cmd, "reflectors", "size of the pool, all zones together")
	f.zones.Register(cmd, "zones", "zones of the pool; default 1")
	text(&f.flavor, "flavor", "`flavor` of the workers, such as bx2.2x8", cost.CheckFlavor)
	text(&f.region, "region", "`region` of the workers, such as eu-de", cost.CheckRegion)
	text(&f.hourly, "hourly-price", "`price` of one worker of the pool for one hour; comes before every price book", func(amount string) error {
		_, err := cost.ParseDecimal(amount)
		return err
	})
	set.StringVar(&f.priceBook, "price-book", "", "`file` with prices that come before the built-in ones")
	f.output.Register(cmd, "output", "o", "format: table, json or yaml")
	f.Register(set)
	cmd.MarkFlagsMutuallyExclusive("nodes", "reflectors")
}

func (f *flags) given(flag string) bool { return f.cmd.Flags().Changed(flag) }

// describes: the report is about a pool that flags describe.
func (f *flags) describes() bool {
	return slices.ContainsFunc([]string{"nodes", "reflectors", "zones", "flavor", "region", "hourly-price"}, f.given)
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	prices, err := f.prices()
	if err != nil {
		return err
	}
	read, err := f.read(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w; without a cluster: %s --nodes 300 --hourly-price 0.11", err, cmd.CommandPath())
	}
	p := factsOf(read)
	if f.describes() {
		if err := f.describe(&p); err != nil {
			return err
		}
	}
	p.Prices, p.currency, p.Sizes = prices, prices[0].Currency, sets.List(sets.New(1, 3, 6, 9, len(p.Pool), p.wanted).Delete(0))
	if f.hourly != "" {
		p.PoolPrice = &cost.Entry{
			Flavor: p.Model.Flavor, Region: p.Model.Region, Price: cost.Amount(f.hourly), Currency: p.currency,
			Source: "--hourly-price", Date: s.Now().UTC().Format(time.DateOnly),
		}
	}
	if err := p.checkPrice(); err != nil {
		return err
	}
	v := newView(cmd.CommandPath(), p, s.Now())
	return s.Print("report", f.output.Value, v, func(s iostreams.Streams) { printTable(s, v) })
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

// prices are those of --price-book, and behind them the built-in ones, if they are in the same currency.
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

// checkPrice refuses a described pool without a price, with what the user can choose.
func (f *facts) checkPrice() error {
	if !f.described || f.PoolPrice != nil || f.Prices.Find(f.Model.Flavor, f.Model.Region) != nil {
		return nil
	}
	known := sets.New[string]()
	for _, e := range f.Prices {
		known.Insert(e.Flavor + " in " + e.Region)
	}
	return fmt.Errorf("--flavor, --region: no price of %s is known, only of %s: choose one of these, or give --hourly-price or a --price-book that has it",
		f.Model, strings.Join(sets.List(known), ", "))
}
