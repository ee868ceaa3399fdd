package iks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

func rewrite(path string, times int, spoil func([]byte) []byte) iksserver.Fault {
	return iksserver.Fault{Method: http.MethodGet, Path: path, Times: times, Spoil: spoil}
}

func replaced(pairs ...string) func([]byte) []byte {
	return func(b []byte) []byte { return []byte(strings.NewReplacer(pairs...).Replace(string(b))) }
}

const (
	poolList   = "orkerpools$|getWorkerPools$"
	workerList = "orkers$"
)

// TestNoWorkerComesUntaintedAfterAPersonStripsThem: a classic listing has no
// taints, and what was read minutes ago is no ground to make workers on.
func TestNoWorkerComesUntaintedAfterAPersonStripsThem(t *testing.T) {
	for _, generation := range both {
		for name, disturb := range map[string]func(w *world, want *cloud.PoolSpec){
			"while the pool grows": func(_ *world, want *cloud.PoolSpec) { want.SizePerZone = 3 },
			"while a worker is replaced": func(w *world, want *cloud.PoolSpec) {
				want.Replace = []string{w.Workers()[0].ID}
			},
			"while a zone is filled up": func(w *world, want *cloud.PoolSpec) {
				want.Retire = []string{w.Workers()[0].ID}
			},
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w, p := settled(t, generation, spec(2))
				want := spec(2)
				disturb(w, &want)
				if len(want.Retire) > 0 {
					ensure(t, p, want)
					w.Advance(3 * time.Minute)
				}
				observe(t, p)
				w.StripTaints()
				settle(t, w, p, want)
				require.Zero(t, w.Untainted())
			})
		}
	}
}

// TestAPoolThatIsNotListedYet: the listing hides for a while what was created.
func TestAPoolThatIsNotListedYet(t *testing.T) {
	hide := replaced(`"`+providertest.PoolName+`"`, `"something-else"`)
	for _, generation := range both {
		t.Run(generation+" is not created again", func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			ensure(t, p, spec(1))
			w.Server.Inject(rewrite(poolList, 4, hide))
			for range 3 {
				got := ensure(t, p, spec(1))
				require.False(t, got.Done)
				require.Contains(t, got.WaitingFor, "list")
			}
			// An instance that has just started does not remember that it made one.
			require.Contains(t, ensure(t, w.provider(t, nil), spec(1)).WaitingFor, "which still exists")
			require.Equal(t, 1, w.Mutations())
			settle(t, w, p, spec(1))
		})
		t.Run(generation+" is not joined by another, when it took over from the first", func(t *testing.T) {
			w := newWorld(t, generation)
			w.AddPool(clusterID, iksserver.Pool{
				Name: secondPool, Flavor: "bx2.4x16", SizePerZone: 1, Zones: w.zones[:3], Labels: map[string]string{v1alpha1.PoolLabel: providertest.PoolName},
			})
			w.Server.Inject(rewrite(poolList, 1, replaced(`"`+secondPool+`"`, `"something-else"`)))
			require.Contains(t, ensure(t, w.provider(t, nil), spec(1)).WaitingFor, "the cloud to list pool "+secondPool)
			require.Zero(t, w.Mutations())
		})
		t.Run(generation+" is not taken for deleted, also after a crash", func(t *testing.T) {
			w := newWorld(t, generation)
			p := w.provider(t, nil)
			ensure(t, p, spec(1))
			w.Server.Inject(rewrite(poolList, 2, hide))
			got, err := w.provider(t, nil).Delete(context.Background())
			require.NoError(t, err)
			require.False(t, got.Done, "it would stay, and cost, for ever")
			require.NotEmpty(t, got.WaitingFor)
			got, err = p.Delete(context.Background())
			require.NoError(t, err)
			require.False(t, got.Done)
			require.NotEmpty(t, got.WaitingFor)
			for range 3 {
				got, err = p.Delete(context.Background())
				require.NoError(t, err)
			}
			require.True(t, got.Done)
			require.Zero(t, w.Pools())
		})
	}
}

