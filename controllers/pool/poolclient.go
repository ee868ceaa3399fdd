package pool

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
)

// How often the provider is asked. One observation is two requests on IKS, and
// an unchanged cluster may cost at most one request per minute.
const (
	intervalActive  = 15 * time.Second
	intervalBlocked = 2 * time.Minute
	intervalRest    = 5 * time.Minute
)

// pace is the pause between two changes that follow each other. None comes after
// the last: then the cloud is busy, and is left alone for intervalActive.
const pace = 2 * time.Second

// How long one call may take. The data plane waits meanwhile: less while the mesh is
// off, as reflectors may die, and the safety net cannot act before the call is over.
const (
	observeTimeout    = 20 * time.Second
	ensureTimeout     = 60 * time.Second
	offObserveTimeout = 10 * time.Second
	offEnsureTimeout  = 20 * time.Second
)

// poolClient remembers what the provider said, and spares it questions. The zero
// value knows nothing.
type poolClient struct {
	config   ProviderConfig
	provider cloud.Provider
	// last is the last good observation, made at lastAt.
	last   *cloud.Pool
	lastAt time.Time
	// outdated: the pool was changed since the last observation.
	outdated bool
	// meshOff: see offObserveTimeout.
	meshOff bool
	// waiting is what the last Ensure or Delete waits for.
	waiting string
	// wanted is what the last Ensure was asked for.
	wanted    cloud.PoolSpec
	observing callHistory
	ensuring  callHistory
}

// callHistory is the history of one kind of call.
type callHistory struct {
	failures  int
	shown     errorSeries
	notBefore time.Time
}

func (a *callHistory) succeed(now time.Time, pause time.Duration) {
	*a = callHistory{notBefore: now.Add(pause)}
}

func (a *callHistory) fail(now time.Time, err error) {
	a.failures++
	key := string(cloud.KindOf(err))
	var typed *cloud.Error
	if errors.As(err, &typed) {
		key += " " + typed.Op
	}
	_ = a.shown.add(key, err) // what is shown is asked for later
	a.notBefore = now.Add(backOff(err, a.failures))
}

func (a *callHistory) err() error { return a.shown.err }

// worthReporting is the error as it is worth telling: a cloud that is out of reach for a
// moment, and whose last answer is known, is not.
func (a *callHistory) worthReporting(last *cloud.Pool) error {
	switch cloud.KindOf(a.err()) {
	case cloud.Unavailable, cloud.RateLimited, "":
		if last != nil && a.failures < 2 {
			return nil
		}
	case cloud.NotFound, cloud.Conflict, cloud.InvalidInput, cloud.Unauthorized, cloud.QuotaExceeded:
	}
	return a.err()
}

// use connects the provider that config describes, unless it is connected. What
// is known of a pool is kept when only the way to reach it has changed.
func (c *poolClient) use(factory ProviderFactory, config ProviderConfig, metrics *Metrics) *plan.Problem {
	if c.provider != nil && c.config == config {
		return nil
	}
	samePool := c.config.ClusterID == config.ClusterID && c.config.PoolName == config.PoolName
	last, lastAt := c.last, c.lastAt
	c.reset()
	if samePool {
		c.last, c.lastAt = last, lastAt
	}
	provider, err := factory(config)
	if err != nil {
		return cloudProblem(redacted(err, config.APIKey))
	}
	c.config, c.provider = config, redacting(metrics.provider(provider), config.APIKey)
	// What is remembered was seen through another connection: ask this one soon.
	c.observing.shown.clear()
	c.lastAt = time.Time{}
	return nil
}

// disconnect drops the connection and keeps the membership that was seen.
func (c *poolClient) disconnect() {
	c.provider, c.waiting = nil, ""
	c.observing, c.ensuring = callHistory{}, callHistory{}
	c.config.APIKey = ""
}

func (c *poolClient) reset() { *c = poolClient{} }

// observe asks the provider when its last answer is older than every, and says
// whether it asked.
func (c *poolClient) observe(ctx context.Context, now time.Time, every time.Duration) bool {
	if c.provider == nil || c.due(now, every) > 0 {
		return false
	}
	ctx, cancel := c.limited(ctx, observeTimeout, offObserveTimeout)
	defer cancel()
	pool, err := c.provider.Observe(ctx)
	if err != nil {
		c.observing.fail(now, err)
		return true
	}
	c.last, c.lastAt, c.outdated = &pool, now, false
	c.observing.succeed(now, 0)
	return true
}

func (c *poolClient) limited(ctx context.Context, most, whileOff time.Duration) (context.Context, context.CancelFunc) {
	if c.meshOff {
		most = whileOff
	}
	return context.WithTimeout(ctx, most)
}

// ensure moves the pool one step, unless the provider is to be left alone. A
// changed spec is new: it does not wait out the failure of the former.
func (c *poolClient) ensure(ctx context.Context, now time.Time, want cloud.PoolSpec) (string, error) {
	changed := c.ensuring.failures > 0 && !reflect.DeepEqual(c.wanted, want)
	if c.provider == nil || (!changed && now.Before(c.ensuring.notBefore)) {
		return "", c.ensuring.err()
	}
	c.wanted = want
	return c.mutate(ctx, now, func(ctx context.Context) (cloud.Progress, error) {
		return c.provider.Ensure(ctx, want)
	})
}

// remove moves the pool one step towards not existing; done says that it does not.
func (c *poolClient) remove(ctx context.Context, now time.Time) (did string, done bool, err error) {
	if c.provider == nil || now.Before(c.ensuring.notBefore) {
		return "", false, c.ensuring.err()
	}
	did, err = c.mutate(ctx, now, func(ctx context.Context) (cloud.Progress, error) {
		progress, err := c.provider.Delete(ctx)
		done = err == nil && progress.Done
		return progress, err
	})
	return did, done, err
}

