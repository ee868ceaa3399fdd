package iks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// clusterKept is how long the cluster's own description counts: it decides on the API and on zones only.
const clusterKept = time.Hour

// view is one look at the cloud: all that a change depends on.
type view struct {
	generation
	// pool is ours, or the one that bears our name; id "" when there is none.
	pool   pool
	others []pool
	state  poolplan.State
}

func (p *Provider) look(ctx context.Context) (view, error) {
	g, err := p.findGeneration(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{generation: g}
	if err := p.readPools(ctx, &v); err != nil {
		return view{}, err
	}
	p.describe(&v)
	if v.pool.owned() {
		if err := p.inspect(ctx, v, &v.state.Pool); err != nil {
			return view{}, err
		}
		v.state.TaintsUnseen = !p.taints.reports
	}
	return v, nil
}

// readPools separates our pool from the others, and asks for what the listing leaves
// out of it: our own pool is only believed whole.
func (p *Provider) readPools(ctx context.Context, v *view) error {
	all, err := v.pools(ctx)
	if err != nil {
		return err
	}
	if err := p.separate(v, all); err != nil {
		return err
	}
	if v.pool.id != "" && p.taints.pool != v.pool.id {
		p.taints = taintMemory{pool: v.pool.id}
	}
	if v.pool.id == "" || v.pool.whole() {
		return nil
	}
	whole, err := p.single(ctx, v.generation, v.pool.id)
	if err != nil {
		return err
	}
	v.pool = whole.completed(v.pool)
	if v.pool.owned() && v.pool.size == nil {
		return p.implausible("worker pool %q has no size", whole.name)
	}
	p.taints.see(v.pool.taints, p.cfg.Now())
	return nil
}

// separate finds our pool by its name.
func (p *Provider) separate(v *view, all []pool) error {
	all = slices.DeleteFunc(all, func(o pool) bool { return o.deleted })
	if len(all) == 0 {
		// A cluster that is up has a pool. Believing this would make a second one.
		return p.implausible("it lists no worker pool at all")
	}
	slices.SortFunc(all, func(a, b pool) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	for _, o := range all {
		if err := p.check(o); err != nil {
			return err
		}
		switch {
		case o.name != p.cfg.PoolName:
			v.others = append(v.others, o)
		case v.pool.id != "":
			return &cloud.Error{
				Kind: cloud.Conflict, Op: p.op("observing"),
				Message: fmt.Sprintf("there are two pools of this name, %s and %s; delete one", v.pool.id, o.id),
			}
		default:
			v.pool = o
		}
	}
	return nil
}

// describe is the pool in the words of the port.
func (p *Provider) describe(v *view) {
	zones := map[string]cloud.Network{}
	for _, o := range v.others {
		maps.Copy(zones, o.zones)
	}
	if len(zones) == 0 {
		for _, z := range p.cluster.WorkerZones {
			zones[z] = cloud.Network{}
		}
	}
	v.state = poolplan.State{
		Pool: cloud.Pool{Name: p.cfg.PoolName, ClusterZones: slices.Sorted(maps.Keys(zones))}, Deleting: v.pool.deleting,
		Memory: p.memory, Now: p.cfg.Now(),
	}
	o, s := v.pool, &v.state.Pool
	if o.id == "" {
		return
	}
	s.Exists, s.Owned, s.ID, s.Flavor = true, o.owned(), o.id, o.flavor
	s.Zones, s.Taints, s.Autoscaled = slices.Sorted(maps.Keys(o.zones)), o.taints, o.autoscaled
	s.Options, s.Options.Networks = o.options, o.zones
	if o.size != nil {
		s.SizePerZone = *o.size
	}
	if !s.Owned {
		s.Problems = append(s.Problems,
			fmt.Sprintf("pool %s is not rrpool's: it lacks the label %s=%s", o.name, v1alpha1.PoolLabel, o.name))
	}
	if s.Autoscaled {
		s.Problems = append(s.Problems, fmt.Sprintf("pool %s is resized by an autoscaler; exclude it from the autoscaler's configuration", o.name))
	}
}

// inspect reads the workers of our pool, and its taints.
func (p *Provider) inspect(ctx context.Context, v view, s *cloud.Pool) (err error) {
	if s.Workers, err = p.workersOf(ctx, v, s.ID, false); err != nil {
		return err
	}
	for _, w := range s.Workers {
		if w.State == cloud.WorkerFailed || w.State == cloud.WorkerUnhealthy {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s in zone %s: %s: %s", w.ID, w.Zone, w.State, w.Message))
		}
	}
	slices.Sort(s.Problems)
	if v.pool.deleting {
		return nil
	}
	taints, known, err := p.poolTaints(ctx, v, false)
	s.Taints, s.TaintsUnknown = taints, !known
	return err
}

// findGeneration finds out which API the cluster speaks.
func (p *Provider) findGeneration(ctx context.Context) (generation, error) {
	if p.clusterRead.IsZero() || p.cfg.Now().Sub(p.clusterRead) >= clusterKept {
		if err := p.readCluster(ctx); err != nil {
			return nil, err
		}
	}
	var why string
	switch plugin := p.cluster.NetworkPlugin; {
	case plugin != "" && !strings.EqualFold(plugin, "Calico"):
		// IBM's documents: OVN-Kubernetes can be chosen for OpenShift on VPC from version 4.20 on. Older answers do not name the plugin.
		why = fmt.Sprintf("its networkPlugin is %q, and only Calico has the BGP sessions that route reflectors are for: "+
			"the plugin is chosen when a cluster is made, so delete this object, or make a cluster with Calico", plugin)
	case p.cluster.Provider == providerVPC:
		return vpc{p}, nil
	case p.cluster.Provider == providerClassic:
		return classic{p}, nil
	default:
		why = fmt.Sprintf("its provider is %q, and worker pools can be ordered from %s and %s only: "+
			"set spec.provider.type to ExistingNodes, if calico-node runs BGP there, or delete this object", p.cluster.Provider, providerVPC, providerClassic)
	}
	return nil, &cloud.Error{Kind: cloud.Unsupported, Op: fmt.Sprintf("reading cluster %q", p.cfg.ClusterID), Message: p.session.scrub(why)}
}

// description of a cluster. The SDK's lacks what newer versions of it have.
type description struct {
	containerv2.ClusterInfo
	NetworkPlugin string `json:"networkPlugin"`
}

func (p *Provider) readCluster(ctx context.Context) error {
	var got description
	doing := fmt.Sprintf("reading cluster %q of", p.cfg.ClusterID)
	if err := p.get(ctx, doing, to("/v2/getCluster?cluster=%s&v1-compatible", p.cfg.ClusterID), &got); err != nil {
		return err
	}
	if got.ID == "" || got.Provider == "" {
		return p.implausible("the cluster has no id or provider")
	}
	if p.cfg.ClusterID != got.ID && p.cfg.ClusterID != got.Name {
		return p.implausible("asked for cluster %q, it answers for %q", p.cfg.ClusterID, got.ID)
	}
	if group := got.ResourceGroupID; group != "" {
		if err := checkID("resource group", group); err != nil {
			return p.implausible("%v", err)
		}
	}
	p.cluster, p.clusterRead = got, p.cfg.Now()
	p.session.classic = got.Provider == providerClassic
	// Its own group is the right one, whatever is configured.
	p.session.group = cmp.Or(got.ResourceGroupID, p.cfg.ResourceGroup)
	return nil
}

// implausible is the error for an answer that is well-formed but cannot be true.
func (p *Provider) implausible(format string, args ...any) error {
	return p.session.senseless(p.op("observing"), fmt.Sprintf(format, args...))
}
