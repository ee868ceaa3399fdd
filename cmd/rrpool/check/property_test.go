package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

func requireSound(r *rapid.T, v view, blind map[string]bool) {
	require.NotEmpty(r, v.Next)
	for _, g := range v.Groups {
		for _, c := range g.Checks {
			require.False(r, blind[c.ID] && c.Status == OK, "%s: %s", c.ID, c.Message)
			require.False(r, c.Status == Error && (c.Remedy == "" || c.Link == ""), "%s: %s", c.ID, c.Message)
			require.False(r, c.Unchecked && c.Status != Warning, "%s: %s", c.ID, c.Message)
		}
	}
}

// Whatever may not be looked at, in whatever company: no check falls over, what it
// depends on is not called right, and every error has a remedy and a link.
func TestAnyBlindness(t *testing.T) {
	const why = "the user may not"
	// What hides a fact, and the checks that cannot be right without it.
	hide := map[string]struct {
		edit func(*facts)
		ids  []string
	}{
		"manager's rights": {func(f *facts) { f.managerRights.hidden = why }, []string{"manager-rights"}},
		"own rights":       {func(f *facts) { f.giverRights.hidden = why }, []string{"escalation"}},
		"install rights":   {func(f *facts) { f.installRights.hidden = why }, []string{"install-rights"}},
		"definition":       {func(f *facts) { f.definition.found, f.definition.hidden = false, why }, []string{"crd"}},
		"object":           {func(f *facts) { f.stored.found, f.stored.hidden = false, why }, []string{"object"}},
		"manager":          {func(f *facts) { f.deployment.found, f.deployment.hidden = false, why }, []string{"manager"}},
		"version":          {func(f *facts) { f.information.found, f.information.hidden = false, why }, []string{"calico-version"}},
		"calico-node":      {func(f *facts) { f.calicoNode.found, f.calicoNode.hidden = false, why }, []string{"calico-node"}},
		"pools":            {func(f *facts) { f.ipPools.found, f.ipPools.hidden = false, why }, []string{"routes"}},
		"Felix":            {func(f *facts) { f.felix.found, f.felix.hidden = false, why }, []string{"routes"}},
		"password":         {func(f *facts) { f.passwords[0].secret.hidden = why }, []string{"password"}},
		"its reader":       {func(f *facts) { f.passwords[0].reader.hidden = why }, []string{"password"}},
		"key": {func(f *facts) {
			if f.snapshot != nil {
				f.snapshot.Pool, f.snapshot.ProviderProblem = nil, &plan.Problem{Reason: "CredentialsUnreadable", Message: why}
			}
		}, []string{"credentials", "cloud"}},
		"autoscaler": {func(f *facts) { f.autoscaler.found, f.autoscaler.hidden = false, why }, []string{"autoscaler"}},
		"everything": {func(f *facts) { f.snapshot, f.blind = nil, why }, []string{"sight", "decision", "calico", "bgp", "mesh", "as-numbers", "peers", "zones", "eligible", "cloud"}},
	}
	var names []string
	for name := range hide {
		names = append(names, name)
	}
	rapid.Check(t, func(r *rapid.T) {
		f := onCloud(t, 3)
		f.pre = rapid.Bool().Draw(r, "pre")
		if rapid.Bool().Draw(r, "asked") {
			asking(&f)
		}
		if rapid.Bool().Draw(r, "timer") {
			f.object.Spec.Rollout.Gate = v1alpha1.GateTimer
		}
		blind := map[string]bool{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(r, "hidden") {
			hide[name].edit(&f)
			for _, id := range hide[name].ids {
				blind[id] = true
			}
		}
		requireSound(r, judge(f, "rrpool"), blind)
		for _, format := range []string{"table", "json", "short"} {
			require.NotEmpty(r, shown(t, f, format, iostreams.Streams{Terminal: true, Width: 60}))
		}
	})
}
