package iksserver

import (
	"cmp"
	"fmt"
	"maps"
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

// failure is how a worker will fail.
type failure struct{ state, message string }

const quotaMessage = "The user account has insufficient infrastructure quota to provision the worker: " +
	"A VSI with this profile (%s) will put user over quota. Allocated: %d, Quota: %d"

func (s *Server) newPool(c *cluster, name, flavor string, size int, labels map[string]string) *pool {
	p := &pool{
		id: fmt.Sprintf("%s-%07x", c.ID, s.nextSerial()), name: name, flavor: flavor, size: size,
		labels: maps.Clone(labels), taints: map[string]string{}, balanced: true, options: options{OperatingSystem: operatingSystem},
	}
	c.pools = append(c.pools, p)
	return p
}

// order adds a worker in its first state.
func (s *Server) order(c *cluster, p *pool, zone string) *worker {
	w := &worker{
		id:   fmt.Sprintf("kube-%s-%s-%s-%08x", c.ID, head(c.Name, 11), head(p.name, 7), s.nextSerial()),
		zone: zone, flavor: p.flavor, version: c.Version, target: c.Version,
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
	p.workers = append(p.workers, w)
	return w
}

// account counts the machines that use up quota.
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

// moveTo takes every worker to where it should be by then.
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

// dropDeleted takes the pools that linger from the list once their machines are gone.
func (s *Server) dropDeleted(c *cluster) {
	c.pools = slices.DeleteFunc(c.pools, func(p *pool) bool {
		over := p.deleting && !slices.ContainsFunc(p.workers, func(w *worker) bool { return w.state != stateDeleted })
		if over {
			c.gone = append(c.gone, p)
		}
		return over
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
	}
}

// nextState gives how long w stays in its state and what comes then.
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

// balance brings every zone of p to its size.
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

// live gives the workers of zone that are not on their way out, first to go first.
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

// scaleDown is IBM's published order: state, health, older version, worker id.
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

// view is a worker as it is now. Its maps are the server's, which replaces them and changes none.
func view(c *cluster, p *pool, w *worker) Worker {
	return Worker{
		ID: w.id, ClusterID: c.ID, PoolID: p.id, PoolName: p.name, Zone: w.zone, Flavor: w.flavor, IP: w.ip,
		State: w.state, Health: w.health, Message: w.message,
		Labels: p.labels, Taints: p.taints, BornTaints: w.born,
	}
}

func head(s string, n int) string { return s[:min(n, len(s))] }
