package iks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// clusterKept is how long a description of the cluster is used, which says only its generation and zones.
const clusterKept = time.Hour

// view is one look at the cloud: all that a change depends on.
type view struct {
	generation
	// named are the pools that bear our names, id "" where there is none, and pair is what they are like.
	named  [2]pool
	pair   poolplan.Pair
	others []pool
	// zonesUnsure says that not all zones of others are known.
	zonesUnsure bool
	// stale are former pools of our names that are being deleted.
	stale []pool
	// pool and state are those of the pool that was chosen.
	pool  pool
	state poolplan.State
	// flavor is that of a pool to be made.
	flavor string
	// unreadable is why it is not known what was asked for lately, nil where it is.
	unreadable error
}

// choose sets pool and state to those of the pool of that name.
func (v *view) choose(name string) {
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
	for _, id := range want.Known { // they were ours before this process began
		if checkID("pool", id) == nil {
			p.know(id)
		}
	}
	if err := p.readPools(ctx, &v, want.Once); err != nil {
		return view{}, err
	}
	for i := range v.named {
		o, s := v.named[i], p.describe(v, i)
		if s.Owned || s.Unmarked != "" {
			if err := p.inspect(ctx, v, o, &s.Pool); err != nil {
				return view{}, err
			}
		}
		v.pair[i] = s
	}
	if err = p.lookAtTaints(ctx, &v, want); err == nil {
		p.readLedger(ctx, &v, want)
	}
	return v, err
}

func (p *Provider) lookAtTaints(ctx context.Context, v *view, want cloud.PoolSpec) error {
	of, former := v.pair.Sides(want)
	if !of.Owned && former.Owned {
		of = former
	}
	if v.choose(of.Name); !of.Owned || of.Deleting {
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

// readPools separates our pools from the others, and asks for ours where the listing leaves something out.
func (p *Provider) readPools(ctx context.Context, v *view, once bool) error {
	all, err := v.pools(ctx)
	if err != nil {
		return err
	}
	if all, err = p.withUnlisted(ctx, v.generation, distinct(all), once); err != nil {
		return err
	}
	if err := p.separate(v, all); err != nil {
		return err
	}
	for i := range v.named {
		if v.named[i], err = p.whole(ctx, v, v.named[i]); err != nil {
			return err
		}
		if p.owns(v.named[i]) {
			p.know(v.named[i].id).seen = true
		}
	}
	if second := v.named[1]; second.id != "" && !p.owns(second) && p.unmarked(second) == "" {
		v.others = append(v.others, second)
	}
	return nil
}

// distinct merges the entries of a pool that is listed twice. Where they differ, it has no size, so that the pool itself is asked for.
func distinct(all []pool) (out []pool) {
	slices.SortStableFunc(all, func(a, b pool) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name)) })
	for _, o := range all {
		last := len(out) - 1
		switch {
		case o.id == "" || last < 0 || out[last].id != o.id || out[last].name != o.name:
			out = append(out, o)
		case !reflect.DeepEqual(out[last], o):
			if out[last].err != nil {
				out[last], o = o, out[last]
			}
			out[last] = out[last].completed(o)
			out[last].size = nil
		}
	}
	return out
}

// whole asks for a pool that is listed, unless the listing says all that is needed of a pool of ours.
func (p *Provider) whole(ctx context.Context, v *view, listed pool) (pool, error) {
	if listed.id == "" || p.owns(listed) && listed.size != nil && listed.zones != nil && listed.flavor != "" {
		return listed, nil
	}
	whole, err := p.single(ctx, v.generation, listed.id)
	if err != nil {
		return pool{}, err
	}
	whole = whole.completed(listed)
	whole.single = true
	return whole, nil
}

