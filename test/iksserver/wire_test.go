package iksserver_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

const tokenPath = "/identity/token"

// ask makes one login, which every server answers.
func ask(ctx context.Context, rt http.RoundTripper, base, key string) (int, string, error) {
	form := url.Values{"grant_type": {"urn:ibm:params:oauth:grant-type:apikey"}, "apikey": {key}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+tokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	r.SetBasicAuth("bx", "bx")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// The transport without a network spoils answers as the network does.
func TestTheSameFaultsWithAndWithoutANetwork(t *testing.T) {
	s := iksserver.New(iksserver.Config{})
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); h.Close() })
	wire := &http.Transport{DisableKeepAlives: true}
	for name, rt := range map[string]http.RoundTripper{"network": wire, "none": s.Transport()} {
		t.Run(name, func(t *testing.T) {
			get := func(f iksserver.Fault) (int, string, error) {
				s.Inject(f.On("", tokenPath).Once())
				return ask(t.Context(), rt, h.URL, "k")
			}
			// A client that gave up before its question arrived would leave the fault to the next.
			outlives := func(f iksserver.Fault) {
				s.Inject(f.On("", tokenPath).Once())
				before := len(s.Requests())
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer cancel()
					for len(s.Requests()) == before && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(50 * time.Millisecond) // some of the answer is there, if any comes
				}()
				_, _, err := ask(ctx, rt, h.URL, "k")
				require.ErrorIs(t, err, context.Canceled)
			}
			status, body, err := get(iksserver.Fault{Slow: time.Microsecond})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, body, `"token_type":"Bearer"`)
			outlives(iksserver.Fault{Hang: true})
			outlives(iksserver.Fault{Slow: 20 * time.Millisecond})
			_, _, err = get(iksserver.Fault{Reset: true})
			require.Error(t, err)
			require.NotErrorIs(t, err, context.Canceled)
			status, body, err = get(iksserver.Fault{Status: http.StatusTeapot, Body: "no"})
			require.NoError(t, err)
			require.Equal(t, http.StatusTeapot, status)
			require.Equal(t, "no", body)
			status, body, err = get(iksserver.Empty())
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Empty(t, body)
		})
	}
}

func TestAFaultLastsAsLongAsItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := iksserver.New(iksserver.Config{APIKeys: []string{"old"}})
		s.Inject(iksserver.Fault{Status: http.StatusBadGateway, For: time.Minute})
		time.Sleep(time.Hour) // it counts from the first request
		var seen []int
		for range 4 {
			status, _, err := ask(t.Context(), s.Transport(), "http://iam", "old")
			require.NoError(t, err)
			seen = append(seen, status)
			time.Sleep(25 * time.Second)
		}
		require.Equal(t, []int{502, 502, 502, 200}, seen)

		s.SetAPIKeys("new")
		status, body, err := ask(t.Context(), s.Transport(), "http://iam", "old")
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "BXNIM0415E")
		status, _, err = ask(t.Context(), s.Transport(), "http://iam", "new")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	})
}

func TestTheRecordTellsWhatTookEffect(t *testing.T) {
	s, c := start(t, iksserver.Config{}, vpc())
	resize := func(size string) {
		c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":`+size+`}`)
	}
	resize("1")
	s.Inject(iksserver.Fault{Path: "resize", Status: 500, Times: 1})
	resize("2")
	s.Inject(iksserver.Fault{Path: "resize", Status: 500, Times: 1}.Lost())
	resize("3")
	resize(`"four"`)
	var seen []string
	for _, r := range s.Requests() {
		if r.Mutating() {
			seen = append(seen, strings.Join([]string{
				http.StatusText(r.Status), map[bool]string{true: "executed", false: "not"}[r.Executed()], map[bool]string{true: "faulty", false: "well"}[r.Faulty],
			}, " "))
		}
	}
	require.Equal(t, []string{
		"Accepted executed well", "Internal Server Error not faulty", "Internal Server Error executed faulty", "Bad Request not well",
	}, seen)
}

func TestADeletedPoolMayLinger(t *testing.T) {
	for lingering, want := range map[bool]string{true: "deleting", false: ""} {
		var states []string
		at := time.Unix(1_700_000_000, 0)
		s, c := start(t, iksserver.Config{
			Now: func() time.Time { return at }, Lingering: lingering, Delays: iksserver.Delays{Deleting: time.Minute},
			Audit: func(pools []iksserver.PoolState) {
				for _, p := range pools {
					if p.Deleted && len(p.Workers) > 0 {
						states = append(states, p.Workers[0].State)
					}
				}
			},
		}, vpc())
		id := s.Workers("abc", "default")[0].PoolID
		const list = "/v2/vpc/getWorkerPools?cluster=abc"
		status, _ := c.do("DELETE", "/v1/clusters/abc/workerpools/default", "")
		require.Equal(t, http.StatusNoContent, status)
		_, body := c.do("GET", list, "")
		require.Equal(t, want != "", strings.Contains(body, `"actualState":"deleting"`), body)
		status, body = c.do("POST", "/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"default","flavor":"f","vpcID":"vpc-1"}`)
		require.Equal(t, map[bool]int{true: 409, false: 201}[lingering], status, body)
		status, body = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"`+id+`","size":3}`)
		require.Contains(t, []int{404, 409}, status, body)
		status, body = c.do("GET", "/v2/vpc/getWorkers?cluster=abc&showDeleted=true&pool="+id, "")
		require.Equal(t, 200, status, body)
		require.Contains(t, body, `"actualState":"deleting"`, "the machines of a deleted pool can be waited for")
		at = at.Add(2 * time.Minute)
		_, body = c.do("GET", "/v2/vpc/getWorkers?cluster=abc&showDeleted=true&pool="+id, "")
		require.Contains(t, body, `"actualState":"deleted"`)
		_, body = c.do("GET", list, "")
		require.NotContains(t, body, "deleting")
		require.Contains(t, states, "deleting")
		s.AddPool("abc", iksserver.Pool{Name: "other", Flavor: "f", SizePerZone: 1, Zones: []string{"z1"}})
		s.RemoveWorker("abc", s.Workers("abc", "other")[0].ID)
		require.Equal(t, "deleting", s.Workers("abc", "other")[0].State)
		s.RemovePool("abc", "other")
		at = at.Add(2 * time.Minute)
		require.NotContains(t, s.Pools("abc"), "other")
	}
}
