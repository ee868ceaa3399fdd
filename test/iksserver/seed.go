package iksserver

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The providers.
const (
	VPC     = "vpc-gen2"
	Classic = "classic"
)

// Cluster is a cluster to seed.
type Cluster struct {
	ID, Name string
	// Provider is VPC, Classic, or another one that only getCluster returns.
	Provider string
	// NetworkPlugin is missing in responses when empty.
	NetworkPlugin string
	// Type is kubernetes when empty, or openshift. State is normal when empty, MasterStatus Ready.
	Type, State, MasterStatus string
	// Entitlement to OpenShift: cloud_pak, or none.
	Entitlement string
	// Region is us-south when empty, Version 1.31.1_1500.
	Region, Version string
	ResourceGroup   string
	// VPCID of a VPC cluster.
	VPCID string
	Zones []Zone
	Pools []Pool
}

// Zone is a zone of a region.
type Zone struct {
	ID string
	// Subnets of a VPC zone, VLANs of a classic one.
	Subnets []Subnet
	VLANs   []VLAN
	// Flavors that can be ordered there; nil for the usual ones. NotOpenShift are those on which OpenShift does not run.
	Flavors, NotOpenShift []string
}

// Subnet is a VPC subnet.
type Subnet struct {
	ID, CIDR  string
	Available int
}

// VLAN is a classic VLAN; Type is "private" or "public".
type VLAN struct{ ID, Type, Router string }

// Pool is a worker pool to seed, with deployed workers.
type Pool struct {
	Name, Flavor string
	// Isolation of classic machines is public when empty, or private.
	Isolation   string
	SizePerZone int
	// Zones by id; the first subnet, or the first VLAN of each type, is used.
	Zones  []string
	Labels map[string]string
	Taints map[string]string
}

// Worker is the current state of a worker.
type Worker struct {
	ID, ClusterID, PoolID, PoolName string
	Zone, Flavor, IP                string
	// State is the life-cycle state ("deployed"), Health its health.
	State, Health, Message string
	Labels, Taints         map[string]string
	// BornTaints are the pool's taints at the time the worker was ordered.
	BornTaints map[string]string
}

type cluster struct {
	Cluster
	pools []*pool
	// gone are pools that are not listed any more.
	gone []*pool
}

type pool struct {
	id, name, flavor, isolation string

	size           int
	labels, taints map[string]string
	options        options
	autoscaled     bool
	// balanced: the cloud replaces workers so that each zone keeps the size.
	balanced bool
	// deleting: the pool's deletion was requested.
	deleting bool
	zones    []*poolZone
	workers  []*worker
}

type poolZone struct{ id, subnet, privateVLAN, publicVLAN string }

type worker struct {
	id, zone, flavor, ip           string
	version, target, system        string
	state, desired                 string
	health, healthMessage, message string
	since                          time.Time
	fail                           *failure
	born                           map[string]string
	announced                      bool
}

// AddCluster seeds a cluster. It panics if the profile refuses the name of a zone.
func (s *Server) AddCluster(c Cluster) {
	c.Region, c.Version = cmp.Or(c.Region, "us-south"), cmp.Or(c.Version, "1.31.1_1500")
	s.locked(func() {
		added := &cluster{Cluster: c}
		for _, z := range c.Zones {
			s.named(added, z.ID)
		}
		s.clusters = append(s.clusters, added)
		for _, p := range c.Pools {
			s.seedPool(added, p)
		}
		s.past = nil // replicas do not lag behind seeding
	})
}

// AddPool seeds another pool of a cluster.
func (s *Server) AddPool(clusterID string, p Pool) {
	s.locked(func() {
		s.seedPool(s.cluster(clusterID), p)
		s.past = nil
	})
}

func (s *Server) seedPool(c *cluster, p Pool) {
	added := s.newPool(c, p.Name, p.Flavor, p.SizePerZone, p.Labels)
	added.isolation = cmp.Or(p.Isolation, added.isolation)
	added.taints = maps.Clone(p.Taints)
	for _, id := range p.Zones {
		added.zones = append(added.zones, c.defaultNetwork(id))
		for range p.SizePerZone {
			w := s.order(c, added, id)
			w.state, w.health, w.healthMessage, w.announced = stateDeployed, "normal", "Ready", true
			w.fail = nil
		}
	}
}

func (c *cluster) zone(id string) *Zone {
	i := slices.IndexFunc(c.Zones, func(z Zone) bool { return z.ID == id })
	if i < 0 {
		return nil
	}
	return &c.Zones[i]
}

func (c *cluster) defaultNetwork(id string) *poolZone {
	out := &poolZone{id: id}
	z := c.zone(id)
	if z == nil {
		return out
	}
	if len(z.Subnets) > 0 {
		out.subnet = z.Subnets[0].ID
	}
	for _, v := range slices.Backward(z.VLANs) {
		if v.Type == "private" {
			out.privateVLAN = v.ID
		} else {
			out.publicVLAN = v.ID
		}
	}
	return out
}

