package pool_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/iksserver"
)

// overcast is a cluster at IBM, in a synctest bubble: BGP is the model of package
// simulate, the cloud is iksserver behind the real provider and its SDK. Its machines
// become nodes of the model.
type overcast struct {
	*world
	server *iksserver.Server
	// ordered counts the workers of each zone.
	ordered map[string]int
	model   *simulate.Model

	// events are what has happened to nodes since somebody looked, pushed says so.
	mu     sync.Mutex
	events []func()
	pushed chan struct{}

	// applied are the changes to the data plane.
	applied []string
	// lost are the pairs of nodes that could not reach each other, turn by turn.
	lost []string
	// logs are all lines of the manager's log.
	logs []string
	// provider makes the provider, next decides; nil for the real ones.
	provider func(cloud.Provider) cloud.Provider
	decide   pool.NextFunc
}

func newOvercast(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *overcast {
	t.Helper()
	w := newWorld(t, append([]func(*v1alpha1.RouteReflectorPool){func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Rollout.SessionTimeout.Duration, o.Spec.Rollout.NotReadyGrace.Duration = 5*time.Minute, time.Minute
		o.Spec.Rollout.RemovalDelay.Duration, o.Spec.Rollout.SafetyNet.After.Duration = time.Minute, 30*time.Second
	}}, change...)...)
	o := &overcast{world: w, pushed: make(chan struct{}, 1), ordered: map[string]int{}}
	began := time.Now().Add(-24 * time.Hour)
	for i := range w.calico.cluster.Nodes {
		w.calico.cluster.Nodes[i].Created, w.calico.cluster.Nodes[i].ReadyChanged = began, began
	}
	spec := w.object().Spec
	o.model = simulate.New(plan.Cluster{Nodes: w.calico.cluster.Nodes, BGP: plan.BGPConfig{ASN: 64512}},
		plan.Scope{RoleLabel: spec.BGP.NodeLabel, ZoneLabel: spec.Topology.ZoneLabel}, time.Now())
	o.server = iksserver.New(iksserver.Config{
		APIKeys: []string{apiKey}, OnDeployed: o.deployed, OnDeleted: o.deleted,
		AllocateIP: o.address,
		Delays:     iksserver.Delays{Pending: time.Minute, Provisioning: 4 * time.Minute, Deploying: 5 * time.Minute, Deleting: 3 * time.Minute},
	})
	c := iksserver.Cluster{ID: clusterID, Name: "prod", Provider: iksserver.VPC, VPCID: "vpc-1"}
	base := iksserver.Pool{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2}
	for _, id := range []string{"z1", "z2", "z3"} {
		c.Zones = append(c.Zones, iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.0.0.0/24", Available: 99}}})
		base.Zones = append(base.Zones, id)
	}
	c.Pools = []iksserver.Pool{base}
	o.server.AddCluster(c)
	o.restart()
	return o
}

// restart is a new process.
func (o *overcast) restart() {
	o.world.restart()
	r := o.reconciler
	r.Datastore, r.Now, r.Pause = o, time.Now, time.Sleep
	r.Next = func(seen rollout.Observed, want rollout.Desired, now time.Time) rollout.Step {
		o.seenStep = rollout.Next(seen, want, now)
		if o.decide != nil {
			o.seenStep = o.decide(seen, want, now)
		}
		return o.seenStep
	}
	r.Providers = func(cfg pool.ProviderConfig) (cloud.Provider, error) {
		p, err := iks.New(iks.Config{
			ClusterID: cfg.ClusterID, PoolName: cfg.PoolName, APIKey: iks.StaticKey(string(cfg.APIKey)),
			CSEndpoint: "https://cs.invalid/global", IAMEndpoint: "https://iam.invalid", Transport: o.server.Transport(),
		})
		if err != nil || o.provider == nil {
			return p, err
		}
		return o.provider(p), nil
	}
}

// later keeps what happens to nodes for the next time that somebody looks.
func (o *overcast) later(event func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
	select {
	case o.pushed <- struct{}{}:
	default:
	}
}

// sync takes the model to now.
func (o *overcast) sync() {
	o.server.Advance(0)
	o.mu.Lock()
	events := o.events
	o.events = nil
	o.mu.Unlock()
	o.model.Advance(time.Since(o.model.Now()))
	for _, event := range events {
		event()
	}
}

// address depends on nothing but the workers that were ordered before in the zone.
func (o *overcast) address(zone, _ string) string {
	o.ordered[zone]++
	return fmt.Sprintf("10.9.%s.%d", zone[1:], o.ordered[zone])
}

func (o *overcast) deployed(w iksserver.Worker) {
	at := time.Now()
	o.later(func() {
		o.model.Join(plan.Node{
			Name: w.IP, Zone: w.Zone, Ready: true, ReadyChanged: at, Created: at, Addresses: []netip.Addr{netip.MustParseAddr(w.IP)},
			ProviderID: "ibm://account///" + clusterID + "/" + w.ID,
			Labels:     map[string]string{pool.PoolLabel: w.PoolName, "ibm-cloud.kubernetes.io/worker-id": w.ID},
		})
	})
}

func (o *overcast) deleted(w iksserver.Worker) {
	o.later(func() { o.model.Leave(w.IP) })
}

// fail lets nodes be NotReady from now on.
func (o *overcast) fail(names ...string) {
	at := time.Now()
	o.later(func() {
		for _, n := range o.model.Nodes() {
			for _, name := range names {
				if n.Name == name {
					o.model.Leave(name)
					n.Ready, n.ReadyChanged = false, at
					o.model.Join(n)
				}
			}
		}
	})
}

// Observe, Apply and Watch implement pool.Datastore.
func (o *overcast) Observe(context.Context, plan.Scope) (plan.Cluster, error) {
	o.sync()
	return o.model.Observe(), nil
}

func (o *overcast) Apply(_ context.Context, _ plan.Scope, action plan.Action) (bool, error) {
	o.sync()
	if _, asks := action.(plan.RefreshStatus); !asks {
		o.applied = append(o.applied, action.String())
	}
	return o.model.Apply(action)
}

func (o *overcast) Watch(_ context.Context, want []plan.Watch) (bool, error) {
	o.sync()
	_, changed := o.model.Watch(want)
	return changed, nil
}

// turn reconciles once, and gives how long the manager wants to sleep then.
func (o *overcast) turn() time.Duration {
	o.Helper()
	ctx := log.IntoContext(o.Context(), funcr.New(func(prefix, args string) { o.logs = append(o.logs, prefix+" "+args) }, funcr.Options{Verbosity: 9}))
	result, err := o.reconciler.Reconcile(ctx, reconcile.Request{})
	require.NoError(o, err)
	for len(o.recorder.Events) > 0 {
		o.said = append(o.said, <-o.recorder.Events)
	}
	o.sync()
	for _, pair := range o.model.Unreached(func(n plan.Node) bool { return n.Ready && n.Labels[pool.PoolLabel] == "" }) {
		o.lost = append(o.lost, fmt.Sprintf("%+v in step %s", pair, o.seenStep.Name))
	}
	return result.RequeueAfter
}

// pass lets time pass, with turns whenever the manager wants one or something happens to
// a node, and at least every minute, as something is always pushed.
func (o *overcast) pass(d time.Duration) {
	o.Helper()
	o.until(d, func() bool { return false })
}

// until lets time pass until over, at most d, and says whether it was.
func (o *overcast) until(d time.Duration, over func() bool) bool {
	o.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		wait := o.turn()
		if over() {
			return true
		}
		select {
		case <-o.pushed:
		case <-time.After(min(max(wait, time.Second), time.Minute, max(time.Until(end), time.Second))):
		}
	}
	return false
}

