package iksserver

import "slices"

// PoolState is a pool as it is at one moment. One that is deleted is told until its
// last machine is gone. Its maps are those of the server: do not keep them.
type PoolState struct {
	ClusterID, ID, Name string
	SizePerZone         int
	// Zones by id, sorted.
	Zones          []string
	Labels, Taints map[string]string
	Deleted        bool
	// Workers that are not gone.
	Workers []Worker
}

func (s *Server) audit() {
	if s.cfg.Audit == nil {
		return
	}
	var out []PoolState
	for _, c := range s.clusters {
		for _, p := range slices.Concat(c.pools, c.gone) {
			now := p.state(c)
			if !now.Deleted || len(now.Workers) > 0 || slices.Contains(c.pools, p) {
				out = append(out, now)
			}
		}
	}
	s.cfg.Audit(out)
}

func (p *pool) state(c *cluster) PoolState {
	out := PoolState{
		ClusterID: c.ID, ID: p.id, Name: p.name, SizePerZone: p.size, Deleted: p.deleting,
		Labels: p.labels, Taints: p.taints,
	}
	for _, z := range p.zones {
		out.Zones = append(out.Zones, z.id)
	}
	slices.Sort(out.Zones)
	out.Workers = make([]Worker, 0, len(p.workers))
	for _, w := range p.workers {
		if w.state != stateDeleted {
			out.Workers = append(out.Workers, view(c, p, w))
		}
	}
	return out
}