// cluster finds a cluster by id or name.
func (s *Server) cluster(key string) *cluster {
	for _, c := range s.clusters {
		if key != "" && (c.ID == key || c.Name == key) {
			return c
		}
	}
	return nil
}

// pool finds a pool by id or name.
func (c *cluster) pool(key string) *pool {
	for _, p := range c.pools {
		if key != "" && (p.id == key || p.name == key) {
			return p
		}
	}
	return nil
}

// everyPool returns all pools, including deleted ones.
func (c *cluster) everyPool() []*pool { return slices.Concat(c.pools, c.gone) }

func (p *pool) has(zone string) bool {
	return slices.ContainsFunc(p.zones, func(z *poolZone) bool { return z.id == zone })
}

// operatingSystem is the default operating system of pools.
const operatingSystem = "UBUNTU_24_64"

// usual are the default flavors of zones.
var usual = map[string][]string{
	VPC:     {"bx2.4x16", "bx2.2x8", "cx2.2x4", "mx2.2x16", "bx2.8x32", "bx2.16x64", "cx2.8x16", "gx3.16x80.l4", "b2.4x16"},
	Classic: {"b3c.4x16", "u3c.2x4", "b3c.16x64", "bx2.4x16", "mb4c.20x64", "ms3c.4x32.1.9tb.ssd", "u2c.2x4"},
}

var deprecated = []string{"b2.4x16", "u2c.2x4"}

// options are the further settings of a new pool, with the names of the v2 API.
type options struct {
	OperatingSystem, HostPool string
	SecurityGroupIDs          []string
	WorkerVolumeEncryption    *volumeEncryption
}

type volumeEncryption struct {
	KMSInstanceID     string `json:"kmsInstanceID,omitempty"`
	WorkerVolumeCRKID string `json:"workerVolumeCRKID,omitempty"`
	KMSAccountID      string `json:"kmsAccountID,omitempty"`
}

func (c *cluster) flavors(z *Zone) []string {
	if z.Flavors != nil {
		return z.Flavors
	}
	return usual[c.Provider]
}

// flavors lists the flavors of the zone in the path (classic) or the query (VPC).
func (s *Server) flavors(r *http.Request) (any, *refusal) {
	provider, zone := Classic, r.PathValue("zone")
	if zone == "" {
		provider, zone = r.FormValue("provider"), r.FormValue("zone")
	}
	out := []map[string]any{}
	for _, c := range s.clusters {
		if z := c.zone(zone); z != nil && c.Provider == provider && len(out) == 0 {
			for _, name := range c.flavors(z) {
				if s.beliefs.OtherFlavors {
					name = strings.Replace(name, ".", "-", 1)
				}
				out = append(out, map[string]any{"id": name, "name": name, "provider": provider, "deprecated": slices.Contains(deprecated, name), "ocp_unsupported": slices.Contains(z.NotOpenShift, name)})
			}
		}
	}
	return out, nil
}

// zones lists the zones of all clusters, and one that has no cluster.
func (s *Server) zones(provider string) func(*http.Request) (any, *refusal) {
	return func(*http.Request) (any, *refusal) {
		far := map[string]string{VPC: "jp-osa-1", Classic: "syd01"}[provider]
		out := []map[string]any{{"id": far, "name": far, "metro": far}}
		for _, c := range s.clusters {
			for _, z := range c.Zones {
				if c.Provider == provider {
					out = append(out, map[string]any{"id": z.ID, "name": z.ID, "metro": c.Region})
				}
			}
		}
		return out, nil
	}
}

// Workers returns the workers of a pool that are not deleted, by the pool's name.
func (s *Server) Workers(clusterID, poolName string) []Worker {
	var out []Worker
	s.locked(func() {
		c := s.cluster(clusterID)
		for _, p := range c.pools {
			if p.name == poolName {
				out = append(out, p.state(c).Workers...)
			}
		}
	})
	return out
}

// Pools returns the names of a cluster's pools, sorted. Two pools may have the same name.
func (s *Server) Pools(clusterID string) []string {
	var out []string
	s.locked(func() {
		for _, p := range s.cluster(clusterID).pools {
			out = append(out, p.name)
		}
	})
	slices.Sort(out)
	return out
}

// Untainted returns all workers of a pool, deleted ones included, that were ordered or seeded while the pool had no taint.
func (s *Server) Untainted(poolName string) []Worker {
	var out []Worker
	s.locked(func() {
		for _, c := range s.clusters {
			for _, p := range c.everyPool() {
				for _, w := range p.workers {
					if p.name == poolName && len(w.born) == 0 {
						out = append(out, view(c, p, w))
					}
				}
			}
		}
	})
	return out
}