// TestAnIncompleteListOfWorkersRemovesNone: with workers missing in it, every
// zone would seem small enough to shrink, or empty enough to be dropped.
func TestAnIncompleteListOfWorkersRemovesNone(t *testing.T) {
	for _, generation := range both {
		for name, times := range map[string]int{"once": 1, "always": 0} {
			for smaller, edit := range map[string]func(*cloud.PoolSpec){
				"shrink the pool": func(want *cloud.PoolSpec) { want.SizePerZone = 2 },
				"drop a zone":     func(want *cloud.PoolSpec) { want.Zones = zones(generation)[:2] },
			} {
				t.Run(generation+" an empty list, "+name+", does not "+smaller, func(t *testing.T) {
					w, p := settled(t, generation, spec(3))
					w.Server.Inject(rewrite(workerList, times, func([]byte) []byte { return []byte("[]") }))
					want := spec(3)
					edit(&want)
					_ = refused(t, p, want, cloud.Unavailable)
					require.Empty(t, leaving(w))
					w.ClearFaults()
					require.Contains(t, ensure(t, p, want).WaitingFor, "to be retired")
				})
			}
		}
		t.Run(generation+" a worker without a zone", func(t *testing.T) {
			w, p := settled(t, generation, spec(1))
			w.Server.Inject(rewrite(workerList, 0, replaced(`"location":"`+w.zones[2]+`"`, `"location":""`)))
			want := spec(1)
			want.Zones = w.zones[:2]
			for range 5 {
				got := ensure(t, p, want)
				require.Contains(t, got.WaitingFor, "zone")
				require.Empty(t, leaving(w))
				w.Advance(3 * time.Minute)
			}
		})
		t.Run(generation+" workers of our pool under another id", func(t *testing.T) {
			w, p := settled(t, generation, spec(1))
			w.Server.Inject(rewrite(workerList, 0, replaced(`"`+poolID(w)+`"`, `"another"`)))
			_ = unseen(t, p, cloud.Unavailable)
		})
	}
}

func leaving(w *world) []cloud.Worker {
	return slices.DeleteFunc(w.Workers(), func(o cloud.Worker) bool { return o.State != cloud.WorkerDeleting })
}

func TestAnswersAboutSomethingElse(t *testing.T) {
	for _, generation := range both {
		for name, c := range map[string]struct {
			path  string
			spoil func([]byte) []byte
		}{
			"another cluster": {"/v2/getCluster", replaced(`"`+clusterID+`"`, `"other"`, `"production"`, `"other"`)},
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w := newWorld(t, generation)
				w.Server.Inject(rewrite(c.path, 0, c.spoil))
				_ = refused(t, w.provider(t, nil), spec(1), cloud.Unavailable)
				require.Zero(t, w.Mutations())
			})
		}
		w := newWorld(t, generation)
		settle(t, w, w.provider(t, func(c *iks.Config) { c.ClusterID = "production" }), spec(1))

		// What another's pool does not say of its zones, the cluster does.
		w = newWorld(t, generation)
		w.Server.Inject(rewrite(poolList, 0, replaced(`"id":"`+zones(generation)[2]+`"`, `"id":""`)))
		require.Equal(t, zones(generation)[:3], observe(t, w.provider(t, nil)).ClusterZones)
	}
}

func TestACutMessageIsStillText(t *testing.T) {
	for i := range 3 {
		w, p := settled(t, iksserver.VPC, spec(1))
		w.Server.Break(clusterID, w.Workers()[0].ID, "", "critical", strings.Repeat("x", i)+strings.Repeat("€", 300))
		pool := observe(t, p)
		require.True(t, utf8.ValidString(pool.Workers[0].Message), "or a status that holds it never equals itself")
	}
}

