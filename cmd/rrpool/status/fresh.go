package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// patience is how long a manager that acts may take to take note of a change before that
// is worth an alarm.
const patience = 15 * time.Second

// fresh says whether the manager has not taken note of the object because it was changed
// just now: somebody holds the lease, and the change is only seconds old by this
// computer's clock as well as by that of the manager, whichever is ahead.
func fresh(f Facts) bool {
	if Noted(f.Object) || f.Manager.Pulse != Running || f.Manager.renewed.IsZero() {
		return false
	}
	changed := changedAt(f.Object)
	return f.Now.Sub(changed) < patience && f.Manager.renewed.Sub(changed) < patience
}

// changedAt is when somebody changed what the manager has to take note of, by the
// apiserver's clock, in whole seconds. Without managed fields it may be earlier.
func changedAt(object *v1alpha1.RouteReflectorPool) time.Time {
	out := object.CreationTimestamp.Time
	if gone := object.DeletionTimestamp; gone != nil && gone.After(out) {
		out = gone.Time
	}
	for _, entry := range object.ManagedFields {
		ours := entry.Subresource == "" && entry.Time != nil && entry.FieldsV1 != nil
		if ours && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) && entry.Time.After(out) {
			out = entry.Time.Time
		}
	}
	return out
}

// freshness says what a manager is about to take note of.
func freshness(object *v1alpha1.RouteReflectorPool) string {
	at := changedAt(object).UTC().Format("15:04:05Z")
	if object.Status.ObservedGeneration == 0 {
		return fmt.Sprintf("the manager has not yet taken note of the RouteReflectorPool, which was made at %s", at)
	}
	return fmt.Sprintf("the manager has not yet taken note of the change that was made at %s (generation %d, it has seen %d); what follows is from before",
		at, object.Generation, object.Status.ObservedGeneration)
}
