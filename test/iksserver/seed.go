package iksserver

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The providers.
const (
	VPC     = "vpc-gen2"
	Classic = "classic"
)

// Cluster is a cluster to start with.
type Cluster struct {
	ID, Name string
	// Provider is VPC or Classic, or another one, of which getCluster alone knows.
	Provider string
	// NetworkPlugin is left out of answers when empty.
	NetworkPlugin string
	// Region is us-south when empty, Version 1.31.1_1500.
	Region, Version string
	ResourceGroup   string
	// VPCID of a VPC cluster.
	VPCID string
	Zones []Zone
	Pools []Pool
}

// Zone is a place for workers.
type Zone struct {
	ID string
	// Subnets of a VPC zone, VLANs of a classic one.
	Subnets []Subnet
	VLANs   []VLAN
	// Flavors that can be ordered there; nil for the usual ones.
	Flavors []string
}

// Subnet is a VPC subnet.
type Subnet struct {
	ID, CIDR  string
	Available int
}

// VLAN is a classic VLAN; Type is "private" or "public".
type VLAN struct{ ID, Type, Router string }

// Pool is a worker pool whose workers are deployed already.
type Pool struct {
	Name, Flavor string
	SizePerZone  int
	// Zones by id; the first subnet, or the first VLAN of each type, is used.
	Zones  []string
	Labels map[string]string
	Taints map[string]string
}

// Worker is a worker as it is now.
type Worker struct {
	ID, ClusterID, PoolID, PoolName string
	Zone, Flavor, IP                string
	// State is the life-cycle state ("deployed"), Health its health.
	State, Health, Message string
	Labels, Taints         map[string]string
	// BornTaints are the pool's taints at the moment the worker was ordered.
	BornTaints map[string]string
}

type cluster struct {
	Cluster
	pools []*pool
	// gone are deleted pools whose machines are still going away.
	gone []*pool
}

type pool struct {
	id, name, flavor string
	size             int
	labels, taints   map[string]string
	options          options
	autoscaled       bool
	// balanced: the cloud keeps each zone at the size.
	balanced bool
	// deleting: it is on its way out, or out.
	deleting bool
	zones    []*poolZone
	workers  []*worker
}

type poolZone struct{ id, subnet, privateVLAN, publicVLAN string }

type worker struct {
	id, zone, flavor, ip           string
	version, target                string
	state, desired                 string
	health, healthMessage, message string
	since                          time.Time
	fail                           *failure
	born                           map[string]string
	announced                      bool
}

// AddCluster seeds a cluster. It panics when a zone is not named as the profile asks for.
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
		s.past = nil // what is seeded has always been there
	})
}

// AddPool seeds a further pool of a cluster that exists.
func (s *Server) AddPool(clusterID string, p Pool) {
	s.locked(func() {
		s.seedPool(s.cluster(clusterID), p)
		s.past = nil
	})
}

func (s *Server) seedPool(c *cluster, p Pool) {
	added := s.newPool(c, p.Name, p.Flavor, p.SizePerZone, p.Labels)
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

// cluster finds by id or name.
func (s *Server) cluster(key string) *cluster {
	for _, c := range s.clusters {
		if key != "" && (c.ID == key || c.Name == key) {
			return c
		}
	}
	return nil
}

// pool finds by id or name.
func (c *cluster) pool(key string) *pool {
	for _, p := range c.pools {
		if key != "" && (p.id == key || p.name == key) {
			return p
		}
	}
	return nil
}

// everyPool gives the deleted ones too.
func (c *cluster) everyPool() []*pool { return slices.Concat(c.pools, c.gone) }

func (p *pool) zone(id string) *poolZone {
	for _, z := range p.zones {
		if z.id == id {
			return z
		}
	}
	return nil
}
