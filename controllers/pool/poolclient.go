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

// How often the provider is asked. An observation is two requests on IKS, and a cluster at rest may cost one a minute.
const (
	intervalActive  = 15 * time.Second
	intervalBlocked = 2 * time.Minute
	intervalRest    = 5 * time.Minute
)

// pace is the pause between two changes. After the last one the cloud is busy, and is not asked for intervalActive.
const pace = 2 * time.Second

// How long a call may take. A look is several requests, of which IBM may take seconds for each; the creation of a classic pool was
// measured to take up to 93 s. Existing nodes are no cloud: their provider lists and patches Nodes.
const (
	lookTimeout     = time.Minute
	changeTimeout   = 3 * time.Minute
	existingTimeout = 20 * time.Second
)

// patience is how long a reconciliation waits for an answer before it goes on without: reflectors may die meanwhile, and the
// safety net cannot act. It is also how often an answer that has not come is looked for.
const patience = 5 * time.Second

// poolClient asks the provider as seldom as it can, and remembers the answers. The zero value knows nothing.
type poolClient struct {
	config   ProviderConfig
	provider cloud.Provider
	// last is the last good observation, answered at lastAt and compared with seenFor.
	last    *cloud.Pool
	lastAt  time.Time
	seenFor cloud.PoolSpec
	// outdated says that the pool was changed since the last observation.
	outdated bool
	// leaving is since when workers, and the pool by its ID, have been seen being deleted, or workers being set up.
	leaving map[string]time.Time
	// pending is the call whose answer has not come yet, nil for none. Nothing else is asked meanwhile.
	pending *call
	// record is what the provider has asked of the cloud lately.
	record *record
	// waiting is what the last Ensure or Delete waits for.
	waiting string
	// wanted is what the last Ensure was asked for.
	wanted    cloud.PoolSpec
	observing callHistory
	ensuring  callHistory
}

// call is a question to the provider, in the background.
type call struct {
	// changes says that the call changes the pool: it is waited for, also by another connection, as what it orders may not be listed yet.
	changes bool
	done    chan struct{}
	err     error
	// take takes the answer in.
	take func(now time.Time, err error) (cloud.Progress, error)
}

// start makes a call in the background, which ends after limit, and waits for its answer.
func (c *poolClient) start(ctx context.Context, limit, wait time.Duration, asked *call, ask func(context.Context) error) {
	if c.config.Type == v1alpha1.ProviderExistingNodes {
		limit, wait = existingTimeout, changeTimeout
	}
	ctx, stop := context.WithTimeout(cloud.WithRecord(ctx, c.record), limit)
	c.pending, asked.done = asked, make(chan struct{})
	go func() {
		defer close(asked.done)
		defer stop()
		defer func() { // here it would end the process, and the safety net with it
			if recover() != nil {
				asked.err = errors.New("asking the cloud: the provider panicked") // its words may hold a credential
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

// answered takes the answer to the pending call, if it has come. That of a look is no Progress and no error.
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

// callHistory is how the last calls of a kind ended.
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
	_ = h.add(key, err) // what is shown is asked for later
	h.notBefore = now.Add(backOff(err, h.failures))
}

// worthReporting gives the error, but not the first of a cloud that is out of reach, as its last answer is known.
func (h *callHistory) worthReporting(last *cloud.Pool) error {
	kind := cloud.KindOf(h.err)
	momentary := kind == cloud.Unavailable || kind == cloud.RateLimited || kind == ""
	if momentary && last != nil && h.failures < 2 {
		return nil
	}
	return h.err
}

// use connects the provider that config describes, unless it is connected. What is known of the pool is kept where it is the same pool.
func (c *poolClient) use(connect ProviderFactory, config ProviderConfig) *plan.Problem {
	if c.provider != nil && reflect.DeepEqual(c.config, config) {
		return nil
	}
	last, leaving := c.last, c.leaving // without lastAt: it was seen through another connection, so this one is asked soon
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

// forget drops all but a pending change and the record.
func (c *poolClient) forget() { *c = poolClient{pending: c.pendingChange(), record: c.record} }

// disconnect drops the connection, and keeps the last observation.
func (c *poolClient) disconnect() {
	c.provider, c.pending, c.waiting = nil, c.pendingChange(), ""
	c.observing, c.ensuring = callHistory{}, callHistory{}
	c.config.APIKey = ""
}

// pendingChange is the pending call if it is a change, else nil.
func (c *poolClient) pendingChange() *call {
	if c.pending != nil && c.pending.changes {
		return c.pending
	}
	return nil
}

// awaits says what the cloud has to do, "" for nothing.
func (c *poolClient) awaits() string {
	if c.pendingChange() != nil {
		return "the cloud to answer, which takes minutes at times"
	}
	return c.waiting
}

// observe asks the provider when its last answer is older than every, or is about another flavor or other options, and
// reports whether it did. An answer that takes longer is taken by a later reconciliation.
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
			pool.Owned = true // what it has is there, and counts
		}
		c.noteLeaving(&pool, later)
		c.last, c.lastAt, c.seenFor, c.outdated, c.observing = &pool, later, want, false, callHistory{}
		return cloud.Progress{}, nil
	}}, func(ctx context.Context) (err error) {
		pool, err = provider.Observe(ctx, want)
		return err
	})
	_, _ = c.answered(now) // that of a look
	return true
}

