package pool

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
)

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
