package iks_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

func also(members ...string) func([]byte) []byte {
	return func(body []byte) []byte {
		var all []json.RawMessage
		_ = json.Unmarshal(body, &all) // the server's own answer
		for _, m := range members {
			all = append(all, json.RawMessage(m))
		}
		body, _ = json.Marshal(all)
		return body
	}
}

// leftover is a worker of a former pool of our name, in the words of either generation.
const leftover = `{"id":"kube-old","poolID":"old","poolid":"old","poolName":"` + providertest.PoolName + `","state":"deleting","location":"z",
	"lifecycle":{"actualState":"deleting","desiredState":"deleted","message":"Incorrect account for worker"}}`

// What is not ours may be as it likes: one bad member of a listing stops nothing.
func TestMembersOfOthersStopNothing(t *testing.T) {
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"what is left of a former pool's workers": rewrite(workerList, 0, also(leftover)),
			"workers without an id or a pool":         {Method: "GET", Path: workerList, Query: "showDeleted=false$", Spoil: also(`{"poolID":"x","poolid":"x","poolName":"x"}`, `{"id":"alone"}`)},
			"a pool without an id or a name":          rewrite(poolList, 0, also(`{"id":"x"}`, `{"poolName":"y","name":"y"}`)),
			"a pool with a zone without an id":        rewrite(poolList, 0, also(`{"id":"x","poolName":"x","name":"x","zones":[{"id":""},{"id":7}]}`)),
			"a pool of which a number is a string":    rewrite(poolList, 0, also(`{"id":"x","poolName":"x","name":"x","workerCount":"2","sizePerZone":"2","labels":["a"]}`)),
			"a pool that is a number":                 rewrite(poolList, 0, also(`7`)),
			"a worker of which a string is a number": {Method: "GET", Path: workerList, Query: "showDeleted=false$", Spoil: also(
				`{"id":7,"poolID":"x","poolid":"x","poolName":"x"}`, `{"id":"y","poolID":7,"poolid":7}`, `"z"`,
			)},
			"a former pool of the name on its way out": rewrite(poolList, 0, also(`{"id":"old","poolName":"`+providertest.PoolName+`","name":"`+providertest.PoolName+
				`","state":"deleting","lifecycle":{"actualState":"deleting","desiredState":"deleted"}}`)),
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w, p := settled(t, generation, spec(2))
				w.Server.Inject(fault)
				want := spec(1)
				for _, z := range zones(generation) {
					for _, o := range w.Workers() {
						if o.Zone == z {
							want.Retire = append(want.Retire, o.ID)
							break
						}
					}
				}
				for range 3 {
					ensure(t, p, want)
					w.Advance(3 * time.Minute)
				}
				want.Retire = nil
				settle(t, w, p, want)
				require.Len(t, w.Workers(), 3)
				w.ClearFaults()
				for range 2 {
					_, err := deletion(t, p)
					require.NoError(t, err)
				}
				require.Zero(t, w.Pools())
			})
		}
	}
}

// Nor is a pool that may be ours overlooked, or ordered once more, because its id or its name is missing.
func TestAPoolOfOursWithoutAnIDOrANameIsNoOther(t *testing.T) {
	for generation, keys := range map[string][]string{iksserver.VPC: {"id", "poolName"}, iksserver.Classic: {"id", "name"}} {
		for _, key := range keys {
			w, p := settled(t, generation, spec(1))
			mutations := w.Mutations()
			w.Server.Inject(rewrite(poolList, 0, without(key)))
			for _, p := range []*iks.Provider{p, w.provider(t, nil)} {
				_, err := p.Ensure(t.Context(), spec(1))
				require.ErrorContains(t, err, "a worker pool has no id or name", "%s %s", generation, key)
			}
			require.Equal(t, mutations, w.Mutations())
		}
	}
}

// A worker that is listed as ours, and by its id is another pool's, is no member that can be ignored.
func TestAWorkerOfOurNameIsNotIgnored(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(2))
		w.Server.Inject(rewrite(workerList, 0, also(`{"id":"kube-other","poolID":"old","poolid":"old","poolName":"`+providertest.PoolName+`","state":"normal","lifecycle":{"actualState":"deployed"}}`)))
		err := unseen(t, p, cloud.Unavailable)
		require.NotContains(t, err.Error(), "check the network", "an answer came")
	}
}

