package iks

import (
	"context"
	"maps"
	"net/http"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

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

// confirmNone asks for the pool by its name: one that was created right before a
// crash may not be listed yet, and would stay, and cost, when its deletion were
// taken for done. Only a pool that shows delays that, as the code for none is not
// documented.
func (p *Provider) confirmNone(ctx context.Context) (cloud.Progress, error) {
	path, err := address("/v2/getWorkerPool?cluster=%s&workerpool=%s", p.cfg.ClusterID, p.cfg.PoolName)
	if err != nil {
		return cloud.Progress{}, p.invalid(err)
	}
	var got containerv2.GetWorkerPoolResponse
	err = p.session.do(ctx, p.v2(p.op("asking for"), http.MethodGet, path, nil, &got))
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
