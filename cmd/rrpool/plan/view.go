package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// planSchema names the form of `plan -o json`. It changes when a field changes its
// meaning or goes away.
const planSchema = "rrpool.io/plan/v1"

// view is the plan as it is shown.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Subject says in a sentence what the plan is about. Cluster is the context that was
	// read, empty for an invented one.
	Subject string `json:"subject"`
	Cluster string `json:"cluster,omitempty"`
	// Mode is the spec.mode that is planned for, Provider where reflectors come from.
	Mode     string `json:"mode"`
	Provider string `json:"provider"`
	// Changes: there is something to do.
	Changes bool `json:"changes"`
	// Now is what the manager would do with the cluster itself, nil for an invented one.
	// Assumes says in what the plan differs from the cluster, "" for nothing.
	Now     *nowView `json:"now,omitempty"`
	Assumes string   `json:"assumes,omitempty"`
	// Obstacle is a problem that has to be solved before the steps can be taken.
	Obstacle string `json:"obstacle,omitempty"`
	*Plan
	CostBefore costView `json:"costBefore"`
	CostAfter  costView `json:"costAfter"`
	Notes      []string `json:"notes"`
	Next       string   `json:"next,omitempty"`
}

type nowView struct {
	Step       string   `json:"step"`
	Reason     string   `json:"reason"`
	WaitingFor []string `json:"waitingFor,omitempty"`
}

type costView struct {
	Certainty cost.Certainty `json:"certainty"`
	Currency  string         `json:"currency"`
	Monthly   string         `json:"monthly,omitempty"`
	Workers   int            `json:"workers"`
	Source    string         `json:"source"`
}

// newView puts a plan into words.
func newView(f *Plan, region string) view {
	mode := f.in.Object.Spec.Mode
	v := view{
		SchemaVersion: planSchema, GeneratedAt: f.in.Now.UTC().Format(time.RFC3339), Subject: subject(f), Cluster: f.in.Name,
		Mode: string(mode), Provider: string(f.in.Provider), Changes: len(f.writes()) > 0,
		Plan: f, CostBefore: costOf(f, f.Before, region), CostAfter: costOf(f, f.After, region),
	}
	if f.in.Obstacle != nil && mode != v1alpha1.ModeFullMesh {
		v.Obstacle = f.in.Obstacle.Reason + ": " + f.in.Obstacle.Message
	}
	if f.in.Name != "" && mode != v1alpha1.ModePaused {
		v.present(f)
	}
	v.Notes = notes(f, v)
	return v
}

// present compares what the manager would do now with what it would do in the model.
func (v *view) present(f *Plan) {
	step := f.in.Step
	v.Now = &nowView{step.Name, step.Reason, step.WaitingFor[:min(len(step.WaitingFor), mostGuards)]}
	down := sessionsDown(f)
	switch {
	case down > 0:
		v.Assumes = iostreams.Number(down, "session") + " with route reflectors are not Established now, and the steps below take all that are configured for Established"
	case step.Urgent || step.Problem == nil && len(f.Steps) == 0 && step.Name != rollout.Steady:
		v.Assumes = "the steps below take all sessions that are configured for Established, and it does not look like that"
	default:
		return
	}
	v.Changes = v.Changes || step.Name != rollout.Steady
}

// writes are all changes of all steps.
func (f *Plan) writes() []string {
	var out []string
	for _, s := range f.Steps {
		out = append(out, s.Writes...)
	}
	return out
}

func subject(f *Plan) string {
	where := "cluster " + f.in.Name
	if f.in.Name == "" {
		where = fmt.Sprintf("an invented cluster of %d nodes with workloads", len(f.in.Cluster.Nodes))
	}
	to := map[v1alpha1.Mode]string{
		v1alpha1.ModeRouteReflector: "onto route reflectors", v1alpha1.ModeFullMesh: "back to the full mesh", v1alpha1.ModePaused: "paused",
	}[f.in.Object.Spec.Mode]
	if f.in.Object.DeletionTimestamp != nil {
		to = "deleted, so back to the full mesh"
	}
	on := "a dedicated worker pool"
	if f.in.Provider == v1alpha1.ProviderExistingNodes {
		on = "existing nodes"
	}
	return fmt.Sprintf("%s: %s, %s", where, to, on)
}

