package iksserver

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

func (s *Server) routeVPC() {
	s.mux.HandleFunc("GET /v2/vpc/getWorkerPools", s.ofVPC(s.v2Pools))
	s.mux.HandleFunc("GET /v2/vpc/getWorkerPool", s.v2Pool(VPC))
	s.mux.HandleFunc("GET /v2/vpc/getWorkers", s.ofVPC(s.v2Workers))
	s.mux.HandleFunc("GET /v2/vpc/getSubnets", s.getSubnets)
	s.mux.HandleFunc("POST /v2/vpc/createWorkerPool", s.v2CreatePool)
	s.mux.HandleFunc("POST /v2/vpc/createWorkerPoolZone", s.v2AddZone)
	s.mux.HandleFunc("POST /v2/vpc/replaceWorker", s.workerChange(s.replaceWorker))
}

// ofVPC refuses clusters of another provider.
func (s *Server) ofVPC(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		other := false
		s.locked(func() {
			c := s.cluster(r.URL.Query().Get("cluster"))
			other = c != nil && c.Provider != VPC
		})
		if other {
			writeError(w, http.StatusBadRequest, codeProvider, "BadRequest", "The cluster's provider is not permitted for this path.")
			return
		}
		next(w, r)
	}
}

// codeProvider is what IBM says to a call for another provider, as far as is known.
const codeProvider = "E3917"

func (s *Server) v2Pools(w http.ResponseWriter, r *http.Request) {
	var bad *refusal
	out := []map[string]any{}
	s.locked(func() {
		c := s.cluster(r.URL.Query().Get("cluster"))
		if c == nil {
			bad = refuse(http.StatusNotFound, "E0008", "Provisioning", "The specified cluster could not be found.")
			return
		}
		for _, p := range c.pools {
			out = append(out, s.listed(p.v2(c)))
		}
	})
	reply(w, bad, http.StatusOK, out)
}

// listed is a pool as a listing has it.
func (s *Server) listed(whole map[string]any) map[string]any {
	if s.cfg.Sparse == WholeAnswers {
		return whole
	}
	return only(whole, "id", "name", "poolName", "state", "lifecycle")
}

func only(m map[string]any, keys ...string) map[string]any {
	maps.DeleteFunc(m, func(k string, _ any) bool { return !slices.Contains(keys, k) })
	return m
}

// v2Pool answers for one pool of a cluster of that provider.
func (s *Server) v2Pool(provider string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var bad *refusal
		var out map[string]any
		q := r.URL.Query()
		s.locked(func() {
			c, p, refused := s.find(q.Get("cluster"), q.Get("workerpool"))
			if bad = refused; bad != nil {
				return
			}
			if c.Provider != provider {
				bad = refuse(http.StatusBadRequest, codeProvider, "BadRequest", "The cluster's provider is not permitted for this path.")
				return
			}
			if out = p.v2(c); s.cfg.Sparse == SparseAnswers {
				out = only(out, "id", "poolName", "labels", "workerCount", "zones")
			}
		})
		reply(w, bad, http.StatusOK, out)
	}
}

func (p *pool) v2(c *cluster) map[string]any {
	zones := []map[string]any{}
	for _, z := range p.zones {
		zones = append(zones, map[string]any{
			"id": z.id, "workerCount": len(p.live(z.id)), "autobalanceEnabled": p.balanced, "messages": []string{},
			"subnets": []map[string]any{{"id": z.subnet, "primary": true}},
		})
	}
	return map[string]any{
		"id": p.id, "poolName": p.name, "flavor": p.flavor, "provider": c.Provider, "isolation": "public",
		"vpcID": c.VPCID, "workerCount": p.size, "labels": orEmpty(p.labels), "taints": orEmpty(p.taints),
		"autoscaleEnabled": p.autoscaled, "isBalanced": p.balanced, "operatingSystem": "UBUNTU_24_64",
		"lifecycle": p.lifecycle(), "zones": zones,
	}
}

// lifecycle of a pool: at IBM "active" was seen, and "deleted"; "deleting" is invented.
func (p *pool) lifecycle() map[string]string {
	if p.deleting {
		return map[string]string{"actualState": stateDeleting, "desiredState": stateDeleted}
	}
	return map[string]string{"actualState": "active", "desiredState": "active"}
}

func (s *Server) v2Workers(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	bad, out := s.listWorkers(q.Get("cluster"), q.Get("pool"), q.Get("showDeleted") == "true", v2Worker)
	reply(w, bad, http.StatusOK, out)
}

