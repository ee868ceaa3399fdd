package catalog_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/cost/catalog"
)

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

const (
	ownPlan    = "containers.kubernetes.vpc.bxf.4x16"
	sharedPlan = "containers.kubernetes.vpc.gen2"
)

// price renders a deployment as it was recorded; the numbers of tiers are given.
func price(region, metric, prices string) string {
	return fmt.Sprintf(`{"deployment_location":%q,"deployment_region":%q,"metrics":[
		{"metric_id":%q,"tier_model":"Linear Tier","charge_unit":"Instance-Hour","charge_unit_quantity":1,
		 "amounts":[{"country":"DEU","currency":"EUR","prices":[{"quantity_tier":1,"price":9}]},
		            {"country":"USA","currency":"USD","prices":[%s]}],
		 "effective_from":"2026-08-01T00:00:00Z","effective_until":"9999-12-31T00:00:00Z"}]}`, region, region, metric, prices)
}

func one(value string) string { return `{"quantity_tier":1,"price":` + value + `}` }

func list(items ...string) string {
	return fmt.Sprintf(`{"resource_count":%d,"resources":[%s]}`, len(items), strings.Join(items, ","))
}

func planned(ids ...string) string {
	for i, id := range ids {
		ids[i] = fmt.Sprintf(`{"id":%q,"kind":"plan","active":true,"disabled":false}`, id)
	}
	return list(ids...)
}

// serve answers paths below /api/v1/ and counts what it was asked.
func serve(t *testing.T, answers map[string]string) (catalog.Client, *[]string) {
	t.Helper()
	asked := &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/")
		*asked = append(*asked, path)
		answer, ok := answers[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return catalog.Client{HTTP: server.Client(), Endpoint: server.URL, Now: now}, asked
}

const services = "containers-kubernetes/%2A"

func find(book cost.Book, region string) string {
	for _, entry := range book {
		if entry.Region == region {
			return entry.Hourly().Short(12)
		}
	}
	return "unknown"
}

func TestPricesOfAllRegions(t *testing.T) {
	withDisk := strings.Replace(price("br-sao", "part-iks.vpc.bxf.4x16", one("0.5864999999999999")), `"metrics":[`,
		`"metrics":[{"metric_id":"part-iks.disk","charge_unit":"Gigabyte-Hour","charge_unit_quantity":1,
		 "amounts":[{"country":"USA","currency":"USD","prices":[{"quantity_tier":1,"price":0.00026142388799999997}]}]},`, 1)
	client, asked := serve(t, map[string]string{
		services: planned("containers.kubernetes.cluster", ownPlan),
		ownPlan + "/pricing/deployment": list(withDisk,
			price("eu-de", "part-iks.vpc.bxf.4x16", one("0.25"))),
	})
	book, missing, err := client.Prices(t.Context(), []string{"bxf.4x16"})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, []string{services, ownPlan + "/pricing/deployment"}, *asked, "each question once")
	require.Len(t, book, 2)
	require.Equal(t, "0.5865", book[0].Hourly().Short(12), "without the noise of floating point")
	require.Equal(t, "disk, 0.000261423888 USD per Gigabyte-Hour", book[0].Excludes)
	require.Equal(t, "USD", book[0].Currency)
	require.Equal(t, "2026-11-21", book[0].Date)
	require.Equal(t, client.Endpoint+"/api/v1/"+ownPlan+"/pricing/deployment", book[0].Source)
	require.Empty(t, book[1].Excludes)
}

func TestOlderFlavorsAreLookedForInTheSharedPlan(t *testing.T) {
	client, _ := serve(t, map[string]string{
		services:                           planned(sharedPlan),
		sharedPlan + "/pricing/deployment": list(price("eu-de", "part-iks.vpc.bx2.2x8", one("0.15")), price("eu-gb", "part-iks.vpc.bx2.4x16", one("0.3"))),
	})
	book, _, err := client.Prices(t.Context(), []string{"bx2.2x8"})
	require.NoError(t, err)
	require.Len(t, book, 1)
	require.Equal(t, "0.15", find(book, "eu-de"))
}

