package catalog

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
)

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
