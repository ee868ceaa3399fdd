package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// progress is how far the manager is, in numbers, and what it waits for.
func progress(object *v1alpha1.RouteReflectorPool) (numbers, waits string) {
	counts, _ := status.CountsOf(object.Status)
	what := fmt.Sprintf("reflectors left %d", counts.Reflectors)
	if object.Spec.Mode == v1alpha1.ModeRouteReflector {
		name := "workers"
		if object.Status.Provider == "existing" {
			name = "nodes"
		}
		what = fmt.Sprintf("%s %d/%d", name, counts.PoolReady, counts.PoolWanted)
		if object.Spec.Rollout.Gate != v1alpha1.GateTimer {
			what += fmt.Sprintf(", sessions %d/%d", counts.SessionsEstablished, counts.SessionsExpected)
		}
	}
	mesh := "on"
	if meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionMeshDisabled) {
		mesh = "off"
	}
	if all := object.Status.Step.WaitingFor; len(all) == 1 {
		waits = "; waits for " + all[0]
	} else if len(all) > 1 {
		waits = fmt.Sprintf("; waits for %s and %d more", all[0], len(all)-1)
	}
	return fmt.Sprintf("%s: %s, mesh %s", object.Status.Step.Name, what, mesh), waits
}

// update shows the progress when its numbers have changed.
func (m *migration) update(numbers, waits string) {
	if numbers != m.shown {
		m.shown = numbers
		m.say(numbers + waits)
	}
}

// say writes a line with the time.
func (m *migration) say(line string) {
	_, _ = fmt.Fprintf(m.Err, "%s %s\n", m.Now().UTC().Format("15:04:05Z"), line)
}
