package cost

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// scenes are the questions whose answers are kept, in every format.
func scenes(t *testing.T) map[string][]string {
	t.Helper()
	cluster := func(a *api) string { return cli.Serve(t, a) }
	waiting := migrated()
	waiting.nodes = waiting.nodes[:60]
	unknown := migrated()
	for i := range 25 {
		unknown.nodes[i].Labels["ibm-cloud.kubernetes.io/machine-type"] = "mx2.4x32"
	}
	unpriced := migrated()
	for i := range unpriced.nodes {
		unpriced.nodes[i].Labels["ibm-cloud.kubernetes.io/region"] = "jp-tok"
	}
	mixed := migrated()
	mixed.nodes[60].Labels["ibm-cloud.kubernetes.io/machine-type"] = "cx2.2x4"
	returned := migrated()
	returned.pool.Spec.Mode = v1alpha1.ModeFullMesh
	kept := migrated()
	kept.pool = nil
	existing := &api{
		pool:  poolObject(nil),
		nodes: append(nodesOf(3, []string{"a", "b"}, "", nil), nodesOf(2, []string{"a", "b"}, "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})...),
	}
	nothing := &api{nodes: nodesOf(40, frankfurt, ibm, labelled("bx2.4x16", "eu-de"))}
	classic := &api{pool: poolObject(nil), nodes: nodesOf(5, []string{"dal10", "dal12"}, ibm, labelled("u3c.2x4.encrypted", "us-south"))}
	return map[string][]string{
		"design-figures":        {"--nodes", "9", "--zones", "3", "--hourly-price", "0.11"},
		"design-figures-730":    {"--hourly-price", "0.11", "--hours-per-month", "730"},
		"old-price":             {"--nodes", "6", "--zones", "3", "--region", "us-south"},
		"price-without-disk":    {"--cluster-nodes", "500", "--zones", "3", "--flavor", "bxf.4x16", "--region", "br-sao"},
		"far-too-many":          {"--nodes", "500", "--hourly-price", "0.11"},
		"own-price-book":        {"--nodes", "3", "--flavor", "own.2x4", "--region", "here", "--price-book", filepath.Join("testdata", "book.yaml")},
		"cluster":               {"--kubeconfig", cluster(migrated())},
		"cluster-before-pool":   {"--kubeconfig", cluster(waiting)},
		"cluster-some-unknown":  {"--kubeconfig", cluster(unknown)},
		"cluster-pool-unknown":  {"--kubeconfig", cluster(unpriced)},
		"cluster-pool-mixed":    {"--kubeconfig", cluster(mixed)},
		"cluster-back-on-mesh":  {"--kubeconfig", cluster(returned)},
		"cluster-pool-kept":     {"--kubeconfig", cluster(kept)},
		"cluster-existing":      {"--kubeconfig", cluster(existing)},
		"cluster-without-rrp":   {"--kubeconfig", cluster(nothing)},
		"cluster-classic":       {"--kubeconfig", cluster(classic)},
		"cluster-another-size":  {"--kubeconfig", cluster(migrated()), "--nodes", "9"},
		"cluster-another-price": {"--kubeconfig", cluster(migrated()), "--hourly-price", "0.11"},
	}
}

func TestOutputs(t *testing.T) {
	for name, args := range scenes(t) {
		for _, format := range []string{"table", "json", "csv", "html"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				got := ask(t, append([]string{"cost", "-o", format}, args...)...)
				require.Zero(t, got.Code, got.Err)
				if format != "csv" {
					require.Empty(t, got.Err, "nothing but the report")
				}
				cli.Golden(t, filepath.Join(name, format+".golden"), got.Out)
				if format == "csv" {
					cli.Golden(t, filepath.Join(name, "csv.stderr.golden"), got.Err)
				}
			})
		}
	}
}

// A narrow terminal gets narrow lines, whatever the scene; colours only where wanted.
func TestTerminals(t *testing.T) {
	for name, args := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args = append([]string{"cost"}, args...)
			for _, width := range []int{60, 80, 120} {
				got := askIn(t, iostreams.Streams{Terminal: true, Width: width, Getenv: cli.Environment("NO_COLOR", "1")}, args...)
				require.Zero(t, got.Code, got.Err)
				require.NotContains(t, got.Out, "\x1b", "NO_COLOR")
				for line := range strings.SplitSeq(got.Out, "\n") {
					require.LessOrEqual(t, len([]rune(line)), width, "%q", line)
				}
				if width == 60 {
					cli.Golden(t, filepath.Join(name, "table60.golden"), got.Out)
				}
			}
		})
	}
}

func TestColours(t *testing.T) {
	args := []string{"cost", "--nodes", "3", "--region", "us-south"}
	for name, tc := range map[string]struct {
		s    iostreams.Streams
		want bool
	}{
		"a terminal has colours":           {iostreams.Streams{Terminal: true, Width: 60}, true},
		"NO_COLOR takes them away":         {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, false},
		"an empty NO_COLOR says nothing":   {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "")}, true},
		"a dumb terminal cannot show them": {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("TERM", "dumb")}, false},
		"a pipe gets none":                 {iostreams.Streams{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := askIn(t, tc.s, args...)
			require.Zero(t, got.Code, got.Err)
			require.Equal(t, tc.want, strings.Contains(got.Out, "\x1b"))
			if tc.want {
				cli.Golden(t, "colours.golden", got.Out)
			}
		})
	}
	narrow := askIn(t, iostreams.Streams{Terminal: true, Width: 200, Getenv: cli.Environment("COLUMNS", "60", "NO_COLOR", "1")}, args...)
	require.Equal(t, askIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, args...), narrow, "COLUMNS")
}

// The design document's figures, as a user reads them.
func TestTheFiguresOfTheDesign(t *testing.T) {
	got := ask(t, "cost", "--hourly-price", "0.11")
	require.Contains(t, got.Out, "One worker: 0.11 USD/hour, 79.20/month, 950.40/year")
	for _, size := range []string{"3        238 ", "6        475 ", "9        713 "} {
		require.Contains(t, got.Out, " "+size)
	}
	for nodes, want := range map[string]string{"3": `"wholeMonthly": "238"`, "6": `"wholeMonthly": "475"`, "9": `"wholeMonthly": "713"`} {
		_, pool, _ := strings.Cut(ask(t, "cost", "-o", "json", "--hourly-price", "0.11", "--nodes", nodes).Out, `"pool":`)
		pool, _, _ = strings.Cut(pool, "}")
		require.Contains(t, pool, want)
	}
}
