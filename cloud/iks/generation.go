package iks

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	bluemix "github.com/IBM-Cloud/bluemix-go"
	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// generation is what differs between VPC and classic clusters.
type generation interface {
	// pools lists every pool of the cluster.
	pools(ctx context.Context) ([]pool, error)
	// workersPath is where the cluster's workers are listed, and workers reads such a list.
	workersPath() string
	workers(ctx context.Context, at route) ([]worker, error)
	// create makes a pool without zones.
	create(ctx context.Context, name, flavor string, size int, labels map[string]string, others []pool) error
	addZone(ctx context.Context, poolID, zone string, others []pool) error
	setLabels(ctx context.Context, poolID string, labels map[string]string) error
	resize(ctx context.Context, poolID string, size int) error
	remove(ctx context.Context, workerID string) error
	replace(ctx context.Context, workerID string) error
	// singlePath is where one pool is read.
	singlePath() string
	// substitutes: a replaced worker's substitute comes by itself.
	substitutes() bool
	defaultFlavor() string
}

// pool is a worker pool of either generation.
type pool struct {
	id, name, flavor string
	size             int
	// sized: the answer holds a size. A pool must not be resized on half an answer.
	sized  bool
	labels map[string]string
	// taints of the pool, nil when the answer holds none: that is not "no taints".
	taints     []cloud.Taint
	autoscaled bool
	deleting   bool
	vpc        string
	// zones is nil when the answer holds none.
	zones map[string]network
}

// network is where a pool's workers of a zone are attached.
type network struct{ subnet, privateVLAN, publicVLAN string }

func (p pool) owned() bool { return p.labels[ManagedByLabel] == ManagedBy }

// neighbour gives the network that other pools use in zone, the first pool by
// name counting.
func neighbour(others []pool, zone string) (network, bool) {
	for _, o := range others {
		if n, ok := o.zones[zone]; ok && n != (network{}) {
			return n, true
		}
	}
	return network{}, false
}

// Both generations share these calls of the v2 API.

func (p *Provider) v2(ctx context.Context, op, method string, at route, body, out any) error {
	target := containerv2.ClusterTargetHeader{ResourceGroup: p.resourceGroup()}
	return p.session.do(ctx, call{
		op: op, method: method, route: at, body: body, out: out, service: bluemix.VpcContainerService, target: grouped(target.ToMap()),
	})
}

// post changes something and expects no answer.
func (p *Provider) post(ctx context.Context, op string, at route, body any) error {
	return p.v2(ctx, op, http.MethodPost, at, body, nil)
}

// resourceGroup is the cluster's own as soon as that is known, before that the configured one.
func (p *Provider) resourceGroup() string {
	if p.facts != nil && p.facts.group != "" {
		return p.facts.group
	}
	return p.cfg.ResourceGroup
}

// grouped leaves out a resource group that is not known: an empty header would
// mean the account's default group.
func grouped(target map[string]string) map[string]string {
	const header = "X-Auth-Resource-Group"
	if target[header] == "" {
		delete(target, header)
	}
	return target
}

func (p *Provider) setTaints(ctx context.Context, poolID string, taints []cloud.Taint) error {
	body := containerv2.WorkerPoolTaintRequest{Cluster: p.cfg.ClusterID, WorkerPool: poolID, Taints: map[string]string{}}
	for _, t := range taints {
		body.Taints[t.Key] = t.Value + ":" + t.Effect
	}
	p.taints.forget(poolID)
	err := p.post(ctx, p.op("setting the taints of"), to("/v2/setWorkerPoolTaints"), body)
	if err == nil {
		p.taints.acknowledge(poolID, taints, p.cfg.Now())
	}
	return err
}

// v2Pool is a pool in an answer of the v2 API. It distinguishes a size that is
// missing from one that is 0.
type v2Pool struct {
	containerv2.GetWorkerPoolResponse
	WorkerCount *int `json:"workerCount"`
}

func (p *Provider) fromV2(l v2Pool) (pool, error) {
	out := pool{
		id: l.ID, name: l.PoolName, flavor: plain(l.Flavor), labels: l.Labels, taints: parseTaints(l.Taints),
		autoscaled: l.AutoscaleEnabled, vpc: l.VpcID, deleting: l.ActualState == "deleting" || l.DesiredState == "deleted",
	}
	if l.ID == "" || l.PoolName == "" {
		return out, p.implausible("a worker pool has no id or name")
	}
	if out.sized = l.WorkerCount != nil; out.sized {
		out.size = *l.WorkerCount
	}
	for _, z := range l.Zones {
		if err := out.addZone(z.ID, network{subnet: primarySubnet(z.Subnets)}); err != nil {
			return out, p.implausible("%v", err)
		}
	}
	if l.Zones != nil && out.zones == nil {
		out.zones = map[string]network{}
	}
	return out, nil
}

func (p *pool) addZone(id string, n network) error {
	if id == "" {
		return fmt.Errorf("a zone of worker pool %q has no id", p.name)
	}
	if p.zones == nil {
		p.zones = map[string]network{}
	}
	p.zones[id] = n
	return nil
}

