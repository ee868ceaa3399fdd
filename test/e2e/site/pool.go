//go:build linux

package site

import (
	"context"
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// The two parts of a reflector's role, with the API's default label.
const (
	roleLabel           = "rrpool.io/route-reflector"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
)

// CreatePool creates the RouteReflectorPool, of existing nodes where there is no cloud; edit may change it first.
func (s *Site) CreatePool(ctx context.Context, edit func(*v1alpha1.RouteReflectorPool)) error {
	o := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	if s.Cloud == nil {
		o.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
	}
	if edit != nil {
		edit(o)
	}
	if err := s.Client.Create(ctx, o); err != nil {
		return fmt.Errorf("creating the RouteReflectorPool: %w", err)
	}
	return nil
}

// Pool reads the RouteReflectorPool.
func (s *Site) Pool(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	o := &v1alpha1.RouteReflectorPool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, o); err != nil {
		return nil, fmt.Errorf("reading the RouteReflectorPool: %w", err)
	}
	return o, nil
}

// Reflectors are the nodes of the dedicated pool's workers. Where there is no cloud see CurrentReflectors.
func (s *Site) Reflectors() []string {
	var names []string
	for _, w := range s.Cloud.Workers(ClusterID, PoolName) {
		names = append(names, w.IP)
	}
	return names
}

// CurrentReflectors are the nodes that have both parts of the role now, label and cluster ID, sorted by name.
func (s *Site) CurrentReflectors(ctx context.Context) ([]string, error) {
	nodes, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: roleLabel})
	if err != nil {
		return nil, fmt.Errorf("listing the reflectors: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[clusterIDAnnotation] != "" {
			names = append(names, nodes.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Edit changes the RouteReflectorPool's spec as a user's patch does.
func (s *Site) Edit(ctx context.Context, edit func(*v1alpha1.RouteReflectorPoolSpec)) error {
	o, err := s.Pool(ctx)
	if err != nil {
		return err
	}
	before := o.DeepCopy()
	edit(&o.Spec)
	if err := s.Client.Patch(ctx, o, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the RouteReflectorPool: %w", err)
	}
	return nil
}

// SetMode changes spec.mode.
func (s *Site) SetMode(ctx context.Context, mode v1alpha1.Mode) error {
	return s.Edit(ctx, func(spec *v1alpha1.RouteReflectorPoolSpec) { spec.Mode = mode })
}

// WaitFor waits until the RouteReflectorPool is as asked. On time-out it says what was the case last.
func (s *Site) WaitFor(ctx context.Context, what string, is func(*v1alpha1.RouteReflectorPool) bool) error {
	var last *v1alpha1.RouteReflectorPool
	for {
		o, err := s.Pool(ctx)
		if err == nil {
			if last = o; is(o) {
				return nil
			}
		}
		if s.ManagerEnded() {
			return fmt.Errorf("waiting for %s: the manager ended: see its log", what)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last: %s", what, ctx.Err(), Describe(last))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// WaitReady waits until the manager has seen the newest spec and reports Ready.
func (s *Site) WaitReady(ctx context.Context) error {
	return s.WaitFor(ctx, "Ready", func(o *v1alpha1.RouteReflectorPool) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.Generation &&
			o.Status.ObservedGeneration == o.Generation
	})
}

// Describe puts a RouteReflectorPool's state into a line.
func Describe(o *v1alpha1.RouteReflectorPool) string {
	if o == nil {
		return "no RouteReflectorPool"
	}
	out := fmt.Sprintf("step %s (%s), waiting for %q", o.Status.Step.Name, o.Status.Step.Reason, o.Status.Step.WaitingFor)
	for _, c := range o.Status.Conditions {
		out += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return out
}

// Events are those about the RouteReflectorPool after since, in order.
func (s *Site) Events(ctx context.Context, since time.Time) ([]eventsv1.Event, error) {
	list, err := s.Lab.Kube().EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=RouteReflectorPool"})
	if err != nil {
		return nil, fmt.Errorf("listing the events: %w", err)
	}
	events := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return !e.EventTime.After(since) })
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return events, nil
}