func TestWhatIsNoPlainHourlyPriceIsMissing(t *testing.T) {
	const metric = "part-iks.vpc.bxf.4x16"
	plain := price("eu-de", metric, one("0.25"))
	for name, tc := range map[string]struct {
		deployments []string
		want        string
	}{
		"a plain price, to see that the others fail for their own reason": {[]string{plain}, "0.25"},
		"the same price twice":            {[]string{plain, plain}, "0.25"},
		"two prices for one region":       {[]string{plain, price("eu-de", metric, one("0.26"))}, "unknown"},
		"graduated prices":                {[]string{price("eu-de", metric, one("0.25")+","+one("0.2"))}, "unknown"},
		"no price at all":                 {[]string{price("eu-de", metric, "")}, "unknown"},
		"a negative price":                {[]string{price("eu-de", metric, one("-1"))}, "unknown"},
		"another flavor":                  {[]string{price("eu-de", metric+"0", one("0.25"))}, "unknown"},
		"another unit":                    {[]string{strings.Replace(plain, "Instance-Hour", "Instance", 1)}, "unknown"},
		"another country":                 {[]string{strings.Replace(plain, "USA", "CAN", 1)}, "unknown"},
		"a price of tomorrow":             {[]string{strings.Replace(plain, "2026-08-01", "2026-12-01", 1)}, "unknown"},
		"a price of yesterday":            {[]string{strings.Replace(plain, "9999-12-31", "2026-11-01", 1)}, "unknown"},
		"a price for ten instance-hours":  {[]string{strings.Replace(plain, `quantity":1,`, `quantity":10,`, 1)}, "0.025"},
		"a region that is none":           {[]string{price("DEFAULT", metric, one("0.25"))}, "unknown"},
		"metrics that are null":           {[]string{`{"deployment_location":"eu-de","metrics":null}`}, "unknown"},
		"an amount list that is null":     {[]string{`{"deployment_location":"eu-de","metrics":[{"metric_id":"` + metric + `","charge_unit":"Instance-Hour","amounts":null}]}`}, "unknown"},
		"a plan that is sold nowhere yet": {nil, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := serve(t, map[string]string{services: planned(ownPlan), ownPlan + "/pricing/deployment": list(tc.deployments...)})
			book, missing, err := client.Prices(t.Context(), []string{"bxf.4x16"})
			require.NoError(t, err)
			require.Equal(t, tc.want, find(book, "eu-de"))
			require.Equal(t, tc.want == "unknown", len(missing) == 1)
		})
	}
}

func TestPlansThatCannotBeOrderedDoNotCount(t *testing.T) {
	for name, from := range map[string]string{
		"disabled":   `"disabled":false`,
		"not active": `"active":true`,
		"no plan":    `"kind":"plan"`,
	} {
		t.Run(name, func(t *testing.T) {
			to := strings.NewReplacer("true", "false", "false", "true", `"plan"`, `"template"`).Replace(from)
			client, asked := serve(t, map[string]string{services: strings.Replace(planned(ownPlan), from, to, 1)})
			_, missing, err := client.Prices(t.Context(), []string{"bxf.4x16"})
			require.NoError(t, err)
			require.Equal(t, []string{"bxf.4x16"}, missing)
			require.Len(t, *asked, 1)
		})
	}
}

func TestPagesAreReadToTheEnd(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("_offset"))
		page := strings.Replace(planned(fmt.Sprintf("plan-%d", len(asked))), `"resource_count":1`, `"resource_count":3`, 1)
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	client := catalog.Client{HTTP: server.Client(), Endpoint: server.URL + "/", Now: now}
	_, missing, err := client.Prices(t.Context(), []string{"bx2.2x8"})
	require.NoError(t, err)
	require.Equal(t, []string{"bx2.2x8"}, missing)
	require.Equal(t, []string{"0", "1", "2"}, asked)
}

func TestOddAnswersAreErrorsThatSayWhoAnsweredWhat(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"too many requests": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
		}, "answered 429 Too Many Requests"},
		"a page for people": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		}, "did not answer with what the catalog's documentation promises"},
		"a list that never ends": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"resource_count":1000000,"resources":[{"id":"x"}]}`))
		}, "does not end after 25 pages"},
		"an answer that is cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{`))
		}, "unexpected EOF"},
		"a broken connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"an answer of any size": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 16<<20+1))
		}, "did not answer with what"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.handler)
			defer server.Close()
			client := catalog.Client{HTTP: server.Client(), Endpoint: server.URL, Now: now}
			_, _, err := client.Prices(t.Context(), []string{"bx2.2x8"})
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "listing the plans of containers-kubernetes")
		})
	}
}