// What is ours, or may be, and has not the expected form, is not known: nothing is ordered, and it is said.
func TestWhatMayBeOursIsReadWholeOrNotAtAll(t *testing.T) {
	wrong := func(field string) func(map[string]any) {
		return func(o map[string]any) { o[field] = map[string]any{"a": 1} }
	}
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"flavor":   rewrite(poolList, 0, edited(wrong("flavor"))),
			"type":     rewrite(poolList, 0, edited(wrong("machineType"))),
			"size":     rewrite(poolList, 0, edited(func(o map[string]any) { o["workerCount"], o["sizePerZone"] = "2", "2" })),
			"location": rewrite(workerList, 0, edited(wrong("location"))),
			"worker":   rewrite(workerList, 0, also(`{"id":"a","poolID":7,"poolid":7}`)),
		} {
			if generation == iksserver.VPC && name == "type" || generation == iksserver.Classic && name == "flavor" {
				continue
			}
			w, p := settled(t, generation, spec(1))
			mutations := w.Mutations()
			w.Server.Inject(fault)
			for _, q := range []cloud.Provider{p, w.provider(t, nil)} {
				require.ErrorContains(t, unseen(t, q, cloud.Unavailable), "cannot be read", name)
				_ = refused(t, q, spec(2), cloud.Unavailable)
			}
			require.Equal(t, mutations, w.Mutations(), name)
		}
	}
}

// A size that is missing is not 0: the pool is not resized by it, but what is dead is replaced, and it can be deleted.
func TestAPoolWithoutASize(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(2))
		sizeless := rewrite(poolList+"|"+singlePool, 0, without("workerCount", "sizePerZone"))
		w.Server.Inject(sizeless)
		got := observe(t, p)
		require.Equal(t, 2, got.SizePerZone, "as many as there are")
		require.Contains(t, got.Problems[0], "does not say the size")
		err := refused(t, p, spec(3), cloud.Unavailable)
		require.ErrorContains(t, err, "a size that is missing is not 0")
		want := spec(3)
		want.Replace = []string{w.Workers()[0].ID}
		require.Contains(t, ensure(t, p, want).Did, "replaced worker")
		progress, err := deletion(t, p)
		require.NoError(t, err)
		require.Equal(t, "deleted the pool", progress.Did)
		require.Zero(t, w.Pools())
		w = newWorld(t, generation)
		w.Server.Inject(sizeless)
		w.AddForeignPool()
		_ = refused(t, w.provider(t, nil), spec(3), cloud.Conflict)
	}
}

// TestAPoolThatStaysOnItsWayOut: what the cloud says of it, and of its workers, is said.
func TestAPoolThatStaysOnItsWayOut(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		observe(t, p)
		w.Server.Inject(rewrite(poolList+"|"+singlePool, 0, edited(func(pool map[string]any) {
			if pool["poolName"] == providertest.PoolName || pool["name"] == providertest.PoolName {
				pool["state"], pool["labels"] = "delete_failed", map[string]string{}
				pool["lifecycle"] = map[string]any{"actualState": "delete_failed", "desiredState": "deleted"}
			}
		})))
		w.Server.Inject(rewrite(workerList, 0, edited(func(o map[string]any) {
			o["state"], o["errorMessage"] = "deleting", "Incorrect account for worker"
			o["lifecycle"] = map[string]any{"actualState": "deleting", "desiredState": "deleted", "message": "Incorrect account for worker"}
		})))
		got := observe(t, p)
		require.Contains(t, got.Leaving, "Incorrect account for worker")
		w.Server.Inject(iksserver.Fault{Method: http.MethodDelete, Status: http.StatusNoContent})
		mutations := w.Mutations()
		for _, minutes := range []int{0, 10, 20, 40} { // it is asked for again, ever more slowly
			w.Advance(time.Duration(minutes) * time.Minute)
			progress, err := deletion(t, p)
			require.NoError(t, err)
			require.Equal(t, "deleted the pool", progress.Did)
			for range 2 {
				w.Advance(time.Minute)
				progress, err = deletion(t, p)
				require.NoError(t, err)
				require.False(t, progress.Done)
				require.Contains(t, progress.WaitingFor, "delete_failed")
				require.Contains(t, progress.WaitingFor, "Incorrect account for worker")
				require.Contains(t, ensure(t, p, spec(1)).WaitingFor, "Incorrect account for worker")
			}
		}
		require.Equal(t, mutations+4, w.Mutations())
	}
}

const noCluster = `{"code":"E0008","type":"Provisioning","description":"The specified cluster could not be found."}`

