package existing

import (
	"context"

	"github.com/rrpool/rrpool/cloud"
)

// inTurn runs do when it is our turn, which lasts until do has really ended.
func (p *Provider) inTurn(ctx context.Context, doing string, do func() (cloud.Progress, error)) (cloud.Progress, error) {
	op := p.op(doing)
	if ctx.Err() != nil {
		return cloud.Progress{}, interrupted(ctx, op)
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return cloud.Progress{}, interrupted(ctx, op)
	}
	return within(ctx, op, func() (cloud.Progress, error) {
		defer func() { <-p.turn }()
		return do()
	})
}

// within gives what do gives, or returns when ctx ends: do may then still be
// held up, and what it gives is dropped.
func within[T any](ctx context.Context, op string, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, interrupted(ctx, op)
	}
}

func interrupted(ctx context.Context, op string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Op: op, Message: "interrupted", Err: ctx.Err()}
}
