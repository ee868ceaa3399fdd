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
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
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

func nameOfPool(pool map[string]any) any {
	if name, ok := pool["poolName"]; ok {
		return name
	}
	return pool["name"]
}

// without leaves keys out of our pool.
func without(keys ...string) func([]byte) []byte {
	return edited(func(pool map[string]any) {
		for _, key := range keys {
			if nameOfPool(pool) == providertest.PoolName {
				delete(pool, key)
			}
		}
	})
}

// TestCountsMayBeMissing in the pools of others. Ours is believed only whole: see TestHalfAPoolIsNoBasis.
func TestCountsMayBeMissing(t *testing.T) {
	uncounted := edited(func(pool map[string]any) {
		if labels, _ := pool["labels"].(map[string]any); labels[v1alpha1.PoolLabel] != nil {
			return
		}
		delete(pool, "workerCount")
		delete(pool, "sizePerZone")
		zones, _ := pool["zones"].([]any)
		for _, zone := range zones {
			delete(zone.(map[string]any), "workerCount")
		}
	})
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w := newWorld(t, generation)
			w.Server.Inject(rewrite(poolList+"|"+singlePool, 0, uncounted))
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			w = newWorld(t, generation)
			w.Server.Inject(rewrite(poolList+"|"+singlePool, 0, uncounted))
			w.AddForeignPool()
			p = w.provider(t, nil)
			pool, err := p.Observe(context.Background(), cloud.PoolSpec{})
			require.NoError(t, err)
			require.True(t, pool.Exists && !pool.Owned)
			_, err = p.Ensure(context.Background(), spec(1))
			require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
		})
	}
}

// TestTwoAnswersAboutAPoolAreOne: what either holds is known.
func TestTwoAnswersAboutAPoolAreOne(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			whole, err := p.Observe(context.Background(), cloud.PoolSpec{})
			require.NoError(t, err)
			w.Server.SetAutoscaled(clusterID, providertest.PoolName, true)
			if generation == iksserver.Classic { // its listing has no taints
				whole.Taints, whole.TaintsUnknown = nil, true
			}
			for _, missing := range []string{"zones", "nothing else"} { // an answer about one classic pool has no VLANs
				w.ClearFaults()
				w.Server.Inject(rewrite(poolList, 0, without("workerCount", "sizePerZone")))
				w.Server.Inject(rewrite(singlePool, 0, without("flavor", "labels", "taints", "autoscaleEnabled", "operatingSystem", "vpcID", "lifecycle", missing)))
				halves, err := w.provider(t, nil).Observe(context.Background(), cloud.PoolSpec{})
				require.NoError(t, err)
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
		w := newWorld(t, iksserver.VPC)
		p := w.provider(t, nil)
		settle(t, w, p, spec(1))
		w.Server.Inject(rewrite(poolList, 0, without("workerCount")))
		w.Server.Inject(rewrite(singlePool, 0, edited(func(pool map[string]any) { pool["lifecycle"] = map[string]any{"actualState": "deleted"} })))
		require.Contains(t, ensure(t, p, spec(2)).WaitingFor, "on its way out")
	})
}

func TestTheAnswerAboutOnePool(t *testing.T) {
	for _, generation := range both {
		t.Run(generation+" is about that pool", func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			w.Server.Inject(rewrite(poolList, 0, without("workerCount", "sizePerZone")))
			w.Server.Inject(rewrite(singlePool, 0, edited(func(pool map[string]any) { pool["id"] = "another" })))
			_, err := p.Observe(context.Background(), cloud.PoolSpec{})
			require.ErrorContains(t, err, `it answers for "another"`)
		})
		t.Run(generation+" says which zones a pool has when the listing does not", func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			w.Server.Inject(rewrite(poolList, 0, without("zones")))
			pool, err := p.Observe(context.Background(), cloud.PoolSpec{})
			require.NoError(t, err)
			require.Equal(t, w.zones[:3], pool.Zones)
		})
	}
}

// TestWhenThePoolIsAskedForItsTaintsAgain although nothing is to be ordered.
func TestWhenThePoolIsAskedForItsTaintsAgain(t *testing.T) {
	taints := func(t *testing.T, p *iks.Provider) []cloud.Taint {
		t.Helper()
		pool, err := p.Observe(context.Background(), cloud.PoolSpec{})
		require.NoError(t, err)
		return pool.Taints
	}
	for _, generation := range both {
		t.Run(generation+" when what it showed is old", func(t *testing.T) {
			w := newWorld(t, generation)
			w.Server.Inject(rewrite(poolList, 0, without("taints")))
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			taints(t, p)
			w.StripTaints()
			w.Advance(10 * time.Minute)
			require.Empty(t, taints(t, p))
		})
	}
	t.Run("when the listing shows others", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		p := w.provider(t, nil)
		settle(t, w, p, spec(1))
		require.NotEmpty(t, taints(t, p))
		w.StripTaints()
		require.Empty(t, taints(t, p))
	})
	for _, generation := range both {
		t.Run(generation+" when it does not show yet what was set", func(t *testing.T) {
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
		})
	}
}

// TestARequestThatTheAPIDoesNotKnowIsSaid: its 404 is not for ever taken for that of a worker that is gone.
func TestARequestThatTheAPIDoesNotKnowIsSaid(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			settle(t, w, p, spec(1))
			w.Server.Inject(iksserver.Fault{Path: "replaceWorker$", Status: http.StatusNotFound, Body: `{"code":"E0404","description":"Not found."}`})
			want := spec(1)
			want.Replace = []string{w.Workers()[0].ID}
			for range 2 {
				require.Equal(t, "the cloud to list what is gone no more", ensure(t, p, want).WaitingFor)
				w.Advance(3 * time.Minute)
				_, err := p.Ensure(context.Background(), want)
				require.True(t, cloud.Is(err, cloud.NotFound), "%v", err)
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

// TestAPoolOfAnEarlierVersionIsOurs: one that was made with the labels of its time, and without what can be chosen today.
func TestAPoolOfAnEarlierVersionIsOurs(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"with a label of Kubernetes": {v1alpha1.PoolLabel: providertest.PoolName, "app.kubernetes.io/managed-by": "rrpool"},
		"with our own alone":         {v1alpha1.PoolLabel: providertest.PoolName},
	} {
		for _, profile := range iksserver.Profiles {
			for _, generation := range both {
				t.Run(name+", "+string(profile)+", "+generation, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newEnvironment(t, generation, profile)
						w.AddPool(clusterID, iksserver.Pool{
							Name: providertest.PoolName, Flavor: "bx2.2x8", SizePerZone: 1, Zones: w.zones[:3], Labels: labels,
							Taints: map[string]string{dedicated.Key: dedicated.Value + ":" + dedicated.Effect},
						})
						require.NoError(t, w.live(w.wanted(1, 3)))
						_, changes, _ := w.Counts()
						require.Zero(t, changes)
						require.NoError(t, w.live(w.wanted(2, 3)))
						require.Empty(t, w.wrongs)
					})
				})
			}
		}
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
			w := newWorld(t, iksserver.VPC)
			other := seed(iksserver.VPC)
			other.ID, other.Name = "other", "other"
			c.edit(&other)
			w.AddCluster(other)
			p := w.provider(t, func(c *iks.Config) { c.ClusterID = "other" })
			_, err := p.Ensure(context.Background(), spec(1))
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
	_, err := p.Observe(context.Background(), cloud.PoolSpec{})
	require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
	_, err = p.Observe(context.Background(), cloud.PoolSpec{})
	require.NoError(t, err)
}
