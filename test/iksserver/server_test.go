package iksserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

type client struct {
	t           *testing.T
	base, token string
	http        *http.Client
}

func start(t *testing.T, cfg iksserver.Config, clusters ...iksserver.Cluster) (*iksserver.Server, *client) {
	t.Helper()
	at := time.Unix(1_700_000_000, 0)
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return at }
	}
	s := iksserver.New(cfg)
	for _, c := range clusters {
		s.AddCluster(c)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); h.Close() })
	c := &client{t: t, base: h.URL, http: http.DefaultClient}
	c.login()
	return s, c
}

func (c *client) login() {
	c.t.Helper()
	form := url.Values{"grant_type": {"urn:ibm:params:oauth:grant-type:apikey"}, "apikey": {"k"}}
	r, err := http.NewRequest(http.MethodPost, c.base+"/identity/token", strings.NewReader(form.Encode()))
	require.NoError(c.t, err)
	r.SetBasicAuth("bx", "bx")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.http.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	var out struct {
		Token string `json:"access_token"`
	}
	require.NoError(c.t, json.NewDecoder(resp.Body).Decode(&out))
	require.NotEmpty(c.t, out.Token)
	c.token = out.Token
}

func (c *client) do(method, path, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.base+path, bytes.NewBufferString(body))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func vpc() iksserver.Cluster {
	return iksserver.Cluster{
		ID: "abc", Name: "prod", Provider: iksserver.VPC, VPCID: "vpc-1",
		Zones: []iksserver.Zone{
			{ID: "us-south-1", Subnets: []iksserver.Subnet{{ID: "s1", CIDR: "10.0.0.0/24", Available: 9}}},
			{ID: "us-south-2", Subnets: []iksserver.Subnet{{ID: "s2", CIDR: "10.0.1.0/24", Available: 9}}},
		},
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 3, Zones: []string{"us-south-1"}}},
	}
}

func states(s *iksserver.Server, pool string) string {
	var out []string
	for _, w := range s.Workers("abc", pool) {
		out = append(out, w.State)
	}
	return strings.Join(out, " ")
}

func TestTheStatesOfAWorker(t *testing.T) {
	var mu sync.Mutex
	var events []string
	note := func(what string) func(iksserver.Worker) {
		return func(w iksserver.Worker) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf("%s %s %s %s %v", what, w.PoolName, w.Zone, w.IP, w.Taints))
		}
	}
	s, c := start(t, iksserver.Config{
		Delays:     iksserver.Delays{Pending: time.Second, Provisioning: 2 * time.Second, Deploying: 3 * time.Second, Deleting: 4 * time.Second},
		AllocateIP: func(zone, _ string) string { return "10.9.9." + zone[len("us-south-"):] },
		OnDeployed: note("deployed"), OnDeleted: note("deleted"),
	}, vpc())
	status, _ := c.do("POST", "/global/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"rr","flavor":"bx2.2x8","workerCount":1,"vpcID":"vpc-1","zones":null}`)
	require.Equal(t, 201, status)
	require.Empty(t, s.Workers("abc", "rr"), "no zone, no worker")
	status, _ = c.do("POST", "/v2/setWorkerPoolTaints", `{"cluster":"prod","workerpool":"rr","taints":{"a":"b:NoExecute"}}`)
	require.Equal(t, 204, status)
	status, body := c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"us-south-2","subnetID":"nope","workerPoolID":"rr"}`)
	require.Equal(t, 400, status, body)
	status, _ = c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"us-south-2","subnetID":"s2","workerpool":"rr"}`)
	require.Equal(t, 201, status)
	for _, step := range []struct {
		d    time.Duration
		want string
	}{
		{0, "provision_pending"}, {time.Second, "provisioning"}, {2 * time.Second, "deploying"}, {2 * time.Second, "deploying"}, {time.Second, "deployed"},
	} {
		s.Advance(step.d)
		require.Equal(t, step.want, states(s, "rr"))
	}
	id := s.Workers("abc", "rr")[0].ID
	require.Regexp(t, `^kube-abc-prod-rr-[0-9a-f]{8}$`, id)
	status, _ = c.do("POST", "/v2/vpc/replaceWorker", `{"cluster":"abc","workerID":"`+id+`","update":true}`)
	require.Equal(t, 204, status)
	require.Equal(t, "deleting provision_pending", states(s, "rr"))
	s.Advance(4 * time.Second)
	require.Equal(t, "deploying", states(s, "rr"))
	_, body = c.do("GET", "/v2/vpc/getWorkers?cluster=abc&showDeleted=false&pool=rr", "")
	require.NotContains(t, body, id)
	require.Equal(t, []string{
		"deployed rr us-south-2 10.9.9.2 map[a:b:NoExecute]", "deleted rr us-south-2 10.9.9.2 map[a:b:NoExecute]",
	}, events)
	require.Empty(t, s.Untainted("rr"))
	require.Len(t, s.Untainted("default"), 3)
}

