package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Status says how serious a result is.
type Status string

// The statuses, worst last.
const (
	OK Status = "ok"
	// Note: nothing is wrong, but there is something to know, or something that cannot be
	// seen from here.
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

// schemaVersion names the form of `check -o json`. It changes when a field changes its meaning
// or goes away.
const schemaVersion = "rrpool.io/check/v1"

// groups in the order in which they are shown.
func groups() []group { return []group{kubernetes(), own(), network(), nodes(), providers()} }

// view is the answer as it is shown.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Cluster is the context, Server its address.
	Cluster   string `json:"cluster"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
	// Pre says that the question is whether rrpool can be installed.
	Pre bool `json:"pre"`
	// Fit: nothing is wrong, as far as it could be looked at.
	Fit    bool        `json:"fit"`
	Counts counts      `json:"counts"`
	Groups []groupView `json:"groups"`
	// Next is what to do now.
	Next string `json:"next"`
}

// counts of results. Unchecked are those warnings that could not be looked at.
type counts struct {
	OK        int `json:"ok"`
	Notes     int `json:"notes"`
	Warnings  int `json:"warnings"`
	Errors    int `json:"errors"`
	Unchecked int `json:"unchecked"`
}

type groupView struct {
	Name   string       `json:"name"`
	Checks []resultView `json:"checks"`
}

type resultView struct {
	ID        string   `json:"id"`
	Status    Status   `json:"status"`
	Unchecked bool     `json:"unchecked,omitempty"`
	Message   string   `json:"message"`
	Details   []string `json:"details,omitempty"`
	Remedy    string   `json:"remedy,omitempty"`
	// Link leads to what explains a warning or an error.
	Link string `json:"link,omitempty"`
}

// judge answers every question that makes sense. called is how the user calls the program.
func judge(f facts, called string) view {
	v := view{
		SchemaVersion: schemaVersion, GeneratedAt: f.now.UTC().Format(time.RFC3339),
		Cluster: f.context, Server: f.server, Namespace: f.namespace, Pre: f.pre,
	}
	for _, g := range groups() {
		shown := groupView{Name: g.name}
		for _, c := range g.checks {
			if r := c.look(f); r != nil {
				v.Counts.add(*r)
				shown.Checks = append(shown.Checks, r.view(c.id))
			}
		}
		if len(shown.Checks) > 0 {
			v.Groups = append(v.Groups, shown)
		}
	}
	v.Fit = v.Counts.Errors == 0
	v.Next = next(f, v.Fit, called)
	return v
}

func (c *counts) add(r Result) {
	switch r.Status {
	case OK:
		c.OK++
	case Note:
		c.Notes++
	case Warning:
		c.Warnings++
	case Error:
		c.Errors++
	}
	if r.Unseen {
		c.Unchecked++
	}
}

func (r *Result) view(id string) resultView {
	out := resultView{ID: id, Status: r.Status, Unchecked: r.Unseen, Message: r.Says, Details: r.Details, Remedy: r.Remedy}
	if r.Status == Warning || r.Status == Error {
		page := r.Page
		if page == "" {
			page = "check.md#" + id
		}
		out.Link = plan.Docs + page
	}
	return out
}

// next is the command that follows.
func next(f facts, fit bool, called string) string {
	again := called + " check"
	if f.pre {
		again += " --pre"
	}
	if f.file != "" {
		again += " --filename " + f.file
	}
	switch {
	case !fit:
		return again
	case f.pre && f.iks():
		return "kustomize build config/overlays/iks | kubectl apply -f -"
	case f.pre:
		return "kustomize build config/overlays/kind | kubectl apply --server-side -f -"
	case f.file != "":
		return fmt.Sprintf("%s plan --filename %s", called, f.file)
	case f.own.pool.found:
		return called + " status"
	}
	return called + " plan"
}

// wrong are the ids of what is an error.
func (v view) wrong() []string {
	var out []string
	for _, g := range v.Groups {
		for _, c := range g.Checks {
			if c.Status == Error {
				out = append(out, c.ID)
			}
		}
	}
	return slices.Clip(out)
}
