package iks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/untrusted"
)

// What must never show.
const (
	hushKey   = "Key-hush-0123456789"
	hushToken = "Token-hush-0123456789"
)

// hostileCloud answers by the end of the path, and keeps the requests.
type hostileCloud struct {
	status   int
	answers  map[string]string
	requests []*http.Request
}

// RoundTrip implements http.RoundTripper. An answer may repeat our secrets.
func (c *hostileCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests = append(c.requests, r)
	status, body := c.status, "{}"
	for end, answer := range c.answers {
		if strings.HasSuffix(r.URL.Path, end) {
			body = answer
		}
	}
	if strings.HasSuffix(r.URL.Path, "/identity/token") && c.answers["/identity/token"] == "" {
		status, body = http.StatusOK, `{"access_token":"`+hushToken+`","token_type":"Bearer","refresh_token":"r","expires_in":3600}`
	}
	body = strings.NewReplacer("KEY", hushKey, "TOKEN", hushToken).Replace(body)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r,
	}, nil
}

func hostileProvider(c *hostileCloud) (*Provider, error) {
	return New(Config{
		ClusterID: "c1", PoolName: "route-reflectors", APIKey: hushKey, Transport: c, Region: "eu-de",
		CSEndpoint: "https://cs.test/global", IAMEndpoint: "https://iam.test", Now: func() time.Time { return time.Unix(1e9, 0) },
	})
}

// requireHarmless holds what the cloud made us say to one plain line without a secret.
func requireHarmless(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NotContains(t, text, hushKey)
		require.NotContains(t, text, hushToken)
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }), "%q", text)
		require.Less(t, len(text), 4096)
	}
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var typed *cloud.Error
	require.ErrorAs(t, err, &typed)
	requireHarmless(t, err.Error())
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		requireHarmless(t, cause.Error())
	}
}

// addresses are all that a request may go to. A pool, and a worker of it, are deleted by name: nothing shorter is.
var addresses = regexp.MustCompile(`^(POST https://iam\.test/identity/token` +
	`|(GET|POST) https://cs\.test/global/v2/[A-Za-z/]+(\?[^/]*)?` +
	`|(GET|POST) https://cs\.test/global/v1/clusters/c1/workerpools` +
	`|(GET|DELETE) https://cs\.test/global/v1/clusters/c1/workerpools/[A-Za-z0-9][\w.-]*` +
	`|POST https://cs\.test/global/v1/clusters/c1/workerpools/[A-Za-z0-9][\w.-]*/zones` +
	`|DELETE https://cs\.test/global/v1/clusters/c1/workerpools/[A-Za-z0-9][\w.-]*/zones/[A-Za-z0-9][\w.-]*` +
	`|GET https://cs\.test/global/v1/clusters/c1/workers(\?[^/]*)?` +
	`|DELETE https://cs\.test/global/v1/clusters/c1/workers/[A-Za-z0-9][\w.-]*` +
	`|GET https://cs\.test/global/v1/datacenters/[A-Za-z0-9][\w.-]*/(vlans|machine-types)(\?[^/]*)?` +
	`|GET https://cs\.test/global/v1/zones)$`)

var asked = regexp.MustCompile(`^(cluster|workerpool|pool|showDeleted|v1-compatible|vpc|provider|zone)$`)