// setupLimit is how long the cloud may take to set a worker up: half an hour is usual, and an hour for a reload.
const setupLimit = 2 * rollout.WorkersTimeout

// noteLeaving notes since when the pool and its workers are being deleted, and workers set up. Where that lasts it is a problem, as
// the cloud may wait for a person. A worker that is never ready counts as failed.
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
	pool.Workers, pool.Problems = slices.Clone(pool.Workers), slices.Clone(pool.Problems) // they are the provider's
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

// unmarked says that the pool, as last seen, is ours by its ID only, and how to mark it again; "" when it is not so.
func (c *poolClient) unmarked() string {
	if c.last == nil {
		return ""
	}
	return c.last.Unmarked
}

// lost says that the pool is ours without its label, and how to mark it again; "" for any other pool. Where no ID was written
// down, as by earlier versions, status.pool may say so: then rrpool does not say that it has no pool, and changes nothing.
func (c *poolClient) lost(s *Scope) string {
	if c.unmarked() != "" || !c.foreign() || len(knownPools(s.object)) > 0 || s.object.Status.Pool != c.last.Name {
		return c.unmarked()
	}
	return fmt.Sprintf("pool %s is rrpool's by status.pool, but %s", c.last.Name, c.last.Mark)
}

// busy reports whether nothing can be asked now.
func (c *poolClient) busy() bool { return c.provider == nil || c.pending != nil }

// ensure moves the pool one step, unless the provider is not to be asked yet. After a failure, another wanted pool is asked for at
// once, unless the cloud limits the rate.
func (c *poolClient) ensure(ctx context.Context, now time.Time, want cloud.PoolSpec) (cloud.Progress, error) {
	wanted := want
	wanted.Ready, wanted.Stuck, wanted.Untainted, wanted.TaintsSeen, wanted.Known = nil, nil, nil, false, nil // what is seen is not wanted anew
	changed := c.ensuring.failures > 0 && !cloud.Is(c.ensuring.err, cloud.RateLimited) && !reflect.DeepEqual(c.wanted, wanted)
	if c.busy() || (!changed && now.Before(c.ensuring.notBefore)) {
		return cloud.Progress{}, c.ensuring.err
	}
	provider := c.provider
	c.wanted = wanted
	return c.change(ctx, now, func(ctx context.Context) (cloud.Progress, error) { return provider.Ensure(ctx, want) })
}

// remove moves the pool one step towards not existing.
func (c *poolClient) remove(ctx context.Context, now time.Time) (cloud.Progress, error) {
	if c.busy() || now.Before(c.ensuring.notBefore) {
		return cloud.Progress{}, c.ensuring.err
	}
	return c.change(ctx, now, c.provider.Delete)
}

// change asks for a change, and gives the answer if it comes soon.
func (c *poolClient) change(ctx context.Context, now time.Time, ask func(context.Context) (cloud.Progress, error)) (cloud.Progress, error) {
	var progress cloud.Progress
	provider := c.provider
	c.start(ctx, changeTimeout, patience, &call{changes: true, take: func(later time.Time, err error) (cloud.Progress, error) {
		switch {
		case err != nil && provider != c.provider:
			return cloud.Progress{}, nil // it says nothing about this connection
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

// usable gives the pool that decisions may rely on: nil while the provider does not answer, and where the pool is not ours alone.
func (c *poolClient) usable() *cloud.Pool {
	if c.provider == nil || c.last == nil || c.observing.err != nil || c.foreign() || c.unmarked() != "" || c.last.Autoscaled {
		return nil
	}
	return c.last
}

// foreign reports whether a pool of that name exists that rrpool did not make.
func (c *poolClient) foreign() bool { return c.last != nil && c.last.Exists && !c.last.Owned }

// members gives the zones of our pool's workers, by worker ID, as last seen; nil while the provider has not answered, and of a
// pool that is not ours. A worker never changes its pool.
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

// due is how long until the provider is to be asked again, 0 for now.
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

// blocked reports whether a change was refused, so that nothing new is to be seen soon.
func (c *poolClient) blocked() bool {
	return c.ensuring.err != nil || c.foreign() || c.unmarked() != ""
}

// backOff gives the pause after a failure: intervalRest where a person has to act, and else one that grows with the failures.
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

// errorSeries keeps the first error of a series with one key, so that reports do not change with each retry (ports, incident IDs).
type errorSeries struct {
	key string
	err error
}

// add notes err, and gives the error to show.
func (s *errorSeries) add(key string, err error) error {
	if s.err == nil || s.key != key {
		s.key, s.err = key, err
	}
	return s.err
}
