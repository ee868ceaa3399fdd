package pool_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/test/docs/links"
)

// A message about a problem ends with the address that explains it, in the conditions and
// in the event. Other messages have none.
func TestAProblemsMessageEndsWithItsPage(t *testing.T) {
	stuck := rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "ForeignReflector", Message: strings.Repeat("long ", 400)}}
	for name, tc := range map[string]struct {
		change func(*world)
		want   map[string]string // the page by condition
		event  string
	}{
		"at rest": {func(w *world) { w.script = always(steady) }, nil, ""},
		"on the way": {func(w *world) {
			w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a session"}})
		}, nil, ""},
		"a refusal":    {func(w *world) { w.script = always(stuck) }, map[string]string{"Ready": "ForeignReflector", "Degraded": "ForeignReflector"}, "ForeignReflector"},
		"the cloud":    {func(w *world) { w.cloud.observeErr = &cloud.Error{Kind: cloud.Unauthorized, Op: "ask", Message: "no."} }, map[string]string{"Ready": "CloudUnauthorized", "ProviderReady": "CloudUnauthorized", "Degraded": "CloudUnauthorized"}, "CloudUnauthorized"},
		"a step fails": {func(w *world) { w.fails("is forbidden") }, map[string]string{"Degraded": "StepFailed"}, ""},
		"nothing is seen": {
			func(w *world) { w.calico.err = errors.New("no answer") },
			map[string]string{"Ready": "ObservationFailed", "ProviderReady": "ObservationFailed", "ReflectorsEstablished": "ObservationFailed", "MeshDisabled": "ObservationFailed", "Progressing": "ObservationFailed", "Degraded": "ObservationFailed"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.change(w)
			_ = w.reconcile() // what fails is in the conditions
			have := map[string]string{}
			for _, c := range w.object().Status.Conditions {
				require.LessOrEqual(t, len(c.Message), 1024)
				if text := plan.Unlinked(c.Message, c.Reason); text != c.Message {
					have[c.Type] = c.Reason
				} else {
					require.NotContains(t, c.Message, plan.Docs, c.Type)
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			require.Equal(t, tc.want, have)
			for _, reason := range slices.Sorted(maps.Values(have)) {
				require.NoError(t, links.Leads(os.DirFS("../.."), "docs/"+plan.Page(reason)))
			}
			if tc.event != "" {
				require.Len(t, w.said, 1)
				require.True(t, strings.HasSuffix(w.said[0], "; see "+plan.Docs+plan.Page(tc.event)), w.said)
			}
		})
	}
}

// fails lets the one action of a step fail.
func (w *world) fails(why string) {
	action := plan.SetReflector{Node: "10.0.1.1", ClusterID: "224.0.0.1"}
	w.calico.fail[action.String()] = errors.New(why)
	w.script = always(rollout.Step{Name: "PromoteReflectors", Actions: []plan.Action{action}})
}
