package iks

import (
	"context"
	"slices"
	"strings"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// The providers of clusters that are supported, in IBM's words.
const (
	providerVPC     = "vpc-gen2"
	providerClassic = "classic"
)

// generation is what differs between VPC and classic clusters.
type generation interface {
	traits() traits
	// pools lists every pool of the cluster.
	pools(ctx context.Context) ([]pool, error)
	// workers reads a list of workers.
	workers(ctx context.Context, at route) ([]worker, error)
	// create makes a pool without zones.
	create(ctx context.Context, flavor string, step poolplan.Step, others []pool) error
	addZone(ctx context.Context, poolID, zone string, others []pool) error
	// remove takes a worker out of its pool, which becomes smaller.
	remove(ctx context.Context, doing, workerID string) error
}

// traits are where things are, of a generation, and the default flavor.
type traits struct{ pool, workers, replacing, flavor string }

// pool is a worker pool of either generation.
type pool struct {
	id, name, flavor string
	// size is nil when the answer holds none. A pool must not be resized on half an answer.
	size   *int
	labels map[string]string
	// taints of the pool, nil when the answer holds none: that is not "no taints".
	taints     []cloud.Taint
	autoscaled bool
	vpc        string
	// zones is nil when the answer holds none.
	zones             map[string]network
	deleting, deleted bool
}

// network is where a pool's workers of a zone are attached.
type network struct{ subnet, privateVLAN, publicVLAN string }

func (p pool) owned() bool { return p.labels[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue }

// whole: the answer holds what our own pool must not be believed without.
func (p pool) whole() bool { return p.owned() && p.size != nil && p.zones != nil }

// worker is a worker in a list of either generation. Deleted ones are left out.
type worker struct {
	cloud.Worker
	poolID, poolName string
}

// networks gives those of zones, by zone.
func networks[Z any](zones []Z, of func(Z) (string, network)) map[string]network {
	if zones == nil {
		return nil
	}
	out := map[string]network{}
	for _, z := range zones {
		id, n := of(z)
		out[id] = n
	}
	return out
}

// neighbour gives the network that other pools use in zone, the first pool by
// name counting; empty when there is none.
func neighbour(others []pool, zone string) network {
	for _, o := range others {
		if n := o.zones[zone]; n != (network{}) {
			return n
		}
	}
	return network{}
}

// plain takes off what the service adds to the flavor of encrypted disks.
func plain(flavor string) string { return strings.TrimSuffix(flavor, ".encrypted") }

// v2Pool is a pool in an answer of the v2 API. It distinguishes a size that is missing from one that is 0.
type v2Pool struct {
	containerv2.GetWorkerPoolResponse
	WorkerCount *int `json:"workerCount"`
}

func (l v2Pool) pool() pool {
	return pool{
		id: l.ID, name: l.PoolName, flavor: plain(l.Flavor), size: l.WorkerCount, labels: l.Labels, taints: parseTaints(l.Taints),
		autoscaled: l.AutoscaleEnabled, vpc: l.VpcID,
		deleted: l.ActualState == "deleted", deleting: l.ActualState == "deleting" || l.DesiredState == "deleted",
		zones: networks(l.Zones, func(z containerv2.ZoneResp) (string, network) {
			if len(z.Subnets) == 0 {
				return z.ID, network{}
			}
			first := max(0, slices.IndexFunc(z.Subnets, func(s containerv2.Subnet) bool { return s.Primary }))
			return z.ID, network{subnet: z.Subnets[first].ID}
		}),
	}
}

// single asks for one pool: listings hold only a subset of what it says. It makes
// sure that the answer is about the pool that was meant.
func (p *Provider) single(ctx context.Context, g generation, poolID string) (pool, error) {
	var got v2Pool
	if err := p.get(ctx, "reading", to(g.traits().pool+"?cluster=%s&workerpool=%s", p.cfg.ClusterID, poolID), &got); err != nil {
		return pool{}, err
	}
	if got.ID != poolID {
		return pool{}, p.implausible("asked for pool %q, it answers for %q", poolID, got.ID)
	}
	whole := got.pool()
	return whole, p.check(whole)
}

// check refuses a pool that cannot be as it is listed.
func (p *Provider) check(o pool) error {
	if o.id == "" || o.name == "" {
		return p.implausible("a worker pool has no id or name")
	}
	if _, bad := o.zones[""]; bad {
		return p.implausible("a zone of worker pool %q has no id", o.name)
	}
	return nil
}

// workersOf gives those of one pool. With all, they are picked from the list of the
// whole cluster, which is never empty.
func (p *Provider) workersOf(ctx context.Context, g generation, poolID string, all bool) ([]cloud.Worker, error) {
	at := to(g.traits().workers+"&pool=%s", p.cfg.ClusterID, poolID)
	if all {
		at = to(g.traits().workers, p.cfg.ClusterID)
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
		if w.State == cloud.WorkerDeployed {
			w.Message = ""
		}
		w.Message = p.session.scrub(w.Message)
		switch {
		case w.ID == "" || w.poolID == "":
			return nil, p.implausible("a worker has no id or no pool")
		case w.poolID == poolID:
			out = append(out, w.Worker)
		case w.poolName == p.cfg.PoolName:
			return nil, p.implausible("worker %q belongs to pool %q, but by its id to another", w.ID, w.poolName)
		}
	}
	slices.SortFunc(out, func(a, b cloud.Worker) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// parseTaints reads key → "value:Effect"; nil stays nil.
func parseTaints(m map[string]string) []cloud.Taint {
	if m == nil {
		return nil
	}
	taints := []cloud.Taint{}
	for key, text := range m {
		colon := strings.LastIndex(text, ":")
		taints = append(taints, cloud.Taint{Key: key, Value: text[:max(0, colon)], Effect: text[colon+1:]})
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