// Whatever the cloud answers, ids that it gives never lead a request elsewhere, nothing shorter than a pool or a
// worker is deleted, and neither key nor token shows in what is said.
func FuzzIKSBodies(f *testing.F) {
	const (
		vpcCluster = `{"id":"c1","name":"n","provider":"vpc-gen2","workerZones":["z1"],"vpcs":["v1"]}`
		vpcPools   = `[{"id":"p0","poolName":"default","workerCount":1,"vpcID":"v1","zones":[{"id":"z1","subnets":[{"id":"s1","primary":true}]}]},` +
			`{"id":"p1","poolName":"route-reflectors","workerCount":1,"labels":{"rrpool.io/pool":"route-reflectors"},"taints":{"a":"b:NoExecute"},"zones":[{"id":"z1"}],"lifecycle":{"actualState":"active"}}]`
		vpcWorkers     = `[{"id":"w1","poolID":"p1","poolName":"route-reflectors","location":"z1","lifecycle":{"actualState":"provision_failed","message":"KEY TOKEN \u001b[2J\n"},"health":{"state":"normal"}}]`
		onePool        = `{"id":"p1","poolName":"route-reflectors","labels":{"rrpool.io/pool":"route-reflectors"},"taints":{"a":"b:NoExecute"}}`
		classicPools   = `[{"id":"p0","name":"default","sizePerZone":1,"zones":[{"id":"dal10","privateVlan":"1","publicVlan":"2"}]},{"id":"..","name":"route-reflectors","sizePerZone":1,"labels":{"rrpool.io/pool":"route-reflectors"},"zones":[{"id":"dal10"}]}]`
		classicCluster = `{"id":"c1","provider":"classic","workerZones":["dal10"]}`
		classicWorkers = `[{"id":"../../c2","poolid":"..","poolName":"route-reflectors","location":"dal10","state":"normal","status":"Ready"}]`
	)
	f.Add(uint16(0), vpcCluster, vpcPools, vpcWorkers, onePool, "{}")
	f.Add(uint16(0), vpcCluster, strings.ReplaceAll(vpcPools, `"p1"`, `"p1&workerpool=p0"`), vpcWorkers, onePool, "[]")
	f.Add(uint16(0), vpcCluster, strings.ReplaceAll(vpcPools, `"z1"`, `"z/../.."`), strings.ReplaceAll(vpcWorkers, `"w1"`, `"w#1"`), onePool, "[]")
	f.Add(uint16(0), classicCluster, classicPools, classicWorkers, onePool, "[]")
	f.Add(uint16(0), classicCluster, strings.ReplaceAll(classicPools, `".."`, `"p1"`), strings.ReplaceAll(classicWorkers, `".."`, `"p1"`), onePool, "[]")
	f.Add(uint16(203), `{"incidentID":"i","code":"E1","description":"apikey=KEY bearer TOKEN","type":"x"}`, "", "", "", "")
	f.Add(uint16(300), "<html>KEY\x1b]0;x\a</html>", "null", "null", "null", "")
	f.Add(uint16(0), `{"id":"c1","provider":"vpc-gen2"}`, "[]", "[]", "{}", `{"id":7}`)
	f.Add(uint16(0), vpcCluster, strings.ReplaceAll(vpcPools, `"p1"`, `"p2"`), "[]", onePool, `[{"id":"z1","name":"KEY TOKEN \u001b[2J\n"},{"name":"bx2.999999999999999999999x8"}]`)
	f.Add(uint16(0), vpcCluster, strings.ReplaceAll(vpcPools, `"poolName":"route-reflectors"`, `"poolName":"x"`), "[]", onePool, `[{"name":"KEY\n"}]`)
	f.Fuzz(func(t *testing.T, status uint16, cluster, pools, workers, pool, rest string) {
		c := &hostileCloud{status: 200 + int(status)%400, answers: map[string]string{
			"/getCluster": cluster, "/getWorkerPools": pools, "/workerpools": pools, "/getWorkers": workers, "/workers": workers,
			"/getWorkerPool": pool, "/getSubnets": rest, "/vlans": rest, "/getFlavors": rest, "/getZones": rest, "/machine-types": rest, "/zones": rest, "/createWorkerPool": rest,
		}}
		p, err := hostileProvider(c)
		require.NoError(t, err)
		seen, err := p.Observe(t.Context(), cloud.PoolSpec{})
		requireTyped(t, err)
		requireHarmless(t, seen.Problems...)
		want := cloud.PoolSpec{
			Zones: []string{"z1", "dal10"}, SizePerZone: 2,
			Taints: []cloud.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}},
		}
		for _, w := range seen.Workers {
			requireHarmless(t, w.Message)
			want.Replace = append(want.Replace, w.ID)
		}
		for range 3 {
			progress, err := p.Ensure(t.Context(), want)
			requireTyped(t, err)
			requireHarmless(t, progress.Did, progress.WaitingFor)
			want.Retire, want.Replace = want.Replace, want.Retire
		}
		progress, err := p.Delete(t.Context())
		requireTyped(t, err)
		requireHarmless(t, progress.Did, progress.WaitingFor)
		for _, r := range c.requests {
			require.Regexp(t, addresses, r.Method+" "+r.URL.String())
			require.Equal(t, path.Clean(r.URL.Path), r.URL.Path)
			query, err := url.ParseQuery(r.URL.RawQuery)
			require.NoError(t, err)
			for key, values := range query {
				require.Regexp(t, asked, key)
				require.Len(t, values, 1, "%s", r.URL)
			}
			if strings.Contains(r.URL.Path, "/v2/") && r.Method == http.MethodGet && query.Get("provider") == "" {
				require.Equal(t, "c1", query.Get("cluster"))
			}
		}
	})
}

