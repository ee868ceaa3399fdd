package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Trouble is a condition that is not as it should be.
type Trouble struct {
	// Conditions that say so, such as Degraded=True.
	Conditions []string `json:"conditions"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	// Docs is the page that says what it means and what to do.
	Docs  string `json:"docs"`
	Since string `json:"since"`

	since metav1.Time
}

// Passing says whether trouble may go by itself; everything else needs somebody.
func (t Trouble) Passing() bool {
	return slices.Contains([]string{
		"CloudRateLimited", "CloudUnavailable", "StepFailed", "ObservationFailed", "SessionTimeout", "WorkersLate", "DrainBlocked",
	}, t.Reason)
}

// Troubles are the bad conditions of an object, those of one cause together.
func Troubles(object *v1alpha1.RouteReflectorPool) []Trouble {
	out := []Trouble{}
	conditions := slices.Clone(object.Status.Conditions)
	// Degraded says best what is wrong; other conditions repeat its reason.
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int { return rank(a) - rank(b) })
	for _, c := range conditions {
		same := slices.IndexFunc(out, func(t Trouble) bool { return t.Reason == c.Reason })
		switch {
		case same >= 0 && c.Status != metav1.ConditionTrue:
			out[same].Conditions = append(out[same].Conditions, says(c))
		case bad(object, c):
			out = append(out, Trouble{
				Conditions: []string{says(c)}, Reason: c.Reason, Message: message(c), Docs: plan.Docs + plan.Page(c.Reason),
				Since: stamp(c.LastTransitionTime.Time), since: c.LastTransitionTime,
			})
		}
	}
	return out
}

func says(c metav1.Condition) string { return c.Type + "=" + string(c.Status) }

func rank(c metav1.Condition) int {
	if c.Type == v1alpha1.ConditionDegraded {
		return 0
	}
	return 1
}

// message is what a condition says, without the address of its page, which is shown elsewhere.
func message(c metav1.Condition) string { return plan.Unlinked(c.Message, c.Reason) }

// Page is where to read on. A link that is broken in two leads nowhere: where the terminal
// is too narrow for all of it, only the path in the repository is given.
func (t Trouble) Page(width int) string {
	if width > 0 && len(t.Docs) > width {
		return "docs/" + strings.TrimPrefix(t.Docs, plan.Docs)
	}
	return t.Docs
}

// bad tells a condition that needs a look from one that is as expected on the way.
func bad(object *v1alpha1.RouteReflectorPool, c metav1.Condition) bool {
	reflecting := object.Spec.Mode != v1alpha1.ModeFullMesh && object.DeletionTimestamp == nil
	switch c.Type {
	case v1alpha1.ConditionDegraded:
		return c.Status != metav1.ConditionFalse
	case v1alpha1.ConditionProviderReady:
		usual := []string{"NotObserved", "PoolMissing", "WorkersPending", "PoolReady"}
		return reflecting && !slices.Contains(usual, c.Reason)
	case v1alpha1.ConditionReflectorsEstablished:
		// On the way sessions are missing; at rest they should not.
		resting := object.Status.Step.Name == rollout.Steady
		return c.Reason == "ObservationFailed" || resting && reflecting && c.Reason == "SessionsMissing"
	case v1alpha1.ConditionReady, v1alpha1.ConditionMeshDisabled, v1alpha1.ConditionProgressing:
		return c.Status == metav1.ConditionUnknown
	}
	return false
}
