// Package catalog reads list prices from the IBM Cloud Global Catalog, a public HTTP API that needs no credentials.
//
// What it relies on was seen in recorded answers of 2026-08-13: the service containers-kubernetes has a plan for
// each flavor, named containers.kubernetes.vpc.<flavor>, and a plan has a price for each region in the metric
// part-iks.vpc.<flavor>, per Instance-Hour. Whether older flavors are in the plan containers.kubernetes.vpc.gen2
// instead was not seen; it is asked for the same metric. Classic flavors have graduated prices and are not read.
package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
)

// Currency of the prices that are read: the list price for the USA.
const (
	Currency = "USD"
	country  = "USA"
)

const (
	service    = "containers-kubernetes"
	planPrefix = "containers.kubernetes.vpc."
	sharedPlan = planPrefix + "gen2"
	// pageSize, maxPages and maxBytes bound what an odd answer can make us read.
	pageSize = 200
	maxPages = 25
	maxBytes = 16 << 20
)

// Client reads prices.
type Client struct {
	// HTTP does the requests; its Timeout bounds each of them.
	HTTP *http.Client
	// Endpoint is the catalog's address without a path, IBM's when empty.
	Endpoint string
	// UserAgent names us to the catalog.
	UserAgent string
	// Now is the day that the prices are of.
	Now time.Time
}

// Prices are those of the flavors, each named once, in all regions. A flavor that the catalog has no plain hourly
// price for is not in the book, and is named in missing. An empty book is no error.
func (c Client) Prices(ctx context.Context, flavors []string) (book cost.Book, missing []string, err error) {
	plans, err := c.plans(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the plans of %s: %w", service, err)
	}
	for _, flavor := range flavors {
		found, err := c.flavor(ctx, plans, flavor)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the price of %s: %w", flavor, err)
		}
		if len(found) == 0 {
			missing = append(missing, flavor)
		}
		book = append(book, found...)
	}
	return book, missing, nil
}

func (c Client) plans(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	err := pages(ctx, c, service+"/%2A", func(plan plan) {
		if plan.Kind == "plan" && plan.Active && !plan.Disabled {
			ids[plan.ID] = true
		}
	})
	return ids, err
}

// flavor gives the prices of the flavor's own plan, else of the shared one. It leaves out
// regions that are given several prices.
func (c Client) flavor(ctx context.Context, plans map[string]bool, flavor string) (cost.Book, error) {
	for _, id := range []string{planPrefix + flavor, sharedPlan} {
		if !plans[id] {
			continue
		}
		path := url.PathEscape(id) + "/pricing/deployment"
		prices, disputed := map[string]cost.Entry{}, map[string]bool{}
		err := pages(ctx, c, path, func(d deployment) {
			if entry, ok := d.entry(flavor, c.Now); ok {
				entry.Source = c.address(path)
				first, known := prices[entry.Region]
				disputed[entry.Region] = disputed[entry.Region] || known && first.Hourly().Cmp(entry.Hourly()) != 0
				prices[entry.Region] = entry
			}
		})
		maps.DeleteFunc(prices, func(region string, _ cost.Entry) bool { return disputed[region] })
		if err != nil || len(prices) > 0 {
			return slices.SortedFunc(maps.Values(prices), func(a, b cost.Entry) int { return strings.Compare(a.Region, b.Region) }), err
		}
	}
	return nil, nil
}

func (c Client) address(path string) string {
	return strings.TrimSuffix(cmp.Or(c.Endpoint, "https://globalcatalog.cloud.ibm.com"), "/") + "/api/v1/" + path
}

// pages reads a list to its end.
func pages[T any](ctx context.Context, c Client, path string, each func(T)) error {
	for offset, read := 0, 0; read < maxPages; read++ {
		var page struct {
			Total     int `json:"resource_count"`
			Resources []T `json:"resources"`
		}
		query := "?_limit=" + strconv.Itoa(pageSize) + "&_offset=" + strconv.Itoa(offset)
		if err := c.get(ctx, c.address(path)+query, &page); err != nil {
			return err
		}
		for _, item := range page.Resources {
			each(item)
		}
		offset += len(page.Resources)
		if len(page.Resources) == 0 || offset >= page.Total {
			return nil
		}
	}
	return fmt.Errorf("%s: the list does not end after %d pages", c.address(path), maxPages)
}

func (c Client) get(ctx context.Context, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %q: %w", address, err)
	}
	request.Header.Set("Accept", "application/json")
	if c.UserAgent != "" {
		request.Header.Set("User-Agent", c.UserAgent)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err //nolint:wrapcheck // it names method and address
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("%s did not answer with what the catalog's documentation promises: %w", address, err)
	}
	return nil
}

// What the catalog says, as far as we read it.
type (
	plan struct {
		ID, Kind         string
		Active, Disabled bool
	}
	// deployment is a plan in one region.
	deployment struct {
		Region   string `json:"deployment_region"`
		Location string `json:"deployment_location"`
		Metrics  []metric
	}
	metric struct {
		ID       string    `json:"metric_id"`
		Unit     string    `json:"charge_unit"`
		Quantity int       `json:"charge_unit_quantity"`
		From     time.Time `json:"effective_from"`
		Until    time.Time `json:"effective_until"`
		Amounts  []struct {
			Country, Currency string
			Prices            []struct{ Price float64 }
		}
	}
)

// unit is what a worker is charged by.
const unit = "Instance-Hour"

// entry is the price of the flavor; false when there is no plain hourly one.
func (d deployment) entry(flavor string, now time.Time) (cost.Entry, bool) {
	entry := cost.Entry{
		Flavor: flavor, Region: cmp.Or(d.Location, d.Region), Currency: Currency,
		Date: now.UTC().Format(time.DateOnly), Note: "list price for the USA",
	}
	found := false
	for _, m := range d.Metrics {
		price, ok := m.price(now)
		switch {
		case !ok:
		case m.ID == "part-iks.vpc."+flavor && m.Unit == unit:
			entry.Price, entry.Hours, found = cost.Amount(price.Short(decimals)), max(m.Quantity, 1), true
		case m.ID == "part-iks.disk" && !price.IsZero():
			entry.Excludes = fmt.Sprintf("disk, %s %s per %s", price.Over(m.Quantity).Short(decimals), Currency, m.Unit)
		}
	}
	return entry, found && cost.CheckRegion(entry.Region) == nil
}

// decimals is what a price keeps of the catalog's numbers, which are written with
// the noise of floating point: 0.5864999999999999 is 0.5865.
const decimals = 12

// price is the one price of the metric; false when it is graduated, not in our currency, or not of today.
func (m metric) price(now time.Time) (cost.Decimal, bool) {
	if now.Before(m.From) || !m.Until.IsZero() && !now.Before(m.Until) {
		return cost.Decimal{}, false
	}
	for _, a := range m.Amounts {
		if a.Country != country || a.Currency != Currency {
			continue
		}
		if len(a.Prices) != 1 || a.Prices[0].Price < 0 {
			return cost.Decimal{}, false
		}
		price, err := cost.ParseDecimal(strconv.FormatFloat(a.Prices[0].Price, 'f', decimals, 64))
		return price, err == nil
	}
	return cost.Decimal{}, false
}