// A worker that is removed is missed until the next resize.
func TestScaleDownOrder(t *testing.T) {
	s, c := start(t, iksserver.Config{}, vpc())
	all := s.Workers("abc", "default")
	s.Break("abc", all[2].ID, "", "warning", "tired")
	status, _ := c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":2}`)
	require.Equal(t, 202, status)
	require.Len(t, s.Workers("abc", "default"), 2)
	require.Equal(t, all[:2], s.Workers("abc", "default"), "the sick one goes before the old one")
	_, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":1}`)
	require.Equal(t, all[1:2], s.Workers("abc", "default"), "among equals the lowest id goes")
	_, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":0}`)
	require.Empty(t, s.Workers("abc", "default"), "no worker is allowed")

	const three = `{"cluster":"abc","workerpool":"default","size":3}`
	_, _ = c.do("POST", "/v2/resizeWorkerPool", three)
	all = s.Workers("abc", "default")
	_, _ = c.do("POST", "/v2/removeWorker", `{"cluster":"abc","workerID":"`+all[0].ID+`"}`)
	_, _ = c.do("POST", "/v2/vpc/replaceWorker", `{"cluster":"abc","workerID":"`+all[1].ID+`"}`)
	require.Len(t, s.Workers("abc", "default"), 1)
	_, _ = c.do("POST", "/v2/resizeWorkerPool", three)
	require.Len(t, s.Workers("abc", "default"), 3)
}

func TestASlowCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := iksserver.New(iksserver.Config{Profile: iksserver.Slow})
		s.AddCluster(vpc())
		c := &client{t: t, base: "http://cloud", http: &http.Client{Transport: s.Transport()}}
		c.login()
		status, body := c.do("POST", "/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"rr","flavor":"bx2.2x8","workerCount":1,"vpcID":"vpc-1","labels":{"a":"b"}}`)
		require.Equal(t, 201, status, body)
		status, body = c.do("POST", "/v2/setWorkerPoolTaints", `{"cluster":"abc","workerpool":"rr","taints":{"a":"b:NoExecute"}}`)
		require.Equal(t, 204, status, body)
		asked := s.Requests() // for a token, the pool, its taints
		require.GreaterOrEqual(t, asked[2].At.Sub(asked[1].At), iksserver.CreationTime)
		status, _ = c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"us-south-2","subnetID":"s2","workerPoolID":"rr"}`)
		require.Equal(t, 201, status)
		require.Len(t, s.Workers("abc", "rr"), 1)
		seen := func() (out string) {
			for range 3 {
				_, body := c.do("GET", "/v2/vpc/getWorkers?cluster=abc&pool=rr", "")
				out += map[bool]string{true: "1", false: "0"}[strings.Contains(body, `"us-south-2"`)]
			}
			return out
		}
		require.Equal(t, "000", seen(), "no replica has it yet")
		time.Sleep(10 * time.Second)
		require.Len(t, strings.ReplaceAll(seen(), "0", ""), 1, "it comes, and goes again")
		time.Sleep(time.Minute)
		require.Len(t, strings.ReplaceAll(seen(), "0", ""), 2)
		time.Sleep(time.Minute)
		require.Equal(t, "111", seen())
		require.Contains(t, s.Workers("abc", "rr")[0].State, "deployed")

		status, _ = c.do("DELETE", "/v1/clusters/abc/workerpools/rr", "")
		require.Equal(t, 204, status)
		_, body = c.do("GET", "/v2/vpc/getWorkerPools?cluster=abc", "")
		require.Contains(t, body, `"rr"`)
		time.Sleep(2 * time.Minute)
		_, body = c.do("GET", "/v2/vpc/getWorkerPools?cluster=abc", "")
		require.NotContains(t, body, `"rr"`)
	})
}
