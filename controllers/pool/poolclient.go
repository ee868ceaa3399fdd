package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// How often the provider is asked: normally, while rrpool cannot go on, and at rest. An
// observation is two requests on IKS, and a cluster at rest may cause one request a minute.
const (
	intervalActive  = 15 * time.Second
	intervalBlocked = 2 * time.Minute
	intervalRest    = 5 * time.Minute
)

// pace is the pause after a call that has changed the pool. After a call
// without a change, the cloud is busy, and is not asked for intervalActive.
const pace = 2 * time.Second

// The limits of one call. An observation is several requests, and IBM may take seconds for each. Creating a classic pool
// was measured to take up to 93 s. existingTimeout is for existing nodes, whose provider only lists and patches Nodes.
const (
	lookTimeout     = time.Minute
	changeTimeout   = 3 * time.Minute
	existingTimeout = 20 * time.Second
)

// patience is how long a reconciliation waits for an answer before it goes on without it: while it
// waits, reflectors may die and the safety net cannot act. A late answer is looked for every patience.
const patience = 5 * time.Second

// poolClient asks the provider as seldom as it can, and remembers the answers. The zero value knows nothing.
type poolClient struct {
	config   ProviderConfig
	provider cloud.Provider
	// last is the last successful observation. It was answered at lastAt, for the wanted pool seenFor.
	last    *cloud.Pool
	lastAt  time.Time
	seenFor cloud.PoolSpec
	// outdated says that the pool was changed since the last observation.
	outdated bool
	// leaving is when workers or the pool were first seen being deleted, or workers being set up. noteLeaving makes its keys.
	leaving map[string]time.Time
	// pending is the call whose answer has not come yet, nil for none. No other call is made meanwhile.
	pending *call
	// record is the provider's note of what it has ordered lately.
	record *record
	// waiting is what the last Ensure or Delete waits for.
	waiting string
	// wanted is what the last Ensure was asked for.
	wanted    cloud.PoolSpec
	observing callHistory
	ensuring  callHistory
}

// call is one call of the provider, made in the background.
type call struct {
	// changes says that the call changes the pool. Even a new connection waits for it: what it orders may not be listed yet.
	changes bool
	done    chan struct{}
	err     error
	// take processes the answer, in the reconciliation that finds it.
	take func(now time.Time, err error) (cloud.Progress, error)
}

// start makes a call in the background, which ends after limit. It waits for the answer for no longer than wait.
func (c *poolClient) start(ctx context.Context, limit, wait time.Duration, asked *call, ask func(context.Context) error) {
	if c.config.Type == v1alpha1.ProviderExistingNodes {
		limit, wait = existingTimeout, changeTimeout
	}
	ctx, stop := context.WithTimeout(cloud.WithRecord(ctx, c.record), limit)
	c.pending, asked.done = asked, make(chan struct{})
	go func() {
		defer close(asked.done)
		defer stop()
		defer func() { // in this goroutine, a panic would end the process, and the safety net with it
			if recover() != nil {
				asked.err = errors.New("asking the cloud: the provider panicked") // the panic's text may hold a credential
				log.FromContext(ctx).Error(asked.err, "the provider panicked", "stack", string(debug.Stack()))
			}
		}()
		asked.err = ask(ctx)
	}()
	select {
	case <-asked.done:
	case <-time.After(wait):
	}
}

// answered processes the answer to the pending call, if it has come. After an observation it returns no Progress and no error.
func (c *poolClient) answered(now time.Time) (cloud.Progress, error) {
	if c.pending == nil {
		return cloud.Progress{}, nil
	}
	select {
	case <-c.pending.done:
	default:
		return cloud.Progress{}, nil
	}
	asked := c.pending
	c.pending = nil
	return asked.take(now, asked.err)
}

// callHistory says how the last calls of a kind ended, and when the next one may be made.
type callHistory struct {
	errorSeries
	failures  int
	notBefore time.Time
}

