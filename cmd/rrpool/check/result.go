package check

import (
	"fmt"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Status says how serious a result is.
type Status string

// The statuses, worst last.
const (
	OK Status = "ok"
	// Note: nothing is wrong, but there is something to know, or something that nobody
	// can see from here.
	Note Status = "note"
	// Warning: rrpool works, and something should be known, or could not be looked at.
	Warning Status = "warning"
	// Error: rrpool does not work, or refuses to.
	Error Status = "error"
)

// Result is what one check found.
type Result struct {
	Status Status
	// Says is what was found, with its values; no full stop.
	Says string
	// Details are more of it, one to a line.
	Details []string
	// Remedy says what to do about it, "" where there is nothing to do.
	Remedy string
	// Page is where docs/ explains it; "" is the check's own section of check.md.
	Page string
	// Unseen: it could not be looked at, so nothing is known to be right.
	Unseen bool
}

// check is one question about a cluster. Its answer is nil where it makes no sense.
type check struct {
	// id names it for programs, and in docs/check.md.
	id   string
	look func(facts) *Result
}

// group is checks that belong together.
type group struct {
	name   string
	checks []check
}

func fine(format string, args ...any) *Result {
	return &Result{Status: OK, Says: fmt.Sprintf(format, args...)}
}

func note(format string, args ...any) *Result {
	return &Result{Status: Note, Says: fmt.Sprintf(format, args...)}
}

func warn(format string, args ...any) *Result {
	return &Result{Status: Warning, Says: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) *Result {
	return &Result{Status: Error, Says: fmt.Sprintf(format, args...)}
}

// unseen is what could not be looked at. why is a sentence with its remedy, as
// cluster.Explain gives it.
func unseen(what, why string) *Result {
	return &Result{Status: Warning, Says: what + " could not be checked: " + why, Unseen: true}
}

// do adds what to do about it.
func (r *Result) do(format string, args ...any) *Result {
	r.Remedy = fmt.Sprintf(format, args...)
	return r
}

// also adds details.
func (r *Result) also(details ...string) *Result {
	r.Details = append(r.Details, details...)
	return r
}

// reason points to the page of a condition.
func (r *Result) reason(name string) *Result {
	r.Page = plan.Page(name)
	return r
}

// count says how many there are of something.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
