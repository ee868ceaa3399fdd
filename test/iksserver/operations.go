package iksserver

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// The operations that both generations share.

func (s *Server) find(clusterKey, poolKey string) (*cluster, *pool, *refusal) {
	c := s.cluster(clusterKey)
	if c == nil {
		return nil, nil, missing("E0008", "cluster")
	}
	p := c.pool(poolKey)
	if p == nil {
		return c, nil, missing("E9004", "worker pool")
	}
	return c, p, nil
}

func (s *Server) findWorker(clusterKey, workerID string) (*cluster, *pool, *worker, *refusal) {
	c := s.cluster(clusterKey)
	if c == nil {
		return nil, nil, nil, missing("E0008", "cluster")
	}
	for _, p := range c.pools {
		for _, w := range p.workers {
			if w.id == workerID && w.state != stateDeleted {
				return c, p, w, nil
			}
		}
	}
	return nil, nil, nil, missing("E9004", "worker node")
}

func (s *Server) createPool(clusterKey, name, flavor string, size int, labels map[string]string, o options) (*cluster, *pool, *refusal) {
	c := s.cluster(clusterKey)
	switch {
	case c == nil:
		return nil, nil, missing("E0008", "cluster")
	case name == "" || flavor == "" || size < 0:
		return nil, nil, refuse(http.StatusBadRequest, "E0007", "BadRequest", "The name, flavor or size of the worker pool is not valid.")
	case c.pool(name) != nil:
		return nil, nil, refuse(http.StatusConflict, "E0d39", "Provisioning",
			"A worker pool with the same name already exists within the cluster. Choose another name.")
	}
	if bad := s.labelled(labels); bad != nil {
		return nil, nil, bad
	}
	p := s.newPool(c, name, flavor, size, labels)
	o.OperatingSystem = cmp.Or(o.OperatingSystem, p.options.OperatingSystem)
	p.options = o
	return c, p, nil
}

func (s *Server) addZone(c *cluster, p *pool, z *poolZone) *refusal {
	place := c.zone(z.id)
	switch {
	case p.deleting:
		return refuse(http.StatusConflict, "E9009", "Provisioning", "The worker pool is being deleted.")
	case place == nil:
		return refuse(http.StatusBadRequest, "E9005", "BadRequest", "The specified zone %s is not part of the region.", z.id)
	case p.zone(z.id) != nil:
		return refuse(http.StatusConflict, "E9006", "Provisioning", "The worker pool already has the zone %s.", z.id)
	case c.Provider == VPC && !slices.ContainsFunc(place.Subnets, func(n Subnet) bool { return n.ID == z.subnet }):
		return refuse(http.StatusBadRequest, "E9007", "BadRequest", "The subnet %q does not exist in zone %s.", z.subnet, z.id)
	case !slices.Contains(c.flavors(place), p.flavor):
		return refuse(http.StatusBadRequest, "E4e5b", "BadRequest", "Could not find flavor in the requested zone.")
	case c.Provider == Classic && z.privateVLAN != "" && !slices.ContainsFunc(place.VLANs, func(v VLAN) bool { return v.ID == z.privateVLAN }):
		return refuse(http.StatusBadRequest, "E0053", "BadRequest", "The private VLAN %q does not exist.", z.privateVLAN)
	}
	p.zones = append(p.zones, z)
	for range p.size {
		s.order(c, p, z.id)
	}
	return nil
}

func (s *Server) dropZone(p *pool, zone string) *refusal {
	if p.zone(zone) == nil {
		return refuse(http.StatusNotFound, "E9004", "Provisioning", "The specified zone could not be found in the worker pool.")
	}
	p.zones = slices.DeleteFunc(p.zones, func(z *poolZone) bool { return z.id == zone })
	for _, w := range p.live(zone) {
		s.remove(w)
	}
	return nil
}

func (s *Server) resize(c *cluster, p *pool, size int) *refusal {
	if p.autoscaled {
		return refuse(http.StatusBadRequest, "E9001", "BadRequest", "The worker pool is managed by the cluster autoscaler and can't be resized or rebalanced.")
	}
	if p.deleting {
		return refuse(http.StatusConflict, "E9009", "Provisioning", "The worker pool is being deleted.")
	}
	if size < 0 {
		return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The size is not valid.")
	}
	p.size, p.balanced = size, true
	s.balance(c, p)
	return nil
}

// wellFormed refuses taints that are not written as value:Effect. IBM's words for that are not known.
func wellFormed(taints map[string]string) *refusal {
	for key, text := range taints {
		value, effect, ok := strings.Cut(text, ":")
		if known := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}; !ok || value == "" || !slices.Contains(known, effect) {
			return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The taint %s=%s is not valid.", key, text)
		}
	}
	return nil
}

// removeWorker takes one worker away; nothing takes its place until the next resize.
func (s *Server) removeWorker(p *pool, w *worker) {
	p.balanced = false
	s.remove(w)
}

func (s *Server) replaceWorker(c *cluster, p *pool, w *worker) *refusal {
	if w.state == stateDeleting {
		return refuse(http.StatusConflict, "E9008", "Provisioning", "The worker node is being deleted.")
	}
	s.remove(w)
	if p.balanced && p.zone(w.zone) != nil {
		s.order(c, p, w.zone)
	}
	return nil
}

// deletePool sends the machines away, which take their time.
func (s *Server) deletePool(c *cluster, p *pool) {
	for _, w := range p.workers {
		s.remove(w)
	}
	p.deleting = true
	if s.cfg.Profile == Slow {
		s.dropDeleted(c)
		return
	}
	c.pools = slices.DeleteFunc(c.pools, func(o *pool) bool { return o == p })
	c.gone = append(c.gone, p)
}
