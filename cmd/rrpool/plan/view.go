package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cloud/cost"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Plan is what the manager will do. Its schema version changes when a field changes its meaning or goes away.
type Plan struct {
	SchemaVersion string    `json:"schemaVersion"`
	GeneratedAt   time.Time `json:"generatedAt"`
	// Subject says what the plan is about. Cluster is the name of the kubeconfig's context, empty for an invented cluster.
	Subject string `json:"subject"`
	Cluster string `json:"cluster,omitempty"`
	// Mode is the spec.mode that the plan is for. Provider is the source of the route reflectors.
	Mode     v1alpha1.Mode         `json:"mode"`
	Provider v1alpha1.ProviderType `json:"provider"`
	// Changes is set if there is something to do.
	Changes bool `json:"changes"`
	// Now is the manager's next step in the cluster itself, nil for an invented cluster.
	// Assumes says in what the model differs from what the cluster shows, empty for nothing.
	Now     *v1alpha1.StepStatus `json:"now,omitempty"`
	Assumes string               `json:"assumes,omitempty"`
	// First is a problem of the provider that has to be solved before the steps.
	First string `json:"first,omitempty"`
	// Steps are in order; there are none when there is nothing to do.
	Steps []PlannedStep `json:"steps"`
	// Settled is set if nothing is left to do after the steps. Otherwise Problem says what stops the manager.
	Settled bool          `json:"settled"`
	Problem *plan.Problem `json:"problem,omitempty"`
	// LastsSeconds is how long all steps take in the model, including the deployment of workers.
	LastsSeconds int `json:"lastsSeconds"`
	// Loss lists the nodes whose pods cannot be reached for a moment during the steps.
	Loss []Loss `json:"loss"`
	// LostAlready are the nodes whose pods cannot be reached before the first step.
	LostAlready []string `json:"lostAlready,omitempty"`
	Before      Shape    `json:"before"`
	After       Shape    `json:"after"`
	Notes       []string `json:"notes"`
	Next        string   `json:"next,omitempty"`

	in Input
	// final is the last reconciliation. settle is the longest time that a step waits for routes to settle.
	final  pool.Scope
	settle time.Duration
}

// PlannedStep is all reconciliations of one step of the manager.
type PlannedStep struct {
	// Name and Reason are those of the manager's step.
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Guard is what the step waits for, before its writes (GuardFirst) or after them: the first two conditions, and the number of others.
	Guard      []string `json:"guard"`
	GuardFirst bool     `json:"guardFirst"`
	// Writes are all changes, in the words of the manager's events. ReportsAsked is how many nodes are also asked for a report of their
	// sessions (CalicoNodeStatus).
	Writes       []string `json:"writes"`
	ReportsAsked int      `json:"reportsAsked"`
	// BeginsSeconds is counted from the start of the plan, by the model's clock.
	BeginsSeconds int `json:"beginsSeconds"`

	waits int // the length of the list that Guard abbreviates
}

// Loss is a node whose pods cannot be reached for a moment. The reason of the step says for how long.
type Loss struct {
	Node string `json:"node"`
	// Pods is the number of pods that run there, -1 when unknown.
	Pods int `json:"pods"`
	// Step is the name of the step whose writes cut the node off.
	Step string `json:"step"`
}

// Shape is the cluster before or after all steps.
type Shape struct {
	MeshOn bool `json:"fullMesh"`
	// Nodes is how many nodes speak BGP, including the Reflectors. Topology is that of the Reflectors.
	Nodes      int    `json:"nodes"`
	Reflectors int    `json:"reflectors"`
	Topology   string `json:"topology,omitempty"`
	// Elsewhere is where routes come from, as far as BGPPeers show it, if the mesh is off and rrpool has no reflectors.
	Elsewhere simulate.Source `json:"routesFrom,omitempty"`
	// Zones is the number of the pool's nodes by zone.
	Zones map[string]int `json:"poolNodes"`
	// Sessions counts all BGP sessions between nodes. PerClient and PerReflector are the most that one client and one reflector have.
	Sessions     int `json:"sessions"`
	PerClient    int `json:"sessionsPerNode"`
	PerReflector int `json:"sessionsPerReflector"`
	// Cost is the cost of the pool by the built-in prices, nil if there is no pool or it consists of existing nodes.
	Cost *v1alpha1.CostStatus `json:"cost,omitempty"`
}

