package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// events are what may happen; a name that is listed twice is twice as likely.
type events struct {
	happen map[string]func(*world, int)
	names  []string
}

func eventsOf(these map[string]func(*world, int)) events {
	e := events{happen: maps.Clone(these), names: slices.Sorted(maps.Keys(these))}
	maps.Copy(e.happen, faults)
	return e
}

// dedicatedEvents leaves out the faults that only nodes with pods have.
func dedicatedEvents() events {
	e := eventsOf(disturbances)
	e.names = slices.Concat(e.names, e.names, []string{
		"bird of a reflector dies", "bird of a client dies", "birds return", "min serving", "manager sleeps", "problem", "no problem",
	})
	return e
}

// busyEvents are all there are. Where nobody asks for reports, nobody can see that a BIRD is dead.
func inPlaceEvents(reports bool) events {
	e := eventsOf(inPlaceDisturbances)
	e.names = slices.Concat(e.names, slices.Sorted(maps.Keys(faults)), []string{
		"mesh switched on", "reflector dies", "back to the mesh", "onto reflectors", "crash in a step",
		"no problem", "no pdb", "pods known", "birds return",
	})
	e.names = slices.DeleteFunc(e.names, func(name string) bool { return !reports && strings.HasPrefix(name, "bird of") })
	return e
}

// suffer lets some events happen, one after the other, and time pass after each.
func (w *world) suffer(t *rapid.T, e events, pass func(seconds int) string) {
	t.Helper()
	for range rapid.IntRange(1, 8).Draw(t, "events") {
		i := rapid.IntRange(0, 7).Draw(t, "i")
		name := rapid.SampledFrom(e.names).Draw(t, "event")
		w.narrative = append(w.narrative, fmt.Sprintf("%s ##### %s %d", w.now.Format("04:05"), name, i))
		e.happen[name](w, i)
		w.hold(t, pass(rapid.IntRange(0, 300).Draw(t, "pause")))
	}
}
