package iksserver

import (
	"net/http"
)

func (s *Server) routeClassic() {
	const pools = "/v1/clusters/{cluster}/workerpools"
	s.mux.HandleFunc("GET /v1/clusters/{cluster}", func(w http.ResponseWriter, r *http.Request) {
		s.answerCluster(w, r.PathValue("cluster"))
	})
	s.mux.HandleFunc("GET "+pools, s.v1Pools)
	s.mux.HandleFunc("POST "+pools, s.v1CreatePool)
	s.v1("DELETE "+pools+"/{pool}", http.StatusNoContent, func(c *cluster, p *pool, _ *http.Request) (any, *refusal) {
		s.deletePool(c, p)
		return nil, nil
	})
	s.v1("PATCH "+pools+"/{pool}", http.StatusAccepted, s.v1Patch)
	s.v1("POST "+pools+"/{pool}/zones", http.StatusCreated, s.v1AddZone)
	s.v1("DELETE "+pools+"/{pool}/zones/{zone}", http.StatusAccepted, func(_ *cluster, p *pool, r *http.Request) (any, *refusal) {
		return nil, s.dropZone(p, r.PathValue("zone"))
	})
	s.mux.HandleFunc("GET /v1/clusters/{cluster}/workers", s.v1Workers)
	s.v1Worker("DELETE", http.StatusNoContent, func(_ *cluster, p *pool, w *worker) any {
		s.removeWorker(p, w)
		return nil
	})
	s.mux.HandleFunc("GET /v1/datacenters/{zone}/vlans", s.getVLANs)
}

// v1 registers a call on one pool.
func (s *Server) v1(pattern string, status int, do func(*cluster, *pool, *http.Request) (any, *refusal)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var out any
		var bad *refusal
		s.locked(func() {
			var c *cluster
			var p *pool
			if c, p, bad = s.find(r.PathValue("cluster"), r.PathValue("pool")); bad == nil {
				out, bad = do(c, p, r)
			}
		})
		reply(w, bad, status, out)
	})
}

// v1Worker registers a call on one worker.
func (s *Server) v1Worker(method string, status int, do func(*cluster, *pool, *worker) any) {
	s.mux.HandleFunc(method+" /v1/clusters/{cluster}/workers/{worker}", func(w http.ResponseWriter, r *http.Request) {
		var out any
		var bad *refusal
		s.locked(func() {
			c, p, target, refused := s.findWorker(r.PathValue("cluster"), r.PathValue("worker"))
			if bad = refused; bad == nil {
				out = do(c, p, target)
			}
		})
		reply(w, bad, status, out)
	})
}

func (s *Server) v1Pools(w http.ResponseWriter, r *http.Request) {
	var bad *refusal
	out := []map[string]any{}
	s.locked(func() {
		c := s.cluster(r.PathValue("cluster"))
		if c == nil {
			bad = refuse(http.StatusNotFound, "E0008", "Provisioning", "The specified cluster could not be found.")
			return
		}
		for _, p := range c.pools {
			out = append(out, s.listed(p.v1(c)))
		}
	})
	reply(w, bad, http.StatusOK, out)
}

// v1 has no taints: the classic API does not tell them.
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
		"isBalanced": p.balanced, "autoscaleEnabled": p.autoscaled, "zones": zones,
	}
}

func (s *Server) v1CreatePool(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Name, MachineType string
		SizePerZone       int
		Labels            map[string]string
		Zones             []zoneBody
	}
	bad := decode(r, &b)
	var out map[string]any
	s.locked(func() {
		if bad != nil {
			return
		}
		var c *cluster
		var p *pool
		c, p, bad = s.createPool(r.PathValue("cluster"), b.Name, b.MachineType, b.SizePerZone, b.Labels)
		for i := 0; bad == nil && i < len(b.Zones); i++ {
			bad = s.addZone(c, p, b.Zones[i].zone())
		}
		if bad == nil {
			out = p.v1(c)
		}
	})
	reply(w, bad, http.StatusCreated, out)
}

type zoneBody struct{ ID, PrivateVlan, PublicVlan string }

func (b zoneBody) zone() *poolZone {
	return &poolZone{id: b.ID, privateVLAN: b.PrivateVlan, publicVLAN: b.PublicVlan}
}

func (s *Server) v1AddZone(c *cluster, p *pool, r *http.Request) (any, *refusal) {
	var b zoneBody
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	return nil, s.addZone(c, p, b.zone())
}

// v1Patch acts on "state" only: a change of labels comes with sizePerZone 0.
func (s *Server) v1Patch(c *cluster, p *pool, r *http.Request) (any, *refusal) {
	var b struct {
		State       string
		SizePerZone int
		Labels      map[string]string
	}
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	switch b.State {
	case "resizing":
		return nil, s.resize(c, p, b.SizePerZone)
	case "rebalancing":
		return nil, s.rebalance(c, p)
	case "labels":
		s.setMarks(c, p, orEmpty(b.Labels), nil)
		return nil, nil
	}
	return nil, refuse(http.StatusBadRequest, "E0007", "BadRequest", "The state %q is not known.", b.State)
}

func (s *Server) v1Workers(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	bad, out := s.listWorkers(r.PathValue("cluster"), q.Get("pool"), q.Get("showDeleted") == "true", v1Worker)
	reply(w, bad, http.StatusOK, out)
}

func v1Worker(_ *cluster, p *pool, w *worker) map[string]any {
	state, status := w.state, w.message
	if w.state == stateDeployed {
		// A classic worker that is ready is "normal", and its health is its state.
		state, status = w.health, w.healthMessage
	}
	private, public := "", ""
	if z := p.zone(w.zone); z != nil {
		private, public = z.privateVLAN, z.publicVLAN
	}
	ip := w.ip
	if w.state == statePending {
		ip = ""
	}
	return map[string]any{
		"id": w.id, "state": state, "status": status, "errorMessage": "", "kubeVersion": w.version, "targetVersion": w.version,
		"location": w.zone, "poolid": p.id, "poolName": p.name, "privateIP": ip, "publicIP": "",
		"privateVlan": private, "publicVlan": public, "machineType": w.flavor + ".encrypted", "isolation": "public",
	}
}

func (s *Server) getVLANs(w http.ResponseWriter, r *http.Request) {
	out := []map[string]any{}
	s.locked(func() {
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
	})
	writeJSON(w, http.StatusOK, out)
}