func TestAWrongLifetimeOfATokenIsNoReasonToLogInAgain(t *testing.T) {
	for _, lifetime := range []string{"-1", "0", "9000000000", "20000000000", "9223372036854775807"} {
		w := newWorld(t, iksserver.VPC)
		w.Server.Inject(iksserver.Fault{Path: "^/identity/", Spoil: func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"expires_in":3600000`), []byte(`"expires_in":`+lifetime), 1)
		}})
		p := w.provider(t, nil)
		for range 3 {
			observe(t, p)
		}
		_, _, tokens := w.Counts()
		require.Equal(t, 1, tokens, lifetime)
	}
}

// TestACreationThatIsNotAnsweredIsWaitedFor: a gateway gives up, or the process does, before the pool is made.
func TestACreationThatIsNotAnsweredIsWaitedFor(t *testing.T) {
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"the gateway gives up": {Status: http.StatusGatewayTimeout, Executed: true},
			"the connection ends":  {Reset: true, Executed: true},
			"it is never answered": {Delay: 200 * time.Millisecond},
			"it was not made":      {Status: http.StatusBadGateway},
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w := newWorld(t, generation)
				fault.Times = 1
				w.Server.Inject(fault.On(http.MethodPost, "createWorkerPool$|/workerpools$"))
				p := w.provider(t, func(c *iks.Config) { c.Timeout = 100 * time.Millisecond })
				got := ensure(t, p, spec(1))
				require.False(t, got.Done)
				require.Empty(t, got.Did)
				require.Contains(t, got.WaitingFor, "the cloud to list the pool")
				require.Contains(t, got.WaitingFor, "creating worker pool")
				require.Eventually(t, func() bool { return name == "it was not made" || w.Pools() == 1 }, 10*time.Second, time.Millisecond)
				settle(t, w, p, spec(1))
				require.Equal(t, 1, w.Pools())
			})
		}
	}
}

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
			w, p, _ := newWorldOf(t, generation)
			whole := observe(t, p)
			w.Server.SetAutoscaled(clusterID, providertest.PoolName, true)
			if generation == iksserver.Classic { // its listing has no taints
				whole.Taints, whole.TaintsUnknown = nil, true
			}
			for _, missing := range []string{"zones", "nothing else"} { // an answer about one classic pool has no VLANs
				w.ClearFaults()
				w.Server.Inject(rewrite(poolList, 0, without("workerCount", "sizePerZone")))
				w.Server.Inject(rewrite(singlePool, 0, without("flavor", "labels", "taints", "autoscaleEnabled", "operatingSystem", "workerVolumeEncryption", "dedicatedHostPoolId", "vpcID", "lifecycle", missing)))
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

// TestWhatIsNotFoundWasNotOrdered: what adds or changes was refused then, and what takes away has been done.
func TestWhatIsNotFoundWasNotOrdered(t *testing.T) {
	noPool, noWorker := `{"code":"E9004","description":"The specified worker pool could not be found."}`, `{"code":"E0011","description":"The specified worker node could not be found."}`
	for name, tc := range map[string]struct {
		body   string
		change func(*world, *cloud.PoolSpec)
		counts bool
	}{
		"a resize":                  {noPool, func(_ *world, s *cloud.PoolSpec) { s.SizePerZone = 2 }, false},
		"a replacement":             {noWorker, func(w *world, s *cloud.PoolSpec) { s.Replace = []string{w.Workers()[0].ID} }, false},
		"a removal":                 {noWorker, func(w *world, s *cloud.PoolSpec) { s.Retire = []string{w.Workers()[0].ID} }, true},
		"a removal, by the cluster": {noCluster, func(w *world, s *cloud.PoolSpec) { s.Retire = []string{w.Workers()[0].ID} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := settled(t, iksserver.VPC, spec(1))
			record, want := new(note), spec(1)
			*record = "{}"
			tc.change(w, &want)
			w.Server.Inject(iksserver.Fault{Method: http.MethodPost, Path: "orker", Status: http.StatusNotFound, Body: tc.body, Times: 1})
			ctx := cloud.WithRecord(t.Context(), record)
			_, _ = p.Ensure(ctx, want)
			require.Contains(t, *record, `"kind"`)
			w.ClearFaults()
			w.Advance(time.Hour)
			want = spec(1)
			want.Replace = []string{w.Workers()[1].ID}
			_, err := p.Ensure(ctx, want)
			require.NoError(t, err)
			ledger, err := poolplan.ReadLedger(record.Text(), w.clock.Now())
			require.NoError(t, err)
			require.Len(t, ledger.Requests, map[bool]int{false: 1, true: 2}[tc.counts])
		})
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

// One strange answer is not kept: the next one counts.
func TestAClusterThatIsDescribedOtherwiseOnceIsAskedAgain(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	p := w.provider(t, nil)
	settle(t, w, p, spec(1))
	w.Advance(2 * time.Hour)
	f := iksserver.Fault{Path: "getCluster$", Times: 1, Spoil: func(body []byte) []byte {
		return []byte(strings.Replace(string(body), "{", `{"networkPlugin":"x",`, 1))
	}}
	w.Server.Inject(f)
	_, err := p.Observe(context.Background(), spec(1))
	require.True(t, cloud.Is(err, cloud.Unsupported), "%v", err)
	_, err = p.Observe(context.Background(), spec(1))
	require.NoError(t, err)
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

// What a cluster is does not change: while it cannot be read again nothing stops but orders.
func TestADescriptionThatCannotBeReadAgain(t *testing.T) {
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"an error":        {Path: "getCluster$", Status: http.StatusBadGateway, Body: `{"code":"E0001","description":"try later"}`},
			"another cluster": {Path: "getCluster$", Spoil: replaced(`"`+clusterID+`"`, `"other"`, `"production"`, `"other"`)},
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w, p := settled(t, generation, spec(1))
				w.Server.Inject(fault)
				read := func() (n int) {
					for _, r := range w.Server.Requests() {
						if strings.HasSuffix(r.Path, "getCluster") {
							n++
						}
					}
					return n
				}
				before := read()
				for range 60 {
					w.Advance(2 * time.Minute)
					for range 3 {
						_, err := p.Observe(t.Context(), spec(1))
						require.NoError(t, err)
					}
				}
				require.LessOrEqual(t, read()-before, 60, "it is asked for at times")
				require.Greater(t, read()-before, 10)
				mutations := w.Mutations()
				_, err := p.Ensure(t.Context(), spec(2))
				require.Error(t, err, "no worker is ordered by what is old")
				require.Equal(t, mutations, w.Mutations())
				_, err = w.provider(t, nil).Observe(t.Context(), spec(1))
				require.Error(t, err)
				w.ClearFaults()
				settle(t, w, p, spec(2))
			})
		}
	}
}
