package iks_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

// schedule is a lifecycle in which everything happens at random, several faults at once.
type schedule struct {
	*environment
	r    *rapid.T
	want cloud.PoolSpec
	// deleted counts the pools that a person has deleted.
	deleted int
}

// TestSeveralFaultsAtOnce: whatever fails together, whatever a person does meanwhile and
// whenever the process dies, there is one pool, no worker untainted, and only workers that
// were named go. Once the cloud is in order, so is the pool soon.
func TestSeveralFaultsAtOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { anySchedule(t, r) })
}

func anySchedule(t *testing.T, r *rapid.T) {
	t.Helper()
	generation := rapid.SampledFrom(both).Draw(r, "generation")
	inBubble(t, func(t *testing.T) {
		t.Helper()
		w := &schedule{environment: newEnvironment(t, generation, rapid.SampledFrom(iksserver.Profiles).Draw(r, "profile")), r: r}
		w.want = w.wanted(1, 3)
		w.fault()
		w.spend()
		for range rapid.IntRange(3, 12).Draw(r, "events") {
			w.event()
			w.spend()
		}
		w.settle()
	})
}

// inBubble carries a panic, by which rapid ends a case, out of the bubble.
func inBubble(t *testing.T, run func(*testing.T)) {
	t.Helper()
	var ended any
	synctest.Test(t, func(t *testing.T) {
		defer func() { ended = recover() }()
		run(t)
	})
	if ended != nil {
		panic(ended)
	}
}

func (w *schedule) event() {
	switch what := rapid.SampledFrom([]string{
		"fault", "fault", "fault", "size", "zone", "restart", "worker removed", "worker broken", "pool removed", "nothing",
	}).Draw(w.r, "event"); what {
	case "fault":
		w.fault()
	case "size":
		w.want.SizePerZone = rapid.IntRange(1, 3).Draw(w.r, "size")
	case "zone":
		w.want.Zones = w.zones[:rapid.IntRange(2, 4).Draw(w.r, "zones")]
	case "restart":
		w.restart()
	case "pool removed":
		w.deleted++
		w.release()
		w.RemovePool(clusterID, providertest.PoolName)
	case "worker removed", "worker broken":
		w.worker(what == "worker removed")
	}
}

// lostNames are the faults after which a change has been made, but not answered.
var lostNames = slices.DeleteFunc(slices.Clone(faultNames), func(name string) bool { return !strings.Contains(name, "but executed") })

// worker takes one, or breaks it.
func (w *schedule) worker(removed bool) {
	all := slices.Concat(slices.Collect(maps.Values(w.ours()))...)
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	id := rapid.SampledFrom(all).Draw(w.r, "worker")
	if removed {
		w.name(id)
		w.RemoveWorker(clusterID, id)
		return
	}
	w.Break(clusterID, id, "deploy_failed", "critical", "it does not start")
}

// fault spoils one endpoint, or all of one method, or all; often it is a change whose answer is lost.
func (w *schedule) fault() {
	f := everyFault()[rapid.SampledFrom(faultNames).Draw(w.r, "fault")]
	switch rapid.IntRange(0, 5).Draw(w.r, "where") {
	case 0:
	case 1:
		f.Method = rapid.SampledFrom([]string{http.MethodGet, http.MethodPost, http.MethodDelete}).Draw(w.r, "method")
	case 2, 3:
		e := rapid.SampledFrom(endpoints[w.generation]).Draw(w.r, "endpoint")
		f.Method, f.Path, f.Query = e.method, e.path, e.query
	default:
		f = everyFault()[rapid.SampledFrom(lostNames).Draw(w.r, "lost")]
		f.Method = rapid.SampledFrom([]string{http.MethodPost, http.MethodDelete}).Draw(w.r, "change")
		f.Path = "^/v"
	}
	if w.profile == iksserver.Sparse && f.Status == http.StatusOK && !f.Executed {
		f.Method = http.MethodGet // that taints were acknowledged and not set, only a worker shows: TestOneWorkerAtMostComesUntainted
	}
	f.After = rapid.IntRange(0, 2).Draw(w.r, "after")
	if f.Times = rapid.IntRange(0, 3).Draw(w.r, "times"); f.Times == 0 {
		f.For = time.Duration(rapid.IntRange(1, 60).Draw(w.r, "minutes")) * time.Minute
	}
	w.Inject(f)
}

func (w *schedule) spend() {
	for range rapid.IntRange(0, 12).Draw(w.r, "calls") {
		_, _ = w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, w.decide()) })
		w.sane()
	}
}

// decide names who is to go, as the plan does: the newest of what is too many, those in
// zones that are given up, and what has failed.
func (w *schedule) decide() cloud.PoolSpec {
	want := w.want
	want.TaintsSeen, want.Untainted = w.taintsSeen(), w.untainted()
	ours := w.ours()
	for _, zone := range slices.Sorted(maps.Keys(ours)) {
		ids := slices.Sorted(slices.Values(ours[zone]))
		keep := min(want.SizePerZone, len(ids))
		if !slices.Contains(want.Zones, zone) {
			keep = 0
		}
		want.Retire = append(want.Retire, ids[keep:]...)
	}
	for _, o := range w.Workers(clusterID, providertest.PoolName) {
		if o.State == "deploy_failed" && !slices.Contains(want.Retire, o.ID) {
			want.Replace = append(want.Replace, o.ID)
		}
	}
	w.name(slices.Concat(want.Retire, want.Replace)...)
	return want
}

// sane holds at any time: besides what the auditor sees, no more pools were made than are needed.
func (w *schedule) sane() {
	w.mu.Lock()
	wrongs := slices.Clone(w.wrongs)
	w.mu.Unlock()
	require.Empty(w.r, wrongs)
	made := 0
	for _, r := range w.Requests() {
		if name := nameOf(w.generation)(r); name == "create the pool" && r.Executed() {
			made++
		}
	}
	require.LessOrEqual(w.r, made, 1+w.deleted)
}

// settle ends all faults, and expects the pool to come to what is wanted, with no more
// requests than changes are needed.
func (w *schedule) settle() {
	w.ClearFaults()
	time.Sleep(2 * time.Minute) // by when a slow cloud shows what a person has done
	var got cloud.Progress
	var err error
	for start := time.Now(); !got.Done && time.Since(start) < patience; {
		got, err = w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, w.decide()) })
		w.sane()
	}
	require.True(w.r, got.Done, "%+v %v", got, err)
	want, have := w.counts(w.want.SizePerZone, w.want.Zones)
	require.Equal(w.r, want, have)
	before := len(w.Requests())
	for range 5 {
		_, _ = w.call(func(ctx context.Context) (cloud.Progress, error) { return w.provider.Ensure(ctx, w.decide()) })
	}
	for _, r := range w.Requests()[before:] {
		require.False(w.r, r.Mutating(), "at rest: %s %s", r.Method, r.Path)
	}
	if w.profile != iksserver.Slow { // which refuses what it does not show yet to be done
		require.Empty(w.r, overspent(w.Requests(), nil, nameOf(w.generation)))
	}
}
