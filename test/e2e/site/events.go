//go:build linux

package site

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is what a user reads with kubectl get events.
type Event struct {
	// Time is when it was told, the first time.
	Time         time.Time
	Reason, Note string
	// Action is the step of the manager, or what was done to the pool.
	Action string
	// About is the node or BGPPeer that it is about, besides the pool.
	About string
}

// Has tells whether the event is of this reason and its note holds all of parts.
func (e Event) Has(reason string, parts ...string) bool {
	return e.Reason == reason && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Note, part) })
}

// String is for failure messages.
func (e Event) String() string {
	return fmt.Sprintf("%s %s: %s", e.Time.Format("15:04:05.000"), e.Reason, e.Note)
}

// Events are those about the RouteReflectorPool that were told after since, in order.
func (s *Site) Events(ctx context.Context, since time.Time) ([]Event, error) {
	list, err := s.Lab.Kube().EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=RouteReflectorPool"})
	if err != nil {
		return nil, fmt.Errorf("listing the events: %w", err)
	}
	var events []Event
	for i := range list.Items {
		item := &list.Items[i]
		if !item.EventTime.After(since) {
			continue
		}
		e := Event{Time: item.EventTime.Time, Reason: item.Reason, Note: item.Note, Action: item.Action}
		if item.Related != nil {
			e.About = item.Related.Name
		}
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return events, nil
}