// describe fills in the texts and the cost. Prices are those of region, or if region is empty, of the nodes' own region.
func (p *Plan) describe(region string) {
	in, mode := p.in, p.in.Object.Spec.Mode
	p.SchemaVersion, p.GeneratedAt, p.Cluster, p.Subject = "rrpool.io/plan/v2", in.Now.UTC().Truncate(time.Second), in.Name, subject(in)
	p.Mode, p.Provider = mode, in.Provider
	p.Changes = slices.ContainsFunc(p.Steps, func(s PlannedStep) bool { return len(s.Writes) > 0 })
	if in.ProviderProblem != nil && mode != v1alpha1.ModeFullMesh {
		p.First = in.ProviderProblem.Reason + ": " + in.ProviderProblem.Message
	}
	if in.Name != "" && mode != v1alpha1.ModePaused {
		p.compare()
	}
	p.price(region)
	p.note()
}

func subject(in Input) string {
	where, on := "cluster "+in.Name, "a dedicated worker pool"
	if in.Name == "" {
		where = fmt.Sprintf("an invented cluster of %d nodes with workloads", len(in.Cluster.Nodes))
	}
	to := map[v1alpha1.Mode]string{
		v1alpha1.ModeRouteReflector: "onto route reflectors", v1alpha1.ModeFullMesh: "back to the full mesh", v1alpha1.ModePaused: "paused",
	}[in.Object.Spec.Mode]
	if in.Object.DeletionTimestamp != nil {
		to = "deleted, so back to the full mesh"
	}
	if in.Provider == v1alpha1.ProviderExistingNodes {
		on = "existing nodes"
	}
	return fmt.Sprintf("%s: %s, %s", where, to, on)
}

// downSessions counts the sessions of route reflectors that are reported as not Established.
func (p *Plan) downSessions() (down int) {
	for _, r := range p.in.Step.Reflectors {
		if st, reported := p.in.Cluster.Statuses[r.Node]; reported && st.Cleared.IsZero() {
			down += r.Expected - r.Established
		}
	}
	return down
}

// compare sets Now to what the manager would do now, and Assumes to how the model differs from the cluster.
func (p *Plan) compare() {
	step, down := p.in.Step, p.downSessions()
	p.Now = &p.in.Status.Step
	switch {
	case step.Problem != nil && p.in.Cluster.Routes.Unknown != "":
		p.Assumes = "whether BGP carries the routes to pods is not known: " + p.in.Cluster.Routes.Unknown + "; the steps below take it that it does, and the manager refuses where it does not"
	case down > 0:
		p.Assumes = iostreams.Number(down, "session") + " with route reflectors are not Established now, and the steps below take all that are configured for Established"
	case step.Urgent || step.Problem == nil && len(p.Steps) == 0 && step.Name != rollout.Steady:
		p.Assumes = "the steps below take all sessions that are configured for Established, and it does not look like that"
	default:
		return
	}
	p.Changes = p.Changes || step.Name != rollout.Steady
}

// price sets what the pool costs before and after.
func (p *Plan) price(region string) {
	if p.in.Provider == v1alpha1.ProviderExistingNodes {
		return // existing nodes cost nothing extra
	}
	worker := cost.Machine{Region: region}
	var rest []cost.Machine
	for _, n := range p.in.Cluster.Nodes {
		like := cost.MachineOf(n.Labels, "")
		worker.Region, worker.OpenShift = cmp.Or(worker.Region, like.Region), worker.OpenShift || like.OpenShift
		if !n.Pooled {
			rest = append(rest, like)
		}
	}
	if p.in.Pool != nil {
		worker.Flavor = p.in.Pool.Flavor
	}
	worker.Flavor = cmp.Or(worker.Flavor, p.in.Object.Spec.Provider.IKS.Flavor, bill.DefaultFlavor(rest, plan.Zones(p.in.Cluster.Nodes, plan.Node.SpeaksBGP)))
	for _, shape := range []*Shape{&p.Before, &p.After} {
		var workers []cost.Machine
		for count := range maps.Values(shape.Zones) {
			workers = append(workers, slices.Repeat([]cost.Machine{worker}, count)...)
		}
		shape.Cost = cost.Builtin().Status(workers)
	}
}

