package iks

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
)

// The providers of clusters that are supported, in IBM's words.
const (
	providerVPC     = "vpc-gen2"
	providerClassic = "classic"
)

// generation is the API of a kind of cluster, VPC or classic.
type generation interface {
	traits() traits
	// pools lists every pool of the cluster.
	pools(ctx context.Context) ([]pool, error)
	// workers reads a list of workers.
	workers(ctx context.Context, at route) ([]worker, error)
	// create makes a pool without zones; want has a flavor. The pool has the cluster's entitlement: without it OpenShift's licence is billed.
	create(ctx context.Context, name string, labels map[string]string, want cloud.PoolSpec, others []pool) error
	// addZone, for so many workers, picks a network where n is empty: one that the other pools have there, if it has room.
	addZone(ctx context.Context, poolID, zone string, n cloud.Network, workers int, others []pool) error
	// checkRoom refuses so many workers in a zone whose network has not an address for each; n as for addZone.
	checkRoom(ctx context.Context, zone string, n cloud.Network, workers int, others []pool) error
	// remove takes a worker out of its pool, which becomes smaller.
	remove(ctx context.Context, doing, workerID string) error
}

// traits are the paths of a generation.
type traits struct{ pool, workers, replacing, flavors, zones string }

// pool is a worker pool of either generation.
type pool struct {
	id, name, flavor string
	// size is nil when the answer has none: by such an answer no pool is resized.
	size   *int
	labels map[string]string
	// taints of the pool, nil when the answer says nothing about them.
	taints     []cloud.Taint
	autoscaled bool
	vpc        string
	// zones is nil when the answer has none.
	zones   map[string]cloud.Network
	options cloud.PoolOptions
	// isolation of classic machines: "private" are on hosts of the account's own.
	isolation         string
	deleting, deleted bool
	deleteFailed      bool
	// state is the life-cycle state in the cloud's words.
	state string
	// single says that the pool itself was asked for, and not the listing.
	single bool
	// err is why a part of it cannot be read.
	err error
}

// completed is p with what only another answer about the same pool has.
func (p pool) completed(by pool) pool {
	p.flavor, p.vpc, p.size = cmp.Or(p.flavor, by.flavor), cmp.Or(p.vpc, by.vpc), cmp.Or(p.size, by.size)
	p.state = cmp.Or(p.state, by.state)
	if p.labels == nil {
		p.labels = by.labels
	}
	if p.taints == nil {
		p.taints = by.taints
	}
	if p.zones == nil {
		p.zones = by.zones
	}
	for zone, n := range p.zones {
		p.zones[zone] = cmp.Or(n, by.zones[zone])
	}
	o, b := &p.options, by.options
	o.OperatingSystem, o.DedicatedHostPoolID = cmp.Or(o.OperatingSystem, b.OperatingSystem), cmp.Or(o.DedicatedHostPoolID, b.DedicatedHostPoolID)
	o.WorkerVolumeEncryption = cmp.Or(o.WorkerVolumeEncryption, b.WorkerVolumeEncryption)
	p.autoscaled, p.deleting = p.autoscaled || by.autoscaled, p.deleting || p.deleted || by.deleting
	p.deleteFailed = p.deleteFailed || by.deleteFailed
	return p
}

// worker is a worker in a list of either generation. Deleted ones are left out.
type worker struct {
	cloud.Worker
	poolID, poolName string
	// system is its operating system, "" where that is not said. unknown says that the cloud calls its state so.
	system  string
	unknown bool
	// err is why a part of it cannot be read.
	err error
}

// versionForm is that of a version. While a worker gets one, the service says "-", or has "(pending)" behind it.
var versionForm = regexp.MustCompile(`^\d+(\.\d+)+(_\d+)?(_openshift)?$`)

// outdated says which version an update would bring a worker to, "" for none. The service marks old versions with "*".
func outdated(actual, target string) string {
	actual, target = strings.TrimRight(actual, "*"), strings.TrimRight(target, "*")
	if actual == target || !versionForm.MatchString(actual) || !versionForm.MatchString(target) {
		return ""
	}
	return actual + " to " + target
}