func (o *overcast) at(step string) func() bool {
	return func() bool { return o.seenStep.Name == step && o.seenStep.Problem == nil }
}

// migrate takes the cluster to route reflectors.
func (o *overcast) migrate() {
	o.Helper()
	require.True(o, o.until(3*time.Hour, o.migrated), "%+v", o.seenStep)
}

// migrated: the manager is at rest, on reflectors, and has seen the pool.
func (o *overcast) migrated() bool {
	return o.at(rollout.Steady)() && !o.model.Observe().BGP.MeshOn()
}

// reflectors are the names of the nodes in the role.
func (o *overcast) reflectors() []string {
	var out []string
	for _, n := range o.model.Nodes() {
		if n.RoleLabel {
			out = append(out, n.Name)
		}
	}
	return out
}

func (o *overcast) edit(change func(*v1alpha1.RouteReflectorPool)) {
	o.Helper()
	object := o.object()
	change(object)
	require.NoError(o, o.client.Update(o.Context(), object))
}

// count gives the requests since the first skip ones: logins, and all others.
func (o *overcast) count(skip int) (logins, others int) {
	for _, r := range o.server.Requests()[skip:] {
		if r.Token() {
			logins++
		} else {
			others++
		}
	}
	return logins, others
}

// told is everything that anybody can read: the object, events, logs, metrics.
func (o *overcast) told() string {
	return fmt.Sprintf("%+v\n%s\n%s", o.object(), strings.Join(o.said, "\n"), strings.Join(o.logs, "\n"))
}