// single asks for one pool: listings hold only a subset of what it says. It makes
// sure that the answer is about the pool that was meant.
func (p *Provider) single(ctx context.Context, g generation, poolID string) (pool, error) {
	var got v2Pool
	at := to(g.singlePath()+"?cluster=%s&workerpool=%s", p.cfg.ClusterID, poolID)
	if err := p.v2(ctx, p.op("reading"), http.MethodGet, at, nil, &got); err != nil {
		return pool{}, err
	}
	if got.ID != poolID {
		return pool{}, p.implausible("asked for pool %q, it answers for %q", poolID, got.ID)
	}
	return p.fromV2(got)
}

func (p *Provider) removeZone(ctx context.Context, poolID, zone string) error {
	body := map[string]string{"cluster": p.cfg.ClusterID, "workerpool": poolID, "zone": zone}
	return p.post(ctx, p.op("removing zone "+zone+" from"), to("/v2/removeWorkerPoolZone").with("zone", zone), body)
}

// deletePool uses the v1 path, as IBM's own tools do for both generations.
func (p *Provider) deletePool(ctx context.Context, poolID string) error {
	return p.v2(ctx, p.op("deleting"), http.MethodDelete, to("/v1/clusters/%s/workerpools/%s", p.cfg.ClusterID, poolID), nil, nil)
}

// worker is a worker in a list of either generation.
type worker struct {
	cloud.Worker
	poolID, poolName string
	deleted          bool
}

// workersOf gives those of one pool, without deleted ones. With all, they are
// picked from the list of the whole cluster, which is never empty.
func (p *Provider) workersOf(ctx context.Context, g generation, poolID string, all bool) ([]cloud.Worker, error) {
	at := to(g.workersPath()+"&pool=%s", p.cfg.ClusterID, poolID)
	if all {
		at = to(g.workersPath(), p.cfg.ClusterID)
	}
	list, err := g.workers(ctx, at)
	if err != nil {
		return nil, err
	}
	if all && len(list) == 0 {
		return nil, p.implausible("it lists no worker of the cluster at all")
	}
	var out []cloud.Worker
	for _, w := range list {
		switch {
		case w.ID == "" || w.poolID == "":
			return nil, p.implausible("a worker has no id or no pool")
		case w.deleted:
		case w.poolID == poolID:
			out = append(out, w.Worker)
		case w.poolName == p.cfg.PoolName:
			return nil, p.implausible("worker %q belongs to pool %q, but by its id to another", w.ID, w.poolName)
		}
	}
	return out, nil
}

// parseTaints reads key → "value:Effect"; nil stays nil.
func parseTaints(m map[string]string) []cloud.Taint {
	if m == nil {
		return nil
	}
	taints := []cloud.Taint{}
	for key, text := range m {
		value, effect := "", text
		if i := strings.LastIndex(text, ":"); i >= 0 {
			value, effect = text[:i], text[i+1:]
		}
		taints = append(taints, cloud.Taint{Key: key, Value: value, Effect: effect})
	}
	slices.SortFunc(taints, func(a, b cloud.Taint) int { return strings.Compare(a.Key, b.Key) })
	return taints
}

// ownLabels leaves out what IBM itself puts on a pool and may refuse to take
// back. The wanted labels are never left out.
func ownLabels(labels, wanted map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		_, want := wanted[k]
		reserved := strings.HasPrefix(k, "kubernetes.io/") || strings.HasPrefix(k, "k8s.io/") ||
			strings.HasPrefix(k, "ibm-cloud.kubernetes.io/") && k != "ibm-cloud.kubernetes.io/node-local-dns-enabled"
		if want || !reserved {
			out[k] = v
		}
	}
	return out
}

func (p *Provider) op(doing string) string {
	return fmt.Sprintf("%s worker pool %q", doing, p.cfg.PoolName)
}

// implausible is the error for an answer that is well-formed but cannot be true.
func (p *Provider) implausible(format string, args ...any) error {
	return &cloud.Error{
		Kind: cloud.Unavailable, Op: p.op("observing"),
		Message: "the cloud does not answer sensibly: " + p.session.scrub(fmt.Sprintf(format, args...)) + lookAround,
	}
}

// apply carries a step out.
func (p *Provider) apply(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) error {
	id := v.pool.id
	switch step.Kind {
	case poolplan.Create:
		return p.create(ctx, g, step, want, v)
	case poolplan.SetLabels:
		return g.setLabels(ctx, id, ownLabels(step.Labels, want.Labels))
	case poolplan.SetTaints:
		return p.setTaints(ctx, id, step.Taints)
	case poolplan.AddZone:
		return g.addZone(ctx, id, step.Zone, v.others)
	case poolplan.RemoveZone:
		return p.removeZone(ctx, id, step.Zone)
	case poolplan.Resize:
		return g.resize(ctx, id, step.Size)
	case poolplan.Remove:
		return g.remove(ctx, step.Worker)
	case poolplan.Replace:
		return g.replace(ctx, step.Worker)
	case poolplan.DeletePool:
		return p.deletePool(ctx, id)
	case poolplan.None:
	}
	return nil
}
