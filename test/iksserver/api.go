package iksserver

import (
	"cmp"
	"net/http"
	"slices"
)

// routeV2 registers the calls of VPC clusters, and the v2 calls that work for any provider.
func (s *Server) routeV2() {
	s.handle("GET /v2/vpc/getWorkerPools", http.StatusOK, s.of(VPC, func(r *http.Request) (any, *refusal) {
		return s.listPools(r.FormValue("cluster"), (*pool).v2)
	}))
	s.handle("GET /v2/vpc/getWorkerPool", http.StatusOK, s.of(VPC, s.v2Pool))
	s.handle("GET /v2/vpc/getWorkers", http.StatusOK, s.of(VPC, func(r *http.Request) (any, *refusal) {
		return s.listWorkers(r.FormValue("cluster"), r, v2Worker)
	}))
	s.handle("GET /v2/vpc/getSubnets", http.StatusOK, s.subnets)
	s.handle("POST /v2/vpc/createWorkerPool", http.StatusCreated, s.v2CreatePool)
	s.handle("POST /v2/vpc/createWorkerPoolZone", http.StatusCreated, s.addZoneTo)
	s.changeWorker("POST /v2/vpc/replaceWorker", s.replaceWorker)

	s.handle("GET /v2/getCluster", http.StatusOK, s.getCluster)
	s.handle("GET /v2/getFlavors", http.StatusOK, s.flavors)
	s.handle("GET /v2/vpc/getZones", http.StatusOK, s.zones(VPC))
	s.handle("GET /v2/classic/getWorkerPool", http.StatusOK, s.of(Classic, s.v2Pool))
	s.change("POST /v2/resizeWorkerPool", http.StatusAccepted, func(c *cluster, p *pool, b change) *refusal {
		return s.resize(c, p, b.Size)
	})
	s.change("POST /v2/setWorkerPoolTaints", http.StatusNoContent, func(_ *cluster, p *pool, b change) *refusal {
		if bad := wellFormed(b.Taints); bad != nil {
			return bad
		}
		if s.beliefs.RefusesEarlyTaints && len(p.workers) == 0 {
			return refuse(http.StatusBadRequest, "E9010", "BadRequest", "The worker pool has no workers to taint.")
		}
		if !s.beliefs.DropsTaints {
			p.taints = orEmpty(b.Taints)
		}
		return nil
	})
	s.change("POST /v2/removeWorkerPoolZone", http.StatusNoContent, func(_ *cluster, p *pool, b change) *refusal {
		return s.dropZone(p, b.Zone)
	})
	s.changeWorker("POST /v2/replaceWorker", s.replaceWorker)
	s.changeWorker("POST /v2/removeWorker", func(c *cluster, p *pool, w *worker) *refusal {
		others := func(o *worker) bool { return o != w && o.state != stateDeleting && o.state != stateDeleted }
		if s.beliefs.KeepsLast && !slices.ContainsFunc(p.workers, others) {
			return refuse(http.StatusBadRequest, "E9011", "BadRequest", "The last worker of a worker pool cannot be removed.")
		}
		s.removeWorker(c, p, w)
		return nil
	})
}

// change is the body of every v2 call that changes a pool or a worker.
type change struct {
	Cluster    string            `json:"cluster"`
	WorkerPool string            `json:"workerpool"`
	WorkerID   string            `json:"workerID"`
	Zone       string            `json:"zone"`
	Size       int               `json:"size"`
	Taints     map[string]string `json:"taints"`
}

// change registers a call that changes one pool.
func (s *Server) change(pattern string, status int, do func(*cluster, *pool, change) *refusal) {
	s.handle(pattern, status, func(r *http.Request) (any, *refusal) {
		var b change
		if bad := decode(r, &b); bad != nil {
			return nil, bad
		}
		c, p, bad := s.find(b.Cluster, b.WorkerPool)
		if bad == nil {
			bad = do(c, p, b)
		}
		return nil, bad
	})
}

// changeWorker registers a call that changes one worker.
func (s *Server) changeWorker(pattern string, do func(*cluster, *pool, *worker) *refusal) {
	s.handle(pattern, http.StatusNoContent, func(r *http.Request) (any, *refusal) {
		var b change
		if bad := decode(r, &b); bad != nil {
			return nil, bad
		}
		c, p, w, bad := s.findWorker(b.Cluster, b.WorkerID)
		if bad == nil {
			bad = do(c, p, w)
		}
		return nil, bad
	})
}

// of returns a handler that refuses clusters of another provider.
func (s *Server) of(provider string, next func(*http.Request) (any, *refusal)) func(*http.Request) (any, *refusal) {
	return func(r *http.Request) (any, *refusal) {
		if c := s.cluster(r.FormValue("cluster")); c != nil && c.Provider != provider {
			return nil, wrongProvider("The cluster's provider is not permitted for this path.")
		}
		return next(r)
	}
}