// note adds the notes: first about what could not be observed, then about what the steps do not show.
func (p *Plan) note() {
	p.Notes = []string{}
	p.noteUnseen()
	in, spec, iks := p.in, p.in.Object.Spec, p.in.Provider == v1alpha1.ProviderIKS
	p.noteIf(in.Name != "" && !in.Stored && spec.Mode != v1alpha1.ModeFullMesh,
		"The cluster has no RouteReflectorPool yet: nothing happens until there is one (rrpool migrate makes it).")
	p.noteIf(in.Object.DeletionTimestamp != nil && iks && spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete,
		"After that the worker pool is deleted: spec.provider.iks.deletionPolicy is Delete.")
	p.noteIf(in.paused(), "spec.mode is Paused, so the manager changes nothing: --mode RouteReflector or --mode FullMesh shows what it would do.")
	for _, of := range in.Cluster.Routes.Pools {
		p.noteIf(of.Unknown != "", "Who programs the routes to the pods of an IPPool is not known, so neither whether route reflectors are of use to them: "+of.String()+".")
	}
	p.noteIf(in.Cluster.BGPUnknown != "", "Whether calico-node runs BIRD is not known: "+in.Cluster.BGPUnknown+".")
	if cost := p.After.Cost; cost != nil {
		p.noteIf(cost.Monthly == "", "Cost: "+cost.Source+".")
	}
	p.noteIf(len(p.Steps) > 0, "The manager decides each step anew from what it sees: this is what it does when nothing fails meanwhile. Times are those of a model.")
	p.noteIf(p.settle > 0, fmt.Sprintf("Sessions count as settled %s after the last is Established: a reflector may take that long to send its routes.", p.settle))
	p.noteIf(iks && p.LastsSeconds > int(DeployTime.Seconds()), fmt.Sprintf("A new worker counts as %d minutes; the cloud decides.", int(DeployTime.Minutes())))
}

func (p *Plan) noteIf(when bool, text string) {
	if when {
		p.Notes = append(p.Notes, text)
	}
}

func (p *Plan) noteUnseen() {
	in := p.in
	p.noteIf(in.Name != "" && in.Provider == v1alpha1.ProviderIKS && in.Pool == nil && in.ProviderProblem == nil,
		"The worker pool was not looked at in the cloud: it is taken for what its nodes show.")
	p.noteIf(in.Untried != nil, untried(in.Untried))
	p.noteIf(len(in.Step.Ahead) > 0 && in.Cluster.CalicoAPI == calico.EtcdAPI,
		"Whether Calico's etcd would take what is written is not known: it has no dry runs, and its user may lack the right to write.")
	p.noteIf(in.Uncounted != "", "The pods were not counted: "+in.Uncounted+".")
}

// print renders the plan as text.
func (p *Plan) print(s iostreams.Streams) {
	say := func(colour, text string) { s.Say(colour, "  ", text) }
	s.Say(iostreams.Bold, "", "What the manager will do")
	s.Say("", "", p.Subject)
	_, _ = fmt.Fprintf(s.Out, "\n%s\n\n", p.shapes(s.Width))
	if now := p.Now; now != nil && (p.Assumes != "" || len(now.WaitingFor) > 0) {
		text := fmt.Sprintf("Now: %s: %s", now.Name, now.Reason)
		if len(now.WaitingFor) > 0 {
			text += "; it waits for " + strings.Join(few(now.WaitingFor), "; ")
		}
		say("", text)
		say("", "")
	}
	if p.Assumes != "" {
		say(iostreams.Yellow, "‼ "+p.Assumes)
		say("", "")
	}
	if p.First != "" {
		say(iostreams.Yellow, "‼ First: "+p.First)
		say("", "")
	}
	for i, step := range p.Steps {
		step.print(s, i+1)
	}
	p.outcome(say)
	if len(p.Notes) > 0 {
		s.Say("", "", "\n"+strings.Join(p.Notes, " "))
	}
	if p.Next != "" {
		say("", "\nNext: "+p.Next)
	}
}

// outcome says how the steps end.
func (p *Plan) outcome(say func(colour, text string)) {
	steps, sure := len(p.Steps), p.sure()
	switch {
	case p.Problem != nil && steps > 0:
		say(iostreams.Red, fmt.Sprintf("× Then it stops: %s: %s", p.Problem.Reason, p.Problem.Message))
	case p.Problem != nil:
		say(iostreams.Red, fmt.Sprintf("× It does nothing: %s: %s", p.Problem.Reason, p.Problem.Message))
	case steps > 0:
		say("", fmt.Sprintf("%d steps, about %s.", steps, lasting(p.LastsSeconds)))
	case sure:
		say(iostreams.Green, "√ There is nothing to do.")
	case p.Assumes == "" && p.First == "":
		say("", "There is nothing to do.")
	default:
		say("", "Otherwise there is nothing to do.")
	}
	if len(p.LostAlready) > 0 {
		say(iostreams.Red, "× As it is, pods cannot be reached: those on "+plan.Few(p.LostAlready)+".")
	}
	if p.Settled {
		p.losses(say)
	}
}

// sure reports whether the manager can take the steps, and everything that they rely on was seen.
func (p *Plan) sure() bool {
	return p.Assumes == "" && p.First == "" && p.in.Cluster.BGPUnknown == "" &&
		!slices.ContainsFunc(p.in.Cluster.Routes.Pools, func(of plan.PoolRoutes) bool { return of.Unknown != "" })
}

