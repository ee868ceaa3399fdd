package iks_test

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/providertest"
	"github.com/rrpool/rrpool/test/iksserver"
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

func sparseListings(c *iksserver.Config) { c.Sparse = iksserver.SparseListings }
func sparseAnswers(c *iksserver.Config)  { c.Sparse = iksserver.SparseAnswers }
func enforcedGroup(c *iksserver.Config)  { c.EnforceGroups = true }

// TestAPoolIsKeptOnWhateverTheCloudLeavesOut: with answers as sparse as the documents allow, a pool is made, grown,
// repaired, shrunk and deleted, by a process that has just started at each of these.
func TestAPoolIsKeptOnWhateverTheCloudLeavesOut(t *testing.T) {
	for name, edit := range map[string]func(*iksserver.Config){
		"listings without taints, labels and sizes": sparseListings,
		"taints in no answer at all":                sparseAnswers,
		"an enforced resource group":                enforcedGroup,
	} {
		for _, generation := range both {
			t.Run(name+", "+generation, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newEnvironment(t, generation, edit)
					for _, s := range lifecycle {
						w.restart()
						require.Empty(t, w.complaints(s, nil, nameOf(generation)), s.name)
						changes := bill(w.last, nameOf(generation))
						require.LessOrEqual(t, changes["set taints"], 3, "%s: the taints are set again and again", s.name)
					}
				})
			})
		}
	}
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
		edit  func(*iksserver.Config)
		fault iksserver.Fault
		group string
		want  string
	}{
		"the taints are not acknowledged": {
			edit:  sparseAnswers,
			fault: iksserver.Fault{Path: "setWorkerPoolTaints$", Status: 503}, want: "the pool's new taints",
		},
		"the pool shows that it has none": {
			fault: iksserver.Fault{Method: "GET", Path: "orker[pP]ools?$", Spoil: silent}, want: "the pool's new taints",
		},
		"the resource group is an empty header": {
			edit: enforcedGroup, group: " ", want: "Viewer role on the cluster's resource group",
		},
		"the resource group is another": {
			edit: enforcedGroup, group: "another", want: "Viewer role on the cluster's resource group",
		},
	} {
		for _, generation := range both {
			t.Run(name+", "+generation, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newEnvironment(t, generation, c.edit)
					w.Inject(c.fault.On(c.fault.Method, cmp.Or(c.fault.Path, "^never$")))
					wire := w.Transport()
					if c.group != "" {
						wire = headers{wire, "X-Auth-Resource-Group", strings.TrimSpace(c.group)}
					}
					w.provider = w.connect(wire)
					err := w.live(wanted(1, three...))
					require.ErrorContains(t, err, "not done after")
					require.ErrorContains(t, err, c.want)
					require.Empty(t, w.ours())
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
				w := newEnvironment(t, generation, sparseListings)
				for len(w.ours()) == 0 { // the taints were acknowledged a moment ago
					_, err := w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, wanted(1, three...)) })
					require.NoError(t, err)
				}
				w.SetPoolTaints(clusterID, providertest.PoolName, map[string]string{})
				w.Inject(iksserver.Fault{Method: "GET", Path: "getWorkerPool$", Spoil: func(b []byte) []byte {
					return []byte(strings.Replace(string(b), `"taints":{},`, "", 1))
				}})
				require.NoError(t, w.live(wanted(1, three...)))
				require.Empty(t, w.Untainted(providertest.PoolName))
			})
		})
	}
}