func (s *Server) getCluster(r *http.Request) (any, *refusal) {
	c := s.cluster(r.FormValue("cluster"))
	if c == nil {
		return nil, missing("E0008", "cluster")
	}
	var vpcs []string
	if c.VPCID != "" {
		vpcs = []string{c.VPCID}
	}
	zones := []string{}
	for _, p := range c.pools {
		for _, z := range p.zones {
			if len(p.live(z.id)) > 0 && !slices.Contains(zones, z.id) {
				zones = append(zones, z.id)
			}
		}
	}
	out := map[string]any{
		"id": c.ID, "name": c.Name, "provider": c.Provider, "type": cmp.Or(c.Type, "kubernetes"), "state": cmp.Or(c.State, "normal"), "entitlement": c.Entitlement,
		"region": c.Region, "location": c.Region, "masterKubeVersion": c.Version,
		"resourceGroup": c.ResourceGroup, "workerZones": zones, "vpcs": vpcs,
		"multiAzCapable": true, "lifecycle": map[string]string{"masterState": "deployed", "masterHealth": "normal", "masterStatus": cmp.Or(c.MasterStatus, "Ready")},
	}
	if c.NetworkPlugin != "" {
		out["networkPlugin"] = c.NetworkPlugin
	}
	return s.sparse(out, "id", "name", "provider", "resourceGroup", "vpcs", "workerZones", "networkPlugin", "type", "lifecycle"), nil
}

// listPools lists a cluster's pools in the format of v1 or v2.
func (s *Server) listPools(clusterKey string, describe func(*pool, *cluster) map[string]any) (any, *refusal) {
	c := s.cluster(clusterKey)
	if c == nil {
		return nil, missing("E0008", "cluster")
	}
	out := []map[string]any{}
	for _, p := range c.pools {
		out = append(out, s.listing(s.sized(p, describe(p, c))))
	}
	return out, nil
}

// v2Pool is GET getWorkerPool.
func (s *Server) v2Pool(r *http.Request) (any, *refusal) {
	c, p, bad := s.find(r.FormValue("cluster"), r.FormValue("workerpool"))
	if s.beliefs.NoSinglePool {
		bad = refuse(http.StatusNotFound, "", "", "404 page not found")
	}
	if bad != nil {
		return nil, bad
	}
	return s.sparse(s.sized(p, p.v2(c)), "id", "poolName", "flavor", "labels", "workerCount", "zones"), nil
}

func (p *pool) v2(c *cluster) map[string]any {
	zones := []map[string]any{}
	for _, z := range p.zones {
		zones = append(zones, map[string]any{
			"id": z.id, "workerCount": len(p.live(z.id)), "autobalanceEnabled": p.balanced, "messages": []string{},
			"subnets": []map[string]any{{"id": z.subnet, "primary": true}},
		})
	}
	out := map[string]any{
		"id": p.id, "poolName": p.name, "flavor": p.flavor, "provider": c.Provider, "isolation": "public",
		"vpcID": c.VPCID, "workerCount": p.size, "labels": orEmpty(p.labels), "taints": orEmpty(p.taints),
		"autoscaleEnabled": p.autoscaled, "isBalanced": p.balanced, "operatingSystem": p.options.OperatingSystem,
		"lifecycle": p.lifecycle(), "zones": zones, "dedicatedHostPoolId": p.options.HostPool,
	}
	if e := p.options.WorkerVolumeEncryption; e != nil {
		out["workerVolumeEncryption"] = e
	}
	return out
}

// lifecycle returns the lifecycle of a pool. IBM's API is known to return "active" and "deleted"; "deleting" is an assumption.
func (p *pool) lifecycle() map[string]string {
	if p.deleting {
		return map[string]string{"actualState": stateDeleting, "desiredState": stateDeleted}
	}
	return map[string]string{"actualState": "active", "desiredState": "active"}
}

// listWorkers lists workers in the format of v1 or v2. Those of a deleted pool are still listed: IBM's own tools wait for them.
func (s *Server) listWorkers(clusterKey string, r *http.Request, describe func(*pool, *worker) map[string]any) (any, *refusal) {
	c := s.cluster(clusterKey)
	if c == nil {
		return nil, missing("E0008", "cluster")
	}
	every := c.everyPool()
	if key := r.FormValue("pool"); key != "" {
		only := slices.IndexFunc(every, func(p *pool) bool { return p.id == key || p == c.pool(key) })
		if only < 0 {
			return nil, missing("E9004", "worker pool")
		}
		every = every[only : only+1]
	}
	out := []map[string]any{}
	for _, p := range every {
		for _, w := range p.workers {
			if w.state != stateDeleted {
				out = append(out, s.sparse(describe(p, w), "id", "poolID", "location", "lifecycle", "health", "networkInterfaces", // of VPC, and of classic:
					"poolid", "state", "status", "privateIP"))
			}
		}
	}
	return out, nil
}

func v2Worker(p *pool, w *worker) map[string]any {
	interfaces := []map[string]any{}
	if w.state != statePending {
		interfaces = append(interfaces, map[string]any{"ipAddress": w.ip, "primary": true})
	}
	return map[string]any{
		"id": w.id, "flavor": w.flavor, "location": w.zone, "poolID": p.id, "poolName": p.name, "billing": "hourly",
		"kubeVersion": map[string]string{"actual": w.version, "desired": w.target, "target": w.target},
		"lifecycle": map[string]string{
			"actualState": w.state, "desiredState": w.desired, "reasonForDelete": "", "message": w.message,
			"pendingOperation": "", "actualOperatingSystem": w.system,
		},
		"health":            map[string]string{"state": w.health, "message": w.healthMessage},
		"networkInterfaces": interfaces,
	}
}

