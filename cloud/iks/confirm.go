package iks

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// confirm looks once more, right before a step that a wrong look would make
// harmful. It says what to wait for, "" for nothing.
func (p *Provider) confirm(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (string, error) {
	if mayTakeUnseen(v, step, want) {
		if err := p.confirmWorkers(ctx, v); err != nil {
			return "", err
		}
	}
	switch step.Kind {
	case poolplan.AddZone, poolplan.Replace, poolplan.Resize:
		return p.confirmTaints(ctx, v, want.Taints)
	case poolplan.Create: // a listing without a pool that exists would have a second one ordered
		return p.confirmNone(ctx, v)
	case poolplan.None:
		if step.Progress.Done && !v.state.Exists {
			return p.confirmNone(ctx, v)
		}
	case poolplan.SetTaints, poolplan.Remove, poolplan.RemoveZone, poolplan.DeletePool:
	}
	return "", nil
}

// mayTakeUnseen: the step would take workers away that were not listed. A pool that is still wanted is deleted because
// it has no workers, not to be rid of them.
func mayTakeUnseen(v view, step poolplan.Step, want cloud.PoolSpec) bool {
	return step.Kind == poolplan.RemoveZone ||
		step.Kind == poolplan.Resize && step.Size < v.state.SizePerZone ||
		step.Kind == poolplan.DeletePool && want.SizePerZone > 0
}

// confirmTaints: the step brings workers.
func (p *Provider) confirmTaints(ctx context.Context, v view, want []cloud.Taint) (string, error) {
	taints, _, err := p.poolTaints(ctx, v, true)
	if err == nil && !poolplan.Tainted(taints, want) {
		return "the cloud to confirm the pool's taints", nil
	}
	return "", err
}

// confirmWorkers: the step would take workers away that were not listed. A list
// that is not of this pool alone cannot be empty unnoticed.
func (p *Provider) confirmWorkers(ctx context.Context, v view) error {
	again, err := p.workersOf(ctx, v, v.pool, true)
	if err == nil && !maps.Equal(places(v.state.Workers), places(again)) {
		return p.implausible("its lists of the pool's workers differ")
	}
	return err
}

// places gives the zones of the workers that are not going away.
func places(workers []cloud.Worker) map[string]string {
	out := map[string]string{}
	for _, w := range workers {
		if w.State != cloud.WorkerDeleting {
			out[w.ID] = w.Zone
		}
	}
	return out
}

// confirmNone asks for the pools by their names: one that was created right before a crash may not be listed yet, and
// would stay, and cost, when its deletion were taken for done, or get a second one beside it. Only a pool that shows delays that, as the code for
// none is not documented.
func (p *Provider) confirmNone(ctx context.Context, v view) (string, error) {
	for i, name := range p.names {
		if v.named[i].id != "" {
			continue // listed
		}
		var got containerv2.GetWorkerPoolResponse
		err := p.get(ctx, "asking for", to(v.traits().pool+"?cluster=%s&workerpool=%s", p.cfg.ClusterID, name), &got)
		switch {
		case cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.InvalidInput):
		case err != nil:
			return "", err
		case got.PoolName == name && got.ActualState != "deleted" && got.DesiredState != "deleted":
			return fmt.Sprintf("the cloud to list pool %s, which still exists", name), nil
		}
	}
	return "", nil
}

// taintMemory is what the cloud has said about the taints of a pool.
type taintMemory struct {
	// pool is its id.
	pool string
	// shown are the taints that the cloud last reported at seen. Once it has
	// reported some (reports), an answer without any means that there are none.
	shown   []cloud.Taint
	reports bool
	seen    time.Time
	// set are the taints that the cloud acknowledged at acknowledged.
	set          []cloud.Taint
	acknowledged time.Time
}

// see takes in what an answer holds; nil is an answer without taints.
func (m *taintMemory) see(taints []cloud.Taint, now time.Time) {
	m.shown, m.reports, m.seen = taints, m.reports || taints != nil, now
}

// taintsKept is how long the taints count that a pool itself has shown, at rest.
const taintsKept = 10 * time.Minute

// poolTaints gives the taints of our pool, if they are known. It takes those of the listing when it has some. The
// pool itself is asked when again is true, when what it showed is old, is not what the listing shows, or is not yet
// what was set. Of a cloud that does not report taints, those count that it acknowledged a moment ago.
func (p *Provider) poolTaints(ctx context.Context, v view, again bool) (taints []cloud.Taint, known bool, err error) {
	m, listed, now := &p.taints, v.pool.taints, p.cfg.Now()
	if m.pool != v.pool.id {
		*m = taintMemory{pool: v.pool.id}
	}
	if v.pool.single {
		m.see(listed, now)
	}
	switch {
	case !again && len(listed) > 0:
		m.see(listed, now)
	case again, now.Sub(m.seen) >= taintsKept, listed != nil && len(m.shown) > 0, m.justSet(now) && !poolplan.Tainted(m.shown, m.set):
		got, err := p.single(ctx, v, v.pool.id)
		if err != nil {
			return nil, false, err
		}
		m.see(got.completed(v.pool).taints, p.cfg.Now())
	}
	taints, known = m.known(now)
	return taints, known, nil
}

// justSet: the cloud acknowledged taints a moment ago.
func (m *taintMemory) justSet(now time.Time) bool {
	return now.Sub(m.acknowledged) < poolplan.SettlePause
}

func (m *taintMemory) known(now time.Time) ([]cloud.Taint, bool) {
	switch {
	case m.reports:
		return m.shown, true
	case m.set != nil && m.justSet(now):
		return m.set, true
	}
	return nil, false
}