// costOf is what the pool of that shape costs.
func costOf(f *Plan, shape Shape, region string) costView {
	if f.in.Provider == v1alpha1.ProviderExistingNodes {
		return costView{Certainty: cost.Exact, Currency: cost.Currency, Monthly: "0.00", Source: "the nodes are there anyway"} // nothing is ordered
	}
	flavor := cmp.Or(f.in.Object.Spec.Provider.IKS.Flavor, iks.DefaultFlavorVPC)
	if f.in.Pool != nil {
		flavor = cmp.Or(f.in.Pool.Flavor, flavor)
	}
	for _, n := range f.in.Cluster.Nodes {
		region = cmp.Or(region, cost.RegionOf(n.Labels))
	}
	in := cost.Input{Currency: cost.Currency, HoursPerMonth: cost.HoursPerMonth, Now: f.in.Now}
	for _, z := range shape.Zones {
		in.Pool = append(in.Pool, slices.Repeat([]cost.Worker{{Zone: z.Name, Region: region, Flavor: flavor}}, z.Nodes)...)
	}
	if book, err := cost.Builtin(); err == nil {
		in.Prices = cost.Shelf{book}
	}
	report := cost.Compute(in)
	out := costView{Certainty: report.Pool.Certainty(), Currency: cost.Currency, Workers: len(in.Pool)}
	where := " without a region"
	if region != "" {
		where = " in " + region
	}
	out.Source = "no price is known for " + flavor + where
	if out.Certainty != cost.Unknown {
		out.Monthly, out.Source = report.Pool.Monthly(cost.HoursPerMonth).Round(2), "no workers"
	}
	for _, used := range report.Used {
		out.Source = fmt.Sprintf("%s in %s at %s %s/hour, list price of %s", used.Flavor, used.Region, used.Hourly.Short(6), used.Currency, used.Date.Format(cost.DateLayout))
	}
	return out
}

// sessionsDown counts the sessions with Ready nodes that reports of reflectors name as
// down. Those with routers outside the cluster do not count.
func sessionsDown(f *Plan) int {
	down, ready := 0, map[netip.Addr]bool{}
	for _, n := range f.in.Cluster.Nodes {
		for _, address := range n.Addresses {
			ready[address] = n.Ready
		}
	}
	for _, n := range f.in.Cluster.Nodes {
		st, ok := f.in.Cluster.Statuses[n.Name]
		if !ok || !n.Ready || n.ClusterID == "" || !st.Cleared.IsZero() {
			continue
		}
		for _, s := range st.Sessions {
			if !s.Established && ready[s.Peer] {
				down++
			}
		}
	}
	return down
}

func notes(f *Plan, v view) []string {
	out := []string{}
	note := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	in, iks, deleting := f.in, f.in.Provider == v1alpha1.ProviderIKS, f.in.Object.DeletionTimestamp != nil
	spec := in.Object.Spec
	note(in.Name != "" && iks && in.Pool == nil && in.Obstacle == nil, "The worker pool was not looked at in the cloud: it is taken for what its nodes show.")
	note(in.Uncounted != "", "The pods were not counted: "+in.Uncounted+".")
	note(in.Name != "" && !in.Stored && spec.Mode != v1alpha1.ModeFullMesh,
		"The cluster has no RouteReflectorPool yet: nothing happens until there is one (rrpool migrate makes it).")
	note(deleting && iks && spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete, "After that the worker pool is deleted: spec.provider.iks.deletionPolicy is Delete.")
	note(in.paused(), "spec.mode is Paused, so the manager changes nothing: --mode RouteReflector or --mode FullMesh shows what it would do.")
	note(v.CostAfter.Certainty == cost.Unknown, "The price of the workers is unknown: rrpool cost says how to give one.")
	note(len(f.Steps) > 0, "The manager decides each step anew from what it sees: this is what it does when nothing fails meanwhile. Times are those of a model.")
	note(len(f.Steps) > 0 && iks && f.LastsSeconds > int(DeployTime.Seconds()), fmt.Sprintf("A new worker counts as %d minutes; the cloud decides.", int(DeployTime.Minutes())))
	return out
}
