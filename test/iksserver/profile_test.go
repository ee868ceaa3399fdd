package iksserver_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

// on runs a test against a cloud of a profile, whose pool "rr" was created a moment ago.
func on(t *testing.T, profile iksserver.Profile, test func(t *testing.T, s *iksserver.Server, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := iksserver.New(iksserver.Config{Profile: profile})
		cluster := vpc()
		cluster.ResourceGroup = "group-1"
		s.AddCluster(cluster)
		c := &client{t: t, base: "http://cloud", http: &http.Client{Transport: s.Transport()}, header: http.Header{"X-Auth-Resource-Group": {"group-1"}}}
		c.login()
		status, body := c.do("POST", "/v2/vpc/createWorkerPool", `{"cluster":"abc","name":"rr","flavor":"bx2.2x8","workerCount":1,"vpcID":"vpc-1","labels":{"a":"b"}}`)
		require.Equal(t, 201, status, body)
		status, body = c.do("POST", "/v2/setWorkerPoolTaints", `{"cluster":"abc","workerpool":"rr","taints":{"a":"b:NoExecute"}}`)
		require.Equal(t, 204, status, body)
		test(t, s, c)
	})
}

func TestASlowCloud(t *testing.T) {
	on(t, iksserver.Slow, func(t *testing.T, s *iksserver.Server, c *client) {
		t.Helper()
		asked := s.Requests() // for a token, the pool, its taints
		require.GreaterOrEqual(t, asked[2].At.Sub(asked[1].At), iksserver.CreationTime)
		status, _ := c.do("POST", "/v2/vpc/createWorkerPoolZone", `{"cluster":"abc","id":"us-south-2","subnetID":"s2","workerPoolID":"rr"}`)
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
		_, body := c.do("GET", "/v2/vpc/getWorkerPools?cluster=abc", "")
		require.Contains(t, body, `"rr"`)
		time.Sleep(2 * time.Minute)
		_, body = c.do("GET", "/v2/vpc/getWorkerPools?cluster=abc", "")
		require.NotContains(t, body, `"rr"`)
	})
}
