package iks_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/test/iksserver"
)

var both = []string{iksserver.VPC, iksserver.Classic}

func spec(size int) cloud.PoolSpec {
	return cloud.PoolSpec{
		SizePerZone: size,
		Taints:      []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}
}

func settle(t *testing.T, w *world, p cloud.Provider, want cloud.PoolSpec) {
	t.Helper()
	for range 40 {
		got := ensure(t, p, want)
		if got.Done {
			return
		}
		if got.Did == "" {
			w.Advance(5 * time.Minute)
		}
	}
	require.Fail(t, "never done")
}

func spoiled() map[string]iksserver.Fault {
	body := iksserver.Body
	return map[string]iksserver.Fault{
		"null": body("null"), "empty": body(""), "HTML": body("<html>Please log in</html>"), "truncated": {Spoil: half},
		"an empty object": body("{}"), "an empty list": body("[]"), "a list of null": body("[null]"),
		"a list of empty objects": body("[{}]"), "a string": body(`"ok"`), "trailing rubbish": body(`[]<html>`),
		"a page with status 404": {Status: http.StatusNotFound, Body: "<html>no such page</html>"},
		"a page with status 400": {Status: http.StatusBadRequest, Body: "<html>?</html>"},
		"a redirect":             {Status: http.StatusFound, Header: http.Header{"Location": {"/elsewhere"}}},
	}
}

func TestSpoiledAnswersProveNothing(t *testing.T) {
	for _, generation := range both {
		for name, fault := range spoiled() {
			for _, path := range []string{"/identity/token", "/v2/getCluster", poolList, workerList} {
				if name == "an empty list" && path == workerList || generation == iksserver.Classic && strings.HasPrefix(path, "/") {
					continue // which is a good answer here, or has been given in the other generation
				}
				t.Run(generation+" "+name+" "+path, func(t *testing.T) {
					w := newWorld(t, generation)
					settle(t, w, w.provider(t, nil), spec(1))
					before := w.Mutations()
					w.Server.Inject(fault.On("", path))
					_ = unseen(t, w.provider(t, nil), cloud.Unavailable)
					p := w.provider(t, nil)
					_ = refused(t, p, spec(2), cloud.Unavailable)
					_, err := p.Delete(context.Background())
					require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
					require.Equal(t, before, w.Mutations())
					require.Equal(t, 1, w.Pools())
					w.ClearFaults()
					settle(t, w, p, spec(2))
				})
			}
		}
	}
}

