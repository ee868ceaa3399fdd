package iksserver

import (
	"cmp"
	"slices"
)

// Workers gives the workers of a pool, by the pool's name, that are not deleted.
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

// Pools gives the names of a cluster's pools, sorted; one name may come twice.
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

// Untainted gives every worker that was ever ordered for a pool, by its name,
// while the pool had no taint; seeded ones included.
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

// SetVersion updates a cluster's master: workers that come have the version, those that are there are to be updated to it.
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

// SetQuota changes how many workers the account may have; 0: any.
func (s *Server) SetQuota(n int) {
	s.locked(func() { s.quota = n })
}

// FailNext lets the next n workers that are ordered end in state
// ("provision_failed", "deploy_failed") with message.
func (s *Server) FailNext(n int, state, message string) {
	s.locked(func() {
		for range n {
			s.failNext = append(s.failNext, failure{state: state, message: message})
		}
	})
}

// Break puts a worker into a state and health; state "" leaves it deployed.
func (s *Server) Break(clusterID, workerID, state, health, message string) {
	s.locked(func() {
		if _, _, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			w.state = cmp.Or(state, w.state)
			w.health, w.healthMessage, w.message = health, message, message
		}
	})
}

// ReplaceWorker deletes a worker and orders another one in its place, as a person at a console would.
func (s *Server) ReplaceWorker(clusterID, workerID string) {
	s.locked(func() {
		if c, p, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			_ = s.replaceWorker(c, p, w) // one that is on its way out already goes
		}
	})
}

// SetAutoscaled puts a pool under the autoscaler's control, or out of it.
func (s *Server) SetAutoscaled(clusterID, poolName string, on bool) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.autoscaled = on })
}

// SetPoolLabels replaces a pool's labels, as a person at a console would.
func (s *Server) SetPoolLabels(clusterID, poolName string, labels map[string]string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.labels = labels })
}

// SetPoolTaints replaces a pool's taints, as a person at a console would.
func (s *Server) SetPoolTaints(clusterID, poolName string, taints map[string]string) {
	s.onPool(clusterID, poolName, func(_ *cluster, p *pool) { p.taints = taints })
}

// Labels and Taints of a pool as they are now.
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

// RemoveWorker takes a worker away, as a person at a console would.
func (s *Server) RemoveWorker(clusterID, workerID string) {
	s.locked(func() {
		if _, p, w, bad := s.findWorker(clusterID, workerID); bad == nil {
			s.removeWorker(p, w)
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

// PoolState is a pool as it is at one moment. One that is deleted is reported until its
// last machine is gone. Its maps are those of the server: do not keep them.
type PoolState struct {
	ID, Name    string
	SizePerZone int
	// Zones by id, sorted.
	Zones   []string
	Taints  map[string]string
	Deleted bool
	// Workers that are not gone.
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