func (c *poolClient) mutate(
	ctx context.Context, now time.Time, call func(context.Context) (cloud.Progress, error),
) (string, error) {
	ctx, cancel := c.limited(ctx, ensureTimeout, offEnsureTimeout)
	defer cancel()
	progress, err := call(ctx)
	if err != nil {
		c.ensuring.fail(now, err)
		return "", c.ensuring.err()
	}
	c.waiting = progress.WaitingFor
	pause := progress.RetryAfter
	switch {
	case pause > 0:
	case progress.Did != "":
		pause = pace
	default:
		pause = intervalActive
	}
	c.outdated = c.outdated || progress.Did != ""
	c.ensuring.succeed(now, pause)
	return progress.Did, nil
}

// usable is the pool as decisions may use it: nil while the provider does not
// answer, and when the pool is not ours to count on.
func (c *poolClient) usable() *cloud.Pool {
	if c.provider == nil || c.last == nil || c.observing.err() != nil || c.foreign() || c.last.Autoscaled {
		return nil
	}
	return c.last
}

// foreign: a pool of that name exists that rrpool did not make.
func (c *poolClient) foreign() bool { return c.last != nil && c.last.Exists && !c.last.Owned }

// members are the zones of our pool's workers, by worker id, as last seen; nil while
// the provider has not answered, and of a pool that is not ours. A machine never changes its pool, so
// an old answer is as good as a new one.
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
	at := c.observing.notBefore
	if c.observing.err() == nil && c.last != nil && !c.lastAt.IsZero() {
		at = c.lastAt.Add(every)
		if c.outdated && c.ensuring.notBefore.Before(at) {
			at = c.ensuring.notBefore
		}
	}
	return max(0, at.Sub(now))
}

// untilChange is how long until the provider may be asked for a change, 0 for now.
func (c *poolClient) untilChange(now time.Time) time.Duration {
	return max(0, c.ensuring.notBefore.Sub(now))
}

// blocked: a change was refused, so there is nothing new to see soon.
func (c *poolClient) blocked() bool { return c.ensuring.err() != nil || c.foreign() }

// backOff is how long to leave the provider alone after a failure. What a
// person has to solve is asked again slowly; the rest ever slower.
func backOff(err error, failures int) time.Duration {
	wait := intervalRest
	switch cloud.KindOf(err) {
	case cloud.RateLimited:
		wait = min(time.Minute<<min(failures-1, 3), intervalRest)
	case cloud.Unavailable, "":
		wait = min(intervalActive<<min(failures-1, 5), intervalRest)
	case cloud.NotFound, cloud.Conflict, cloud.InvalidInput, cloud.Unauthorized, cloud.QuotaExceeded:
	}
	return max(wait, cloud.RetryAfter(err))
}

// redactingProvider removes the credential from everything a provider says, should the
// cloud ever echo it: its words end in conditions, events and logs.
type redactingProvider struct {
	cloud.Provider
	key APIKey
}

func redacting(p cloud.Provider, key APIKey) cloud.Provider {
	return redactingProvider{Provider: p, key: key}
}

// Observe implements cloud.Provider.
func (g redactingProvider) Observe(ctx context.Context) (cloud.Pool, error) {
	pool, err := g.Provider.Observe(ctx)
	if err != nil {
		return cloud.Pool{}, redacted(err, g.key)
	}
	pool.Problems, pool.Workers = slices.Clone(pool.Problems), slices.Clone(pool.Workers)
	for i, problem := range pool.Problems {
		pool.Problems[i] = redact(problem, g.key)
	}
	for i := range pool.Workers {
		pool.Workers[i].Message = redact(pool.Workers[i].Message, g.key)
	}
	return pool, nil
}

// Ensure implements cloud.Provider.
func (g redactingProvider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	progress, err := g.Provider.Ensure(ctx, want)
	return g.clean(progress), redacted(err, g.key)
}

// Delete implements cloud.Provider.
func (g redactingProvider) Delete(ctx context.Context) (cloud.Progress, error) {
	progress, err := g.Provider.Delete(ctx)
	return g.clean(progress), redacted(err, g.key)
}

func (g redactingProvider) clean(progress cloud.Progress) cloud.Progress {
	progress.Did = redact(progress.Did, g.key)
	progress.WaitingFor = redact(progress.WaitingFor, g.key)
	return progress
}

// redacted gives err itself when it is clean, else one of the same kind with
// the credential taken out and the cause dropped.
func redacted(err error, key APIKey) error {
	if err == nil {
		return nil
	}
	if clean := redact(err.Error(), key); clean != err.Error() {
		kind := cloud.KindOf(err)
		if kind == "" {
			kind = cloud.Unavailable
		}
		return &cloud.Error{Kind: kind, Op: "asking the cloud", Message: clean, RetryAfter: cloud.RetryAfter(err)}
	}
	return err
}

func redact(text string, key APIKey) string {
	if key == "" {
		return text
	}
	for _, form := range []string{string(key), url.QueryEscape(string(key)), url.PathEscape(string(key))} {
		text = strings.ReplaceAll(text, form, key.String())
	}
	return text
}

// errorSeries keeps the first error of a series with one key, so that a report of
// the series does not change with every retry (ports, incident ids).
type errorSeries struct {
	key string
	err error
}

// add notes err and gives the error to show.
func (s *errorSeries) add(key string, err error) error {
	if s.err == nil || s.key != key {
		s.key, s.err = key, err
	}
	return s.err
}

func (s *errorSeries) clear() { *s = errorSeries{} }
