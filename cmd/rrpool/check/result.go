package check

import (
	"fmt"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// Status is how serious a result is.
type Status string

// The statuses, worst last. Note: no problem. Warning: rrpool works but the user should
// look, or something could not be checked. Error: rrpool does not work, or refuses to.
const (
	OK      Status = "ok"
	Note    Status = "note"
	Warning Status = "warning"
	Error   Status = "error"
)

// Result is what one check found.
type Result struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// Unchecked is set if the question of the check could not be answered.
	Unchecked bool `json:"unchecked,omitempty"`
	// Message is what was found, with its values and without a full stop. Details are further lines.
	Message string   `json:"message"`
	Details []string `json:"details,omitempty"`
	// Remedy says what the user should do, and Link is the page that explains a warning or an error.
	Remedy string `json:"remedy,omitempty"`
	Link   string `json:"link,omitempty"`
}

func result(status Status, format string, args []any) *Result {
	return &Result{Status: status, Message: fmt.Sprintf(format, args...)}
}

func fine(format string, args ...any) *Result { return result(OK, format, args) }
func note(format string, args ...any) *Result { return result(Note, format, args) }
func warn(format string, args ...any) *Result { return result(Warning, format, args) }
func fail(format string, args ...any) *Result { return result(Error, format, args) }

// unseen returns an Unchecked warning for something that the user cannot
// read. why is a sentence with the remedy, as Connection.Explain returns it.
func unseen(what, why string) *Result { return unknown("%s could not be checked: %s", what, why) }

// unknown returns an Unchecked warning: what was read does not answer the question of the check.
func unknown(format string, args ...any) *Result {
	r := warn(format, args...)
	r.Unchecked = true
	return r
}

// do sets the remedy.
func (r *Result) do(format string, args ...any) *Result {
	r.Remedy = fmt.Sprintf(format, args...)
	return r
}

// also adds details.
func (r *Result) also(details ...string) *Result {
	r.Details = append(r.Details, details...)
	return r
}

// reason links to the section of a reason. A warning or an error without a link gets the section of its check (resultsOf).
func (r *Result) reason(name string) *Result {
	r.Link = plan.Docs + plan.Page(name)
	return r
}

// see sets the remedy and the link of a reason.
func (r *Result) see(name string) *Result { return r.reason(name).do("%s", reason.Of(name).Remedy) }

// refusal returns the error for a problem that keeps the manager from changing anything.
func refusal(p plan.Problem) *Result { return fail("%s: %s", p.Reason, p.Message).see(p.Reason) }

// unless returns a check that fails if the datastore reports a problem of that reason. If there is none, the result is fine(otherwise).
func unless(name, otherwise string) func(facts) *Result {
	return func(f facts) *Result {
		if p := f.problem(name); p != nil {
			return refusal(*p)
		}
		return fine("%s", otherwise)
	}
}

// check is one question about a cluster. look returns nil if the question does not apply to this cluster.
type check struct {
	// id names the check in -o json and in docs/check.md.
	id   string
	look func(facts) *Result
}

// group is a list of checks under one heading.
type group struct {
	name   string
	checks []check
}

const decisionID = "decision"

// groups returns the checks in the order in which they are shown.
func groups() []group {
	return []group{
		{"Kubernetes", []check{{"kubernetes-version", kubernetesVersion}, {"sight", visible}, {"manager-rights", only(after, managerRights)}}},
		{"rrpool", []check{{"crd", definition}, {"manager", manager}, {"object", object}, {decisionID, only(visibly, decision)}}},
		{"Calico", []check{
			{"calico", only(visibly, unless(reason.CalicoNotInstalled, "Calico is there: the API has its BGPPeers and BGPConfigurations"))},
			{"datastore", only(hasCalico, datastore)},
			{"writes", only(hasCalico, writes)},
			{"calico-node", only(hasCalico, calicoNode)},
			{"bgp", only(hasCalico, speaking)},
			{"annotations", only(hasCalico, annotations)},
			{"node-status", only(hasCalico, nodeStatus)},
			{"reports", only(hasCalico, illegible)},
			{"addresses", only(hasCalico, addresses)},
			{"mesh", only(hasCalico, mesh)},
			{"password", only(hasCalico, passwords)},
			{"as-numbers", only(hasCalico, asNumbers)},
			{"reflectors", only(hasCalico, reflectors)},
			{"peers", only(hasCalico, peers)},
			{"peerings", only(hasCalico, peerings)},
			{"routers", only(hasCalico, routers)},
			{"routes", only(hasCalico, routes)},
		}},
		{"Cluster", []check{{"size", only(visibly, size)}, {"zones", only(visibly, zones)}}},
		{"Provider", []check{
			{"provider", only(visibly, provider)},
			{"eligible", only(onNodes, eligible)},
			{"updates", only(facts.classic, updates)},
		}},
	}
}