// That the cluster cannot be found says nothing about its pools and workers.
func TestTheClusterThatIsNotFoundIsNotThePool(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		want := spec(1)
		want.Replace = []string{w.Workers()[0].ID}
		mutations := w.Mutations()
		w.Server.Inject(iksserver.Fault{Path: "replaceWorker$", Status: http.StatusNotFound, Body: noCluster})
		w.Server.Inject(iksserver.Fault{Method: http.MethodDelete, Status: http.StatusNotFound, Body: noCluster})
		for range 2 {
			require.ErrorContains(t, refused(t, p, want, cloud.NotFound), "spec.provider.iks.clusterID")
			_, err := deletion(t, p)
			require.True(t, cloud.Is(err, cloud.NotFound), "%v", err)
			require.NotContains(t, err.Error(), "gone")
			w.Advance(3 * time.Minute)
		}
		require.Greater(t, w.Mutations(), mutations)
		w.ClearFaults()

		// Neither is a pool that the listing lacks taken for gone.
		fresh := newWorld(t, generation)
		fresh.Server.Inject(iksserver.Fault{Method: http.MethodGet, Path: singlePool, Status: http.StatusNotFound, Body: noCluster})
		progress, err := deletion(t, fresh.provider(t, nil))
		require.True(t, cloud.Is(err, cloud.NotFound), "%+v %v", progress, err)
		_ = refused(t, fresh.provider(t, nil), spec(1), cloud.NotFound)
		require.Zero(t, fresh.Mutations())
	}
}

// The answer to the order of a zone is lost, and lists are behind: what the repeat is told is that there is nothing to do.
func TestAZoneThatThePoolHasIsNoConflict(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		p := w.provider(t, nil)
		ensure(t, p, spec(1))
		ensure(t, p, spec(1))
		w.Server.Inject(iksserver.Fault{
			Method: http.MethodPost, Path: "Zone$|zones$", Status: http.StatusConflict, Times: 1,
			Body: `{"code":"Ede7d","type":"BadRequest","description":"The zone is already part of the worker pool."}`,
		})
		got := ensure(t, p, spec(1))
		require.Contains(t, got.WaitingFor, "the cloud to list zone")
		settle(t, w, p, spec(1))

		w.Server.Inject(iksserver.Fault{Method: http.MethodPost, Path: "esize", Status: http.StatusConflict, Body: `{"code":"E1111","description":"Resizing is unavailable."}`})
		w.Server.Inject(iksserver.Fault{Method: http.MethodPatch, Status: http.StatusConflict, Body: `{"code":"E1111","description":"Resizing is unavailable."}`})
		require.ErrorContains(t, refused(t, p, spec(2), cloud.Conflict), "Resizing is unavailable.", "of a code that is not known the status and the words count")
	}
}

// A cloud that says so again and again, and never lists the zone, is asked ever more slowly, and that is said.
func TestAZoneThatThePoolHasAndNeverListsIsAskedForEverMoreSlowly(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	p := w.provider(t, nil)
	ensure(t, p, spec(1))
	ensure(t, p, spec(1))
	w.Server.Inject(iksserver.Fault{
		Method: http.MethodPost, Path: "Zone$", Status: http.StatusConflict,
		Body: `{"code":"Ede7d","type":"BadRequest","description":"The zone is already part of the worker pool."}`,
	})
	before, said := w.Mutations(), false
	for range 24 * 12 {
		w.Advance(5 * time.Minute)
		_, err := p.Ensure(t.Context(), spec(1))
		said = said || cloud.Is(err, cloud.Unexpected)
	}
	require.Less(t, w.Mutations()-before, 3*12, "of each of three zones")
	require.True(t, said)
}