// TestARequestHasAnEnd where its caller sets none.
func TestARequestHasAnEnd(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	w.Server.Inject(iksserver.Fault{Path: "getWorkerPools", Slow: time.Second}) // for each byte
	err := unseen(t, w.provider(t, func(c *iks.Config) { c.Timeout = 100 * time.Millisecond }), cloud.Unavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTwoPoolsOfOneNameAreLeftAlone(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	w.AddForeignPool()
	w.AddForeignPool()
	_ = unseen(t, w.provider(t, nil), cloud.Conflict)
}

func TestTokens(t *testing.T) {
	ctx := context.Background()
	t.Run("a token that has become invalid is renewed once, and the change is made once", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		p := w.provider(t, nil)
		ensure(t, p, spec(1))
		w.ExpireTokens()
		w.Server.Inject(iksserver.Fault{Method: "POST", Path: "setWorkerPoolTaints", ExpireToken: true, Times: 1})
		require.NotEmpty(t, ensure(t, p, spec(1)).Did)
		_, _, tokens := w.Counts()
		require.Equal(t, 3, tokens)
		require.Equal(t, 1, w.Pools())
	})
	for name, c := range map[string]struct {
		status, reads, tokens int
		old                   bool // is the token
	}{
		"a 401 that stays costs two requests and a login": {401, 2, 1, true},
		"a new token that is refused is not renewed":      {401, 1, 1, false},
		"a 403 leads to no login":                         {403, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, iksserver.VPC)
			p := w.provider(t, nil)
			if c.old {
				observe(t, p)
			}
			reads, _, tokens := w.Counts()
			w.Server.Inject(iksserver.Fault{Path: "^/v2/", Status: c.status, Body: `{"code":"E0058","description":"no"}`})
			_ = unseen(t, p, cloud.Unauthorized)
			after, _, then := w.Counts()
			require.Equal(t, [2]int{c.reads, c.tokens}, [2]int{after - reads, then - tokens})
		})
	}
	t.Run("IAM's refusal, and its silence", func(t *testing.T) {
		for body, c := range map[string]struct {
			status int
			kind   cloud.Kind
		}{
			`{"errorCode":"BXNIM0415E","errorMessage":"Provided API key could not be found."}`: {400, cloud.Unauthorized},
			`{"message":"JSON without a code"}`:                                                {400, cloud.Unavailable},
			`{"access_token":"","token_type":"Bearer"}`:                                        {200, cloud.Unavailable},
			`{"access_token":"abc","token_type":" "}`:                                          {200, cloud.Unavailable},
			`{"errorCode":"BXNIM0000E","errorMessage":"ouch"}`:                                 {503, cloud.Unavailable},
			`{"errorCode":"BXNIM0999E","errorMessage":"slowly"}`:                               {429, cloud.RateLimited},
		} {
			w := newWorld(t, iksserver.VPC)
			w.Server.Inject(iksserver.Fault{Path: "^/identity/", Status: c.status, Body: body})
			_, err := w.provider(t, nil).Observe(ctx, cloud.PoolSpec{})
			require.True(t, cloud.Is(err, c.kind), "%s: %v", body, err)
			reads, changes, tokens := w.Counts()
			require.Equal(t, [3]int{0, 0, 1}, [3]int{reads, changes, tokens}, "nothing is asked without a token")
		}
	})
	t.Run("a refusal that is not about this key", func(t *testing.T) {
		const own, reset, policy = "the API key must be valid", "ibmcloud ks api-key reset --region", "ibmcloud iam authorization-policy-create"
		for body, c := range map[string]struct {
			status int
			kind   cloud.Kind
			says   []string
			not    string
		}{
			`{"code":"E0057","description":"The infrastructure credentials could not be found."}`:                                {401, cloud.Unauthorized, []string{reset}, own},
			`{"code":"E0000","description":"The infrastructure authentication credentials are not authorized for the request."}`: {403, cloud.Unauthorized, []string{reset}, own},
			`{"code":"E0000","description":"Review the 'vpc' infrastructure user permissions."}`:                                 {400, cloud.Unauthorized, []string{reset}, own},
			`{"code":"E0000","description":"The IAM token exchange request failed with the message: gone"}`:                      {403, cloud.Unauthorized, []string{reset}, own},
			`{"code":"NHC009","description":"x"}`:                                                              {403, cloud.Unauthorized, []string{reset}, own},
			`{"code":"E09c0","description":"x"}`:                                                               {403, cloud.Unauthorized, []string{policy}, own},
			`{"code":"E0000","description":"no policy for the KMS instance"}`:                                  {403, cloud.Unauthorized, []string{policy}, own},
			`{"code":"E0003","description":"no permission","recoveryCLI":"ask by 'ibmcloud ks api-key info'"}`: {403, cloud.Unauthorized, []string{own, "ibmcloud ks api-key info", "endpoint: Private"}, reset},
			`{"code":"E0058","description":"expired"}`:                                                         {401, cloud.Unauthorized, []string{own}, "endpoint: Private"},
			`<html>a proxy's page</html>`:                                                                      {403, cloud.Unavailable, []string{"any proxy in between"}, own},
			``:                                                                                                 {401, cloud.Unavailable, []string{"any proxy in between"}, own},
			`{"code":"E0000","description":"The infrastructure account has no permission now"}`: {503, cloud.Unavailable, []string{"the service's own trouble"}, reset},
		} {
			w := newWorld(t, iksserver.VPC)
			w.Server.Inject(iksserver.Fault{Path: "^/v2/", Status: c.status, Body: body})
			err := unseen(t, w.provider(t, nil), c.kind)
			for _, word := range c.says {
				require.ErrorContains(t, err, word, body)
			}
			require.NotContains(t, err.Error(), c.not, body)
		}
	})
	t.Run("an empty API key", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		_ = unseen(t, w.provider(t, func(c *iks.Config) { c.APIKey = " \n" }), cloud.Unauthorized)
		require.Empty(t, w.Server.Requests())
	})
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 30 * time.Second, "12": 12 * time.Second, "never": 30 * time.Second, "-5": 30 * time.Second,
		"99999999": 10 * time.Minute, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
	} {
		w := newWorld(t, iksserver.VPC)
		f := iksserver.Fault{Path: "getWorkerPools", Status: http.StatusTooManyRequests, Body: "slow down", Header: http.Header{}}
		if header != "" {
			f.Header.Set("Retry-After", header)
		}
		w.Server.Inject(f)
		err := unseen(t, w.provider(t, nil), cloud.RateLimited)
		require.Equal(t, want, cloud.RetryAfter(err), "Retry-After: %q", header)
	}
}

func TestAnswersOfTheServiceKeepTheirMeaning(t *testing.T) {
	for body, c := range map[string]struct {
		status int
		kind   cloud.Kind
	}{
		`{"code":"E0008","description":"The specified cluster could not be found."}`:       {404, cloud.NotFound},
		`{"code":"E4e5b","description":"Could not find flavor in the requested zone."}`:    {400, cloud.InvalidInput},
		`{"code":"E1234","description":"This would put the account over quota."}`:          {400, cloud.QuotaExceeded},
		`{"code":"E9999","description":"Another operation is running."}`:                   {409, cloud.Conflict},
		`{"code":"E0001","description":"Internal error.","incidentID":"incident-number1"}`: {500, cloud.Unavailable},
	} {
		w := newWorld(t, iksserver.VPC)
		w.Server.Inject(iksserver.Fault{Path: "getWorkerPools", Status: c.status, Body: body})
		err := unseen(t, w.provider(t, nil), c.kind)
		require.Contains(t, err.Error(), strings.Split(body, `"`)[7], "the cloud's own words")
	}
}

func TestCallsOfOneInstanceDoNotOverlap(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		p := w.provider(t, nil)
		w.Server.Inject(iksserver.Fault{Method: "POST", Path: "^/v[12]/", Slow: 2 * time.Millisecond})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if _, err := p.Ensure(context.Background(), spec(1)); err != nil {
					t.Errorf("a second look before the first change: %v", err)
				}
			})
		}
		wait.Wait()
		require.Equal(t, 5, w.Mutations(), "created, tainted and three zones; the rest wait")
	}
}
