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
// off, as reflectors may die, and the safety net cannot be cast before the call is over.
const (
	observeTimeout    = 20 * time.Second
	ensureTimeout     = 60 * time.Second
	offObserveTimeout = 10 * time.Second
	offEnsureTimeout  = 20 * time.Second
)

// supply remembers what the provider said, and spares it questions. The zero
// value knows nothing.
type supply struct {
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
	observing attempt
	ensuring  attempt
}

// attempt is the history of one kind of call.
type attempt struct {
	failures  int
	shown     streak
	notBefore time.Time
}

func (a *attempt) succeed(now time.Time, pause time.Duration) {
	*a = attempt{notBefore: now.Add(pause)}
}

func (a *attempt) fail(now time.Time, err error) {
	a.failures++
	key := string(cloud.KindOf(err))
	var typed *cloud.Error
	if errors.As(err, &typed) {
		key += " " + typed.Op
	}
	_ = a.shown.add(key, err) // what is shown is asked for later
	a.notBefore = now.Add(backOff(err, a.failures))
}

func (a *attempt) err() error { return a.shown.err }

// told is the error as it is worth telling: a cloud that is out of reach for a
// moment, and whose last answer is known, is not.
func (a *attempt) told(last *cloud.Pool) error {
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
func (s *supply) use(factory ProviderFactory, config ProviderConfig, metrics *Metrics) *plan.Problem {
	if s.provider != nil && s.config == config {
		return nil
	}
	samePool := s.config.ClusterID == config.ClusterID && s.config.PoolName == config.PoolName
	last, lastAt := s.last, s.lastAt
	s.reset()
	if samePool {
		s.last, s.lastAt = last, lastAt
	}
	provider, err := factory(config)
	if err != nil {
		return cloudProblem(redacted(err, config.APIKey))
	}
	s.config, s.provider = config, guard(metrics.provider(provider), config.APIKey)
	// What is remembered was seen through another connection: ask this one soon.
	s.observing.shown.clear()
	s.lastAt = time.Time{}
	return nil
}

// disconnect drops the connection and keeps the membership that was seen.
func (s *supply) disconnect() {
	s.provider, s.waiting = nil, ""
	s.observing, s.ensuring = attempt{}, attempt{}
	s.config.APIKey = ""
}

func (s *supply) reset() { *s = supply{} }

// observe asks the provider when its last answer is older than every, and says
// whether it asked.
func (s *supply) observe(ctx context.Context, now time.Time, every time.Duration) bool {
	if s.provider == nil || s.due(now, every) > 0 {
		return false
	}
	ctx, cancel := s.limited(ctx, observeTimeout, offObserveTimeout)
	defer cancel()
	pool, err := s.provider.Observe(ctx)
	if err != nil {
		s.observing.fail(now, err)
		return true
	}
	s.last, s.lastAt, s.outdated = &pool, now, false
	s.observing.succeed(now, 0)
	return true
}

func (s *supply) limited(ctx context.Context, most, whileOff time.Duration) (context.Context, context.CancelFunc) {
	if s.meshOff {
		most = whileOff
	}
	return context.WithTimeout(ctx, most)
}

// ensure moves the pool one step, unless the provider is to be left alone. A
// changed wish is new: it does not wait out the failure of the former.
func (s *supply) ensure(ctx context.Context, now time.Time, want cloud.PoolSpec) (string, error) {
	changed := s.ensuring.failures > 0 && !reflect.DeepEqual(s.wanted, want)
	if s.provider == nil || (!changed && now.Before(s.ensuring.notBefore)) {
		return "", s.ensuring.err()
	}
	s.wanted = want
	return s.mutate(ctx, now, func(ctx context.Context) (cloud.Progress, error) {
		return s.provider.Ensure(ctx, want)
	})
}

// remove moves the pool one step towards not existing; done says that it does not.
func (s *supply) remove(ctx context.Context, now time.Time) (did string, done bool, err error) {
	if s.provider == nil || now.Before(s.ensuring.notBefore) {
		return "", false, s.ensuring.err()
	}
	did, err = s.mutate(ctx, now, func(ctx context.Context) (cloud.Progress, error) {
		progress, err := s.provider.Delete(ctx)
		done = err == nil && progress.Done
		return progress, err
	})
	return did, done, err
}

func (s *supply) mutate(
	ctx context.Context, now time.Time, call func(context.Context) (cloud.Progress, error),
) (string, error) {
	ctx, cancel := s.limited(ctx, ensureTimeout, offEnsureTimeout)
	defer cancel()
	progress, err := call(ctx)
	if err != nil {
		s.ensuring.fail(now, err)
		return "", s.ensuring.err()
	}
	s.waiting = progress.WaitingFor
	pause := progress.RetryAfter
	switch {
	case pause > 0:
	case progress.Did != "":
		pause = pace
	default:
		pause = intervalActive
	}
	s.outdated = s.outdated || progress.Did != ""
	s.ensuring.succeed(now, pause)
	return progress.Did, nil
}

// usable is the pool as decisions may use it: nil while the provider does not
// answer, and when the pool is not ours to count on.
func (s *supply) usable() *cloud.Pool {
	if s.provider == nil || s.last == nil || s.observing.err() != nil || s.foreign() || s.last.Autoscaled {
		return nil
	}
	return s.last
}

// foreign: a pool of that name exists that rrpool did not make.
func (s *supply) foreign() bool { return s.last != nil && s.last.Exists && !s.last.Owned }

// members are the zones of our pool's workers, by worker id, as last seen; nil while
// nobody has told, and of a pool that is not ours. A machine never changes its pool, so
// an old answer is as good as a new one.
func (s *supply) members() map[string]string {
	if s.last == nil || s.foreign() {
		return nil
	}
	out := make(map[string]string, len(s.last.Workers))
	for _, worker := range s.last.Workers {
		if worker.ID != "" {
			out[worker.ID] = worker.Zone
		}
	}
	return out
}

// due is how long until the provider is to be asked again, 0 for now.
func (s *supply) due(now time.Time, every time.Duration) time.Duration {
	at := s.observing.notBefore
	if s.observing.err() == nil && s.last != nil && !s.lastAt.IsZero() {
		at = s.lastAt.Add(every)
		if s.outdated && s.ensuring.notBefore.Before(at) {
			at = s.ensuring.notBefore
		}
	}
	return max(0, at.Sub(now))
}

// mutable is how long until the provider may be asked for a change, 0 for now.
func (s *supply) mutable(now time.Time) time.Duration {
	return max(0, s.ensuring.notBefore.Sub(now))
}

// hindered: a change was refused, so there is nothing new to see soon.
func (s *supply) hindered() bool { return s.ensuring.err() != nil || s.foreign() }

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

// guarded removes the credential from everything a provider says, should the
// cloud ever echo it: its words end in conditions, events and logs.
type guarded struct {
	cloud.Provider
	key APIKey
}

func guard(p cloud.Provider, key APIKey) cloud.Provider { return guarded{Provider: p, key: key} }

// Observe implements cloud.Provider.
func (g guarded) Observe(ctx context.Context) (cloud.Pool, error) {
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
func (g guarded) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	progress, err := g.Provider.Ensure(ctx, want)
	return g.clean(progress), redacted(err, g.key)
}

// Delete implements cloud.Provider.
func (g guarded) Delete(ctx context.Context) (cloud.Progress, error) {
	progress, err := g.Provider.Delete(ctx)
	return g.clean(progress), redacted(err, g.key)
}

func (g guarded) clean(progress cloud.Progress) cloud.Progress {
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

// streak keeps the first error of a series with one key, so that a report of
// the series does not change with every retry (ports, incident ids).
type streak struct {
	key string
	err error
}

// add notes err and gives the error to show.
func (s *streak) add(key string, err error) error {
	if s.err == nil || s.key != key {
		s.key, s.err = key, err
	}
	return s.err
}

func (s *streak) clear() { *s = streak{} }
