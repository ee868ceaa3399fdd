package corpus_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/check"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

var marks = map[check.Status]string{check.OK: "√", check.Note: "·", check.Warning: "‼", check.Error: "×"}

// failed are the assertions that do not hold, by name.
func (a answers) failed(r row) map[string]string {
	out := map[string]string{}
	fail := func(name string, holds bool, format string, args ...any) {
		if !holds {
			out[name] = fmt.Sprintf(format, args...)
		}
	}
	a.checked(r, fail)
	a.expected(r, fail)
	a.agree(fail)
	a.unseen(r, fail)
	return out
}

type assertion func(name string, holds bool, format string, args ...any)

// checked: what check says is as expected.
func (a answers) checked(r row, fail assertion) {
	for id, want := range r.Expect.Check {
		got, asked := a.checks[id]
		switch {
		case id == "exit":
			fail("check exit", fmt.Sprint(a.check.Code) == want, "%d and not %s", a.check.Code, want)
		case want == "-" || !asked:
			fail("check "+id, want == "-" && !asked, "it says %s %s", marks[got.Status], got.Message)
		default:
			mark, words, _ := strings.Cut(want, " ")
			said := strings.Join(append([]string{got.Message, got.Remedy}, got.Details...), " ")
			fail("check "+id, mark == marks[got.Status] && has(said, words), "it says %s %s", marks[got.Status], said)
		}
	}
}

// has: the text has the words, which are apart by ….
func has(text, words string) bool {
	for part := range strings.SplitSeq(words, "…") {
		_, after, found := strings.Cut(text, strings.TrimSpace(part))
		if !found {
			return false
		}
		text = after
	}
	return true
}

// expected: plan and manager do as expected.
func (a answers) expected(r row, fail assertion) {
	text := strings.Join(strings.Fields(a.shown.Out+a.shown.Err), " ")
	fail("plan exit", a.shown.Code == r.Expect.Plan.Exit, "%d: %s", a.shown.Code, a.shown.Err)
	for _, words := range r.Expect.Plan.Says {
		fail("plan says", has(text, words), "it does not say %q: %s", words, text)
	}
	for _, words := range r.Expect.Plan.Not {
		fail("plan not", !strings.Contains(text, words), "it says %q", words)
	}
	m := a.manager
	if want := r.Expect.Manager; want.Refuses != "" {
		fail("manager refuses", m.refused() && m.refuses == want.Refuses, "%s", m)
	} else {
		fail("manager step", len(m.steps) > 0 && m.steps[0].Name == want.Step, "%s", m)
		fail("manager then", want.Then == "" || slices.ContainsFunc(m.steps, func(s v1alpha1.StepStatus) bool { return s.Name == want.Then }), "%s", m)
		fail("manager waits", want.Waits == "" || m.refuses == want.Waits && len(m.steps) == 1, "%s", m)
	}
	fail("manager reflectors", !r.Expect.Manager.NoReflectors || len(m.reflectors) == 0, "%q: %s", m.reflectors, m)
	fail("manager fails", m.err == nil, "%v", m.err)
}

// refused: it says what is wrong, and touches nothing.
func (m manager) refused() bool { return m.refuses != "" && len(m.writes) == 0 }

// agree: plan, check and manager come to one verdict.
func (a answers) agree(fail assertion) {
	m := a.manager
	if m.refuses == reason.CredentialsMissing { // the key is still to come: plan says that first, and check says what else is there
		fail("agree key", a.checks["provider"].Status == check.Note && strings.Contains(a.shown.Out, "First: "+m.refuses) && len(m.writes) == 0, "%s", m)
		return
	}
	refusal := ""
	if a.plan.Problem != nil && !slices.ContainsFunc(a.plan.Steps, func(s struct {
		Name, Reason string
		Writes       []string
	},
	) bool {
		return len(s.Writes) > 0
	}) {
		refusal = a.plan.Problem.Reason
	}
	if refusal != "Waits" { // for longer than we let the manager run
		fail("agree refusal", (refusal != "") == m.refused(), "plan: %q, manager: %s", refusal, m)
	}
	fail("agree check", m.refuses == "" || a.check.Code == 1 || a.warns(m.refuses), "check finds no ×, manager: %s", m)
	if len(a.plan.Steps) > 0 && len(m.steps) > 0 {
		first, really := a.plan.Steps[0], m.steps[0]
		fail("agree step", first.Name == really.Name && first.Reason == really.Reason, "plan begins with %s (%s), the manager with %s (%s)", first.Name, first.Reason, really.Name, really.Reason)
	}
}

// warns reports whether a check says what a reason says, and that it is not known.
func (a answers) warns(reason string) bool {
	for _, c := range a.checks {
		if c.Status == check.Warning && strings.HasSuffix(c.Link, "#"+strings.ToLower(reason)) {
			return true
		}
	}
	return false
}

// unseen: no √ about what was not seen.
func (a answers) unseen(r row, fail assertion) {
	never := func(id, why string) {
		fail("unseen "+id, a.checks[id].Status != check.OK, "%s, and check says √ %s", why, a.checks[id].Message)
	}
	pods := slices.ContainsFunc(r.Nodes, func(g group) bool { return !g.WithoutPod })
	if !pods {
		never("bgp", "no calico-node was seen")
		never("calico-node", "no calico-node was seen")
	}
	if version := ptr.Deref(r.Calico.Version, "v3.31.0"); !strings.HasPrefix(version, "v") {
		never("datastore", "the version of Calico is not known")
	}
	for _, o := range r.objects {
		if spec, _ := o.Object["spec"].(map[string]any); o.GetKind() == "FelixConfiguration" && (spec["wireguardEnabled"] == true || spec["wireguardEnabledV6"] == true) {
			never("routes", "Felix has routes of its own for WireGuard")
		}
	}
}

func (m manager) String() string {
	var steps []string
	for _, s := range m.steps {
		steps = append(steps, fmt.Sprintf("%s (%s; waits for %s)", s.Name, s.Reason, strings.Join(s.WaitingFor, "; ")))
	}
	out := strings.Join(steps, ", ")
	if m.refuses != "" {
		out += fmt.Sprintf("; Degraded: %s: %s", m.refuses, m.message)
	}
	return fmt.Sprintf("%s; writes %q", out, m.writes)
}

// String is all that was said.
func (a answers) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "check (exit %d)\n", a.check.Code)
	for _, id := range slices.Sorted(maps.Keys(a.checks)) {
		c := a.checks[id]
		fmt.Fprintf(&out, "  %-12s %s %s %s\n", id, marks[c.Status], c.Message, strings.Join(c.Details, " | "))
		if c.Remedy != "" {
			fmt.Fprintf(&out, "                 → %s\n", c.Remedy)
		}
	}
	fmt.Fprintf(&out, "plan (exit %d)\n%s%s\nmanager: %s", a.shown.Code, a.shown.Out, a.shown.Err, a.manager)
	return out.String()
}
