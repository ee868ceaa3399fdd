package pool

import (
	"context"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// MeteredDatastore times every call to the datastore.
func MeteredDatastore(d Datastore, m *Metrics) Datastore {
	return meteredDatastore{Datastore: d, metrics: m}
}

type meteredDatastore struct {
	Datastore
	metrics *Metrics
}

// Observe implements Datastore.
func (d meteredDatastore) Observe(ctx context.Context, scope plan.Scope) (cluster plan.Cluster, err error) {
	defer func(began time.Time) { d.metrics.call("Observe", began, err) }(time.Now())
	return d.Datastore.Observe(ctx, scope)
}

// Apply implements Datastore.
func (d meteredDatastore) Apply(ctx context.Context, scope plan.Scope, action plan.Action) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("Apply", began, err) }(time.Now())
	return d.Datastore.Apply(ctx, scope, action)
}

// Watch implements Datastore.
func (d meteredDatastore) Watch(ctx context.Context, want []plan.Watch) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("Watch", began, err) }(time.Now())
	return d.Datastore.Watch(ctx, want)
}
