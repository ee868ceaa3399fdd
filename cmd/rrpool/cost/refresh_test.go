package cost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// catalogServer has one flavor, at a price and in a region of its own.
func catalogServer(t *testing.T) string {
	t.Helper()
	const plan = "containers.kubernetes.vpc.bx2.2x8"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/containers-kubernetes/*":
			_, _ = fmt.Fprintf(w, `{"resource_count":1,"resources":[{"id":%q,"kind":"plan","active":true}]}`, plan)
		case "/api/v1/" + plan + "/pricing/deployment":
			_, _ = w.Write([]byte(`{"resource_count":1,"resources":[{"deployment_location":"us-south","metrics":[{"metric_id":"part-iks.vpc.bx2.2x8",
				"charge_unit":"Instance-Hour","charge_unit_quantity":1,"amounts":[{"country":"USA","currency":"USD","prices":[{"price":0.5}]}]}]}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestRefresh(t *testing.T) {
	reachable := iostreams.Streams{Getenv: cli.Environment("IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT", catalogServer(t))}
	unreachable := iostreams.Streams{Getenv: cli.Environment("IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT", "http://127.0.0.1:1")}
	pool := []string{"cost", "--reflectors", "3", "--region", "us-south", "--refresh"}

	t.Run("the catalog's price comes before the built-in one, and is of today", func(t *testing.T) {
		got := askIn(t, reachable, pool...)
		require.Zero(t, got.Code, got.Err)
		require.Equal(t, "asking the IBM Cloud Global Catalog for prices …\n", got.Err, "progress is not part of the report")
		require.Contains(t, got.Out, "bx2.2x8 in us-south: 0.5 USD/hour, 2026-11-21")
		require.NotContains(t, got.Out, "more than a year old")
	})
	t.Run("the user's own price comes before the catalog's", func(t *testing.T) {
		book := cli.File(t, "version: 1\nentries: [{flavor: bx2.2x8, region: any, price: '0.01', currency: USD, date: '2026-11-01', source: me}]")
		got := askIn(t, reachable, append(pool, "--price-book", book)...)
		require.Contains(t, got.Out, "0.01 USD/hour, 2026-11-01, me")
	})
	t.Run("what the catalog lacks is said", func(t *testing.T) {
		got := askIn(t, reachable, append(pool, "--flavor", "bx2.4x16")...)
		require.Zero(t, got.Code, got.Err)
		require.Contains(t, got.Out, "‼ the catalog has no plain hourly price for bx2.4x16")
		require.Contains(t, got.Out, "bx2.4x16 in us-south: 0.277895 USD/hour, 2026-02-19")
	})
	t.Run("without the catalog there is a report", func(t *testing.T) {
		got := askIn(t, unreachable, pool...)
		require.Zero(t, got.Code, got.Err)
		require.Contains(t, got.Out, "‼ the prices were not refreshed: listing the plans of containers-kubernetes")
		require.Contains(t, got.Out, "connection refused")
		require.Contains(t, got.Out, "0.124584 USD/hour, 2022-08-30")
	})
	t.Run("without --refresh the catalog is not read", func(t *testing.T) {
		got := askIn(t, unreachable, pool[:len(pool)-1]...)
		require.Zero(t, got.Code)
		require.Empty(t, got.Err)
	})
	t.Run("Ctrl-C ends it with a sentence", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		asked := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}))
		defer asked.Close()
		var stderr strings.Builder
		s := cli.Defaults(iostreams.Streams{
			Out: io.Discard, Err: &stderr, Web: asked.Client(),
			Getenv: cli.Environment("IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT", asked.URL),
		})
		require.Equal(t, 1, iostreams.Run(ctx, cli.Root(New(s)), pool, s))
		require.Contains(t, stderr.String(), "\nrrpool: interrupted\n")
	})
}
