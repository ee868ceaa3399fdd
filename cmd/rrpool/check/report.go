package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// schemaVersion names the form of `check -o json`. It changes when a field changes its meaning
// or goes away.
const schemaVersion = "rrpool.io/check/v1"

// groups in the order in which they are shown.
func groups() []group { return []group{kubernetes(), own(), network(), nodes(), supply()} }

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