func (h *callHistory) fail(now time.Time, err error) {
	h.failures++
	key := string(cloud.KindOf(err))
	var typed *cloud.Error
	if errors.As(err, &typed) {
		key += " " + typed.Op
	}
	_ = h.add(key, err) // h.err is shown later
	h.notBefore = now.Add(backOff(err, h.failures))
}

// worthReporting returns the error to show. If an observation is known, it leaves
// out the first failure of a cloud that is unavailable or limits the rate.
func (h *callHistory) worthReporting(last *cloud.Pool) error {
	kind := cloud.KindOf(h.err)
	momentary := kind == cloud.Unavailable || kind == cloud.RateLimited || kind == ""
	if momentary && last != nil && h.failures < 2 {
		return nil
	}
	return h.err
}

// use connects the provider that config describes, unless it is connected
// already. If config names the same pool as before, the last observation is kept.
func (c *poolClient) use(connect ProviderFactory, config ProviderConfig) *plan.Problem {
	if c.provider != nil && reflect.DeepEqual(c.config, config) {
		return nil
	}
	last, leaving := c.last, c.leaving // lastAt is not kept, so that the new connection observes soon
	if c.config.ClusterID != config.ClusterID || c.config.PoolName != config.PoolName {
		last = nil
	}
	c.forget()
	c.config, c.last, c.leaving = config, last, leaving
	provider, err := connect(config)
	if err != nil {
		return cloudProblem(err)
	}
	c.provider = provider
	return nil
}

// forget drops everything except a pending change and the record.
func (c *poolClient) forget() { *c = poolClient{pending: c.pendingChange(), record: c.record} }

// disconnect drops the connection, and keeps the last observation.
func (c *poolClient) disconnect() {
	c.provider, c.pending, c.waiting = nil, c.pendingChange(), ""
	c.observing, c.ensuring = callHistory{}, callHistory{}
	c.config.APIKey = ""
}

// pendingChange returns the pending call if it changes the pool, else nil.
func (c *poolClient) pendingChange() *call {
	if c.pending != nil && c.pending.changes {
		return c.pending
	}
	return nil
}

// awaits returns what rrpool waits for in the cloud, "" for nothing.
func (c *poolClient) awaits() string {
	if c.pendingChange() != nil {
		return "the cloud to answer, which takes minutes at times"
	}
	return c.waiting
}

// observe asks the provider if its last answer is older than every, or was for another flavor or other options,
// and reports whether it asked. If the answer does not come in time, a later reconciliation processes it.
func (c *poolClient) observe(ctx context.Context, now time.Time, every time.Duration, want cloud.PoolSpec) bool {
	if want.Flavor != c.seenFor.Flavor || !reflect.DeepEqual(want.Options, c.seenFor.Options) {
		every = 0
	}
	if c.busy() || c.due(now, every) > 0 {
		return false
	}
	wait := patience
	if want.Once {
		wait = lookTimeout
	}
	var pool cloud.Pool
	provider := c.provider
	c.start(ctx, lookTimeout, wait, &call{take: func(later time.Time, err error) (cloud.Progress, error) {
		if err != nil {
			c.observing.fail(later, err)
			return cloud.Progress{}, nil
		}
		if pool.Unmarked != "" {
			pool.Owned = true // its workers exist, and count
		}
		c.noteLeaving(&pool, later)
		c.last, c.lastAt, c.seenFor, c.outdated, c.observing = &pool, later, want, false, callHistory{}
		return cloud.Progress{}, nil
	}}, func(ctx context.Context) (err error) {
		pool, err = provider.Observe(ctx, want)
		return err
	})
	_, _ = c.answered(now) // an observation returns nothing here
	return true
}

// setupLimit is how long the cloud may take to set a worker up: half an hour is usual for a new worker, an hour for a reload.
const setupLimit = 2 * rollout.WorkersTimeout

