package iks_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

var dedicated = cloud.Taint{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}

// auditor sees every state of the cloud, and notes what must never be.
type auditor struct {
	mu sync.Mutex
	// named are the workers that may go, released the pools, by id. alive are the pools that are there.
	named    map[string]bool
	released map[string]bool
	alive    []string
	// rolling: a second pool takes over.
	rolling bool
	// misled: the cloud acknowledges taints that it does not set and never shows. One worker, unproven, comes without.
	misled   bool
	unproven string
	wrongs   []string
}

func (d *auditor) wrong(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(d.wrongs, text) {
		d.wrongs = append(d.wrongs, text)
	}
}

func (d *auditor) name(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.named[id] = true
	}
}

// release lets the pool that there is go, with all its workers.
func (d *auditor) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.alive {
		d.released[id] = true
	}
}

func (d *auditor) audit(pools []iksserver.PoolState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alive = nil
	for _, p := range pools {
		if p.Name == others {
			d.otherPool(p)
			continue
		}
		if !p.Deleted {
			d.alive = append(d.alive, p.ID)
		} else if !d.released[p.ID] && !d.rolling {
			d.wrong("pool %s is deleted", p.ID)
		}
		for _, w := range p.Workers {
			d.worker(p, w)
		}
	}
	if len(d.alive) > 2 || len(d.alive) > 1 && !d.rolling {
		d.wrong("there is a second pool: %v", d.alive)
	}
}

func (d *auditor) worker(p iksserver.PoolState, w iksserver.Worker) {
	leaving := w.State == "deleting"
	switch {
	case d.excused(w):
	case !taint(w.BornTaints):
		d.wrong("worker %s was ordered with the taints %v", w.ID, w.BornTaints)
	case !leaving && !p.Deleted && !taint(p.Taints):
		d.wrong("worker %s has lost its taint", w.ID)
	case leaving && !d.released[p.ID] && !d.named[w.ID]:
		d.wrong("worker %s goes, which was not named", w.ID)
	}
}

// excused reports whether w is the one worker that a cloud which sets no taints may be ordered without them.
func (d *auditor) excused(w iksserver.Worker) bool {
	if d.misled && d.unproven == "" && !taint(w.BornTaints) {
		d.unproven = w.ID
	}
	return w.ID == d.unproven
}

// otherPool is a pool that is not ours: of two workers in each of three zones.
func (d *auditor) otherPool(p iksserver.PoolState) {
	if p.Deleted || p.SizePerZone != 2 || len(p.Zones) != 3 || len(p.Workers) != 6 {
		d.wrong("the pool %s was touched: %+v", p.Name, p)
	}
	for _, w := range p.Workers {
		if w.State != "deployed" {
			d.wrong("worker %s of pool %s is %s", w.ID, p.Name, w.State)
		}
	}
}

const others = "default"

// environment is a provider, and the cloud around it, in a synctest bubble.
type environment struct {
	testing.TB
	*iksserver.Server
	*auditor
	generation string
	profile    iksserver.Profile
	zones      []string
	connect    func(http.RoundTripper) cloud.Provider
	provider   cloud.Provider
	// seen are the requests of earlier stages, last those of the last one.
	seen int
	last []iksserver.Request
	// failures in a row decide how long the caller waits.
	failures int
}

// newEnvironment makes a cloud with one more zone than there are workers in.
func newEnvironment(tb testing.TB, generation string, profile iksserver.Profile) *environment {
	tb.Helper()
	t := &environment{
		TB: tb, generation: generation, profile: profile, zones: zones(generation),
		auditor: &auditor{named: map[string]bool{}, released: map[string]bool{}},
	}
	t.Server = iksserver.New(iksserver.Config{
		APIKeys: []string{apiKey}, Audit: t.audit, Profile: profile,
		Delays: iksserver.Delays{Pending: time.Minute, Provisioning: time.Minute, Deploying: time.Minute, Deleting: 3 * time.Minute},
	})
	c := seed(generation)
	c.Zones = append(c.Zones, zone(generation, t.zones[3]))
	t.AddCluster(c)
	t.connect = func(wire http.RoundTripper) cloud.Provider {
		p, err := iks.New(iks.Config{
			ClusterID: clusterID, PoolName: providertest.PoolName, APIKey: apiKey,
			CSEndpoint: "https://cs.invalid/global", IAMEndpoint: "https://iam.invalid", Transport: wire,
		})
		require.NoError(tb, err)
		return p
	}
	t.restart()
	return t
}

// restart is a new process: it remembers nothing.
func (t *environment) restart() { t.provider, t.failures = t.connect(t.Transport()), 0 }

