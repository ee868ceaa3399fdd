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
	"golang.org/x/sync/semaphore"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Provider is a cloud.Provider for one cluster and one pool name.
type Provider struct {
	cfg     Config
	session *session
	// names are those of the pool and of the one that takes over when flavor or options change.
	names [2]string
	// lock is held while a call looks and changes.
	lock *semaphore.Weighted

	// The rest is what was answered, guarded by lock; all of it can be lost.
	// cluster was read at clusterRead, zero for never.
	cluster     description
	clusterRead time.Time
	// leftSince is since when workers of a deleted pool have been waited for.
	leftSince time.Time
	taints    taintMemory
	// memory has what was asked for, by pool as in names.
	memory [2]poolplan.Memory
	// missed has the steps for which the cloud did not find what they remove.
	missed map[string]bool
	// known are the pools that were seen as ours, by ID.
	known map[string]*knownPool
	// ledger has what was asked for lately. recorded is the text that it was last written as, or read from; kept says that the object has it.
	ledger   poolplan.Ledger
	recorded string
	kept     bool
}

var _ cloud.Provider = (*Provider)(nil)

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "iks" }

// Format implements fmt.Formatter, so that no verb shows the credentials.
func (p *Provider) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "iks(cluster %s, pool %s)", p.cfg.ClusterID, p.cfg.PoolName)
}

// Observe implements cloud.Provider. At rest it makes two reading requests.
func (p *Provider) Observe(ctx context.Context, want cloud.PoolSpec) (cloud.Pool, error) {
	if p.lock.Acquire(ctx, 1) != nil {
		return cloud.Pool{}, cloud.Interrupted(ctx, p.op("observing"))
	}
	defer p.lock.Release(1)
	want.Flavor = plainFlavor(want.Flavor)
	v, err := p.look(ctx, want)
	pool := v.pair.Pool(want)
	pool.Gone = p.departed(want.Known)
	if err == nil && want.Once && !pool.Exists && want.SizePerZone > 0 {
		pool.Flavor, err = p.flavorToBe(ctx, v, want)
	}
	return pool, err
}

// Ensure implements cloud.Provider.
func (p *Provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := poolplan.Validate(want); err != nil {
		return cloud.Progress{}, err
	}
	want.Flavor = plainFlavor(want.Flavor)
	return p.change(ctx, want, func(s poolplan.Pair) (poolplan.Step, error) { return s.Next(want) })
}

// Delete implements cloud.Provider.
func (p *Provider) Delete(ctx context.Context) (cloud.Progress, error) {
	return p.change(ctx, cloud.PoolSpec{}, poolplan.Pair.NextDelete)
}

// change looks, and makes the one change that is next.
func (p *Provider) change(ctx context.Context, want cloud.PoolSpec, next func(poolplan.Pair) (poolplan.Step, error)) (cloud.Progress, error) {
	if p.lock.Acquire(ctx, 1) != nil {
		return cloud.Progress{}, cloud.Interrupted(ctx, p.op("observing"))
	}
	defer p.lock.Release(1)
	want.Once = false
	v, err := p.look(ctx, want)
	if err != nil {
		return cloud.Progress{}, err
	}
	step, err := next(v.pair)
	if err == nil {
		err = step.Refusal
	}
	if err != nil {
		return cloud.Progress{}, err
	}
	v.choose(step.Pool)
	unchecked, waiting, err := p.verify(ctx, &v, step, want)
	if err != nil || waiting != "" {
		return cloud.Progress{WaitingFor: waiting}, err
	}
	if step.Kind == poolplan.None {
		return step.Progress, nil
	}
	if err := p.record(ctx, v, step, want); err != nil {
		return cloud.Progress{}, err
	}
	progress, err := p.take(ctx, v, step, want)
	if progress.Did != "" {
		progress.Did += unchecked
		if step.Pool != p.cfg.PoolName {
			progress.Did += fmt.Sprintf(" (pool %s)", step.Pool)
		}
	}
	return progress, err
}

// verify makes sure, right before the step, that the cloud has what it orders, and that the look was right. waiting says what to wait for.
func (p *Provider) verify(ctx context.Context, v *view, step poolplan.Step, want cloud.PoolSpec) (unchecked, waiting string, err error) {
	if v.flavor, unchecked, err = p.checkOrder(ctx, *v, step, want); err == nil {
		waiting, err = p.confirm(ctx, *v, step, want)
	}
	if err == nil && waiting == "" {
		err = p.confirmCluster(ctx, *v, step)
	}
	return unchecked, waiting, err
}

