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
	// named are the pools that bear our names, id "" where there is none, and pair is what they are like.
	named  [2]pool
	pair   poolplan.Pair
	others []pool
	// pool and state are those of the one that is looked at.
	pool  pool
	state poolplan.State
}

// at looks at the pool of that name.
func (v *view) at(name string) {
	i := 0
	if v.pair[1].Name == name {
		i = 1
	}
	v.pool, v.state = v.named[i], v.pair[i]
}

// look reads the pools, and the taints of the one that is to have workers.
func (p *Provider) look(ctx context.Context, want cloud.PoolSpec) (view, error) {
	g, err := p.findGeneration(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{generation: g}
	if err := p.readPools(ctx, &v); err != nil {
		return view{}, err
	}
	for i, o := range v.named {
		s := p.describe(v, i)
		if s.Owned {
			if err := p.inspect(ctx, v, o, &s.Pool); err != nil {
				return view{}, err
			}
		}
		v.pair[i] = s
	}
	err = p.lookAtTaints(ctx, &v, want)
	return v, err
}

func (p *Provider) lookAtTaints(ctx context.Context, v *view, want cloud.PoolSpec) error {
	of, former := v.pair.Sides(want)
	if !of.Owned && former.Owned {
		of = former
	}
	if v.at(of.Name); !of.Owned || of.Deleting {
		return nil
	}
	taints, known, err := p.poolTaints(ctx, *v, false)
	for i := range v.pair {
		if s := &v.pair[i]; s.Name == of.Name {
			s.Taints, s.TaintsUnknown, s.TaintsUnseen = taints, !known, !p.taints.reports
		}
	}
	return err
}

// readPools separates our pools from the others, and asks for what the listing leaves
// out of ours: they are only believed whole.
func (p *Provider) readPools(ctx context.Context, v *view) error {
	all, err := v.pools(ctx)
	if err != nil {
		return err
	}
	if err := p.separate(v, all); err != nil {
		return err
	}
	for i, o := range v.named {
		if v.named[i], err = p.whole(ctx, v, o); err != nil {
			return err
		}
	}
	if second := v.named[1]; second.id != "" && !p.owns(second) {
		v.others = append(v.others, second)
	}
	return nil
}

// whole asks for a pool that is listed, unless the listing has all that a pool of ours must not be believed without.
func (p *Provider) whole(ctx context.Context, v *view, listed pool) (pool, error) {
	if listed.id == "" || p.owns(listed) && listed.size != nil && listed.zones != nil && listed.flavor != "" {
		return listed, nil
	}
	whole, err := p.single(ctx, v.generation, listed.id)
	if err != nil {
		return pool{}, err
	}
	whole = whole.completed(listed)
	if p.owns(whole) && whole.size == nil {
		return pool{}, p.implausible("worker pool %q has no size", whole.name)
	}
	whole.single = true
	return whole, nil
}

// separate finds our pools by their names.
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
		switch i := slices.Index(p.names[:], o.name); {
		case i < 0:
			v.others = append(v.others, o)
		case v.named[i].id != "":
			return &cloud.Error{
				Kind: cloud.Conflict, Op: p.op("observing"),
				Message: fmt.Sprintf("there are two pools of the name %s, %s and %s; delete one", o.name, v.named[i].id, o.id),
			}
		default:
			v.named[i] = o
		}
	}
	return nil
}

// describe is the pool of a name in the words of the port.
func (p *Provider) describe(v view, i int) poolplan.State {
	zones := map[string]cloud.Network{}
	for _, o := range v.others {
		maps.Copy(zones, o.zones)
	}
	if len(zones) == 0 {
		for _, z := range p.cluster.WorkerZones {
			zones[z] = cloud.Network{}
		}
	}
	o := v.named[i]
	s := poolplan.State{
		Pool: cloud.Pool{Name: p.names[i], ClusterZones: slices.Sorted(maps.Keys(zones))}, Deleting: o.deleting,
		Fingerprint: o.labels[v1alpha1.OptionsLabel], Memory: p.memory[i], Now: p.cfg.Now(),
	}
	if o.id == "" {
		return s
	}
	s.Exists, s.Owned, s.ID, s.Flavor = true, p.owns(o), o.id, o.flavor
	s.Zones, s.Taints, s.Autoscaled = slices.Sorted(maps.Keys(o.zones)), o.taints, o.autoscaled
	s.Options, s.Options.Networks = o.options, o.zones
	if o.size != nil {
		s.SizePerZone = *o.size
	}
	if !s.Owned {
		s.Problems = append(s.Problems,
			fmt.Sprintf("pool %s is not rrpool's: it lacks the label %s=%s", o.name, v1alpha1.PoolLabel, p.cfg.PoolName))
	}
	if s.Autoscaled {
		s.Problems = append(s.Problems, fmt.Sprintf("pool %s is resized by an autoscaler; exclude it from the autoscaler's configuration", o.name))
	}
	return s
}

// inspect reads the workers of a pool of ours.
func (p *Provider) inspect(ctx context.Context, v view, o pool, s *cloud.Pool) (err error) {
	if s.Workers, err = p.workersOf(ctx, v, o, false); err != nil {
		return err
	}
	for _, w := range s.Workers {
		if w.State == cloud.WorkerFailed || w.State == cloud.WorkerUnhealthy {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s in zone %s: %s: %s", w.ID, w.Zone, w.State, w.Message))
		}
	}
	slices.Sort(s.Problems)
	return nil
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
