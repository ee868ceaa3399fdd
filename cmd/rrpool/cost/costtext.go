package cost

import (
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

// csvOf renders for spreadsheets: one row for each zone and flavor, and the sums.
// What has no place in rows is said on standard error.
func csvOf(s iostreams.Streams, v view) error {
	w := csv.NewWriter(s.Out)
	row := func(kind, zone, region, flavor string, sum Sum) {
		_ = w.Write([]string{
			kind, zone, region, flavor, strconv.Itoa(sum.Workers), string(sum.Certainty),
			v.Currency, sum.Hourly, sum.Monthly, sum.Yearly, strconv.Itoa(v.HoursPerMonth),
		})
	}
	_ = w.Write([]string{
		"kind", "zone", "region", "flavor", "workers", "certainty", "currency", "hourly", "monthly", "yearly", "hours_per_month",
	})
	for _, line := range v.Lines {
		row("pool part", line.Zone, line.Region, line.Flavor, line.Sum)
	}
	row("pool", "", "", "", v.Pool)
	if v.ClusterBill != nil {
		row("all workers", "", "", "", *v.ClusterBill)
	}
	row("full mesh", "", "", "", v.Mesh)
	w.Flush()
	for _, warning := range v.Warnings {
		_, _ = fmt.Fprintf(s.Err, "‼ %s\n", warning)
	}
	return w.Error() //nolint:wrapcheck // the caller wraps
}
