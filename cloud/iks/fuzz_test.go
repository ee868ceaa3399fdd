package iks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
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
