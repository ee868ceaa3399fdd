package cost

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/cost/catalog"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

// question is what the report is about.
type question struct {
	facts
	// imagined: the pool is not there, somebody thinks of it.
	imagined bool
	// cluster is the name of the one that was read, empty when none was.
	cluster string
	// sizedFor is the number of nodes that the pool was sized for, 0 if it was not.
	sizedFor int
}

// usualSizes are always compared: the sizes of the design document.
var usualSizes = []int{3, 6, 9}

// sizes to compare: the usual ones, and that of the pool.
func (q question) sizes() []int {
	out := slices.Clone(usualSizes)
	for _, size := range []int{len(q.pool), q.wanted} {
		if size > 0 {
			out = append(out, size)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// imagine makes a pool of the flags, and of the facts where the flags say nothing.
func (f *costFlags) imagine(known facts, cluster string) (question, error) {
	q := question{facts: known, imagined: true, cluster: cluster}
	q.existing = false
	q.model.Flavor = cmp.Or(f.flavor.Value, known.model.Flavor)
	if q.model.Flavor == "" && !f.given("hourly-price") {
		q.model.Flavor = iks.DefaultFlavorVPC
	}
	q.model.Region = cmp.Or(f.region.Value, known.model.Region)
	if f.given("zones") || len(q.zones) == 0 {
		q.zones = numbered(max(f.zones.Value, 1))
	}
	perZone, err := f.perZone(&q)
	if err != nil {
		return question{}, err
	}
	q.pool = nil
	for _, zone := range q.zones {
		for range perZone {
			q.pool = append(q.pool, cost.Worker{Zone: zone, Region: q.model.Region, Flavor: q.model.Flavor})
		}
	}
	q.wanted = len(q.pool)
	return q, nil
}

// perZone is the size of the pool in each zone, by what was given, known, or usual.
func (f *costFlags) perZone(q *question) (int, error) {
	zones := len(q.zones)
	switch {
	case f.given("nodes") && f.nodes.Value%zones != 0:
		below, above := f.nodes.Value/zones*zones, (f.nodes.Value/zones+1)*zones
		remedy := fmt.Sprintf("%d or %d", below, above)
		if below == 0 {
			remedy = fmt.Sprint(above)
		}
		return 0, fmt.Errorf("--nodes: %d workers cannot be the same number in each of %d zones, as a worker pool has them: use %s, or other --zones", f.nodes.Value, zones, remedy)
	case f.given("nodes"):
		return f.nodes.Value / zones, nil
	case !f.given("cluster-nodes") && !f.given("zones") && q.wanted >= zones:
		return q.wanted / zones, nil
	}
	q.sizedFor = f.clusterNodes.Value
	size, err := sizing.Reflectors(defaults().Sizing, f.clusterNodes.Value, zones)
	if err != nil {
		return 0, fmt.Errorf("--zones: %d is too many for the default sizing, which ends at %d reflectors: give --nodes", zones, defaults().Sizing.Max)
	}
	return size.PerZone, nil
}

func numbered(zones int) []string {
	out := make([]string, 0, zones)
	for i := range zones {
		out = append(out, fmt.Sprintf("zone %d", i+1))
	}
	return out
}

// shelf puts the price books in their order: the user's, the catalog's, ours. What
// the catalog does not say is a note, not a failure.
func (f *costFlags) shelf(ctx context.Context, s iostreams.Streams, own cost.Shelf, q question) (cost.Shelf, []string, error) {
	builtin, err := cost.Builtin()
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	if f.refresh {
		if f.currency.Value != catalog.Currency {
			return nil, nil, fmt.Errorf("--refresh: the catalog is read in %s, and --currency is %q: leave one of them out", catalog.Currency, f.currency.Value)
		}
		_, _ = fmt.Fprintln(s.Err, "asking the IBM Cloud Global Catalog for prices …")
		reader := catalog.Client{HTTP: s.Web, Endpoint: s.Getenv("IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT"), UserAgent: version.UserAgent(iostreams.Program), Now: s.Now()}
		fresh, missing, err := reader.Prices(ctx, q.flavors())
		switch {
		case ctx.Err() != nil:
			return nil, nil, iostreams.ErrInterrupted
		case err != nil:
			notes = append(notes, "the prices were not refreshed: "+iostreams.Sentence(err))
		case len(missing) > 0:
			notes = append(notes, "the catalog has no plain hourly price for "+strings.Join(missing, ", "))
		}
		own = append(own, fresh)
	}
	return append(own, builtin), notes, nil
}

// flavors that the report needs prices of.
func (q question) flavors() []string {
	out := []string{q.model.Flavor}
	for _, worker := range slices.Concat(q.pool, q.rest) {
		out = append(out, worker.Flavor)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(flavor string) bool { return flavor == "" })
}

// priced refuses a question whose answer would only be "unknown": the user named
// the flavor, and can name its price.
func (f *costFlags) priced(shelf cost.Shelf, q question) error {
	if !q.imagined || f.given("hourly-price") {
		return nil
	}
	if _, known := shelf.Find(q.model.Flavor, q.model.Region, f.currency.Value); known {
		return nil
	}
	regions := shelf.Regions(q.model.Flavor, f.currency.Value)
	switch {
	case len(regions) == 0:
		return fmt.Errorf("--flavor: no price in %s is known for %q, only for %s: give --hourly-price, a --price-book that has it, or --refresh",
			f.currency.Value, q.model.Flavor, strings.Join(shelf.Flavors(f.currency.Value), ", "))
	case q.model.Region == "":
		return fmt.Errorf("--region: missing, and the price of %s depends on it: give one of %s, or --hourly-price", q.model.Flavor, strings.Join(regions, ", "))
	default:
		return fmt.Errorf("--region: no price of %s is known in %q, only in %s: give --hourly-price, a --price-book that has it, or --refresh",
			q.model.Flavor, q.model.Region, strings.Join(regions, ", "))
	}
}
