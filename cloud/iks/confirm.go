package iks

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// confirm looks once more, right before a step that a wrong look would make
// harmful. It says what to wait for, "" for nothing.
func (p *Provider) confirm(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) (string, error) {
	switch step.Kind {
	case poolplan.AddZone, poolplan.Replace:
		return p.confirmTaints(ctx, g, v.pool.id, want.Taints)
	case poolplan.Resize:
		if step.Size < v.pool.size {
			if err := p.confirmWorkers(ctx, g, v); err != nil {
				return "", err
			}
		}
		return p.confirmTaints(ctx, g, v.pool.id, want.Taints)
	case poolplan.RemoveZone:
		return "", p.confirmWorkers(ctx, g, v)
	case poolplan.None, poolplan.Create, poolplan.SetLabels, poolplan.SetTaints, poolplan.Remove, poolplan.DeletePool:
	}
	return "", nil
}

// confirmTaints: the step brings workers.
func (p *Provider) confirmTaints(ctx context.Context, g generation, poolID string, want []cloud.Taint) (string, error) {
	got, err := p.single(ctx, g, poolID)
	if err != nil {
		return "", err
	}
	p.taints.see(poolID, got.taints, p.cfg.Now())
	if taints, known := p.taints.of(poolID, p.cfg.Now()); !known || !poolplan.Tainted(taints, want) {
		return "the cloud to confirm the pool's taints", nil
	}
	return "", nil
}

// taintMemory is what the cloud has said about the taints of pools, by id.
type taintMemory map[string]taintsSaid

type taintsSaid struct {
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
func (m taintMemory) see(id string, taints []cloud.Taint, now time.Time) {
	said := m[id]
	said.shown, said.reports, said.seen = taints, said.reports || taints != nil, now
	m[id] = said
}

// acknowledge remembers the taints that were set.
func (m taintMemory) acknowledge(id string, taints []cloud.Taint, now time.Time) {
	said := m[id]
	said.set, said.acknowledged = taints, now
	m[id] = said
}

// forget makes the pool be asked for again: its taints are about to change.
func (m taintMemory) forget(id string) {
	m[id] = taintsSaid{reports: m[id].reports}
}

// stale: the pool has to be asked for, as what it showed is old, is not what a
// listing shows, or is not yet what was set.
func (m taintMemory) stale(id string, listed []cloud.Taint, now time.Time) bool {
	said := m[id]
	return now.Sub(said.seen) >= taintsLife || listed != nil && len(said.shown) > 0 ||
		now.Sub(said.acknowledged) < poolplan.SettlePause && !poolplan.Tainted(said.shown, said.set)
}

// of gives the taints of a pool. Of a cloud that does not report them, those count
// that it acknowledged a moment ago.
func (m taintMemory) of(id string, now time.Time) (taints []cloud.Taint, known bool) {
	said := m[id]
	switch {
	case said.reports:
		return said.shown, true
	case said.set != nil && now.Sub(said.acknowledged) < poolplan.SettlePause:
		return said.set, true
	}
	return nil, false
}

// confirmWorkers: the step would take workers away that were not listed. A list
// that is not of this pool alone cannot be empty unnoticed.
func (p *Provider) confirmWorkers(ctx context.Context, g generation, v view) error {
	again, err := p.workersOf(ctx, g, v.pool.id, true)
	if err != nil {
		return err
	}
	if !maps.Equal(places(v.state.Workers), places(again)) {
		return p.implausible("its lists of the pool's workers differ")
	}
	return nil
}

// confirmNone asks for the pool by its name: one that was created right before a
// crash may not be listed yet, and would stay, and cost, when its deletion were
// taken for done. Only a pool that shows delays that, as the code for none is not
// documented.
func (p *Provider) confirmNone(ctx context.Context, g generation) (cloud.Progress, error) {
	var got containerv2.GetWorkerPoolResponse
	at := to(g.singlePath()+"?cluster=%s&workerpool=%s", p.cfg.ClusterID, p.cfg.PoolName)
	err := p.v2(ctx, p.op("asking for"), http.MethodGet, at, nil, &got)
	switch {
	case cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.InvalidInput):
		return cloud.Progress{Done: true}, nil
	case err != nil:
		return cloud.Progress{}, err
	case got.PoolName == p.cfg.PoolName && got.ActualState != "deleted" && got.DesiredState != "deleted":
		return cloud.Progress{WaitingFor: "the cloud to list the pool, which still exists"}, nil
	}
	return cloud.Progress{Done: true}, nil
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
