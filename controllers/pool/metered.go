package pool

import (
	"context"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
)

// meteredProvider times every call to a provider.
type meteredProvider struct {
	cloud.Provider
	metrics *Metrics
}

func metered(p cloud.Provider, m *Metrics) cloud.Provider {
	return meteredProvider{Provider: p, metrics: m}
}

// Observe implements cloud.Provider.
func (p meteredProvider) Observe(ctx context.Context) (pool cloud.Pool, err error) {
	defer func(began time.Time) { p.metrics.call(p.Name(), "Observe", began, err) }(time.Now())
	return p.Provider.Observe(ctx)
}

// Ensure implements cloud.Provider.
func (p meteredProvider) Ensure(ctx context.Context, want cloud.PoolSpec) (progress cloud.Progress, err error) {
	defer func(began time.Time) { p.metrics.call(p.Name(), "Ensure", began, err) }(time.Now())
	return p.Provider.Ensure(ctx, want)
}

// Delete implements cloud.Provider.
func (p meteredProvider) Delete(ctx context.Context) (progress cloud.Progress, err error) {
	defer func(began time.Time) { p.metrics.call(p.Name(), "Delete", began, err) }(time.Now())
	return p.Provider.Delete(ctx)
}

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
	defer func(began time.Time) { d.metrics.call("datastore", "Observe", began, err) }(time.Now())
	return d.Datastore.Observe(ctx, scope)
}

// Apply implements Datastore.
func (d meteredDatastore) Apply(ctx context.Context, scope plan.Scope, action plan.Action) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("datastore", "Apply", began, err) }(time.Now())
	return d.Datastore.Apply(ctx, scope, action)
}

// Watch implements Datastore.
func (d meteredDatastore) Watch(ctx context.Context, want []plan.Watch) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("datastore", "Watch", began, err) }(time.Now())
	return d.Datastore.Watch(ctx, want)
}
