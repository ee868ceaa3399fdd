// Package catalog reads list prices from the IBM Cloud Global Catalog, a public
// HTTP API that needs no credentials.
//
// What it relies on was seen in recorded answers of 2026-08-13: the service
// containers-kubernetes has a plan for each flavor, named
// containers.kubernetes.vpc.<flavor>, and a plan has a price for each region in
// the metric part-iks.vpc.<flavor>, per Instance-Hour. Whether older flavors are
// in the plan containers.kubernetes.vpc.gen2 instead was not seen; it is asked for
// the same metric. Classic flavors have graduated prices and are not read.
package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
)

// DefaultEndpoint is where the Global Catalog is.
const DefaultEndpoint = "https://globalcatalog.cloud.ibm.com"

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
	// Endpoint is the catalog's address without a path, DefaultEndpoint when empty.
	Endpoint string
	// UserAgent names us to the catalog.
	UserAgent string
	// Now is the day that the prices are of.
	Now time.Time
}

// Prices are those of the flavors in all regions. A flavor that the catalog has
// no plain hourly price for is not in the book, and is named in missing. An empty
// book is no error.
func (c Client) Prices(ctx context.Context, flavors []string) (book cost.Book, missing []string, err error) {
	plans, err := c.plans(ctx)
	if err != nil {
		return cost.Book{}, nil, fmt.Errorf("listing the plans of %s: %w", service, err)
	}
	var entries []cost.Entry
	for _, flavor := range slices.Compact(slices.Sorted(slices.Values(flavors))) {
		found, err := c.flavor(ctx, plans, flavor)
		if err != nil {
			return cost.Book{}, nil, fmt.Errorf("reading the price of %s: %w", flavor, err)
		}
		if len(found) == 0 {
			missing = append(missing, flavor)
		}
		entries = append(entries, found...)
	}
	book, err = cost.NewBook(entries)
	if err != nil {
		return cost.Book{}, nil, fmt.Errorf("the catalog contradicts itself: %w", err)
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

// flavor gives the prices of the flavor's own plan, else of the shared one.
func (c Client) flavor(ctx context.Context, plans map[string]bool, flavor string) ([]cost.Entry, error) {
	for _, id := range []string{planPrefix + flavor, sharedPlan} {
		if !plans[id] {
			continue
		}
		path := url.PathEscape(id) + "/pricing/deployment"
		found := map[string][]cost.Entry{}
		err := pages(ctx, c, path, func(d deployment) {
			if entry, ok := d.entry(flavor, c.Now); ok {
				entry.Source = c.address(path)
				found[entry.Region] = append(found[entry.Region], entry)
			}
		})
		if entries := undisputed(found); err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	return nil, nil
}

// undisputed leaves out regions that are given several prices.
func undisputed(found map[string][]cost.Entry) []cost.Entry {
	var out []cost.Entry
	for _, entries := range found {
		first := entries[0]
		if !slices.ContainsFunc(entries, func(e cost.Entry) bool { return e.Hourly.Cmp(first.Hourly) != 0 }) {
			out = append(out, first)
		}
	}
	return out
}

func (c Client) address(path string) string {
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = DefaultEndpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/api/v1/" + path
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
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	if len(body) > maxBytes {
		return fmt.Errorf("%s answered with more than %d bytes", address, maxBytes)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s did not answer with what the catalog's documentation promises: %w", address, err)
	}
	return nil
}

// What the catalog says, as far as we read it.
type (
	plan struct {
		ID       string `json:"id"`
		Kind     string `json:"kind"`
		Active   bool   `json:"active"`
		Disabled bool   `json:"disabled"`
	}
	// deployment is a plan in one region.
	deployment struct {
		Region   string   `json:"deployment_region"`
		Location string   `json:"deployment_location"`
		Metrics  []metric `json:"metrics"`
	}
	metric struct {
		ID       string    `json:"metric_id"`
		Unit     string    `json:"charge_unit"`
		Quantity int       `json:"charge_unit_quantity"`
		Amounts  []amount  `json:"amounts"`
		From     time.Time `json:"effective_from"`
		Until    time.Time `json:"effective_until"`
	}
	amount struct {
		Country  string `json:"country"`
		Currency string `json:"currency"`
		Prices   []tier `json:"prices"`
	}
	tier struct {
		Price float64 `json:"price"`
	}
)

// unit is what a worker is charged by.
const unit = "Instance-Hour"

// entry is the price of the flavor; false when there is no plain hourly one.
func (d deployment) entry(flavor string, now time.Time) (cost.Entry, bool) {
	entry := cost.Entry{
		Flavor: flavor, Region: cmp.Or(d.Location, d.Region), Currency: Currency,
		Date: now.UTC().Truncate(24 * time.Hour), Note: "list price for the USA",
	}
	found := false
	for _, m := range d.Metrics {
		price, ok := m.price(now)
		switch {
		case !ok:
		case m.ID == "part-iks.vpc."+flavor && m.Unit == unit:
			entry.Hourly, found = price, true
		case m.ID == "part-iks.disk" && !price.IsZero():
			entry.Excludes = fmt.Sprintf("disk, %s %s per %s", price.Short(decimals), Currency, m.Unit)
		}
	}
	return entry, found && cost.CheckRegion(entry.Region) == nil
}

// decimals is what a price keeps of the catalog's numbers, which are written with
// the noise of floating point: 0.5864999999999999 is 0.5865.
const decimals = 12

// price is the one price of the metric; false when it is graduated, not in our
// currency, or not of today.
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
		return price.Over(max(m.Quantity, 1)), err == nil
	}
	return cost.Decimal{}, false
}