// only returns a check that calls look if the function where is true, and has no result otherwise.
func only(where func(facts) bool, look func(facts) *Result) func(facts) *Result {
	return func(f facts) *Result {
		if !where(f) {
			return nil
		}
		return look(f)
	}
}

func after(f facts) bool     { return !f.pre }
func visibly(f facts) bool   { return f.snapshot != nil }
func hasCalico(f facts) bool { return visibly(f) && f.problem(reason.CalicoNotInstalled) == nil }
func onNodes(f facts) bool   { return visibly(f) && !f.iks() }

// schemaVersion is the version of the format of `check -o json`. It changes when a field changes its meaning or is removed.
const schemaVersion = "rrpool.io/check/v1"

// view is the answer, as -o json prints it.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Cluster is the context, Server the address of its apiserver, Namespace the manager's namespace.
	Cluster   string `json:"cluster"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
	// Pre is set with --pre: then the question is whether rrpool can be installed. Fit is set if no check found an error.
	Pre    bool        `json:"pre"`
	Fit    bool        `json:"fit"`
	Counts counts      `json:"counts"`
	Groups []groupView `json:"groups"`
	// Next is the command that the user should run next.
	Next string `json:"next"`
}

// counts has the number of results of each status. Unchecked results are counted as Warnings too.
type counts struct {
	OK        int `json:"ok"`
	Notes     int `json:"notes"`
	Warnings  int `json:"warnings"`
	Errors    int `json:"errors"`
	Unchecked int `json:"unchecked"`
}

func (c *counts) add(r *Result) {
	*map[Status]*int{OK: &c.OK, Note: &c.Notes, Warning: &c.Warnings, Error: &c.Errors}[r.Status]++
	if r.Unchecked {
		c.Unchecked++
	}
}

type groupView struct {
	Name   string   `json:"name"`
	Checks []Result `json:"checks"`
}

// judge runs the checks. called is how the user calls this program, for the command in Next.
func judge(f facts, called string) view {
	v := view{
		SchemaVersion: schemaVersion, GeneratedAt: f.now.UTC().Format(time.RFC3339),
		Cluster: f.context, Server: f.server, Namespace: f.namespace, Pre: f.pre,
	}
	results := resultsOf(f)
	for _, g := range groups() {
		shown := groupView{Name: g.name}
		for _, c := range g.checks {
			if r := results[c.id]; r != nil {
				shown.Checks = append(shown.Checks, *r)
				v.Counts.add(r)
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

// resultsOf returns the results by the ID of their check. It leaves out the manager's decision if another result links to the same section.
func resultsOf(f facts) map[string]*Result {
	out, explained := map[string]*Result{}, map[string]bool{}
	for _, g := range groups() {
		for _, c := range g.checks {
			r := c.look(f)
			if r == nil {
				continue
			}
			if r.ID = c.id; r.Link == "" && (r.Status == Warning || r.Status == Error) {
				r.Link = plan.Docs + "check.md#" + c.id
			}
			out[c.id] = r
			explained[r.Link] = explained[r.Link] || c.id != decisionID
		}
	}
	if r := out[decisionID]; r != nil && r.Link != "" && explained[r.Link] {
		delete(out, decisionID)
	}
	return out
}

// next returns the command that the user should run next.
func next(f facts, fit bool, called string) string {
	filename := ""
	if f.file != "" {
		filename = " --filename " + f.file
	}
	switch {
	case !fit && f.pre:
		return called + " check --pre" + filename
	case !fit:
		return called + " check" + filename
	case f.pre && f.iks():
		return "kustomize build config/overlays/iks | kubectl apply -f -"
	case f.pre:
		return "kustomize build config/overlays/kind | kubectl apply --server-side -f -"
	case f.file == "" && f.stored.found:
		return called + " status"
	}
	return called + " plan" + filename
}
