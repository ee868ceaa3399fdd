// Package cost is the command `rrpool cost`: what the nodes of the pool cost.
package cost

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

type flags struct {
	cluster.Access
	hourly, priceBook string
	output            *iostreams.Choice
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
	f.output = iostreams.Output(cmd)
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
	return s.Print("report", f.output.Value, v, func(s iostreams.Streams) { printTable(s, v) })
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