// losses says whether the steps lose packets.
func (p *Plan) losses(say func(colour, text string)) {
	var lost []string
	for _, l := range p.Loss {
		pods := "any pods"
		if l.Pods >= 0 {
			pods = iostreams.Number(l.Pods, "pod")
		}
		lost = append(lost, fmt.Sprintf("%s on %s at %s", pods, l.Node, l.Step))
	}
	switch {
	case len(lost) > 0:
		say(iostreams.Yellow, "‼ Packets are lost: "+plan.Few(lost)+" (the reason of the step says for how long).")
	case len(p.Steps) == 0:
	case p.sure():
		say(iostreams.Green, "√ No packet between pods is lost.")
	default:
		say("", "No packet between pods is lost by these steps.")
	}
}

// shapes renders the table of the cluster before and after.
func (p *Plan) shapes(width int) string {
	w, b, a := iostreams.NewTable(width, 3, "", "NOW", "AFTER"), p.Before, p.After
	w.AppendRows([]table.Row{
		{"routes", b.routes(), a.routes()},
		{"BGP sessions", b.Sessions, a.Sessions},
		{"  of a node", b.PerClient, a.PerClient},
		{"  of a reflector", b.PerReflector, a.PerReflector},
		{"pool", b.pool(), a.pool()},
		{"cost", b.cost(), a.cost()},
	})
	return w.Render()
}

// elsewhere is the text for each source of routes, for a cluster without the mesh and without rrpool's reflectors.
var elsewhere = map[simulate.Source]string{
	simulate.SourceNone: "no mesh", simulate.SourceReflectors: "other reflectors", simulate.SourceNodes: "BGPPeers by hand", simulate.SourceRouters: "routers outside", simulate.SourceMachines: "machines of the cluster",
}

func (s Shape) routes() string {
	switch {
	case s.MeshOn && s.Reflectors > 0:
		return fmt.Sprintf("full mesh of %d nodes, %d reflectors", s.Nodes, s.Reflectors)
	case s.MeshOn:
		return fmt.Sprintf("full mesh of %d nodes", s.Nodes)
	case s.Reflectors == 0:
		return fmt.Sprintf("%s, %d nodes", elsewhere[s.Elsewhere], s.Nodes)
	case s.Topology == "" || s.Topology == string(v1alpha1.TopologySingle):
		return fmt.Sprintf("%d reflectors, %d nodes", s.Reflectors, s.Nodes)
	}
	return fmt.Sprintf("%d reflectors in %s, %d nodes", s.Reflectors, s.Topology, s.Nodes)
}

func (s Shape) pool() string {
	var out []string
	for _, zone := range slices.Sorted(maps.Keys(s.Zones)) {
		out = append(out, fmt.Sprintf("%d in %s", s.Zones[zone], cmp.Or(zone, "no zone")))
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

func (s Shape) cost() string {
	switch {
	case s.Cost == nil:
		return "-"
	case s.Cost.Monthly == "":
		return "unknown"
	}
	return fmt.Sprintf("%s %s/month", s.Cost.Monthly, s.Cost.Currency)
}

// print renders a step: its name and reason, what it writes, and what it waits for.
func (step PlannedStep) print(s iostreams.Streams, number int) {
	const indent = "   "
	if s.Width > 0 {
		s.Width = max(s.Width-len(indent), 20)
	}
	line := func(text string) { _, _ = fmt.Fprintf(s.Out, "%s%s\n", indent, s.Fold(text, indent+"  ")) }
	_, _ = fmt.Fprintf(s.Out, "%s  %s\n", s.Paint(iostreams.Bold, fmt.Sprintf("%d. %s", number, step.Name)), s.Paint(iostreams.Dim, "after "+lasting(step.BeginsSeconds)))
	line(step.Reason)
	guard, first := strings.Join(step.Guard, "; "), step.GuardFirst && len(step.Writes) > 0
	if first {
		line("… waits for " + guard)
	}
	for _, w := range step.Writes {
		line("+ " + w)
	}
	if step.ReportsAsked > 0 {
		line(fmt.Sprintf("? ask %s for a report of the sessions (CalicoNodeStatus)", iostreams.Number(step.ReportsAsked, "node")))
	}
	if guard != "" && !first {
		line("… goes on after " + guard)
	}
	_, _ = fmt.Fprintln(s.Out)
}

// lasting renders a duration.
func lasting(seconds int) string { return (time.Duration(seconds) * time.Second).String() }

// untried says why it is not known whether the apiserver would take what is written.
func untried(err error) string {
	if calico.Untriable(err) {
		return "Whether the apiserver would take what is written is not known, as a webhook of the cluster takes no dry runs: " + iostreams.Sentence(err) + "."
	}
	return "Whether the apiserver would take what is written could not be tried with your rights: the manager tries it before it changes or orders anything."
}