// outage is a way for the whole cloud to be gone.
type outage struct {
	faults []iksserver.Fault
	// reason and remedy are what has to be said about it.
	reason, remedy string
}

const lookAtTheNetwork = "check the network from the manager to the cloud"

var outages = map[string]outage{
	"every request fails":     {[]iksserver.Fault{{Status: http.StatusServiceUnavailable, Body: "<html>?</html>"}}, "CloudUnavailable", lookAtTheNetwork},
	"every request hangs":     {[]iksserver.Fault{{Hang: true}}, "CloudUnavailable", lookAtTheNetwork},
	"every connection breaks": {[]iksserver.Fault{{Reset: true}}, "CloudUnavailable", lookAtTheNetwork},
	"a proxy answers for all": {[]iksserver.Fault{iksserver.HTML()}, "CloudUnavailable", lookAtTheNetwork},
	"it wants to be left alone": {
		[]iksserver.Fault{iksserver.RateLimited(time.Minute)}, "CloudRateLimited", "it is asked again by itself",
	},
	"only IAM is gone": {
		[]iksserver.Fault{{Path: "^/identity/", Hang: true}, {Path: "^/v", ExpireToken: true}}, "CloudUnavailable", lookAtTheNetwork,
	},
	"everything is said to be forbidden": {
		[]iksserver.Fault{{Status: http.StatusForbidden, Body: `{"code":"A0656","description":"not allowed"}`}},
		"CloudUnauthorized", "the API key must be valid and have the Operator or Administrator role",
	},
	"the lists are empty": {
		[]iksserver.Fault{{Method: "GET", Path: "getWorker", Status: http.StatusOK, Body: "[]"}}, "CloudUnavailable", lookAtTheNetwork,
	},
}

func (o *overcast) down(how outage) {
	for _, f := range how.faults {
		o.server.Inject(f)
	}
}

// is says whether the conditions are so: "Type Status Reason".
func (o *overcast) is(want ...string) bool {
	o.Helper()
	for _, c := range o.object().Status.Conditions {
		want = slices.DeleteFunc(want, func(one string) bool { return one == fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason) })
	}
	return len(want) == 0
}

// die lets reflectors die, as a machine does.
func (o *overcast) die(names ...string) {
	for _, w := range o.server.Workers(clusterID, "route-reflectors") {
		if slices.Contains(names, w.IP) {
			o.server.Break(clusterID, w.ID, "", "critical", "the node does not answer")
		}
	}
	o.fail(names...)
}