// noteLeaving notes when the pool and its workers were first seen being deleted, and workers being set up. If either exceeds its limit,
// it adds a problem, as the cloud may need a person. Beyond setupLimit, a worker counts as failed unless it is a physical machine.
func (c *poolClient) noteLeaving(pool *cloud.Pool, now time.Time) {
	seen := map[string]time.Time{}
	note := func(id string, limit time.Duration, doing, what string) time.Time {
		since, known := c.leaving[id]
		if !known {
			since = now
		}
		if seen[id] = since; now.Sub(since) >= limit {
			pool.Problems = append(slices.Clip(pool.Problems), fmt.Sprintf("%s for more than %s, which the cloud may need a person for: %s", doing, limit, what))
		}
		return since
	}
	if pool.Leaving != "" {
		note("pool "+pool.ID, rollout.LeavingLimit, "on its way out", pool.Leaving)
	}
	pool.Workers, pool.Problems = slices.Clone(pool.Workers), slices.Clone(pool.Problems) // the slices belong to the provider
	for i := range pool.Workers {
		w := &pool.Workers[i]
		words := fmt.Sprintf("worker %s in zone %s: %s (%s)", w.ID, w.Zone, w.State, w.Message)
		switch w.State {
		case cloud.WorkerDeleting:
			w.LeavingSince = note(w.ID, rollout.LeavingLimit, "on its way out", words)
		case cloud.WorkerProvisioning:
			if now.Sub(note("new "+w.ID, setupLimit, "being set up", words)) >= setupLimit && !w.Physical {
				w.State = cloud.WorkerFailed
			}
		case cloud.WorkerDeployed, cloud.WorkerUnhealthy, cloud.WorkerFailed:
		}
	}
	slices.Sort(pool.Problems)
	c.leaving = seen
}

// unmarked says that rrpool's pool, as last observed, has lost its label and is
// known by its ID only, and how to put the label back; "" for any other pool.
func (c *poolClient) unmarked() string {
	if c.last == nil {
		return ""
	}
	return c.last.Unmarked
}

// lost says that rrpool's pool has lost its label, and how to put it back; "" for any other pool. rrpool knows the pool by the
// ID noted on the object. Earlier versions noted none: then status.pool may name it. rrpool changes nothing in such a pool.
func (c *poolClient) lost(s *Scope) string {
	if c.unmarked() != "" || !c.foreign() || len(knownPools(s.object)) > 0 || s.object.Status.Pool != c.last.Name {
		return c.unmarked()
	}
	return fmt.Sprintf("pool %s is rrpool's by status.pool, but %s", c.last.Name, c.last.Mark)
}

// busy reports whether no call can be made now: no provider is connected, or a call is pending.
func (c *poolClient) busy() bool { return c.provider == nil || c.pending != nil }

// ensure moves the pool one step towards want, unless the back-off after the last call still lasts. If
// want differs from what a failed call wanted, the back-off ends early, unless the cloud limits the rate.
func (c *poolClient) ensure(ctx context.Context, now time.Time, want cloud.PoolSpec) (cloud.Progress, error) {
	wanted := want
	wanted.Ready, wanted.Stuck, wanted.Untainted, wanted.TaintsSeen, wanted.Known = nil, nil, nil, false, nil // observations, not wishes
	changed := c.ensuring.failures > 0 && !cloud.Is(c.ensuring.err, cloud.RateLimited) && !reflect.DeepEqual(c.wanted, wanted)
	if c.busy() || (!changed && now.Before(c.ensuring.notBefore)) {
		return cloud.Progress{}, c.ensuring.err
	}
	provider := c.provider
	c.wanted = wanted
	return c.change(ctx, now, func(ctx context.Context) (cloud.Progress, error) { return provider.Ensure(ctx, want) })
}

// remove moves the pool one step towards its deletion, unless the back-off after the last call still lasts.
func (c *poolClient) remove(ctx context.Context, now time.Time) (cloud.Progress, error) {
	if c.busy() || now.Before(c.ensuring.notBefore) {
		return cloud.Progress{}, c.ensuring.err
	}
	return c.change(ctx, now, c.provider.Delete)
}

