package iksserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

type client struct {
	t     *testing.T
	base  string
	token string
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
	c := &client{t: t, base: h.URL}
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
	resp, err := http.DefaultClient.Do(r)
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
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func vpc() iksserver.Cluster {
	return iksserver.Cluster{
		ID: "abc", Name: "prod", Provider: iksserver.VPC, VPCID: "vpc-1",
		Zones: []iksserver.Zone{
			{ID: "z1", Subnets: []iksserver.Subnet{{ID: "s1", CIDR: "10.0.0.0/24", Available: 9}}},
			{ID: "z2", Subnets: []iksserver.Subnet{{ID: "s2", CIDR: "10.0.1.0/24", Available: 9}}},
		},
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 3, Zones: []string{"z1"}}},
	}
}

func classic() iksserver.Cluster {
	return iksserver.Cluster{
		ID: "abc", Name: "prod", Provider: iksserver.Classic,
		Zones: []iksserver.Zone{{ID: "dal10", VLANs: []iksserver.VLAN{{ID: "1", Type: "private"}, {ID: "2", Type: "public"}}}},
		Pools: []iksserver.Pool{{Name: "default", Flavor: "b3c.4x16", SizePerZone: 2, Zones: []string{"dal10"}}},
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
		AllocateIP: func(zone, _ string) string { return "10.9.9." + zone[1:] },
		OnDeployed: note("deployed"), OnDeleted: note("deleted"),
	}, vpc())
	status, _ := c.do("POST", "/global/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"rr","flavor":"bx2.2x8","workerCount":1,"vpcID":"vpc-1","zones":null}`)
	require.Equal(t, 201, status)
	require.Empty(t, s.Workers("abc", "rr"), "no zone, no worker")
	status, _ = c.do("POST", "/v2/setWorkerPoolTaints", `{"cluster":"prod","workerpool":"rr","taints":{"a":"b:NoExecute"}}`)
	require.Equal(t, 204, status)
	status, body := c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"z2","subnetID":"nope","workerPoolID":"rr"}`)
	require.Equal(t, 400, status, body)
	status, _ = c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"z2","subnetID":"s2","workerpool":"rr"}`)
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
	status, _ = c.do("POST", "/v2/setWorkerPoolLabels", `{"cluster":"abc","workerpool":"rr","labels":{"x":"y"}}`)
	require.Equal(t, 204, status)
	require.Equal(t, map[string]string{"x": "y"}, s.Workers("abc", "rr")[0].Labels, "labels apply to existing workers")
	status, _ = c.do("POST", "/v2/vpc/replaceWorker", `{"cluster":"abc","workerID":"`+id+`","update":true}`)
	require.Equal(t, 204, status)
	require.Equal(t, "deleting provision_pending", states(s, "rr"))
	s.Advance(4 * time.Second)
	require.Equal(t, "deploying", states(s, "rr"))
	_, body = c.do("GET", "/v2/vpc/getWorkers?cluster=abc&showDeleted=true&pool=rr", "")
	require.Contains(t, body, `"actualState":"deleted"`)
	_, body = c.do("GET", "/v2/vpc/getWorkers?cluster=abc&showDeleted=false&pool=rr", "")
	require.NotContains(t, body, id)
	require.Equal(t, []string{
		"deployed rr z2 10.9.9.2 map[a:b:NoExecute]", "deleted rr z2 10.9.9.2 map[a:b:NoExecute]",
	}, events)
	require.Empty(t, s.Untainted("rr"))
	require.Len(t, s.Untainted("default"), 3)
}

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
}

func TestRemovingAWorkerSwitchesRebalancingOff(t *testing.T) {
	s, c := start(t, iksserver.Config{}, vpc())
	all := s.Workers("abc", "default")
	_, _ = c.do("POST", "/v2/removeWorker", `{"cluster":"abc","workerID":"`+all[0].ID+`"}`)
	_, _ = c.do("POST", "/v2/vpc/replaceWorker", `{"cluster":"abc","workerID":"`+all[1].ID+`"}`)
	require.Len(t, s.Workers("abc", "default"), 1)
	_, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":3}`)
	require.Len(t, s.Workers("abc", "default"), 3)
}

