package iksserver

import (
	"net/http"
)

func (s *Server) routeClassic() {
	const pools = "/v1/clusters/{cluster}/workerpools"
	s.handle("GET "+pools, http.StatusOK, func(r *http.Request) (any, *refusal) { return s.listPools(r.PathValue("cluster"), (*pool).v1) })
	s.create("POST "+pools, s.v1CreatePool)
	s.handle("DELETE "+pools+"/{pool}", http.StatusNoContent, func(r *http.Request) (any, *refusal) {
		c, p, bad := s.find(r.PathValue("cluster"), r.PathValue("pool"))
		if bad == nil {
			s.deletePool(c, p)
		}
		return nil, bad
	})
	s.handle("POST "+pools+"/{pool}/zones", http.StatusCreated, s.addZoneTo)
	s.handle("GET /v1/clusters/{cluster}/workers", http.StatusOK, func(r *http.Request) (any, *refusal) {
		return s.listWorkers(r.PathValue("cluster"), r, v1Worker)
	})
	s.handle("DELETE /v1/clusters/{cluster}/workers/{worker}", http.StatusNoContent, func(r *http.Request) (any, *refusal) {
		_, p, w, bad := s.findWorker(r.PathValue("cluster"), r.PathValue("worker"))
		if bad == nil {
			s.removeWorker(p, w)
		}
		return nil, bad
	})
	s.handle("GET /v1/datacenters/{zone}/vlans", http.StatusOK, s.vlans)
	s.handle("GET /v1/datacenters/{zone}/machine-types", http.StatusOK, s.flavors)
	s.handle("GET /v1/zones", http.StatusOK, s.zones(Classic))
}

// v1 has no taints: the classic API does not report them.
func (p *pool) v1(c *cluster) map[string]any {
	zones := []map[string]any{}
	for _, z := range p.zones {
		zones = append(zones, map[string]any{
			"id": z.id, "privateVlan": z.privateVLAN, "publicVlan": z.publicVLAN, "workerCount": len(p.live(z.id)),
		})
	}
	return map[string]any{
		"id": p.id, "name": p.name, "sizePerZone": p.size, "machineType": p.flavor + ".encrypted", "isolation": "public",
		"labels": orEmpty(p.labels), "region": c.Region, "state": p.lifecycle()["actualState"], "reasonForDelete": "",
		"isBalanced": p.balanced, "autoscaleEnabled": p.autoscaled, "zones": zones, "operatingSystem": p.options.OperatingSystem,
	}
}

func (s *Server) v1CreatePool(r *http.Request) (any, *refusal) {
	var b struct {
		Name, MachineType string
		SizePerZone       int
		Labels            map[string]string
		OperatingSystem   string
	}
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	c, p, bad := s.createPool(r.PathValue("cluster"), b.Name, b.MachineType, b.SizePerZone, b.Labels, options{OperatingSystem: b.OperatingSystem})
	if bad != nil {
		return nil, bad
	}
	return p.v1(c), nil
}

func v1Worker(p *pool, w *worker) map[string]any {
	state, status := w.state, w.message
	if w.state == stateDeployed {
		// A classic worker that is ready is "normal", and its health is its state.
		state, status = w.health, w.healthMessage
	}
	ip := w.ip
	if w.state == statePending {
		ip = ""
	}
	return map[string]any{
		"id": w.id, "state": state, "status": status, "errorMessage": "", "kubeVersion": w.version, "targetVersion": w.target,
		"location": w.zone, "poolid": p.id, "poolName": p.name, "privateIP": ip, "publicIP": "",
		"machineType": w.flavor + ".encrypted", "isolation": "public",
	}
}

func (s *Server) vlans(r *http.Request) (any, *refusal) {
	out := []map[string]any{}
	for _, c := range s.clusters {
		z := c.zone(r.PathValue("zone"))
		if c.Provider != Classic || z == nil {
			continue
		}
		for _, v := range z.VLANs {
			out = append(out, map[string]any{
				"id": v.ID, "type": v.Type,
				"properties": map[string]string{"location": z.ID, "name": v.ID, "primary_router": v.Router, "vlan_type": "standard"},
			})
		}
	}
	return out, nil
}