// change starts a call that changes the pool, and returns the answer if it comes in time.
func (c *poolClient) change(ctx context.Context, now time.Time, ask func(context.Context) (cloud.Progress, error)) (cloud.Progress, error) {
	var progress cloud.Progress
	provider := c.provider
	c.start(ctx, changeTimeout, patience, &call{changes: true, take: func(later time.Time, err error) (cloud.Progress, error) {
		switch {
		case err != nil && provider != c.provider:
			return cloud.Progress{}, nil // the error is of an earlier connection
		case err != nil:
			c.ensuring.fail(later, err)
			return cloud.Progress{}, c.ensuring.err
		}
		pause := intervalActive
		if progress.Did != "" {
			pause = pace
		}
		c.waiting, c.outdated = progress.WaitingFor, c.outdated || progress.Did != ""
		c.ensuring = callHistory{notBefore: later.Add(pause)}
		return progress, nil
	}}, func(ctx context.Context) (err error) {
		progress, err = ask(ctx)
		return err
	})
	return c.answered(now)
}

// usable returns the pool that decisions may rely on. It is nil while the provider does
// not answer, and for a pool that is foreign, has lost its label or is autoscaled.
func (c *poolClient) usable() *cloud.Pool {
	if c.provider == nil || c.last == nil || c.observing.err != nil || c.foreign() || c.unmarked() != "" || c.last.Autoscaled {
		return nil
	}
	return c.last
}

// foreign reports whether the pool, as last observed, exists but was not made by rrpool.
func (c *poolClient) foreign() bool { return c.last != nil && c.last.Exists && !c.last.Owned }

// members returns the zones of the workers of rrpool's pool, by worker ID. An old observation is good
// enough: a worker never changes its pool. It is nil before the first answer, and for a foreign pool.
func (c *poolClient) members() map[string]string {
	if c.last == nil || c.foreign() {
		return nil
	}
	out := make(map[string]string, len(c.last.Workers))
	for _, worker := range c.last.Workers {
		if worker.ID != "" {
			out[worker.ID] = worker.Zone
		}
	}
	return out
}

// due returns how long to wait until the provider is observed again or, while a call is pending, until its answer is looked for; 0 is
// at once.
func (c *poolClient) due(now time.Time, every time.Duration) time.Duration {
	if c.pending != nil {
		return patience
	}
	at := c.observing.notBefore
	if c.observing.err == nil && c.last != nil && !c.lastAt.IsZero() {
		at = c.lastAt.Add(every)
		if c.outdated && c.ensuring.notBefore.Before(at) {
			at = c.ensuring.notBefore
		}
	}
	return max(0, at.Sub(now))
}

// blocked reports whether rrpool cannot change the pool now, so that another observation would soon show nothing new.
func (c *poolClient) blocked() bool {
	return c.ensuring.err != nil || c.foreign() || c.unmarked() != ""
}

// backOff returns the pause after a failure. If the cloud is unavailable or limits the
// rate, it grows with the failures. Otherwise a person has to act, and it is intervalRest.
func backOff(err error, failures int) time.Duration {
	wait := intervalRest
	switch cloud.KindOf(err) {
	case cloud.RateLimited:
		wait = min(time.Minute<<min(failures-1, 3), intervalRest)
	case cloud.Unavailable, "":
		wait = min(intervalActive<<min(failures-1, 5), intervalRest)
	case cloud.NotFound, cloud.Conflict, cloud.InvalidInput, cloud.Unsupported, cloud.Unauthorized, cloud.QuotaExceeded, cloud.Unexpected:
	}
	return max(wait, cloud.RetryAfter(err))
}

// errorSeries keeps the first of successive errors with the same key. Later ones
// may differ in ports or incident IDs, which would change reports at each retry.
type errorSeries struct {
	key string
	err error
}

// add notes err, and returns the error to show.
func (s *errorSeries) add(key string, err error) error {
	if s.err == nil || s.key != key {
		s.key, s.err = key, err
	}
	return s.err
}
