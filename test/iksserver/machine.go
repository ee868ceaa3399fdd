package iksserver

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The worker states that occur here.
const (
	statePending         = "provision_pending"
	stateProvisioning    = "provisioning"
	stateDeploying       = "deploying"
	stateDeployed        = "deployed"
	stateProvisionFailed = "provision_failed"
	stateDeleting        = "deleting"
	stateDeleted         = "deleted"
)

// failure is the state and message with which a worker will fail.
type failure struct{ state, message string }

const quotaMessage = "The user account has insufficient infrastructure quota to provision the worker: " +
	"A VSI with this profile (%s) will put user over quota. Allocated: %d, Quota: %d"

func (s *Server) newPool(c *cluster, name, flavor string, size int, labels map[string]string) *pool {
	p := &pool{
		id: fmt.Sprintf("%s-%07x", c.ID, s.nextSerial()), name: name, flavor: flavor, size: size,
		labels: maps.Clone(labels), taints: map[string]string{}, balanced: true, isolation: "public", options: options{OperatingSystem: operatingSystem},
	}
	c.pools = append(c.pools, p)
	return p
}

// order adds a worker in its first state.
func (s *Server) order(c *cluster, p *pool, zone string) *worker {
	w := &worker{
		id:   fmt.Sprintf("kube-%s-%s-%s-%08x", c.ID, head(c.Name, 11), head(p.name, 7), s.nextSerial()),
		zone: zone, flavor: p.flavor, version: c.Version, target: c.Version, system: p.options.OperatingSystem,
		state: statePending, desired: stateDeployed, health: "pending",
		message: "Infrastructure instance status is 'pending'",
		since:   s.now(), born: p.taints,
	}
	w.ip = s.address(zone, w.id)
	if len(s.failNext) > 0 {
		w.fail, s.failNext = &s.failNext[0], s.failNext[1:]
	}
	if n := s.account(); w.fail == nil && s.quota > 0 && n >= s.quota {
		w.fail = &failure{state: stateProvisionFailed, message: fmt.Sprintf(quotaMessage, p.flavor, n, s.quota)}
	}
	if s.beliefs.OtherSystems {
		w.system = "Ubuntu 24"
	}
	p.workers = append(p.workers, w)
	return w
}

// account counts the machines that count towards the quota.
func (s *Server) account() int {
	n := 0
	for _, c := range s.clusters {
		for _, p := range c.everyPool() {
			for _, w := range p.workers {
				if w.state != stateDeleted && w.state != stateProvisionFailed && w.fail == nil {
					n++
				}
			}
		}
	}
	return n
}

// moveTo updates the states of all workers to a time.
func (s *Server) moveTo(clusters []*cluster, then time.Time, announce bool) {
	for _, c := range clusters {
		for _, p := range c.everyPool() {
			for _, w := range p.workers {
				s.moveWorker(c, p, w, then, announce)
			}
		}
		s.dropDeleted(c)
	}
}

// dropDeleted removes deleted pools from the listing once their machines are deleted.
func (s *Server) dropDeleted(c *cluster) {
	c.pools = slices.DeleteFunc(c.pools, func(p *pool) bool {
		deleted := p.deleting && !slices.ContainsFunc(p.workers, func(w *worker) bool { return w.state != stateDeleted })
		if deleted {
			c.gone = append(c.gone, p)
		}
		return deleted
	})
}

func (s *Server) moveWorker(c *cluster, p *pool, w *worker, then time.Time, announce bool) {
	for {
		stay, next := s.nextState(w)
		if next == "" || then.Sub(w.since) < stay {
			return
		}
		w.since = w.since.Add(stay)
		w.enter(next)
		switch {
		case !announce:
		case next == stateDeployed:
			w.announced = true
			s.events.add(s.cfg.OnDeployed, view(c, p, w))
		case next == stateDeleted && w.announced:
			s.events.add(s.cfg.OnDeleted, view(c, p, w))
		}
		if next == stateDeployed && s.beliefs.LosesNew {
			s.remove(w)
		}
	}
}