// One odd flavor, zone, subnet or VLAN spoils no list, and neither does a field that nothing is read from. Where what is looked for may be the odd
// one, it is not taken for absent.
func TestMembersOfListingsStopNothing(t *testing.T) {
	const flavors, zoneList, networks = "Flavors$|machine-types$", "ones$", "getSubnets$|vlans$"
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"a flavor that is a number":       rewrite(flavors, 0, also(`7`, `{"name":7}`, `null`, `{"name":"odd","deprecated":"no","ocp_unsupported":3}`)),
			"a zone that is a number":         rewrite(zoneList, 0, also(`7`, `{"id":7}`, `{"id":"odd","metro":{}}`)),
			"a network that is a number":      rewrite(networks, 0, also(`7`, `{"id":7}`, `{"id":"odd","name":7,"zone":3,"properties":"x"}`)),
			"a network with odd other fields": rewrite(networks, 0, with("name", `7`)),
			"a cluster with odd other fields": rewrite("getCluster$", 0, merged(`{"workerCount":"9","addons":"none","ingress":[],"isPaid":"yes"}`)),
			"a flavor with odd other fields":  rewrite(flavors, 0, with("cores", `"two"`)),
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w := newWorld(t, generation)
				further := zone(generation, w.zones[3])
				addZone(w, further)
				w.Server.Inject(fault)
				want := spec(1)
				want.Zones = w.zones
				settle(t, w, w.provider(t, nil), want)
				require.Len(t, w.Workers(), 4)
			})
		}
		t.Run(generation+" the only one cannot be read", func(t *testing.T) {
			w := newWorld(t, generation)
			w.Server.Inject(iksserver.Fault{Method: "GET", Path: flavors, Status: http.StatusOK, Body: `[{"name":7},{"name":"huge.64x512"}]`})
			require.Contains(t, ensure(t, w.provider(t, nil), spec(1)).Did, "not knowing whether all zones have flavor")
		})
		t.Run(generation+" networks that cannot be read", func(t *testing.T) {
			w := newWorld(t, generation)
			addZone(w, zone(generation, w.zones[3]))
			w.Server.Inject(iksserver.Fault{Method: "GET", Path: networks, Query: "", Status: http.StatusOK, Body: `[{"id":7}]`})
			want := spec(1)
			want.Zones = w.zones[3:]
			p := w.provider(t, nil)
			for range 2 {
				ensure(t, p, want)
			}
			_, err := p.Ensure(t.Context(), want)
			require.ErrorContains(t, err, "cannot be read", "no VLAN is ordered, and no subnet said to be missing")
		})
	}
}

// with gives every member of a list that has none a field, and merged adds fields to an object.
func with(key, value string) func([]byte) []byte {
	return func(body []byte) []byte {
		var all []map[string]json.RawMessage
		_ = json.Unmarshal(body, &all) // the server's own answer
		for _, m := range all {
			m[key] = json.RawMessage(value)
		}
		body, _ = json.Marshal(all)
		return body
	}
}

func merged(fields string) func([]byte) []byte {
	return func(body []byte) []byte {
		var all map[string]json.RawMessage
		_ = json.Unmarshal(body, &all) // the server's own answer
		_ = json.Unmarshal([]byte(fields), &all)
		body, _ = json.Marshal(all)
		return body
	}
}

// A pool or a worker that is listed twice is one. Where its two entries differ, the pool is asked for itself, and a worker is not known.
func TestWhatIsListedTwiceIsOne(t *testing.T) {
	twice := func(edit func(map[string]any)) func([]byte) []byte {
		return func(body []byte) []byte {
			var all, again []json.RawMessage
			_ = json.Unmarshal(body, &all) // the server's own answer
			_ = json.Unmarshal(edited(edit)(body), &again)
			body, _ = json.Marshal(append(again, all...))
			return body
		}
	}
	less := func(o map[string]any) {
		for key := range o {
			if key != "id" && key != "poolName" && key != "name" && key != "poolID" && key != "poolid" && key != "state" && key != "lifecycle" && key != "health" && key != "status" {
				delete(o, key)
			}
		}
	}
	other := func(o map[string]any) {
		if lifecycle, ok := o["lifecycle"].(map[string]any); ok {
			lifecycle["actualState"], lifecycle["desiredState"] = "deploy_failed", "deployed"
		}
		o["workerCount"], o["sizePerZone"], o["state"] = 7, 7, "deploy_failed"
	}
	for _, generation := range both {
		for name, edit := range map[string]func(map[string]any){"alike": func(map[string]any) {}, "with less": less, "otherwise": other} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w, p := settled(t, generation, spec(1))
				before, err := p.Observe(t.Context(), spec(1))
				require.NoError(t, err)
				w.Server.Inject(rewrite(poolList, 0, twice(edit)))
				now, err := p.Observe(t.Context(), spec(1))
				require.NoError(t, err)
				require.Equal(t, before, now)
				w.ClearFaults()
				w.Server.Inject(rewrite(workerList, 0, twice(edit)))
				now, err = p.Observe(t.Context(), spec(1))
				if name == "otherwise" {
					require.ErrorContains(t, err, "is listed twice")
					return
				}
				require.NoError(t, err)
				require.Equal(t, before, now)
				want := spec(1)
				want.Replace = []string{w.Workers()[0].ID}
				require.Contains(t, ensure(t, p, want).Did, "replaced worker")
			})
		}
	}
}
