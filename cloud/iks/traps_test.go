package iks_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

// rewrite is a fault that changes the answers to readings of path.
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

// TestAPoolThatGoesIsNotDeletedTwice while the listing still has it.
func TestAPoolThatGoesIsNotDeletedTwice(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		var old []byte
		keep := func(b []byte) []byte {
			if old == nil {
				old = bytes.Clone(b)
			}
			return old
		}
		w.Server.Inject(rewrite(poolList, 0, keep))
		w.Server.Inject(iksserver.Fault{Method: http.MethodGet, Path: workerList, Status: 200, Body: "[]"})
		before := w.Mutations()
		for range 5 {
			got, err := p.Delete(context.Background())
			require.NoError(t, err)
			require.False(t, got.Done)
		}
		require.Equal(t, before+1, w.Mutations())
	}
}

func TestAnswersAboutSomethingElse(t *testing.T) {
	for _, generation := range both {
		for name, c := range map[string]struct {
			path  string
			spoil func([]byte) []byte
		}{
			"another cluster":      {"/v2/getCluster", replaced(`"`+clusterID+`"`, `"other"`, `"production"`, `"other"`)},
			"a zone without an id": {poolList, replaced(`"id":"`+zones(generation)[2]+`"`, `"id":""`)},
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