// Whatever IAM answers, no request goes out without a token, and what it answers does not show.
func FuzzToken(f *testing.F) {
	f.Add(uint16(0), `{"access_token":"TOKEN","token_type":"Bearer","refresh_token":"r","expires_in":3600}`)
	f.Add(uint16(0), `{"access_token":" ","token_type":"Bearer"}`)
	f.Add(uint16(0), `{"access_token":"a\r\nX-Evil: 1","token_type":"Bearer","expires_in":-1}`)
	f.Add(uint16(0), `{"access_token":"TOKEN","token_type":"Bearer","expires_in":9223372036854775807}`)
	f.Add(uint16(200), `{"errorCode":"BXNIM0415E","errorMessage":"Provided API key KEY could not be found."}`)
	f.Add(uint16(0), `{}`)
	f.Add(uint16(303), `<html>TOKEN</html>`)
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		if body == "" {
			t.Skip("the cloud's own")
		}
		c := &hostileCloud{status: 200 + int(status)%400, answers: map[string]string{"/identity/token": body}}
		p, err := hostileProvider(c)
		require.NoError(t, err)
		_, err = p.Observe(t.Context(), cloud.PoolSpec{})
		require.Error(t, err, "there is no cluster")
		requireTyped(t, err)
		for _, r := range c.requests {
			if r.URL.Host != "cs.test" {
				continue
			}
			var says struct {
				Token string `json:"access_token"`
				Type  string `json:"token_type"`
			}
			_ = json.Unmarshal([]byte(strings.NewReplacer("KEY", hushKey, "TOKEN", hushToken).Replace(body)), &says)
			require.Equal(t, says.Type+" "+says.Token, r.Header.Get("Authorization"))
			require.NotEmpty(t, strings.TrimSpace(says.Token))
			require.NotContains(t, r.Header.Get("Authorization"), "\n")
		}
	})
}

// Whatever the spec, the nodes and the environment say about where the cloud is, requests
// go there and nowhere else, and ask for that cluster.
func FuzzURLs(f *testing.F) {
	f.Add("c1", "route-reflectors", "us-south", "rg", "", "", true)
	f.Add("../../c2", "..", "evil.example/", "rg\r\nX-Evil: 1", "https://h/a/../b", "http://[::1]:80", false)
	f.Add("c1&cluster=c2", "p", "us-south#", "", "https://h/#", "https://h/?", false)
	f.Add("c1", "p", "x@evil.example", "", "https://user:hush@h", "ftp://h", true)
	f.Add("c1", "p", "", "", "https://h//x/", "https://h/%2e%2e", false)
	f.Add("c1", "p", "", "", "https://h/%zz", "https://h/\x00", false)
	f.Fuzz(func(t *testing.T, cluster, pool, region, group, cs, iam string, private bool) {
		if strings.Contains(cluster+pool+region+group, "hush") {
			t.Skip("these are shown")
		}
		c := &hostileCloud{status: http.StatusOK}
		p, err := New(Config{
			ClusterID: cluster, PoolName: pool, Region: region, ResourceGroup: group, CSEndpoint: cs, IAMEndpoint: iam, Private: private,
			APIKey: hushKey, Transport: c,
		})
		if err != nil {
			require.True(t, cloud.Is(err, cloud.InvalidInput))
			require.NotContains(t, err.Error(), "hush")
			return
		}
		_, err = p.Observe(context.Background(), cloud.PoolSpec{})
		requireTyped(t, err)
		require.Len(t, c.requests, 2, "%v", err)
		requireAt(t, c.requests[0].URL, iam, "iam.cloud.ibm.com", "/identity/token")
		to := c.requests[1].URL
		requireAt(t, to, cs, "containers.cloud.ibm.com", "/v2/getCluster")
		require.Equal(t, url.Values{"cluster": {cluster}, "v1-compatible": {""}}, to.Query())
		require.Equal(t, -1, strings.IndexFunc(strings.Join(c.requests[1].Header.Values("X-Auth-Resource-Group"), ""), unicode.IsControl))
	})
}