// outdatedSystem says which operating system a replacement would have, "" for the same.
func outdatedSystem(actual, target string) string {
	if actual == "" || target == "" || strings.EqualFold(actual, target) {
		return ""
	}
	return actual + " to " + target
}

// usualNetwork gives the network that most workers of the cluster's other pools have in a zone: that of one pool may be restricted.
func usualNetwork(zone string, others []pool) (n cloud.Network) {
	workers := map[cloud.Network]int{}
	for _, o := range others { // sorted by name
		size := max(0, *cmp.Or(o.size, new(int)))
		if at := o.zones[zone]; at != (cloud.Network{}) {
			if workers[at] += 2*size + 1; workers[at] > workers[n] { // one without workers counts last
				n = at
			}
		}
	}
	return n
}

// networks gives those of zones, by zone; nil stays nil.
func networks[Z any](zones []Z, of func(Z) (string, cloud.Network)) (out map[string]cloud.Network) {
	if zones != nil {
		out = map[string]cloud.Network{}
	}
	for _, z := range zones {
		id, n := of(z)
		out[id] = n
	}
	return out
}

// plainFlavor takes off what the service adds to the flavor of encrypted disks.
func plainFlavor(flavor string) string { return strings.TrimSuffix(flavor, ".encrypted") }

// bareMetal are flavors such as mb4c.20x64 and cx2d.metal.96x192, as IBM's documentation of workers names them.
var bareMetal = regexp.MustCompile(`^m[bdegrs]\d|metal`)

// member is an entry of a listing. Where a part cannot be read, err says why, and is has the rest.
type member[T any] struct {
	is  T
	err error
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *member[T]) UnmarshalJSON(body []byte) error {
	m.err = json.Unmarshal(body, &m.is)
	return nil
}

// v2Pool is a pool in an answer of the v2 API. It distinguishes a size that is missing from one that is 0.
type v2Pool struct {
	containerv2.GetWorkerPoolResponse
	WorkerCount *int `json:"workerCount"`
}

func (l v2Pool) pool() pool {
	options := cloud.PoolOptions{OperatingSystem: l.OperatingSystem, DedicatedHostPoolID: l.HostPoolID}
	if e := l.WorkerVolumeEncryption; e != nil {
		options.WorkerVolumeEncryption = cloud.WorkerVolumeEncryption{KMSInstanceID: e.KmsInstanceID, RootKeyID: e.WorkerVolumeCRKID, KMSAccountID: e.KMSAccountID}
	}
	return pool{
		id: l.ID, name: l.PoolName, flavor: plainFlavor(l.Flavor), size: l.WorkerCount, labels: l.Labels, taints: parseTaints(l.Taints),
		autoscaled: l.AutoscaleEnabled, vpc: l.VpcID, options: options, state: l.ActualState, deleteFailed: l.ActualState == deleteFailed,
		deleted: l.ActualState == "deleted", deleting: lifecycle(l.ActualState) == cloud.WorkerDeleting || l.DesiredState == "deleted",
		zones: networks(l.Zones, func(z containerv2.ZoneResp) (string, cloud.Network) {
			if len(z.Subnets) == 0 {
				return z.ID, cloud.Network{}
			}
			first := max(0, slices.IndexFunc(z.Subnets, func(s containerv2.Subnet) bool { return s.Primary }))
			return z.ID, cloud.Network{SubnetID: z.Subnets[first].ID}
		}),
	}
}

// single asks for one pool that is listed, as listings leave fields out.
func (p *Provider) single(ctx context.Context, g generation, poolID string) (pool, error) {
	whole, err := p.ask(ctx, g, poolID)
	if isAbsent(err, ofPool) {
		// It was listed a moment ago: parts of the service know a new pool later than others.
		err = &cloud.Error{Kind: cloud.Unavailable, Op: p.op("reading"), Message: "the cloud lists the pool and does not find it", Err: err}
	}
	return whole, err
}

