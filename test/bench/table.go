//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/bench/growth"
	"github.com/rrpool/rrpool/test/bench/reflector"
)

// quiet is how many cores other programs may keep busy before the report says so.
const quiet = 0.3

// report is the outcome of a run.
type report struct {
	Machine string             `json:"machine"`
	Results []reflector.Result `json:"results"`
	// Growth of each figure, where there are two sizes or more.
	Growth []grown `json:"growth,omitempty"`
}

// grown is how a figure grows.
type grown struct {
	Figure string  `json:"figure"`
	Ratios []ratio `json:"ratios"`
	// Exponent of the power of the clients that fits all sizes best: 1 is linear, 2 quadratic.
	Exponent float64 `json:"exponent"`
}

// ratio is how often the figure at one size is contained in that at the next.
type ratio struct {
	From     int     `json:"from"`
	To       int     `json:"to"`
	Ratio    float64 `json:"ratio"`
	Exponent float64 `json:"exponent"`
}

// figures are those that grow, in the order of the columns.
var figures = []struct {
	name string
	of   func(reflector.Result) float64
}{
	{"CONVERGED", func(r reflector.Result) float64 { return r.Restart.Converged }},
	{"BIRD CPU", func(r reflector.Result) float64 { return r.Restart.CPU }},
	{"ROUTES SENT", func(r reflector.Result) float64 { return float64(r.Restart.RoutesSent) }},
	{"PEAK RSS", func(r reflector.Result) float64 { return float64(r.PeakMemory) }},
	{"ALL RETURN", func(r reflector.Result) float64 { return r.AllReturn.Converged }},
	{"ONE RETURNS", func(r reflector.Result) float64 { return r.Return.Converged }},
}

func growthOf(results []reflector.Result) ([]grown, error) {
	if len(results) < 2 {
		return nil, nil
	}
	var all []grown
	for _, figure := range figures {
		var points []growth.Point
		for _, r := range results {
			points = append(points, growth.Point{Size: float64(r.Clients), Value: figure.of(r)})
		}
		steps, err := growth.Steps(points)
		if err != nil {
			return nil, fmt.Errorf("computing the growth of %s: %w", figure.name, err)
		}
		g := grown{Figure: figure.name}
		for i, step := range steps {
			g.Ratios = append(g.Ratios, ratio{
				From: results[i].Clients, To: results[i+1].Clients, Ratio: step.Value, Exponent: step.Exponent(),
			})
		}
		if g.Exponent, err = growth.Fit(points); err != nil {
			return nil, fmt.Errorf("computing the growth of %s: %w", figure.name, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// table is the report for people.
func (r report) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "One BIRD as Calico's route reflector; %s\n\n", r.Machine)
	fmt.Fprintf(&text, "BIRD comes up with every client waiting\n\n%s\n", r.restarts())
	fmt.Fprintf(&text, "\nClients vanish and come back to a BIRD that is up: all at once, and one while all others stay\n\n%s\n", r.returns())
	if len(r.Growth) > 0 {
		fmt.Fprintf(&text, "\nHow it grows: the ratio from one size to the next, and the power n^x of the clients that this is\n\n%s\n", r.ratios())
	}
	if cores := r.bystanders(); cores > quiet {
		fmt.Fprintf(&text, "\nOther programs kept up to %.1f cores busy meanwhile, so the times may be too long: a quiet machine shows them.\n", cores)
	}
	text.WriteString("\nSeconds and bytes are this machine's: another one's differ by a factor. How they grow is BIRD's, and that is what counts.\n")
	return text.String()
}

func (r report) restarts() string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{
		"CLIENTS", "SESSIONS UP", "CONVERGED", "BIRD CPU", "ROUTES SENT", "PEAK RSS", "SLOWEST ANSWER", "SESSIONS LOST", "OTHER PROGRAMS",
	})
	w.SetColumnConfigs(right(9))
	for _, result := range r.Results {
		w.AppendRow(table.Row{
			result.Clients, seconds(result.Sessions), seconds(result.Restart.Converged), seconds(result.Restart.CPU),
			result.Restart.RoutesSent, fmt.Sprintf("%.0f MB", float64(result.PeakMemory)/1e6), seconds(result.SlowestAnswer), result.Lost,
			fmt.Sprintf("%.1f cores", result.Bystanders),
		})
	}
	return w.Render()
}

func (r report) returns() string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"CLIENTS", "ALL: CONVERGED", "BIRD CPU", "ROUTES SENT", "ONE: CONVERGED", "BIRD CPU", "ROUTES SENT"})
	w.SetColumnConfigs(right(7))
	for _, result := range r.Results {
		all, one := result.AllReturn, result.Return
		w.AppendRow(table.Row{
			result.Clients, seconds(all.Converged), seconds(all.CPU), all.RoutesSent, seconds(one.Converged), seconds(one.CPU), one.RoutesSent,
		})
	}
	return w.Render()
}

// bystanders is the most that other programs kept busy, in cores.
func (r report) bystanders() float64 {
	var most float64
	for _, result := range r.Results {
		most = max(most, result.Bystanders)
	}
	return most
}

func (r report) ratios() string {
	w := iostreams.NewTable()
	header := table.Row{"CLIENTS"}
	for _, g := range r.Growth {
		header = append(header, g.Figure)
	}
	w.AppendHeader(header)
	w.SetColumnConfigs(right(len(header))[1:])
	for i, step := range r.Growth[0].Ratios {
		row := table.Row{fmt.Sprintf("%d → %d: ×%s", step.From, step.To, digits(float64(step.To)/float64(step.From)))}
		for _, g := range r.Growth {
			row = append(row, fmt.Sprintf("×%s  n^%.1f", digits(g.Ratios[i].Ratio), g.Ratios[i].Exponent))
		}
		w.AppendRow(row)
	}
	row := table.Row{"all, fitted"}
	for _, g := range r.Growth {
		row = append(row, fmt.Sprintf("n^%.1f", g.Exponent))
	}
	w.AppendRow(row)
	return w.Render()
}

func right(columns int) []table.ColumnConfig {
	var all []table.ColumnConfig
	for i := range columns {
		all = append(all, iostreams.Right(i+1))
	}
	return all
}

// seconds shows what a person can tell apart.
func seconds(s float64) string {
	if s < 0.1 {
		return fmt.Sprintf("%.1f ms", s*1000)
	}
	return digits(s) + " s"
}

// digits are two significant ones, or all before the point.
func digits(x float64) string {
	if x >= 10 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}
