package iks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/untrusted"
)

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