// separate finds our pools by their names.
func (p *Provider) separate(v *view, all []pool) error {
	all = slices.DeleteFunc(all, func(o pool) bool { return o.deleted })
	if len(all) == 0 {
		// Every cluster has a pool. Ours would be ordered a second time.
		return p.implausible("it lists no worker pool at all")
	}
	slices.SortFunc(all, func(a, b pool) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	var unreadable error
	for _, o := range all {
		switch err := p.check(o); {
		case err == nil:
		case p.mayBeOurs(o):
			return err
		case o.id == "" || o.name == "":
			unreadable = err
			continue
		default: // what is wrong with a pool of others does not matter
			delete(o.zones, "")
			v.zonesUnsure = true
		}
		if err := p.place(v, o); err != nil {
			return err
		}
	}
	p.takeRenamed(v)
	if v.named[0].id == "" && v.named[1].id == "" {
		return unreadable // it may be ours
	}
	return nil
}

// place puts a pool among those of our names, the stale ones, or the others.
func (p *Provider) place(v *view, o pool) error {
	switch i := slices.Index(p.names[:], o.name); {
	case i < 0:
		v.others = append(v.others, o)
	case v.named[i].id == "":
		v.named[i] = o
	case o.deleting:
		v.stale = append(v.stale, o)
	case v.named[i].deleting:
		v.stale, v.named[i] = append(v.stale, v.named[i]), o
	default:
		return &cloud.Error{Kind: cloud.Conflict, Op: p.op("observing"), Message: fmt.Sprintf("there are two pools of the name %s, %s and %s; delete one", o.name, v.named[i].id, o.id)}
	}
	return nil
}

// clusterZones gives the zones of the cluster's other pools, and where these are not all known, also those that the cluster names.
func (p *Provider) clusterZones(v view) []string {
	zones := map[string]cloud.Network{}
	for _, o := range v.others {
		maps.Copy(zones, o.zones)
	}
	if len(zones) == 0 || v.zonesUnsure {
		for _, z := range p.cluster.WorkerZones {
			zones[z] = cloud.Network{} // only their names count
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// describe gives the state of the pool of a name.
func (p *Provider) describe(v view, i int) poolplan.State {
	o := v.named[i]
	s := poolplan.State{
		Pool: cloud.Pool{Name: cmp.Or(o.name, p.names[i]), ClusterZones: p.clusterZones(v)}, Deleting: o.deleting, DeleteFailed: o.deleteFailed, Says: p.session.scrub(o.state),
		Fingerprint: o.labels[v1alpha1.OptionsLabel], Memory: p.memory[i], Now: p.cfg.Now(),
	}
	if o.id == "" {
		return s
	}
	s.Exists, s.Owned, s.ID, s.Flavor, s.Unmarked = true, p.owns(o), o.id, o.flavor, p.unmarked(o)
	s.Zones, s.Taints, s.Autoscaled = slices.Sorted(maps.Keys(o.zones)), o.taints, o.autoscaled
	s.Options, s.Options.Networks = o.options, o.zones
	s.SizeUnknown, s.SizePerZone = o.size == nil, *cmp.Or(o.size, new(int))
	switch {
	case s.Unmarked != "":
		s.Problems = append(s.Problems, s.Unmarked)
	case !s.Owned:
		s.Mark = p.mark(o)
		s.Problems = append(s.Problems, fmt.Sprintf("pool %s is not rrpool's: it lacks the label %s=%s", o.name, v1alpha1.PoolLabel, p.cfg.PoolName))
	}
	if s.Autoscaled {
		s.Problems = append(s.Problems, fmt.Sprintf("pool %s is resized by an autoscaler; exclude it from the autoscaler's configuration", o.name))
	}
	for _, former := range v.stale {
		if former.name == o.name {
			s.Problems = append(s.Problems, fmt.Sprintf("a former pool of the name %s, %s, is still on its way out (%s)", o.name, former.id, p.session.scrub(former.state)))
		}
	}
	return s
}

// inspect reads the workers of a pool of ours.
func (p *Provider) inspect(ctx context.Context, v view, o pool, s *cloud.Pool) (err error) {
	if s.Workers, err = p.workersOf(ctx, v, o, false); err != nil {
		return err
	}
	if o.size == nil { // no pool is resized by it
		byZone := map[string]int{}
		for _, w := range s.Workers {
			if w.State != cloud.WorkerDeleting {
				byZone[w.Zone]++
				s.SizePerZone = max(s.SizePerZone, byZone[w.Zone])
			}
		}
		s.Problems = append(s.Problems, fmt.Sprintf("the cloud does not say the size of pool %s", o.name))
	}
	for _, w := range s.Workers {
		if w.State == cloud.WorkerFailed || w.State == cloud.WorkerUnhealthy {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s in zone %s: %s: %s", w.ID, w.Zone, w.State, w.Message))
		}
	}
	slices.Sort(s.Problems)
	return nil
}

// findGeneration finds the API of the cluster, which never changes: where it cannot be read again, what was read before counts.
func (p *Provider) findGeneration(ctx context.Context) (generation, error) {
	if now := p.cfg.Now(); p.clusterRead.IsZero() || now.Sub(p.clusterRead) >= clusterKept {
		if err := p.readCluster(ctx); err != nil && (p.clusterRead.IsZero() || cloud.Is(err, cloud.Unauthorized)) {
			return nil, err // a key that is refused is not tried twice a look
		} else if err != nil {
			p.clusterRead = now.Add(poolplan.SettlePause - clusterKept) // orders still ask for it
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
	p.clusterRead = time.Time{} // it may be one strange answer
	return nil, &cloud.Error{Kind: cloud.Unsupported, Op: fmt.Sprintf("reading cluster %q", p.cfg.ClusterID), Message: p.session.scrub(why)}
}

// description has the fields of a cluster that are used: the others may have any form.
type description struct {
	ID, Name, Provider, Type, State, MasterKubeVersion, Entitlement, NetworkPlugin string

	ResourceGroupID   string `json:"resourceGroup"`
	Vpcs, WorkerZones []string
	Lifecycle         struct{ MasterState, MasterStatus string }
}

// updating matches what is said of a master that is being updated. IBM documents that the state of workers is unknown then.
var updating = regexp.MustCompile(`(?i)updating|updat\w*[ _]?in[ _]?progress`)

// masterUpdates reports whether the cloud says that the master is being updated now.
func (p *Provider) masterUpdates(ctx context.Context) bool {
	if p.cfg.Now().Sub(p.clusterRead) >= poolplan.SettlePause && p.readCluster(ctx) != nil {
		return false
	}
	return updating.MatchString(p.cluster.State + " " + p.cluster.Lifecycle.MasterState + " " + p.cluster.Lifecycle.MasterStatus)
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
	if err := checkID("resource group", got.ResourceGroupID); err != nil && got.ResourceGroupID != "" {
		return p.implausible("%v", err)
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

// confirm looks again right before a step that would do harm if the first look was wrong. It says what to wait for, "" for nothing.
func (p *Provider) confirm(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (string, error) {
	if mayRemoveUnlisted(v, step, want) {
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
			if waiting, err := p.confirmNone(ctx, v); err != nil || waiting != "" {
				return waiting, err
			}
			return p.leftovers(ctx, v)
		}
	case poolplan.SetTaints, poolplan.Remove, poolplan.RemoveZone, poolplan.DeletePool:
	}
	return "", nil
}

// mayRemoveUnlisted reports whether the step could remove workers that were not listed. A pool that is still wanted is deleted
// only because it has no workers.
func mayRemoveUnlisted(v view, step poolplan.Step, want cloud.PoolSpec) bool {
	return step.Kind == poolplan.RemoveZone || shrinks(v, step) || step.Kind == poolplan.DeletePool && want.SizePerZone > 0
}

func shrinks(v view, step poolplan.Step) bool {
	return step.Kind == poolplan.Resize && step.Size < v.state.SizePerZone
}

// confirmCluster refuses to order workers for a cluster that is being deleted: ours go with it, and would be ordered again. A state
// that is not known stops nothing.
func (p *Provider) confirmCluster(ctx context.Context, v view, step poolplan.Step) error {
	if !slices.Contains([]poolplan.Kind{poolplan.Create, poolplan.AddZone, poolplan.Replace, poolplan.Resize}, step.Kind) || shrinks(v, step) {
		return nil
	}
	if p.cfg.Now().Sub(p.clusterRead) >= poolplan.SettlePause {
		if err := p.readCluster(ctx); err != nil {
			return err
		}
	}
	var remedy string
	switch state := strings.ToLower(p.cluster.State); state {
	case "deleting", "deleted", "delete_failed", "aborted":
		remedy = "it is on its way out; delete this object if that is meant"
	case "unsupported":
		remedy = "IBM Cloud adds no workers to a version that is no longer supported: update the cluster's master"
	default:
		return nil
	}
	return &cloud.Error{
		Kind: cloud.Unexpected, Op: p.op("ordering workers for"),
		Message: fmt.Sprintf("no worker is ordered, as the cloud says that cluster %s is %s: %s", p.cfg.ClusterID, p.session.scrub(p.cluster.State), remedy),
	}
}

// confirmTaints makes sure of the pool's taints before a step that brings workers.
func (p *Provider) confirmTaints(ctx context.Context, v view, want []cloud.Taint) (string, error) {
	taints, _, err := p.poolTaints(ctx, v, true)
	if err == nil && !poolplan.Tainted(taints, want) {
		return "the cloud to confirm the pool's taints", nil
	}
	return "", err
}

// confirmWorkers compares the pool's workers with those in the list of the whole cluster, which cannot be empty unnoticed.
func (p *Provider) confirmWorkers(ctx context.Context, v view) error {
	again, err := p.workersOf(ctx, v, v.pool, true)
	if err == nil && !maps.Equal(zonesByWorker(v.state.Workers), zonesByWorker(again)) {
		return p.implausible("its lists of the pool's workers differ")
	}
	return err
}

// zonesByWorker gives the zones of the workers that are not being deleted.
func zonesByWorker(workers []cloud.Worker) map[string]string {
	out := map[string]string{}
	for _, w := range workers {
		if w.State != cloud.WorkerDeleting {
			out[w.ID] = w.Zone
		}
	}
	return out
}

// confirmNone asks for the pools by their names: one that was created right before a crash may not be listed yet. It would stay, and
// cost, or be created twice. Only a pool that is found delays the step, as the answer for none is not documented.
func (p *Provider) confirmNone(ctx context.Context, v view) (string, error) {
	for i, name := range p.names {
		if v.named[i].id != "" {
			continue // listed
		}
		var got containerv2.GetWorkerPoolResponse
		err := p.get(ctx, "asking for", to(v.traits().pool+"?cluster=%s&workerpool=%s", p.cfg.ClusterID, name), &got)
		switch {
		case isNoPool(err):
		case err != nil:
			return "", err
		case got.ID == "" || got.PoolName == "":
			return "", p.implausible("asked for pool %q, the answer has no id or name", name)
		case got.PoolName == name && got.ActualState != "deleted" && got.DesiredState != "deleted":
			return fmt.Sprintf("the cloud to list pool %s, which still exists", name), nil
		}
	}
	return "", nil
}

// leftovers names the workers that are still listed, and paid for, although their pool is no more.
func (p *Provider) leftovers(ctx context.Context, v view) (string, error) {
	list, err := v.workers(ctx, to(v.traits().workers, p.cfg.ClusterID))
	if err != nil {
		return "", err
	}
	var left []string
	for _, w := range list {
		i := slices.Index(p.names[:], w.poolName)
		if p.known[w.poolID] != nil || i >= 0 && v.named[i].id == "" {
			left = append(left, p.session.scrub(fmt.Sprintf("worker %s to go, which is left of the pool (%s)", w.ID, w.Message)))
		}
	}
	now := p.cfg.Now()
	if len(left) == 0 || p.leftSince.IsZero() {
		p.leftSince = now
	}
	if now.Sub(p.leftSince) >= rollout.LeavingLimit {
		return "", nil
	}
	return cloud.Capped(left, "; "), nil
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

// see takes in the taints of an answer; nil is an answer without taints.
func (m *taintMemory) see(taints []cloud.Taint, now time.Time) {
	m.shown, m.reports, m.seen = taints, m.reports || taints != nil, now
}

// taintsKept is how long the taints that a pool itself has shown are used.
const taintsKept = 10 * time.Minute

// poolTaints gives the taints of our pool, if they are known: those of the listing, if it has some. The pool itself is asked for with
// again, and when what it showed is old, is not what the listing shows, or is not yet what was set. Where the cloud does not report
// taints, those count that it acknowledged a moment ago.
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

// justSet reports whether the cloud acknowledged taints a moment ago.
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