// take makes the one change.
func (p *Provider) take(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (cloud.Progress, error) {
	full, err := p.checkGrowth(ctx, v, step)
	if err == nil {
		err = p.apply(ctx, v, step, want)
	}
	p.noteAnswer(step, err)
	memory := &p.memory[slices.Index(p.names[:], step.Pool)]
	if err != nil {
		return p.notTaken(memory, step, err)
	}
	memory.Note(step, p.cfg.Now())
	delete(p.missed, step.Pool+step.String())
	if step.Kind == poolplan.DeletePool {
		p.know(v.pool.id).leaving = true
	}
	return cloud.Progress{Did: step.String() + full}, nil
}

// notTaken remembers why the step has failed, and gives what to wait for, or the error.
func (p *Provider) notTaken(memory *poolplan.Memory, step poolplan.Step, err error) (cloud.Progress, error) {
	switch cloud.KindOf(err) {
	case cloud.NotFound:
		if foundNothing(step, err) {
			memory.Note(step, p.cfg.Now())
			return p.alreadyGone(step, err)
		}
	case cloud.Unavailable:
		if refused := memory.Lost(step, err, p.cfg.Now()); step.Kind == poolplan.Create && !refused {
			// A creation takes longer than some gateways wait. The next look shows what came of it.
			return cloud.Progress{WaitingFor: fmt.Sprintf("the cloud to list the pool, as it is not known to have been made (%v)", err)}, nil
		}
	case cloud.QuotaExceeded, cloud.InvalidInput, cloud.Conflict:
		if step.Kind == poolplan.AddZone && hasZone(err) { // an earlier answer was lost
			memory.Note(step, p.cfg.Now())
			return cloud.Progress{WaitingFor: fmt.Sprintf("the cloud to list zone %s, which it says is in the pool", step.Zone)}, nil
		}
		memory.Refused(step, err, p.cfg.Now())
	case cloud.Unsupported, cloud.Unauthorized, cloud.RateLimited, cloud.Unexpected:
	}
	return cloud.Progress{}, err
}

// foundNothing reports whether err says that what step removes does not exist.
func foundNothing(step poolplan.Step, err error) bool {
	switch step.Kind {
	case poolplan.Remove, poolplan.Replace:
		return isAbsent(err, ofWorker)
	case poolplan.RemoveZone, poolplan.DeletePool:
		return isAbsent(err, ofPool)
	case poolplan.None, poolplan.Create, poolplan.SetTaints, poolplan.AddZone, poolplan.Resize:
	}
	return false
}

// alreadyGone is the progress where the cloud did not find what step removes. It may be listed a while longer; when it still is at
// the next try, it is not gone.
func (p *Provider) alreadyGone(step poolplan.Step, err error) (cloud.Progress, error) {
	if subject := step.Pool + step.String(); !p.missed[subject] {
		p.missed[subject] = true
		return cloud.Progress{WaitingFor: "the cloud to list what is gone no more"}, nil
	}
	return cloud.Progress{}, &cloud.Error{
		Kind: cloud.NotFound, Op: p.op("changing"), Err: err,
		Message: err.Error() + "; but it is still listed minutes after the same answer, so the API may not know the request: do it by hand (ibmcloud ks worker, worker-pool or zone)",
	}
}

// apply makes the request of a step.
func (p *Provider) apply(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
	cluster, id := p.cfg.ClusterID, v.pool.id
	switch step.Kind {
	case poolplan.Create:
		return p.createPool(ctx, v, step, want)
	case poolplan.SetTaints:
		return p.setTaints(ctx, id, step.Taints)
	case poolplan.AddZone:
		return v.addZone(ctx, id, step.Zone, want.Options.Networks[step.Zone], cmp.Or(v.state.SizePerZone, want.SizePerZone), v.others)
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

// createPool makes the pool. Where the name is taken and not listed, it is most likely our own pool, whose creation was not answered.
func (p *Provider) createPool(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
	// Kubelets refuse some labels with keys of Kubernetes itself.
	labels := map[string]string{v1alpha1.PoolLabel: p.cfg.PoolName, v1alpha1.OptionsLabel: poolplan.Fingerprint(want)}
	want.Flavor, want.SizePerZone = v.flavor, step.Size
	err := v.create(ctx, step.Pool, labels, want, v.others)
	if !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), codeNameTaken) {
		return err
	}
	return &cloud.Error{Kind: cloud.Unavailable, Op: p.op("creating"), Err: err, Message: "the name is taken, but the pool is not listed yet"}
}

func (p *Provider) setTaints(ctx context.Context, poolID string, taints []cloud.Taint) error {
	body := containerv2.WorkerPoolTaintRequest{Cluster: p.cfg.ClusterID, WorkerPool: poolID, Taints: map[string]string{}}
	for _, t := range taints {
		body.Taints[t.Key] = t.Value + ":" + t.Effect
	}
	p.taints = taintMemory{pool: poolID, reports: p.taints.reports}
	err := p.post(ctx, "setting the taints of", to("/v2/setWorkerPoolTaints"), body)
	if err == nil {
		p.taints.set, p.taints.acknowledged = taints, p.cfg.Now()
	}
	return err
}

// op names what is being done to the pool.
func (p *Provider) op(doing string) string {
	return fmt.Sprintf("%s worker pool %q", doing, p.cfg.PoolName)
}

func (p *Provider) get(ctx context.Context, doing string, at route, out any) error {
	return p.session.do(ctx, p.op(doing), http.MethodGet, at, nil, out)
}

// post makes a change; nothing of the answer is needed.
func (p *Provider) post(ctx context.Context, doing string, at route, body any) error {
	return p.session.do(ctx, p.op(doing), http.MethodPost, at, body, nil)
}