func (s *Server) subnets(r *http.Request) (any, *refusal) {
	out := []map[string]any{}
	for _, c := range s.clusters {
		for _, z := range c.Zones {
			if zone := r.FormValue("zone"); c.VPCID != r.FormValue("vpc") || zone != "" && zone != z.ID {
				continue
			}
			for _, n := range z.Subnets {
				out = append(out, s.sparse(map[string]any{
					"id": n.ID, "name": n.ID, "zone": z.ID, "vpcID": c.VPCID, "vpcName": "vpc",
					"ipv4CIDRBlock": n.CIDR, "availableIPv4AddressCount": n.Available,
				}, "id", "zone"))
			}
		}
	}
	return out, nil
}

func (s *Server) v2CreatePool(r *http.Request) (any, *refusal) {
	var b struct {
		Cluster, Name, Flavor, VPCID string
		WorkerCount                  int
		Labels                       map[string]string
		Zones                        []struct{ ID, SubnetID string }
		options
	}
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	if c := s.cluster(b.Cluster); c != nil && (c.Provider != VPC || c.VPCID != b.VPCID) {
		return nil, wrongProvider("The cluster is not in the VPC %q.", b.VPCID)
	}
	c, p, bad := s.createPool(b.Cluster, b.Name, b.Flavor, b.WorkerCount, b.Labels, b.options)
	for i := 0; bad == nil && i < len(b.Zones); i++ {
		bad = s.addZone(c, p, &poolZone{id: b.Zones[i].ID, subnet: b.Zones[i].SubnetID})
	}
	if bad != nil {
		return nil, bad
	}
	return map[string]string{"workerPoolID": p.id}, nil
}

// addZoneTo adds a zone to the pool in the path (classic) or in the body (VPC).
func (s *Server) addZoneTo(r *http.Request) (any, *refusal) {
	var b struct{ Cluster, ID, SubnetID, PrivateVlan, PublicVlan, WorkerPoolID, WorkerPool string }
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	c, p, bad := s.find(cmp.Or(r.PathValue("cluster"), b.Cluster), cmp.Or(r.PathValue("pool"), b.WorkerPoolID, b.WorkerPool))
	if bad == nil {
		bad = s.addZone(c, p, &poolZone{id: b.ID, subnet: b.SubnetID, privateVLAN: b.PrivateVlan, publicVLAN: b.PublicVlan})
	}
	return nil, bad
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (s *Server) routeClassic() {
	const pools = "/v1/clusters/{cluster}/workerpools"
	s.handle("GET "+pools, http.StatusOK, func(r *http.Request) (any, *refusal) { return s.listPools(r.PathValue("cluster"), (*pool).v1) })
	s.handle("POST "+pools, http.StatusCreated, s.v1CreatePool)
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
		c, p, w, bad := s.findWorker(r.PathValue("cluster"), r.PathValue("worker"))
		if bad == nil {
			s.removeWorker(c, p, w)
		}
		return nil, bad
	})
	s.handle("GET /v1/datacenters/{zone}/vlans", http.StatusOK, s.vlans)
	s.handle("GET /v1/datacenters/{zone}/machine-types", http.StatusOK, s.flavors)
	s.handle("GET /v1/zones", http.StatusOK, s.zones(Classic))
}

// v1 returns a pool as the v1 API does, which does not report taints.
func (p *pool) v1(c *cluster) map[string]any {
	zones := []map[string]any{}
	for _, z := range p.zones {
		zones = append(zones, map[string]any{
			"id": z.id, "privateVlan": z.privateVLAN, "publicVlan": z.publicVLAN, "workerCount": len(p.live(z.id)),
		})
	}
	return map[string]any{
		"id": p.id, "name": p.name, "sizePerZone": p.size, "machineType": p.flavor + ".encrypted", "isolation": p.isolation,
		"labels": orEmpty(p.labels), "region": c.Region, "state": p.lifecycle()["actualState"], "reasonForDelete": "",
		"isBalanced": p.balanced, "autoscaleEnabled": p.autoscaled, "zones": zones, "operatingSystem": p.options.OperatingSystem,
	}
}

func (s *Server) v1CreatePool(r *http.Request) (any, *refusal) {
	var b struct {
		Name, MachineType, Isolation, OperatingSystem string

		SizePerZone int
		Labels      map[string]string
	}
	if bad := decode(r, &b); bad != nil {
		return nil, bad
	}
	c, p, bad := s.createPool(r.PathValue("cluster"), b.Name, b.MachineType, b.SizePerZone, b.Labels, options{OperatingSystem: b.OperatingSystem})
	if bad != nil {
		return nil, bad
	}
	p.isolation = b.Isolation
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
		"machineType": w.flavor + ".encrypted", "isolation": p.isolation,
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