// nextState returns how long w stays in its state, and the state after that.
func (s *Server) nextState(w *worker) (time.Duration, string) {
	d := s.cfg.Delays
	switch w.state {
	case statePending:
		return d.Pending, stateProvisioning
	case stateProvisioning:
		if w.fail != nil && w.fail.state == stateProvisionFailed {
			return d.Provisioning, stateProvisionFailed
		}
		return d.Provisioning, stateDeploying
	case stateDeploying:
		if w.fail != nil {
			return d.Deploying, w.fail.state
		}
		return d.Deploying, stateDeployed
	case stateDeleting:
		return d.Deleting, stateDeleted
	}
	return 0, ""
}

func (w *worker) enter(state string) {
	w.state = state
	switch state {
	case stateDeploying:
		w.message = "Pending security group creation"
	case stateDeployed:
		w.health, w.healthMessage, w.message = "normal", "Ready", ""
	default:
		if strings.HasSuffix(state, "_failed") {
			w.health, w.message = "critical", w.fail.message
		}
	}
}

// balance orders and removes workers until each zone of p has its size.
func (s *Server) balance(c *cluster, p *pool) {
	for _, z := range p.zones {
		have := p.live(z.id)
		for i := len(have); i < p.size; i++ {
			s.order(c, p, z.id)
		}
		for i := p.size; i < len(have); i++ {
			s.remove(have[i-p.size])
		}
	}
}

// live returns the workers of a zone that are not being deleted, in the order in which a resize removes them.
func (p *pool) live(zone string) []*worker {
	var out []*worker
	for _, w := range p.workers {
		if w.zone == zone && w.state != stateDeleting && w.state != stateDeleted {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, scaleDown)
	return out
}

var stateOrder = []string{
	"provision_failed", "deploy_failed", "deleting", "provision_pending", "provisioning",
	"deploying", "provisioned", "reloading_failed", "reloading", "deployed",
}

var healthOrder = []string{"critical", "warning", "pending", "unsupported", "normal"}

// scaleDown compares workers by IBM's published order of removal: state, health, older version, worker id.
func scaleDown(a, b *worker) int {
	return cmp.Or(
		cmp.Compare(slices.Index(stateOrder, a.state), slices.Index(stateOrder, b.state)),
		cmp.Compare(slices.Index(healthOrder, a.health), slices.Index(healthOrder, b.health)),
		cmp.Compare(a.version, b.version),
		cmp.Compare(a.id, b.id),
	)
}

func (s *Server) remove(w *worker) {
	if w.state != stateDeleting && w.state != stateDeleted {
		w.state, w.desired, w.since = stateDeleting, stateDeleted, s.now()
	}
}

// view returns a worker's current state. The server replaces maps and never changes them, so they are not copied.
func view(c *cluster, p *pool, w *worker) Worker {
	return Worker{
		ID: w.id, ClusterID: c.ID, PoolID: p.id, PoolName: p.name, Zone: w.zone, Flavor: w.flavor, IP: w.ip,
		State: w.state, Health: w.health, Message: w.message,
		Labels: p.labels, Taints: p.taints, BornTaints: w.born,
	}
}

func head(s string, n int) string { return s[:min(n, len(s))] }

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
	return nil, nil, nil, missing("E0011", "worker node")
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
	case s.beliefs.RefusesZoneless:
		return nil, nil, refuse(http.StatusBadRequest, "E9012", "BadRequest", "A worker pool needs a zone.")
	}
	if bad := s.labelled(labels); bad != nil {
		return nil, nil, bad
	}
	if s.beliefs.DropsLabels {
		labels = nil
	}
	p := s.newPool(c, name, flavor, size, labels)
	o.OperatingSystem = cmp.Or(o.OperatingSystem, p.options.OperatingSystem)
	p.options = o
	if s.beliefs.ZonelessSizeIsLost {
		p.size = 0
	}
	if s.beliefs.FillsZoneless {
		s.fillZones(c, p)
	}
	return c, p, nil
}