// listWorkers lists in the words of one generation.
func (s *Server) listWorkers(clusterKey, poolKey string, deleted bool, say func(*cluster, *pool, *worker) map[string]any) (*refusal, []map[string]any) {
	var bad *refusal
	out := []map[string]any{}
	s.locked(func() {
		c := s.cluster(clusterKey)
		if c == nil {
			bad = refuse(http.StatusNotFound, "E0008", "Provisioning", "The specified cluster could not be found.")
			return
		}
		// The machines of a deleted pool are still listed, as IBM's own tools wait for them.
		every := slices.Concat(c.pools, c.gone)
		only := slices.IndexFunc(every, func(p *pool) bool { return p.id == poolKey || p == c.pool(poolKey) })
		if poolKey != "" && only < 0 {
			bad = refuse(http.StatusNotFound, "E9004", "Provisioning", "The specified worker pool could not be found.")
			return
		}
		for i, p := range every {
			for _, w := range p.workers {
				if (poolKey == "" || i == only) && (deleted || w.state != stateDeleted) {
					out = append(out, say(c, p, w))
				}
			}
		}
	})
	return bad, out
}

func v2Worker(_ *cluster, p *pool, w *worker) map[string]any {
	subnet, cidr := "", ""
	if z := p.zone(w.zone); z != nil {
		subnet = z.subnet
	}
	if i := strings.LastIndex(w.ip, "."); i > 0 {
		cidr = w.ip[:i] + ".0/24"
	}
	interfaces := []map[string]any{}
	if w.state != statePending {
		interfaces = append(interfaces, map[string]any{"subnetID": subnet, "ipAddress": w.ip, "cidr": cidr, "primary": true})
	}
	return map[string]any{
		"id": w.id, "flavor": w.flavor, "location": w.zone, "poolID": p.id, "poolName": p.name, "billing": "hourly",
		"kubeVersion": map[string]string{"actual": w.version, "desired": w.version, "target": w.version},
		"lifecycle": map[string]string{
			"actualState": w.state, "desiredState": w.desired, "reasonForDelete": "", "message": w.message,
			"pendingOperation": "", "actualOperatingSystem": "UBUNTU_24_64",
		},
		"health":            map[string]string{"state": w.health, "message": w.healthMessage},
		"networkInterfaces": interfaces,
	}
}

func (s *Server) getSubnets(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := []map[string]any{}
	s.locked(func() {
		for _, c := range s.clusters {
			if c.VPCID != q.Get("vpc") {
				continue
			}
			for _, z := range c.Zones {
				for _, n := range z.Subnets {
					if zone := q.Get("zone"); zone == "" || zone == z.ID {
						out = append(out, map[string]any{
							"id": n.ID, "name": n.ID, "zone": z.ID, "vpcID": c.VPCID, "vpcName": "vpc",
							"ipv4CIDRBlock": n.CIDR, "availableIPv4AddressCount": n.Available,
						})
					}
				}
			}
		}
	})
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) v2CreatePool(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Cluster, Name, Flavor, VPCID string
		WorkerCount                  int
		Labels                       map[string]string
		Zones                        []struct{ ID, SubnetID string }
	}
	bad := decode(r, &b)
	var out map[string]string
	s.locked(func() {
		if bad != nil {
			return
		}
		var c *cluster
		var p *pool
		if c = s.cluster(b.Cluster); c != nil && (c.Provider != VPC || c.VPCID != b.VPCID) {
			bad = refuse(http.StatusBadRequest, codeProvider, "BadRequest", "The cluster is not in the VPC %q.", b.VPCID)
			return
		}
		c, p, bad = s.createPool(b.Cluster, b.Name, b.Flavor, b.WorkerCount, b.Labels)
		for i := 0; bad == nil && i < len(b.Zones); i++ {
			bad = s.addZone(c, p, &poolZone{id: b.Zones[i].ID, subnet: b.Zones[i].SubnetID})
		}
		if bad == nil {
			out = map[string]string{"workerPoolID": p.id}
		}
	})
	reply(w, bad, http.StatusCreated, out)
}

func (s *Server) v2AddZone(w http.ResponseWriter, r *http.Request) {
	var b struct{ Cluster, ID, SubnetID, WorkerPoolID, WorkerPool string }
	bad := decode(r, &b)
	s.locked(func() {
		if bad != nil {
			return
		}
		if b.WorkerPoolID == "" {
			b.WorkerPoolID = b.WorkerPool
		}
		var c *cluster
		var p *pool
		if c, p, bad = s.find(b.Cluster, b.WorkerPoolID); bad == nil {
			bad = s.addZone(c, p, &poolZone{id: b.ID, subnet: b.SubnetID})
		}
	})
	reply(w, bad, http.StatusCreated, nil)
}
