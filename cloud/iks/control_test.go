package iks_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/iksserver"
)

// tampering stands between a provider and the cloud, and makes of it a bad one.
type tampering struct {
	http.RoundTripper
	change tamper
}

// tamper makes the requests that take the place of a changing one.
type tamper = func(r *http.Request, body string, send sending) (*http.Response, error)

type sending = func(path, body string) (*http.Response, error)

func (d tampering) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.HasPrefix(r.URL.Path, "/identity/") {
		return d.RoundTripper.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	return d.change(r, string(body), func(path, body string) (*http.Response, error) {
		again := r.Clone(r.Context())
		again.URL.Path = path
		again.Body, again.ContentLength = io.NopCloser(bytes.NewBufferString(body)), int64(len(body))
		return d.RoundTripper.RoundTrip(again)
	})
}

// forgetful is a provider that takes its first error for the last word.
type forgetful struct {
	cloud.Provider
	err error
}

func (f *forgetful) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if f.err != nil {
		return cloud.Progress{}, f.err
	}
	got, err := f.Provider.Ensure(ctx, want)
	f.err = err
	return got, err
}

// rewriting replaces a word in the requests to one path, repeating sends a request again
// after an error, with a word replaced.
func rewriting(path, what, by string) tamper {
	return func(r *http.Request, body string, send sending) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, path) {
			body = strings.Replace(body, what, by, 1)
		}
		return send(r.URL.Path, body)
	}
}

func repeating(what, by string) tamper {
	return func(r *http.Request, body string, send sending) (*http.Response, error) {
		resp, err := send(r.URL.Path, body)
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		return send(r.URL.Path, strings.Replace(body, what, by, 1))
	}
}

// clearing takes the taints away when the pool grows.
func clearing(r *http.Request, body string, send sending) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "resizeWorkerPool") {
		resp, err := send("/global/v2/setWorkerPoolTaints", strings.Replace(body, `"size":2`, `"taints":{}`, 1))
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
	}
	return send(r.URL.Path, body)
}

// shrinking makes the pool smaller instead of removing a worker.
func shrinking(r *http.Request, body string, send sending) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "removeWorker") {
		return send(r.URL.Path, body)
	}
	cluster, _, _ := strings.Cut(body, `"workerID"`)
	return send("/global/v2/resizeWorkerPool", cluster+`"workerpool":"route-reflectors","size":1}`)
}

func lost(path string) iksserver.Fault {
	return iksserver.Fault{Method: "POST", Path: path, Status: http.StatusGatewayTimeout, Executed: true, Times: 1}
}

// none is a fault that never comes to pass.
var none = iksserver.Fault{Path: "^none$"}

// TestABadProviderIsFoundOut: the trials of this package see it when a provider does
// what none must. The real provider passes with each of these faults.
func TestABadProviderIsFoundOut(t *testing.T) {
	clean := cleanRun(t, iksserver.VPC, iksserver.Documented)
	for name, c := range map[string]struct {
		change tamper
		fault  iksserver.Fault
		want   string
	}{
		"it repeats a change whose answer is lost, as the SDK would": {
			repeating("", ""), lost("resizeWorkerPool"), "resize took effect 2 times, 1 are needed",
		},
		"it orders the pool again": {repeating("", ""), lost("createWorkerPool$"), "create the pool was refused with status 409"},
		"it orders a pool of another name": {
			repeating(`"name":"route`, `"name":"second-route`), lost("createWorkerPool$"), "there is a second pool",
		},
		"it orders the zones with the pool, before there are taints": {
			rewriting("createWorkerPool", `"zones":[]`, `"zones":[{"id":"us-south-1","subnetID":"sub-us-south-1"}]`),
			none,
			"was ordered with the taints map[]",
		},
		"it takes the taints from workers": {
			clearing, none, "has lost its taint",
		},
		"it lets the cloud choose who goes": {
			shrinking, none, "goes, which was not named",
		},
		"it gives up after an error": {nil, lost("setWorkerPoolTaints$"), "not done after 6h0m0s"},
		"it is a good one":           {rewriting("", "", ""), lost("createWorkerPool"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnvironment(t, iksserver.VPC, iksserver.Documented)
				connect := w.connect
				w.connect = func(wire http.RoundTripper) cloud.Provider {
					if c.change == nil {
						return &forgetful{Provider: connect(wire)}
					}
					return connect(tampering{wire, c.change})
				}
				w.restart()
				w.Inject(c.fault)
				var found []string
				for i, s := range lifecycle {
					if found = w.complaints(s, clean[i].bill, nameOf(iksserver.VPC)); len(found) > 0 {
						break
					}
				}
				if c.want == "" {
					require.Empty(t, found)
					return
				}
				require.Contains(t, strings.Join(found, "\n"), c.want)
			})
		})
	}
}

type headers struct {
	http.RoundTripper
	name, value string
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

// TestSparseAnswersCanStopAPool is the control: without an acknowledgment, or against
// the cloud's word, or in the wrong resource group, there is no worker.
func TestSparseAnswersCanStopAPool(t *testing.T) {
	silent := func(b []byte) []byte {
		before, after, ok := strings.Cut(string(b), `"taints":{"`)
		if !ok {
			return b
		}
		_, after, _ = strings.Cut(after, "}")
		return []byte(before + `"taints":{}` + after)
	}
	for name, c := range map[string]struct {
		profile iksserver.Profile
		fault   iksserver.Fault
		group   string
		want    string
	}{
		"the taints are not acknowledged": {
			profile: iksserver.Sparse,
			fault:   iksserver.Fault{Path: "setWorkerPoolTaints$", Status: 503}, want: "setting the taints of",
		},
		"the pool shows that it has none": {
			fault: iksserver.Fault{Method: "GET", Path: "orker[pP]ools?$", Spoil: silent}, want: "the pool's new taints",
		},
		"the resource group is an empty header": {
			profile: iksserver.Strict, group: " ", want: "Viewer role on the cluster's resource group",
		},
		"the resource group is another": {
			profile: iksserver.Strict, group: "another", want: "Viewer role on the cluster's resource group",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnvironment(t, iksserver.VPC, c.profile)
				w.Inject(c.fault.On(c.fault.Method, cmp.Or(c.fault.Path, "^never$")))
				wire := w.Transport()
				if c.group != "" {
					wire = headers{wire, "X-Auth-Resource-Group", strings.TrimSpace(c.group)}
				}
				w.provider = w.connect(wire)
				err := w.live(w.wanted(1, 3))
				require.ErrorContains(t, err, "not done after")
				require.ErrorContains(t, err, c.want)
				require.Empty(t, w.ours())
			})
		})
	}
}
