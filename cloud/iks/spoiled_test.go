package iks_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/providertest"
	"github.com/rrpool/rrpool/test/iksserver"
)

// TestOneSpoiledValueHarmsNoPool spoils one value somewhere in one answer: it is
// missing, or of another type, or empty. Whatever is wanted meanwhile, no worker
// goes that was not named, none comes untainted, and there is one pool.
func TestOneSpoiledValueHarmsNoPool(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) { oneSpoiledValue(t, r, generation) })
		})
	}
}

func oneSpoiledValue(t *testing.T, r *rapid.T, generation string) {
	t.Helper()
	w := newWorld(t, generation)
	defer w.http.Close()
	defer w.Close()
	p := w.provider(t, nil)
	settle(t, w, p, spec(2))
	if rapid.Bool().Draw(r, "restart") {
		p = w.provider(t, nil)
	}
	want := spec(rapid.IntRange(1, 3).Draw(r, "size"))
	if rapid.Bool().Draw(r, "fewer zones") {
		want.Zones = []string{"dal10", "dal12"}
	}
	for range rapid.IntRange(0, 2).Draw(r, "named") {
		id := rapid.SampledFrom(w.Workers()).Draw(r, "worker").ID
		if rapid.Bool().Draw(r, "dead") {
			want.Replace = append(want.Replace, id)
		} else {
			want.Retire = append(want.Retire, id)
		}
	}
	for range 3 {
		seed := rapid.Uint64().Draw(r, "where")
		with := rapid.SampledFrom([]any{nil, "", 0, 7, "x", []any{}, map[string]any{}, false, "rrpool", "deleted", missing{}}).Draw(r, "with")
		w.Server.Inject(iksserver.Fault{
			Method: "GET", After: rapid.IntRange(0, 4).Draw(r, "after"), Times: 1,
			Spoil: func(b []byte) []byte { return spoilOne(b, seed, with) },
		})
		for range 4 {
			_, err := p.Ensure(context.Background(), want)
			require.True(r, err == nil || cloud.KindOf(err) != "", "%v", err)
			unharmed(r, w, want)
		}
		w.ClearFaults()
		w.Advance(3 * time.Minute)
		unharmed(r, w, want)
	}
}

func unharmed(r *rapid.T, w *world, want cloud.PoolSpec) {
	for _, o := range leaving(w) {
		require.Contains(r, slices.Concat(want.Retire, want.Replace), o.ID, "it was not named")
	}
	require.Equal(r, []string{"default", providertest.PoolName}, w.Server.Pools(clusterID))
	require.Zero(r, w.Untainted())
	for _, o := range w.Server.Workers(clusterID, "default") {
		require.Equal(r, "deployed", o.State)
	}
}

type missing struct{}

// spoilOne changes one value of a JSON text: the one that seed chooses.
func spoilOne(body []byte, seed uint64, with any) []byte {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return body
	}
	text, err := json.Marshal(spoilt(v, seed, with))
	if err != nil {
		panic(err)
	}
	return text
}

// spoilt walks down from v, and gives v with a value at some depth replaced.
func spoilt(v any, seed uint64, with any) any {
	last, seed := seed%3 == 0, seed/3
	switch o := v.(type) {
	case map[string]any:
		if len(o) == 0 || last {
			return with
		}
		k := slices.Sorted(maps.Keys(o))[seed%uint64(len(o))]
		if o[k] = spoilt(o[k], seed/uint64(len(o)), with); o[k] == (missing{}) {
			delete(o, k)
		}
	case []any:
		if len(o) == 0 || last {
			return with
		}
		i := seed % uint64(len(o))
		o[i] = spoilt(o[i], seed/uint64(len(o)), with)
	default:
		return with
	}
	return v
}