// wanted is what the pool is to be: of size workers in each of the first zones.
func (t *environment) wanted(size, zones int) cloud.PoolSpec {
	return cloud.PoolSpec{SizePerZone: size, Zones: t.zones[:zones], Taints: []cloud.Taint{dedicated}}
}

// patience is how long a test waits for a pool: the longest fault, and then as long
// as the slowest retry and the slowest worker take, several times.
const patience = 6 * time.Hour

// live calls the provider as the pool controller does, until want is there.
func (t *environment) live(want cloud.PoolSpec) error {
	return t.until(func(ctx context.Context) (cloud.Progress, error) {
		want.TaintsSeen, want.Untainted = t.taintsSeen(), t.untainted()
		if _, err := t.look(ctx, cloud.PoolSpec{}); err != nil {
			return cloud.Progress{}, err
		}
		return t.provider.Ensure(ctx, want)
	})
}

func (t *environment) look(ctx context.Context, want cloud.PoolSpec) (cloud.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return t.provider.Observe(ctx, want)
}

// taintsSeen: a node shows the taint.
func (t *environment) taintsSeen() bool {
	return slices.ContainsFunc(t.pools(), func(w iksserver.Worker) bool { return w.State == "deployed" && taint(w.Taints) })
}

func (t *environment) untainted() (ids []string) {
	for _, w := range t.pools() {
		if w.State == "deployed" && !taint(w.Taints) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

func taint(of map[string]string) bool {
	return of[dedicated.Key] == dedicated.Value+":"+dedicated.Effect
}

func (t *environment) until(call func(context.Context) (cloud.Progress, error)) error {
	var last cloud.Progress
	var err error
	for start := time.Now(); time.Since(start) < patience; {
		last, err = t.call(call)
		if err == nil && last.Done {
			return nil
		}
	}
	return fmt.Errorf("not done after %s: %+v, %w", patience, last, err)
}

// call makes one call, and waits as it asks for.
func (t *environment) call(call func(context.Context) (cloud.Progress, error)) (cloud.Progress, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	got, err := call(ctx)
	cancel()
	switch {
	case err != nil:
		t.failures++
		time.Sleep(pauseAfter(err, t.failures))
		return got, err
	case got.Done:
	case got.Did != "":
		time.Sleep(2 * time.Second)
	default:
		time.Sleep(time.Minute) // the controller asks sooner, which only takes longer here
	}
	t.failures = 0
	return got, nil
}

func pauseAfter(err error, failures int) time.Duration {
	wait := 5 * time.Minute
	switch cloud.KindOf(err) {
	case cloud.RateLimited:
		wait = time.Minute
	case cloud.Unavailable, "":
		wait = min(15*time.Second<<min(failures-1, 5), wait)
	case cloud.NotFound, cloud.Conflict, cloud.InvalidInput, cloud.Unsupported, cloud.Unauthorized, cloud.QuotaExceeded, cloud.Unexpected:
	}
	return max(wait, cloud.RetryAfter(err))
}

// roll has workers of another flavor take over, as the controller does: where one is there, one that was there before goes.
func (t *environment) roll(want cloud.PoolSpec) error {
	t.mu.Lock()
	t.rolling = true
	t.mu.Unlock()
	want.Lasting = want.SizePerZone
	return t.until(func(ctx context.Context) (cloud.Progress, error) {
		pool, err := t.look(ctx, want)
		if err != nil {
			return cloud.Progress{}, err
		}
		now, deployed := want, map[string]int{}
		now.Untainted = t.untainted()
		for _, w := range pool.Workers {
			if w.State == cloud.WorkerDeployed {
				deployed[w.Zone]++
			}
			if w.Former {
				now.SizePerZone = want.SizePerZone + 1
			} else if w.State == cloud.WorkerDeployed && !slices.Contains(now.Untainted, w.ID) {
				now.TaintsSeen = true
			}
		}
		spare := slices.IndexFunc(pool.Workers, func(w cloud.Worker) bool {
			return w.Former && w.State == cloud.WorkerDeployed && deployed[w.Zone] > want.SizePerZone
		})
		if spare >= 0 {
			now.Retire = []string{pool.Workers[spare].ID}
			t.name(pool.Workers[spare].ID)
		}
		return t.provider.Ensure(ctx, now)
	})
}

const secondPool = providertest.PoolName + "-b"

func (t *environment) pools() []iksserver.Worker {
	return slices.Concat(t.Workers(clusterID, providertest.PoolName), t.Workers(clusterID, secondPool))
}

// ours are our workers by zone, without those that go.
func (t *environment) ours() map[string][]string {
	out := map[string][]string{}
	for _, w := range t.pools() {
		if w.State != "deleting" {
			out[w.Zone] = append(out[w.Zone], w.ID)
		}
	}
	return out
}

// counts gives the workers that there should be by zone, and those that there are.
func (t *environment) counts(size int, zones []string) (want, have map[string]int) {
	want, have = map[string]int{}, map[string]int{}
	for _, zone := range zones {
		want[zone] = size
	}
	for zone, ids := range t.ours() {
		have[zone] = len(ids)
	}
	return want, have
}

type stage struct {
	name string
	// live makes it happen, and returns when the provider says that it has.
	live func(*environment) error
	// There have to be size workers then in each of the first zones; size 0: no pool.
	size, zones int
}

var lifecycle = []stage{
	{"ordered", func(t *environment) error { return t.live(t.wanted(1, 3)) }, 1, 3},
	{"grown", func(t *environment) error { return t.live(t.wanted(2, 3)) }, 2, 3},
	{"a dead worker replaced", func(t *environment) error {
		want, dead := t.wanted(2, 3), t.ours()[t.zones[1]][0]
		t.Break(clusterID, dead, "deploy_failed", "critical", "it does not start")
		want.Replace = []string{dead}
		t.name(dead)
		return t.live(want)
	}, 2, 3},
	{"a zone added", func(t *environment) error { return t.live(t.wanted(2, 4)) }, 2, 4},
	{"shrunk", func(t *environment) error {
		want := t.wanted(1, 4)
		for _, ids := range t.ours() {
			want.Retire = append(want.Retire, slices.Max(ids)) // no cloud would choose the newest
		}
		t.name(want.Retire...)
		return t.live(want)
	}, 1, 4},
	{"a zone given up", func(t *environment) error {
		want := t.wanted(1, 3)
		want.Retire = t.ours()[t.zones[3]]
		t.name(want.Retire...)
		return t.live(want)
	}, 1, 3},
	{"another flavor", func(t *environment) error {
		want := t.wanted(1, 3)
		want.Flavor = "bx2.4x16"
		return t.roll(want)
	}, 1, 3},
	{"deleted", func(t *environment) error {
		t.release()
		return t.until(func(ctx context.Context) (cloud.Progress, error) { return t.provider.Delete(ctx) })
	}, 0, 0},
}

// complaints runs a stage and says what is wrong with it: it does not come to its end, or to another than it
// should; something was that must never be; or more was asked for than is needed.
func (t *environment) complaints(s stage, needed map[string]int, name func(iksserver.Request) string) []string {
	var out []string
	if err := s.live(t); err != nil {
		out = append(out, err.Error())
	}
	t.mu.Lock()
	out = append(out, t.wrongs...)
	t.mu.Unlock()
	if want, have := t.counts(s.size, t.zones[:s.zones]); !maps.Equal(want, have) {
		out = append(out, fmt.Sprintf("there should be the workers %v, there are %v", want, have))
	}
	labels, taints := t.Labels(clusterID, providertest.PoolName)
	if labels == nil {
		labels, taints = t.Labels(clusterID, secondPool)
	}
	if s.size > 0 && (labels[v1alpha1.PoolLabel] != providertest.PoolName || len(taints) != 1) {
		out = append(out, fmt.Sprintf("the pool has the labels %v and the taints %v", labels, taints))
	}
	t.last = t.Requests()[t.seen:]
	t.seen += len(t.last)
	if t.profile == iksserver.Sparse && needed != nil {
		needed = maps.Clone(needed)
		needed["set taints"] = math.MaxInt // what is not shown is acknowledged again
	}
	return append(out, overspent(t.last, needed, name)...)
}

// bill is how many changes took effect, by endpoint.
func bill(requests []iksserver.Request, name func(iksserver.Request) string) map[string]int {
	out := map[string]int{}
	for _, r := range requests {
		if r.Mutating() && r.Executed() {
			out[name(r)]++
		}
	}
	return out
}

// overspent says what was asked for although it was not needed: each change takes effect no more often than without
// faults, and none is asked for that the service itself refuses, as it does a change that has been made already. A
// nil clean leaves the former open.
func overspent(requests []iksserver.Request, clean map[string]int, name func(iksserver.Request) string) []string {
	var out []string
	spent := bill(requests, name)
	for _, what := range slices.Sorted(maps.Keys(spent)) {
		if clean != nil && spent[what] > clean[what] {
			out = append(out, fmt.Sprintf("%s took effect %d times, %d are needed", what, spent[what], clean[what]))
		}
	}
	for _, r := range requests {
		if r.Mutating() && !r.Faulty && !r.Executed() && r.Own != http.StatusUnauthorized {
			out = append(out, fmt.Sprintf("%s was refused with status %d: %s", name(r), r.Own, r.Body))
		}
	}
	return out
}
