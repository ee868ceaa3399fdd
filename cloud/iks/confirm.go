package iks

import (
	"context"
	"maps"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// confirm looks once more, right before a step that a wrong look would make
// harmful. It says what to wait for, "" for nothing.
func (p *Provider) confirm(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) (string, error) {
	switch step.Kind {
	case poolplan.AddZone, poolplan.Replace:
		return p.confirmTaints(ctx, v.pool.id, want.Taints)
	case poolplan.Resize:
		if step.Size < v.pool.size {
			if err := p.confirmWorkers(ctx, g, v); err != nil {
				return "", err
			}
		}
		return p.confirmTaints(ctx, v.pool.id, want.Taints)
	case poolplan.RemoveZone:
		return "", p.confirmWorkers(ctx, g, v)
	case poolplan.None, poolplan.Create, poolplan.SetLabels, poolplan.SetTaints, poolplan.Remove, poolplan.DeletePool:
	}
	return "", nil
}

// confirmTaints: the step brings workers.
func (p *Provider) confirmTaints(ctx context.Context, poolID string, want []cloud.Taint) (string, error) {
	taints, err := p.readTaints(ctx, poolID)
	if err != nil {
		return "", err
	}
	p.taints[poolID] = confirmed{taints: taints, at: p.cfg.Now()}
	if !poolplan.Tainted(taints, want) {
		return "the cloud to confirm the pool's taints", nil
	}
	return "", nil
}

// confirmWorkers: the step would take workers away that were not listed. A list
// that is not of this pool alone cannot be empty unnoticed.
func (p *Provider) confirmWorkers(ctx context.Context, g generation, v view) error {
	again, err := g.workers(ctx, v.pool.id, true)
	if err != nil {
		return err
	}
	if !maps.Equal(places(v.state.Workers), places(again)) {
		return p.senseless("its lists of the pool's workers differ")
	}
	return nil
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
