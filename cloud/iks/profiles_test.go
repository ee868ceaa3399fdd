package iks_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

// headers carries requests with one header set.
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
		for _, generation := range both {
			t.Run(name+", "+generation, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newEnvironment(t, generation, c.profile)
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
}

// TestEachProfileBites: what passes on the others is refused, or asked for in vain.
func TestEachProfileBites(t *testing.T) {
	labelled := rewriting("", `"labels":{`, `"labels":{"app.kubernetes.io/managed-by":"rrpool",`)
	for _, generation := range both {
		for _, profile := range iksserver.Profiles {
			t.Run(fmt.Sprintf("%s, %s", profile, generation), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newEnvironment(t, generation, profile)
					w.provider = w.connect(tampering{w.Transport(), labelled})
					err := w.live(w.wanted(1, 3))
					require.Equal(t, profile == iksserver.Strict, err != nil, "a label of Kubernetes: %v", err)
				})
				synctest.Test(t, func(t *testing.T) { // a process that remembers nothing of what it has asked for
					w, done := newEnvironment(t, generation, profile), false
					for range 100 {
						w.restart()
						got, _ := w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, w.wanted(1, 3)) })
						done = done || got.Done
					}
					require.Equal(t, profile != iksserver.Sparse, done, "what was acknowledged is shown")
					asked := overspent(w.Requests(), nil, nameOf(generation))
					require.Equal(t, profile == iksserver.Slow, len(asked) > 0, "%v", asked)
				})
			})
		}
	}
}

// TestAPoolThatGrowsIsNotShrunkOnAnOldList: the lists of a slow cloud lack the workers that were ordered a moment ago,
// so that the smaller size seems to be there, and a cloud that is asked for it chooses who goes.
func TestAPoolThatGrowsIsNotShrunkOnAnOldList(t *testing.T) {
	for _, generation := range both {
		for name, again := range map[string]func(*environment){"the same process": func(*environment) {}, "a new process": (*environment).restart} {
			t.Run(generation+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newEnvironment(t, generation, iksserver.Slow)
					require.NoError(t, w.live(w.wanted(1, 3)))
					time.Sleep(5 * time.Minute)
					did, err := w.provider.Ensure(t.Context(), w.wanted(2, 3))
					require.NoError(t, err)
					require.NotEmpty(t, did.Did)
					again(w)
					for range 100 {
						_, _ = w.provider.Ensure(t.Context(), w.wanted(1, 3)) // lists that differ are an error
						time.Sleep(5 * time.Second)
					}
					require.Empty(t, w.wrongs)
				})
			})
		}
	}
}

// TestATaintThatIsTakenOffShowsAgain: a cloud that has reported taints, and now does
// not, means that there are none.
func TestATaintThatIsTakenOffShowsAgain(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnvironment(t, generation, iksserver.Strict)
				for len(w.ours()) == 0 { // the taints were acknowledged a moment ago
					_, err := w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, w.wanted(1, 3)) })
					require.NoError(t, err)
				}
				w.SetPoolTaints(clusterID, providertest.PoolName, map[string]string{})
				w.Inject(iksserver.Fault{Method: "GET", Path: "getWorkerPool$", Spoil: func(b []byte) []byte {
					return []byte(strings.Replace(string(b), `"taints":{},`, "", 1))
				}})
				require.NoError(t, w.live(w.wanted(1, 3)))
				require.Empty(t, w.Untainted(providertest.PoolName))
			})
		})
	}
}