func TestRefusals(t *testing.T) {
	s, c := start(t, iksserver.Config{}, vpc())
	s.AddPool("abc", iksserver.Pool{Name: "auto", Flavor: "x", SizePerZone: 1, Zones: []string{"z1"}, Autoscaled: true})
	for _, r := range []struct {
		method, path, body, code string
		status                   int
	}{
		{"GET", "/v2/getCluster?cluster=x&v1-compatible", "", "E0008", 404},
		{"GET", "/v2/vpc/getWorkerPool?cluster=abc&workerpool=x", "", "could not be found", 404},
		{"GET", "/v2/classic/getWorkerPool?cluster=abc&workerpool=default", "", "E3917", 400},
		{"POST", "/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"default","flavor":"f","workerCount":1,"vpcID":"vpc-1"}`, "E0d39", 409},
		{"POST", "/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"rr","flavor":"f","workerCount":1,"vpcID":"vpc-2"}`, "E3917", 400},
		{"POST", "/v2/setWorkerPoolTaints", `{"cluster":"abc","workerpool":"default","taints":{"a":"NoSchedule"}}`, "E0007", 400},
		{"POST", "/v2/setWorkerPoolTaints", `{"cluster":"abc","workerpool":"default","taints":{"a":"b:Never"}}`, "E0007", 400},
		{"POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"auto","size":2}`, "autoscaler", 400},
		{"POST", "/v2/removeWorker", `{"cluster":"abc","workerID":"x"}`, "worker node could not be found", 404},
		{"POST", "/v2/resizeWorkerPool", `not JSON`, "E0007", 400},
	} {
		status, body := c.do(r.method, r.path, r.body)
		require.Equal(t, r.status, status, "%s: %s", r.path, body)
		require.Contains(t, body, r.code)
	}
	c.token = "wrong"
	status, body := c.do("GET", "/v2/getCluster?v1-compatible&cluster=abc", "")
	require.Equal(t, 401, status)
	require.Contains(t, body, "E0058")
}

func TestClassic(t *testing.T) {
	s, c := start(t, iksserver.Config{}, classic())
	const pools = "/v1/clusters/prod/workerpools"
	status, _ := c.do("PATCH", pools+"/default", `{"sizePerZone":0,"labels":{"a":"b"},"reasonForResize":"","state":"labels"}`)
	require.Equal(t, 202, status)
	require.Len(t, s.Workers("abc", "default"), 2, "labels do not resize")
	status, body := c.do("POST", pools, `{"name":"rr","sizePerZone":1,"machineType":"u3c.2x4","isolation":"public","diskEncryption":true,"zones":[]}`)
	require.Equal(t, 201, status)
	require.Contains(t, body, `"machineType":"u3c.2x4.encrypted"`)
	status, body = c.do("POST", pools+"/rr/zones", `{"privateVlan":"77","publicVlan":"2","id":"dal10"}`)
	require.Equal(t, 400, status)
	require.Contains(t, body, "E0053")
	status, _ = c.do("POST", pools+"/rr/zones", `{"privateVlan":"1","publicVlan":"2","id":"dal10"}`)
	require.Equal(t, 201, status)
	_, body = c.do("GET", "/v1/clusters/abc/workers?showDeleted=false&pool=rr", "")
	require.Contains(t, body, `"state":"normal"`)
	require.Contains(t, body, `"status":"Ready"`)
	_, body = c.do("GET", "/v1/datacenters/dal10/vlans", "")
	require.Contains(t, body, `"type":"private"`)
	status, _ = c.do("PATCH", pools+"/rr", `{"sizePerZone":2,"state":"resizing"}`)
	require.Equal(t, 202, status)
	id := s.Workers("abc", "rr")[0].ID
	status, _ = c.do("DELETE", "/v1/clusters/abc/workers/"+id, "")
	require.Equal(t, 204, status)
	require.Len(t, s.Workers("abc", "rr"), 1)
	_, _ = c.do("PATCH", pools+"/rr", `{"sizePerZone":2,"state":"resizing"}`)
	require.Len(t, s.Workers("abc", "rr"), 2)
	status, _ = c.do("DELETE", pools+"/rr", "")
	require.Equal(t, 204, status)
	require.Equal(t, []string{"default"}, s.Pools("abc"))
}

func TestQuotaAndFailures(t *testing.T) {
	s, c := start(t, iksserver.Config{Quota: 4}, vpc())
	status, _ := c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":5}`)
	require.Equal(t, 202, status, "the quota shows later")
	require.Equal(t, strings.Repeat("deployed ", 4)+"provision_failed", states(s, "default"))
	require.Contains(t, s.Workers("abc", "default")[4].Message, "Allocated: 4, Quota: 4")
	s.SetQuota(0)
	s.FailNext(1, "deploy_failed", "no router")
	_, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":6}`)
	require.Equal(t, "no router", s.Workers("abc", "default")[5].Message)
}

func TestFaults(t *testing.T) {
	s, c := start(t, iksserver.Config{}, vpc())
	const list = "/v2/vpc/getWorkerPools?cluster=abc"
	get := func() (int, string) { return c.do("GET", list, "") }
	_, good := get()
	s.Inject(iksserver.Fault{Path: "getWorkerPools", After: 1, Times: 2, Status: 503})
	var seen []int
	for range 4 {
		status, _ := get()
		seen = append(seen, status)
	}
	require.Equal(t, []int{200, 503, 503, 200}, seen)
	for want, f := range map[string]iksserver.Fault{
		"null": iksserver.Null(), "": iksserver.Empty(), good[:len(good)/2]: iksserver.Truncated(),
	} {
		s.Inject(f.On("GET", "getWorkerPools").Once())
		_, body := get()
		require.Equal(t, want, body)
	}
	s.Inject(iksserver.Fault{Path: "getWorkerPools", ExpireToken: true, Times: 1})
	status, _ := get()
	require.Equal(t, 401, status)
	c.login()
	s.Inject(iksserver.Fault{Method: "POST", Executed: true, Status: 504, Times: 1})
	status, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":1}`)
	require.Equal(t, 504, status)
	require.Len(t, s.Workers("abc", "default"), 1, "executed all the same")
	s.Inject(iksserver.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+list, http.NoBody)
	require.NoError(t, err)
	_, err = http.DefaultClient.Do(r) //nolint:bodyclose // there is no answer
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.ClearFaults()
	status, _ = get()
	require.Equal(t, 200, status)
	for _, q := range s.Requests() {
		require.NotContains(t, q.Body, "apikey")
	}
}

func TestRealTime(t *testing.T) {
	up := make(chan string, 10)
	s, c := start(t, iksserver.Config{
		Now: time.Now, Delays: iksserver.Delays{Deploying: 30 * time.Millisecond},
		OnDeployed: func(w iksserver.Worker) { up <- w.Zone },
	}, vpc())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx, 5*time.Millisecond); close(done) }()
	_, _ = c.do("POST", "/v2/resizeWorkerPool", `{"cluster":"abc","workerpool":"default","size":4}`)
	require.Equal(t, "z1", <-up)
	cancel()
	<-done
}
