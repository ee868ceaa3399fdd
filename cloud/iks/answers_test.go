package iks_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

// singlePool is the path of the answer about one pool.
const singlePool = "getWorkerPool$"

// edited changes each pool of an answer: a list of them, or one.
func edited(edit func(pool map[string]any)) func([]byte) []byte {
	return func(body []byte) []byte {
		var one map[string]any
		var all []map[string]any
		if json.Unmarshal(body, &all) != nil {
			_ = json.Unmarshal(body, &one) // the server's own answer
			edit(one)
			body, _ = json.Marshal(one)
			return body
		}
		for _, pool := range all {
			edit(pool)
		}
		body, _ = json.Marshal(all)
		return body
	}
}

// without leaves keys out of our pool.
func without(keys ...string) func([]byte) []byte {
	return edited(func(pool map[string]any) {
		for _, key := range keys {
			if pool["poolName"] == providertest.PoolName || pool["name"] == providertest.PoolName {
				delete(pool, key)
			}
		}
	})
}

// TestTwoAnswersAboutAPoolAreOne: what either holds is known.
func TestTwoAnswersAboutAPoolAreOne(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w, p := settled(t, generation, spec(1))
			whole := observe(t, p)
			w.Server.SetAutoscaled(clusterID, providertest.PoolName, true)
			if generation == iksserver.Classic { // its listing has no taints
				whole.Taints, whole.TaintsUnknown = nil, true
			}
			for _, missing := range []string{"zones", "nothing else"} { // an answer about one classic pool has no VLANs
				w.ClearFaults()
				w.Server.Inject(rewrite(poolList, 0, without("workerCount", "sizePerZone")))
				w.Server.Inject(rewrite(singlePool, 0, without("flavor", "labels", "taints", "autoscaleEnabled", "operatingSystem", "vpcID", "lifecycle", missing)))
				halves := observe(t, w.provider(t, nil))
				require.True(t, halves.Autoscaled)
				halves.Autoscaled, halves.Problems = false, nil
				require.Equal(t, whole, halves)
			}
		})
	}
	t.Run("taints that only the listing has", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		w.Server.Inject(rewrite(singlePool, 0, without("taints")))
		p := w.provider(t, nil)
		settle(t, w, p, spec(1))
		settle(t, w, p, spec(2))
	})
	t.Run("a pool that is deleted by the one", func(t *testing.T) {
		w, p := settled(t, iksserver.VPC, spec(1))
		w.Server.Inject(rewrite(poolList, 0, without("workerCount")))
		w.Server.Inject(rewrite(singlePool, 0, edited(func(pool map[string]any) { pool["lifecycle"] = map[string]any{"actualState": "deleted"} })))
		require.Contains(t, ensure(t, p, spec(2)).WaitingFor, "on its way out")
	})
}

func TestTheAnswerAboutOnePoolIsAboutThatPool(t *testing.T) {
	w, p := settled(t, iksserver.VPC, spec(1))
	w.Server.Inject(rewrite(poolList, 0, without("workerCount")))
	w.Server.Inject(rewrite(singlePool, 0, edited(func(pool map[string]any) { pool["id"] = "another" })))
	_, err := p.Observe(context.Background(), cloud.PoolSpec{})
	require.ErrorContains(t, err, `it answers for "another"`)
}

// TestWhenThePoolIsAskedForItsTaintsAgain although nothing is to be ordered.
func TestWhenThePoolIsAskedForItsTaintsAgain(t *testing.T) {
	for _, generation := range both {
		t.Run(generation+" when what it showed is old, or not yet what was set", func(t *testing.T) {
			w := newWorld(t, generation)
			w.Server.Inject(rewrite(poolList, 0, without("taints")))
			p := w.provider(t, nil)
			for range 2 { // the pool, and its taints
				require.NotEmpty(t, ensure(t, p, spec(1)).Did)
			}
			w.Server.Inject(rewrite(singlePool, 2, edited(func(pool map[string]any) { pool["taints"] = map[string]any{} })))
			for range 2 {
				require.Contains(t, ensure(t, p, spec(1)).WaitingFor, "new taints")
			}
			require.Contains(t, ensure(t, p, spec(1)).Did, "added zone")
			settle(t, w, p, spec(1))
			observe(t, p)
			w.StripTaints()
			w.Advance(10 * time.Minute)
			require.Empty(t, observe(t, p).Taints)
		})
	}
	t.Run("when the listing shows others", func(t *testing.T) {
		w, p := settled(t, iksserver.VPC, spec(1))
		require.NotEmpty(t, observe(t, p).Taints)
		w.StripTaints()
		require.Empty(t, observe(t, p).Taints)
	})
}

