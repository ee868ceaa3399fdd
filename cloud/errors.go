package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind classes an error by what the caller should do about it.
type Kind string

// The kinds.
const (
	// NotFound: the named thing does not exist. Retrying alone does not help.
	NotFound Kind = "NotFound"
	// Conflict: it exists but is not ours, or something else manages it. A person decides.
	Conflict Kind = "Conflict"
	// InvalidInput: the request can never succeed as it is. A person changes the spec.
	InvalidInput Kind = "InvalidInput"
	// Unsupported: the cluster is of a kind that rrpool cannot handle, and no setting changes that.
	Unsupported Kind = "Unsupported"
	// Unauthorized: credentials are missing, wrong or lack a permission. Retry slowly.
	Unauthorized Kind = "Unauthorized"
	// QuotaExceeded: the account may not have more. Retry slowly.
	QuotaExceeded Kind = "QuotaExceeded"
	// RateLimited: ask again after Error.RetryAfter.
	RateLimited Kind = "RateLimited"
	// Unavailable: the cloud does not answer, or not sensibly. Retry with back-off.
	Unavailable Kind = "Unavailable"
)

// Error is the only error type that leaves a Provider. It never holds a credential.
type Error struct {
	Kind Kind
	// Op is what was being done ("creating worker pool \"rr\"").
	Op string
	// Message is for people: the cloud's own words where there are any, and the remedy.
	Message string
	// RetryAfter is the least time before another try; 0 leaves it to the caller.
	RetryAfter time.Duration
	// Err is the cause, may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Message == "" && e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Kind, e.Message)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf gives the kind of err, or "" when err holds no Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Is reports whether err is a cloud error of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// RetryAfter gives the wait that err asks for, 0 when it asks for none.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// InvalidSpec is the error for a PoolSpec that can never be fulfilled.
func InvalidSpec(format string, args ...any) error {
	return &Error{Kind: InvalidInput, Op: "checking the wanted pool", Message: fmt.Sprintf(format, args...)}
}

// Interrupted is the error of a call whose context has ended.
func Interrupted(ctx context.Context, op string) error {
	return &Error{Kind: Unavailable, Op: op, Message: "interrupted", Err: ctx.Err()}
}

// Capped joins the first five items for a message, and counts the rest.
func Capped(items []string, separator string) string {
	const most = 5
	if len(items) > most {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(items, separator)
}