// requireAt: a request goes to a path below an endpoint, or where none is given below a host of IBM's.
func requireAt(t *testing.T, to *url.URL, endpoint, host, below string) {
	t.Helper()
	require.Empty(t, to.Fragment)
	require.Nil(t, to.User)
	if endpoint == "" {
		require.Equal(t, "https", to.Scheme)
		require.True(t, to.Host == host || strings.HasSuffix(to.Host, "."+host) || strings.HasSuffix(to.Host, "."+strings.TrimPrefix(host, "private.")), to.Host)
		require.True(t, strings.HasSuffix(to.Path, below), "%s", to)
		return
	}
	base, err := url.Parse(endpoint)
	require.NoError(t, err)
	require.Equal(t, base.Hostname(), to.Hostname())
	require.Equal(t, base.Port(), to.Port())
	require.Equal(t, base.Scheme, to.Scheme)
	require.Equal(t, path.Clean(strings.TrimRight(base.Path, "/")+below), to.Path)
}

// allocated is how much memory f takes in all, in MiB: at no time is it more.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// ask reads an answer of the cloud as the provider does.
func ask(t *testing.T, body string, out any) error {
	t.Helper()
	p, err := hostileProvider(&hostileCloud{status: http.StatusOK, answers: map[string]string{"/v2/x": body}})
	require.NoError(t, err)
	p.session.token, p.session.renewAt = "Bearer "+hushToken, p.cfg.Now().Add(time.Hour)
	return p.session.do(t.Context(), "asking", http.MethodGet, to("/v2/x"), nil, out)
}

func list(item string, times int) string { return "[" + strings.Repeat(item+",", times-1) + item + "]" }