// TestARequestThatTheAPIDoesNotKnowIsSaid: its 404 is not for ever taken for that of a worker that is gone.
func TestARequestThatTheAPIDoesNotKnowIsSaid(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w, p := settled(t, generation, spec(1))
			w.Server.Inject(iksserver.Fault{Path: "replaceWorker$", Status: http.StatusNotFound, Body: `{"code":"E0404","description":"Not found."}`})
			want := spec(1)
			want.Replace = []string{w.Workers()[0].ID}
			for range 2 {
				require.Equal(t, "the cloud to list what is gone no more", ensure(t, p, want).WaitingFor)
				w.Advance(3 * time.Minute)
				err := refused(t, p, want, cloud.NotFound)
				require.ErrorContains(t, err, "the API may not know the request")
				w.Advance(3 * time.Minute)
				p = w.provider(t, nil)
			}
			w.ClearFaults()
			require.Contains(t, ensure(t, p, want).Did, "replaced worker")
		})
	}
}

// TestARefusedZoneHoldsUpNoOther, and is tried again later.
func TestARefusedZoneHoldsUpNoOther(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		p := w.provider(t, nil)
		for range 2 { // the pool, and its taints
			ensure(t, p, spec(1))
		}
		w.Server.Inject(iksserver.Fault{
			Method: http.MethodPost, Path: "createWorkerPoolZone$|/zones$", Times: 1, Status: http.StatusBadRequest, Body: `{"code":"E1","description":"Nothing is left."}`,
		})
		_, err := p.Ensure(context.Background(), spec(1))
		require.ErrorContains(t, err, "Nothing is left")
		require.Equal(t, "added zone "+w.zones[1], ensure(t, p, spec(1)).Did)
		require.Equal(t, "added zone "+w.zones[2], ensure(t, p, spec(1)).Did)
		w.Advance(5 * time.Minute)
		_, err = p.Ensure(context.Background(), spec(1))
		require.ErrorContains(t, err, "Nothing is left")
		require.Equal(t, 5*time.Minute, cloud.RetryAfter(err))
		w.Advance(5 * time.Minute)
		require.Equal(t, "added zone "+w.zones[0], ensure(t, p, spec(1)).Did)
	}
}

// TestOneWorkerAtMostComesUntainted in a cloud that acknowledges taints, does not show them, and does not set them.
func TestOneWorkerAtMostComesUntainted(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnvironment(t, generation, iksserver.Sparse)
				w.Inject(iksserver.Fault{Path: "setWorkerPoolTaints$", Status: http.StatusNoContent})
				require.ErrorContains(t, w.live(w.wanted(2, 3)), "lack the taint rrpool.io/dedicated=route-reflector:NoExecute")
				require.Len(t, w.Untainted(providertest.PoolName), 1)
				w.ClearFaults()
				require.NoError(t, w.live(w.wanted(2, 3)))
				require.Len(t, w.Untainted(providertest.PoolName), 1)
			})
		})
	}
}

// TestClustersOfAnotherKindAreRefused before anything is asked of them, with the field, its value and what can be done.
func TestClustersOfAnotherKindAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*iksserver.Cluster)
		want []string
	}{
		"OVN-Kubernetes": {
			func(c *iksserver.Cluster) { c.NetworkPlugin = "OVNKubernetes" },
			[]string{`networkPlugin is "OVNKubernetes"`, "make a cluster with Calico"},
		},
		"Satellite": {
			func(c *iksserver.Cluster) { c.Provider = "satellite" },
			[]string{`provider is "satellite"`, "spec.provider.type to ExistingNodes"},
		},
		"Calico, by name": {func(c *iksserver.Cluster) { c.NetworkPlugin = "Calico" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, iksserver.VPC, c.edit)
			_, err := w.provider(t, nil).Ensure(context.Background(), spec(1))
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.True(t, cloud.Is(err, cloud.Unsupported), "%v", err)
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
			require.Len(t, w.Server.Requests(), 2, "a token, and the cluster")
		})
	}
}

// A part of the service that is behind does not know a pool yet that another part lists: that is over soon, and nothing for a person.
func TestAPoolThatIsListedAndNotFoundIsNotThereYet(t *testing.T) {
	w := newWorld(t, iksserver.Classic) // whose listing has no taints, so that the pool itself is asked
	settle(t, w, w.provider(t, nil), spec(1))
	w.Server.Inject(iksserver.Fault{
		Path: "getWorkerPool$", Times: 1, Status: http.StatusNotFound, Body: `{"code":"E9004","description":"The specified worker pool could not be found."}`,
	})
	p := w.provider(t, nil)
	_ = unseen(t, p, cloud.Unavailable)
	observe(t, p)
}