// ask asks for one pool by its ID, and makes sure that the answer is about it.
func (p *Provider) ask(ctx context.Context, g generation, poolID string) (pool, error) {
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
	if o.err != nil {
		return p.implausible("worker pool %q cannot be read: %v", o.name, o.err)
	}
	if _, bad := o.zones[""]; bad {
		return p.implausible("a zone of worker pool %q has no id", o.name)
	}
	return nil
}

// workersOf lists the workers of one pool. With all, it picks them from the list of the whole cluster, which is never empty.
func (p *Provider) workersOf(ctx context.Context, g generation, of pool, all bool) ([]cloud.Worker, error) {
	at := to(g.traits().workers+"&pool=%s", p.cfg.ClusterID, of.id)
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
	updates := sync.OnceValue(func() bool { return p.masterUpdates(ctx) })
	var out []cloud.Worker
	for _, w := range list {
		ours, err := p.isMember(w, of, all)
		if err != nil {
			return nil, err
		}
		if !ours {
			continue
		}
		if w.unknown && updates() {
			w.State = cloud.WorkerDeployed // as it is not known while the master is updated
		}
		if w.State == cloud.WorkerDeployed {
			w.Message = ""
		}
		w.Outdated = cmp.Or(w.Outdated, outdatedSystem(w.system, of.options.OperatingSystem))
		w.Message = p.session.scrub(w.Message)
		out = append(out, w.Worker)
	}
	slices.SortStableFunc(out, func(a, b cloud.Worker) int { return strings.Compare(a.ID, b.ID) })
	return p.distinctWorkers(out)
}

// isMember reports whether the worker is of the pool, or why that cannot be told. Workers of other pools do not matter, and those
// of a former pool of the name may stay for long.
func (p *Provider) isMember(w worker, of pool, all bool) (bool, error) {
	nameless := !all && w.poolID == "" && w.poolName == "" // where only the pool was listed, this is one of its workers
	switch {
	case w.poolID != of.id && w.poolName != of.name && !nameless, p.isOfFormerPool(w, of):
		return false, nil
	case w.err != nil:
		return false, p.implausible("worker %q of the pool cannot be read: %v", w.ID, w.err)
	case checkID("worker", w.ID) != nil || w.poolID == "":
		return false, p.implausible("a worker of the pool has no id that can be one, or none of its pool")
	case w.poolID != of.id:
		return false, p.implausible("worker %q belongs to pool %q, but by its id to another", w.ID, w.poolName)
	}
	return true, nil
}

// distinctWorkers merges the entries of a worker that is listed twice.
func (p *Provider) distinctWorkers(sorted []cloud.Worker) (out []cloud.Worker, err error) {
	for _, w := range sorted {
		if len(out) == 0 || out[len(out)-1].ID != w.ID {
			out = append(out, w)
			continue
		}
		last := &out[len(out)-1]
		last.Zone, last.NodeName, last.Flavor = cmp.Or(last.Zone, w.Zone), cmp.Or(last.NodeName, w.NodeName), cmp.Or(last.Flavor, w.Flavor)
		last.Outdated, last.Message, last.Physical = cmp.Or(last.Outdated, w.Outdated), cmp.Or(last.Message, w.Message), last.Physical || w.Physical
		if last.State != w.State || w.Zone != "" && w.Zone != last.Zone {
			return nil, p.implausible("worker %q is listed twice, as %s in zone %s, and as %s in zone %s", w.ID, last.State, last.Zone, w.State, w.Zone)
		}
	}
	return out, nil
}

// isOfFormerPool reports whether the worker is of a pool of the same name that is being deleted.
func (p *Provider) isOfFormerPool(w worker, of pool) bool {
	known := p.known[w.poolID]
	return w.poolID != of.id && w.poolID != "" && (w.State == cloud.WorkerDeleting || known != nil && known.leaving)
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