// The manager may have 1 GiB, and what it has to keep running at any time is the routing of a cluster.
func TestWhatAnAnswerBecomesInMemoryIsBounded(t *testing.T) {
	const most = 150 // of which a body of 16 MiB takes 100 while it is read
	full := limits.Bytes - 64
	for name, c := range map[string]struct{ body, says string }{
		"empty items, as many as go into the bytes": {list("{}", full/3), "a list of more than 20000 items"},
		"empty items, as many as are allowed":       {list("{}", limits.Items), ""},
		"null, as many as go into the bytes":        {list("null", full/5), "a list of more than 20000 items"},
		"lists in items":                            {list(`{"networkInterfaces":`+list("{}", 10_000)+"}", 24), ""},
		"one list again and again":                  {list(`{`+strings.Repeat(`"networkInterfaces":`+list("{}", 10_000)+",", 23)+`"id":"x"}`, 1), ""},
		"too many lists in items":                   {list(`{"networkInterfaces":`+list("{}", 10_000)+"}", 26), "more than 500000 values"},
		"one long text":                             {`[{"id":"` + strings.Repeat("x", full) + `"}]`, ""},
		"too long a text":                           {`[{"id":"` + strings.Repeat("x", limits.Bytes) + `"}]`, "larger than 16777216 bytes"},
		"an honest list of 5,000 workers":           {list(honestWorker, 5000), ""},
	} {
		var workers []containerv2.Worker
		var err error
		mib := allocated(func() { err = ask(t, c.body, &workers) })
		t.Logf("%s: %d bytes become %d MiB: %.120v", name, len(c.body), mib, err)
		require.Less(t, mib, uint64(most), name)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
}

// honestWorker is as long as IBM's are.
const honestWorker = `{"id":"kube-c0ffee0c0ffee0c0ffee-prod-default-00000a1b","poolID":"c0ffee0c0ffee0c0ffee-deadbee","poolName":"default","location":"us-south-1",` +
	`"flavor":"bx2.4x16","health":{"state":"normal","message":"Ready"},"lifecycle":{"reasonForDelete":"","actualState":"deployed","desiredState":"deployed",` +
	`"message":"Deployed","messageDate":"2026-01-01T00:00:00Z","messageDetails":"","pendingOperation":"","messageDetailsDate":""},"kubeVersion":{"actual":"1.33.1_1500",` +
	`"desired":"1.33.1_1500","eos":"","masterEOS":"","target":"1.33.1_1500"},"networkInformation":{"privateIP":"10.0.0.1","privateVLAN":"","publicIP":"","publicVLAN":""},` +
	`"networkInterfaces":[{"cidr":"10.0.0.0/24","ipAddress":"10.0.0.1","primary":true,"subnetID":"0717-c0ffee"}],"provider":"vpc-gen2","dedicatedHostId":"","labels":{"a":"b"}}`

// The negative control: without limits the same is a thousand times its size.
func TestWithoutLimitsAnAnswerBecomesWhatItLikes(t *testing.T) {
	defer func(before untrusted.Limits) { limits = before }(limits)
	limits = untrusted.Limits{Bytes: 1 << 30, Values: 1 << 30, Items: 1 << 30}
	var workers []containerv2.Worker
	body := list("{}", 100_000)
	require.Greater(t, allocated(func() { require.NoError(t, ask(t, body, &workers)) }), uint64(len(body)>>20+100))
}

// Headers are bounded too, and so is what a refusal says.
func TestAFloodOfHeadersAndARefusalAreBounded(t *testing.T) {
	var flood bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 50_000 {
			if !flood {
				break
			}
			w.Header().Set(fmt.Sprintf("A%d", i), "")
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"code":"E1","description":`+list("{}", 60_000)+"}")
	}))
	defer server.Close()
	p, err := New(Config{ClusterID: "c1", PoolName: "rr", APIKey: hushKey, CSEndpoint: server.URL, IAMEndpoint: server.URL})
	require.NoError(t, err)
	_, err = p.Observe(t.Context(), cloud.PoolSpec{SizePerZone: 1})
	require.ErrorContains(t, err, "a list of more than 20000 items")
	flood = true
	_, err = p.Observe(t.Context(), cloud.PoolSpec{SizePerZone: 1})
	require.ErrorContains(t, err, "server response headers exceeded 65536 bytes")
}

func TestWhichFlavorsAreBareMetal(t *testing.T) {
	for flavor, metal := range map[string]bool{
		"mb4c.20x64": true, "mr1c.28x512": true, "ms3c.4x32.1.9tb.ssd": true, "mg1c.28x256": true, "cx2d.metal.96x192": true,
		"m3c.8x64": false, "mx2.16x128": false, "mx3d.2x20": false, "b3c.4x16": false, "bx2.4x16": false, "gx3.16x80.l4": false,
	} {
		require.Equal(t, metal, bareMetal.MatchString(flavor), flavor)
	}
}

func TestTheRegionOfAZone(t *testing.T) {
	for zone, want := range map[string]string{"us-south-1": "us-south", "jp-osa-3": "jp-osa", "dal10": "dal", "wdc04": "wdc", "zone-a": "", "z1": "", "lab-zone-b": "", "": ""} {
		require.Equal(t, want, regionOf(zone), "%q: where the form is another, no zone is refused for it", zone)
	}
}