func (s *Server) fillZones(c *cluster, p *pool) {
	for _, z := range c.Zones {
		_ = s.addZone(c, p, c.defaultNetwork(z.ID)) // cannot fail for a new pool
	}
}

// checkNetwork refuses a network that the zone does not have.
func (c *cluster) checkNetwork(place *Zone, z *poolZone) *refusal {
	switch {
	case c.Provider == VPC && !slices.ContainsFunc(place.Subnets, func(n Subnet) bool { return n.ID == z.subnet }):
		return refuse(http.StatusBadRequest, "E9007", "BadRequest", "The subnet %q does not exist in zone %s.", z.subnet, z.id)
	case c.Provider == Classic && z.privateVLAN != "" && !slices.ContainsFunc(place.VLANs, func(v VLAN) bool { return v.ID == z.privateVLAN }):
		return refuse(http.StatusBadRequest, "E0053", "BadRequest", "The private VLAN %q does not exist.", z.privateVLAN)
	}
	return nil
}

func (s *Server) addZone(c *cluster, p *pool, z *poolZone) *refusal {
	place := c.zone(z.id)
	switch {
	case p.deleting:
		return refuse(http.StatusConflict, "E9009", "Provisioning", "The worker pool is being deleted.")
	case place == nil:
		return refuse(http.StatusBadRequest, "E9005", "BadRequest", "The specified zone %s is not part of the region.", z.id)
	case p.has(z.id):
		return refuse(http.StatusConflict, "Ede7d", "Provisioning", "The zone is already part of the worker pool.")
	case !slices.Contains(c.flavors(place), p.flavor):
		return refuse(http.StatusBadRequest, "E4e5b", "BadRequest", "Could not find flavor in the requested zone.")
	}
	if bad := c.checkNetwork(place, z); bad != nil || s.beliefs.DropsZones {
		return bad
	}
	p.zones = append(p.zones, z)
	for range p.size {
		s.order(c, p, z.id)
	}
	return nil
}

func (s *Server) dropZone(p *pool, zone string) *refusal {
	if !p.has(zone) {
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
	same := p.size == size
	p.size, p.balanced = size, true
	if s.beliefs.ZonelessSizeIsLost && len(p.zones) == 0 {
		p.size = 0
	}
	if same && s.beliefs.IgnoresSameSize {
		return nil
	}
	s.balance(c, p)
	return nil
}

// wellFormed refuses taints that are not of the form value:Effect. IBM's error message for that is not known.
func wellFormed(taints map[string]string) *refusal {
	for key, text := range taints {
		value, effect, ok := strings.Cut(text, ":")
		if known := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}; !ok || value == "" || !slices.Contains(known, effect) {
			return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The taint %s=%s is not valid.", key, text)
		}
	}
	return nil
}

// removeWorker removes one worker, which is not replaced before the next resize.
func (s *Server) removeWorker(c *cluster, p *pool, w *worker) {
	if s.beliefs.KeepsRemoved {
		return
	}
	p.balanced = false
	s.remove(w)
	if s.beliefs.RefillsRemoved && p.has(w.zone) {
		s.order(c, p, w.zone)
	}
}

func (s *Server) replaceWorker(c *cluster, p *pool, w *worker) *refusal {
	if w.state == stateDeleting {
		return refuse(http.StatusConflict, "E9008", "Provisioning", "The worker node is being deleted.")
	}
	if s.beliefs.KeepsReplaced {
		return nil
	}
	s.remove(w)
	if p.balanced && p.has(w.zone) {
		s.order(c, p, w.zone)
	}
	return nil
}

// deletePool deletes a pool. Its workers are deleted after Delays.Deleting.
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