// SetVersion updates a cluster's master. New workers have the version; it becomes the target version of existing ones.
func (s *Server) SetVersion(clusterID, version string) {
	s.locked(func() {
		c := s.cluster(clusterID)
		c.Version = version
		for _, p := range c.pools {
			for _, w := range p.workers {
				w.target = version
			}
		}
	})
}

// SetClusterState sets the state of a cluster, such as "deleting".
func (s *Server) SetClusterState(clusterID, state string) {
	s.locked(func() { s.cluster(clusterID).State = state })
}

// SetMasterStatus sets the status of a cluster's master, such as "Version update in progress".
func (s *Server) SetMasterStatus(clusterID, status string) {
	s.locked(func() { s.cluster(clusterID).MasterStatus = status })
}

// SetOperatingSystem sets the operating system of a pool's new workers, as a user of the console would.
func (s *Server) SetOperatingSystem(clusterID, poolName, system string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.options.OperatingSystem = system })
}

// SetQuota sets the most workers of the account; 0: no limit.
func (s *Server) SetQuota(n int) {
	s.locked(func() { s.quota = n })
}

// FailNext makes the next n ordered workers end in a state ("provision_failed", "deploy_failed") with a message.
func (s *Server) FailNext(n int, state, message string) {
	s.locked(func() {
		for range n {
			s.failNext = append(s.failNext, failure{state: state, message: message})
		}
	})
}

// Break sets a worker's state and health. With state "" it stays deployed.
func (s *Server) Break(clusterID, workerID, state, health, message string) {
	s.locked(func() {
		if _, _, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			w.state = cmp.Or(state, w.state)
			w.health, w.healthMessage, w.message = health, message, message
		}
	})
}

// Hold keeps a worker in its state until a request changes it.
func (s *Server) Hold(clusterID, workerID string) {
	s.locked(func() {
		if _, _, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			w.since = s.now().AddDate(1, 0, 0)
		}
	})
}

// ReplaceWorker deletes a worker and orders another one in its place, as a user of the console would.
func (s *Server) ReplaceWorker(clusterID, workerID string) {
	s.locked(func() {
		if c, p, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			_ = s.replaceWorker(c, p, w) // no effect on a worker that is being deleted
		}
	})
}

// SetAutoscaled sets whether the autoscaler controls a pool.
func (s *Server) SetAutoscaled(clusterID, poolName string, on bool) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.autoscaled = on })
}

// SetPoolLabels replaces a pool's labels, as a user of the console would.
func (s *Server) SetPoolLabels(clusterID, poolName string, labels map[string]string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.labels = labels })
}

// SetPoolTaints replaces a pool's taints, as a user of the console would.
func (s *Server) SetPoolTaints(clusterID, poolName string, taints map[string]string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.taints = taints })
}

// Labels returns the labels and taints of a pool.
func (s *Server) Labels(clusterID, poolName string) (labels, taints map[string]string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { labels, taints = p.labels, p.taints })
	return labels, taints
}

func (s *Server) onPool(clusterID, poolName string, fn func(*cluster, *pool)) {
	s.locked(func() {
		if c, p, bad := s.find(clusterID, poolName); bad == nil {
			fn(c, p)
		}
	})
}

// RemoveWorker removes a worker, as a user of the console would.
func (s *Server) RemoveWorker(clusterID, workerID string) {
	s.locked(func() {
		if c, p, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			s.removeWorker(c, p, w)
		}
	})
}

// RemovePool deletes a pool, as a person at a console would.
func (s *Server) RemovePool(clusterID, poolName string) { s.onPool(clusterID, poolName, s.deletePool) }

// AddZone adds a zone to a cluster's region.
func (s *Server) AddZone(clusterID string, z Zone) {
	s.locked(func() {
		c := s.cluster(clusterID)
		s.named(c, z.ID)
		c.Zones = append(c.Zones, z)
	})
}

// PoolState is the state of a pool. A deleted pool has one until its last machine is deleted.
type PoolState struct {
	ID, Name    string
	SizePerZone int
	// Zones by id, sorted.
	Zones   []string
	Taints  map[string]string
	Deleted bool
	// Workers that are not deleted.
	Workers []Worker
}

func (s *Server) audit() {
	if s.cfg.Audit == nil {
		return
	}
	var out []PoolState
	for _, c := range s.clusters {
		for _, p := range c.everyPool() {
			now := p.state(c)
			if !now.Deleted || len(now.Workers) > 0 || slices.Contains(c.pools, p) {
				out = append(out, now)
			}
		}
	}
	s.cfg.Audit(out)
}

func (p *pool) state(c *cluster) PoolState {
	out := PoolState{ID: p.id, Name: p.name, SizePerZone: p.size, Deleted: p.deleting, Taints: p.taints}
	for _, z := range p.zones {
		out.Zones = append(out.Zones, z.id)
	}
	slices.Sort(out.Zones)
	for _, w := range p.workers {
		if w.state != stateDeleted {
			out.Workers = append(out.Workers, view(c, p, w))
		}
	}
	return out
}
