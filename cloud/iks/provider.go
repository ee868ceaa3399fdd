package iks

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// Provider is a cloud.Provider for one cluster and one pool name.
type Provider struct {
	cfg     Config
	session *session
	// lock lets one call at a time look and then change.
	lock chan struct{}

	// The rest is a memory of answers, guarded by lock; all of it can be lost.
	// cluster was read at clusterRead, zero for never.
	cluster     containerv2.ClusterInfo
	clusterRead time.Time
	taints      taintMemory
	memory      poolplan.Memory
}

var _ cloud.Provider = (*Provider)(nil)

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "iks" }

// Format implements fmt.Formatter: no verb shows what is inside, which is secret.
func (p *Provider) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "iks(cluster %s, pool %s)", p.cfg.ClusterID, p.cfg.PoolName)
}

// Observe implements cloud.Provider. At rest it makes two reading requests.
func (p *Provider) Observe(ctx context.Context) (cloud.Pool, error) {
	if err := p.enter(ctx); err != nil {
		return cloud.Pool{}, err
	}
	defer p.leave()
	v, err := p.look(ctx)
	return v.state.Pool, err
}

// Ensure implements cloud.Provider.
func (p *Provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	ids := route{}.with("zone", want.Zones...)
	if want.Flavor != "" {
		ids = ids.with("flavor", want.Flavor)
	}
	if ids.err != nil {
		return cloud.Progress{}, cloud.InvalidSpec("%s", p.session.scrub(ids.err.Error()))
	}
	if err := poolplan.Validate(want); err != nil {
		return cloud.Progress{}, err
	}
	want.Flavor = plain(want.Flavor)
	return p.change(ctx, want, func(s poolplan.State) (poolplan.Step, error) { return poolplan.Next(s, want) })
}

// Delete implements cloud.Provider.
func (p *Provider) Delete(ctx context.Context) (cloud.Progress, error) {
	return p.change(ctx, cloud.PoolSpec{}, poolplan.NextDelete)
}

// change looks, and makes the one change that is next.
func (p *Provider) change(ctx context.Context, want cloud.PoolSpec, next func(poolplan.State) (poolplan.Step, error)) (cloud.Progress, error) {
	if err := p.enter(ctx); err != nil {
		return cloud.Progress{}, err
	}
	defer p.leave()
	v, err := p.look(ctx)
	if err != nil {
		return cloud.Progress{}, err
	}
	step, err := next(v.state)
	if err != nil {
		return cloud.Progress{}, err
	}
	waiting, err := p.confirm(ctx, v, step, want)
	if err != nil || waiting != "" {
		return cloud.Progress{WaitingFor: waiting}, err
	}
	if step.Kind == poolplan.None {
		return step.Progress, nil
	}
	return p.take(ctx, v, step, want)
}

// take makes the one change.
func (p *Provider) take(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (cloud.Progress, error) {
	err := p.apply(ctx, v, step, want)
	gone := cloud.Is(err, cloud.NotFound) &&
		slices.Contains([]poolplan.Kind{poolplan.Remove, poolplan.Replace, poolplan.RemoveZone, poolplan.DeletePool}, step.Kind)
	if err == nil || gone || cloud.Is(err, cloud.Unavailable) {
		// It may have been done although the answer was lost.
		p.memory.Note(step, p.cfg.Now())
	}
	switch {
	case err == nil:
		return cloud.Progress{Did: step.String()}, nil
	case gone:
		return cloud.Progress{WaitingFor: "the cloud to list what is gone no more"}, nil
	}
	return cloud.Progress{}, err
}

// apply carries a step out.
func (p *Provider) apply(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
	cluster, id := p.cfg.ClusterID, v.pool.id
	switch step.Kind {
	case poolplan.Create:
		return p.createPool(ctx, v, step, want)
	case poolplan.SetLabels:
		body := containerv2.SetWorkerPoolLabelsRequest{Cluster: cluster, WorkerPool: id, Labels: ownLabels(step.Labels, want.Labels)}
		return p.post(ctx, "setting the labels of", to("/v2/setWorkerPoolLabels"), body)
	case poolplan.SetTaints:
		return p.setTaints(ctx, id, step.Taints)
	case poolplan.AddZone:
		return v.addZone(ctx, id, step.Zone, v.others)
	case poolplan.RemoveZone:
		body := map[string]string{"cluster": cluster, "workerpool": id, "zone": step.Zone}
		return p.post(ctx, "removing zone "+step.Zone+" from", to("/v2/removeWorkerPoolZone").with("zone", step.Zone), body)
	case poolplan.Resize:
		body := containerv2.ResizeWorkerPoolReq{Cluster: cluster, Workerpool: id, Size: int64(step.Size)}
		return p.post(ctx, "resizing", to("/v2/resizeWorkerPool"), body)
	case poolplan.Remove:
		return v.remove(ctx, "removing worker "+step.Worker+" from", step.Worker)
	case poolplan.Replace:
		body := containerv2.ReplaceWorker{ClusterIDOrName: cluster, WorkerID: step.Worker, Update: true}
		return p.post(ctx, "replacing worker "+step.Worker+" of", to(v.traits().replacing).with("worker", step.Worker), body)
	case poolplan.DeletePool:
		// By the v1 path, as IBM's own tools do for both generations.
		return p.session.do(ctx, p.op("deleting"), http.MethodDelete, to("/v1/clusters/%s/workerpools/%s", cluster, id), nil, nil)
	case poolplan.None:
	}
	return nil
}

// createPool makes the pool. A name that is taken although the listing did not show
// it is most likely our own pool, whose creation was answered too late.
func (p *Provider) createPool(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
	err := v.create(ctx, cmp.Or(want.Flavor, v.traits().flavor), step, v.others)
	if !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), codeNameTaken) {
		return err
	}
	return &cloud.Error{
		Kind: cloud.Unavailable, Op: p.op("creating"), RetryAfter: rateLimitPause, Err: err,
		Message: "the name is taken, but the pool is not listed yet",
	}
}

func (p *Provider) setTaints(ctx context.Context, poolID string, taints []cloud.Taint) error {
	body := containerv2.WorkerPoolTaintRequest{Cluster: p.cfg.ClusterID, WorkerPool: poolID, Taints: map[string]string{}}
	for _, t := range taints {
		body.Taints[t.Key] = t.Value + ":" + t.Effect
	}
	// What was known of them is about to change.
	p.taints = taintMemory{pool: poolID, reports: p.taints.reports}
	err := p.post(ctx, "setting the taints of", to("/v2/setWorkerPoolTaints"), body)
	if err == nil {
		p.taints.set, p.taints.acknowledged = taints, p.cfg.Now()
	}
	return err
}

// enter takes the lock, or returns when ctx ends.
func (p *Provider) enter(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case p.lock <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return cloud.Interrupted(ctx, p.op("observing"))
}

func (p *Provider) leave() { <-p.lock }

// op names what is being done to the pool.
func (p *Provider) op(doing string) string {
	return fmt.Sprintf("%s worker pool %q", doing, p.cfg.PoolName)
}

func (p *Provider) get(ctx context.Context, doing string, at route, out any) error {
	return p.session.do(ctx, p.op(doing), http.MethodGet, at, nil, out)
}

// post changes something; the answer holds nothing that is needed.
func (p *Provider) post(ctx context.Context, doing string, at route, body any) error {
	return p.session.do(ctx, p.op(doing), http.MethodPost, at, body, nil)
}
