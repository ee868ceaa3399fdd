package iksserver

import (
	"net/http"
)

// routeShared registers the v2 calls that work for any provider.
func (s *Server) routeShared() {
	s.mux.HandleFunc("GET /v2/getCluster", s.getCluster)
	s.mux.HandleFunc("GET /v2/classic/getWorkerPool", s.v2Pool(Classic))
	s.change("POST /v2/resizeWorkerPool", http.StatusAccepted, func(c *cluster, p *pool, b change) *refusal {
		return s.resize(c, p, b.Size)
	})
	s.change("POST /v2/setWorkerPoolTaints", http.StatusNoContent, func(_ *cluster, p *pool, b change) *refusal {
		if bad := wellFormed(b.Taints); bad != nil {
			return bad
		}
		p.taints = orEmpty(b.Taints)
		return nil
	})
	s.change("POST /v2/setWorkerPoolLabels", http.StatusNoContent, func(_ *cluster, p *pool, b change) *refusal {
		p.labels = orEmpty(b.Labels)
		return nil
	})
	s.change("POST /v2/removeWorkerPoolZone", http.StatusNoContent, func(_ *cluster, p *pool, b change) *refusal {
		return s.dropZone(p, b.Zone)
	})
	s.mux.HandleFunc("POST /v2/removeWorker", s.workerChange(func(_ *cluster, p *pool, w *worker) *refusal {
		s.removeWorker(p, w)
		return nil
	}))
}

// change is the body of every v2 call that changes a pool or a worker.
type change struct {
	Cluster    string            `json:"cluster"`
	WorkerPool string            `json:"workerpool"`
	WorkerID   string            `json:"workerID"`
	Zone       string            `json:"zone"`
	Size       int               `json:"size"`
	Taints     map[string]string `json:"taints"`
	Labels     map[string]string `json:"labels"`
}

func (s *Server) change(pattern string, status int, do func(*cluster, *pool, change) *refusal) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var b change
		bad := decode(r, &b)
		if bad == nil {
			s.locked(func() {
				var c *cluster
				var p *pool
				if c, p, bad = s.find(b.Cluster, b.WorkerPool); bad == nil {
					bad = do(c, p, b)
				}
			})
		}
		reply(w, bad, status, nil)
	})
}

func (s *Server) workerChange(do func(*cluster, *pool, *worker) *refusal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b change
		bad := decode(r, &b)
		if bad == nil {
			s.locked(func() {
				var c *cluster
				var p *pool
				var target *worker
				if c, p, target, bad = s.findWorker(b.Cluster, b.WorkerID); bad == nil {
					bad = do(c, p, target)
				}
			})
		}
		reply(w, bad, http.StatusNoContent, nil)
	}
}

func (s *Server) getCluster(w http.ResponseWriter, r *http.Request) {
	var bad *refusal
	var out map[string]any
	s.locked(func() {
		c := s.cluster(r.URL.Query().Get("cluster"))
		if c == nil {
			bad = refuse(http.StatusNotFound, "E0008", "Provisioning", "The specified cluster could not be found.")
			return
		}
		out = c.describe()
	})
	reply(w, bad, http.StatusOK, out)
}

func (c *cluster) describe() map[string]any {
	var vpcs []string
	if c.VPCID != "" {
		vpcs = []string{c.VPCID}
	}
	seen, zones, workers := map[string]bool{}, []string{}, 0
	for _, p := range c.pools {
		for _, z := range p.zones {
			n := len(p.live(z.id))
			workers += n
			if n > 0 && !seen[z.id] {
				seen[z.id] = true
				zones = append(zones, z.id)
			}
		}
	}
	return map[string]any{
		"id": c.ID, "name": c.Name, "provider": c.Provider, "type": "kubernetes", "state": "normal",
		"region": c.Region, "location": c.Region, "masterKubeVersion": c.Version,
		"resourceGroup": c.ResourceGroup, "workerCount": workers, "workerZones": zones, "vpcs": vpcs,
		"multiAzCapable": true, "lifecycle": map[string]string{"masterState": "deployed", "masterHealth": "normal"},
	}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
