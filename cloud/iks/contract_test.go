package iks_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

const apiKey = "s3cr3t+key/with=odd&letters"

func TestContract(t *testing.T) {
	for _, generation := range both {
		t.Run(generation, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) (providertest.World, func() cloud.Provider) {
				t.Helper()
				w := newWorld(t, generation)
				return w, func() cloud.Provider { return w.provider(t, nil) }
			})
		})
	}
}

// world is iksserver with one cluster of three zones and a pool of workers.
type world struct {
	*iksserver.Server
	http  *httptest.Server
	clock *clocktesting.FakeClock
	base  *http.Transport
	zones []string
}

var _ providertest.Machines = (*world)(nil)

const clusterID = "bl25g33d0if1cmfn0p8g"

// newWorld makes a world; edit may change its cluster.
func newWorld(t *testing.T, generation string, edit ...func(*iksserver.Cluster)) *world {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := iksserver.New(iksserver.Config{
		Now: c.Now, APIKeys: []string{apiKey}, TokenLifetime: 1000 * time.Hour,
		Delays: iksserver.Delays{Pending: 10 * time.Second, Provisioning: 20 * time.Second, Deploying: 30 * time.Second, Deleting: time.Minute},
	})
	cluster := seed(generation)
	for _, change := range edit {
		change(&cluster)
	}
	s.AddCluster(cluster)
	w := &world{Server: s, http: httptest.NewServer(s), clock: c, base: &http.Transport{}, zones: zones(generation)}
	t.Cleanup(func() {
		s.Close()
		w.base.CloseIdleConnections()
		w.http.Close()
	})
	return w
}

func seed(generation string) iksserver.Cluster {
	c := iksserver.Cluster{
		ID: clusterID, Name: "production", Provider: generation, ResourceGroup: "5f1e0c2a",
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2}},
	}
	if generation == iksserver.VPC {
		c.VPCID = "r006-vpc"
	}
	for _, id := range zones(generation)[:3] {
		c.Zones = append(c.Zones, zone(generation, id))
		c.Pools[0].Zones = append(c.Pools[0].Zones, id)
	}
	return c
}

// zones gives the names of four zones: VPC has others than classic. The cloud of a test begins with three.
func zones(generation string) []string {
	if generation == iksserver.VPC {
		return []string{"us-south-1", "us-south-2", "us-south-3", "us-south-4"}
	}
	return []string{"dal10", "dal12", "dal13", "dal14"}
}

// zone has a subnet, or two VLANs.
func zone(generation, id string) iksserver.Zone {
	if generation == iksserver.VPC {
		return iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.240.0.0/24", Available: 200}}}
	}
	return iksserver.Zone{ID: id, VLANs: []iksserver.VLAN{
		{ID: "100" + id[3:], Type: "private", Router: "bcr01a." + id}, {ID: "200" + id[3:], Type: "public", Router: "fcr01a." + id},
	}}
}

// provider makes an instance; edit may change its configuration.
func (w *world) provider(t *testing.T, edit func(*iks.Config)) *iks.Provider {
	t.Helper()
	cfg := iks.Config{
		ClusterID: clusterID, PoolName: providertest.PoolName, APIKey: apiKey,
		CSEndpoint: w.http.URL + "/global", IAMEndpoint: w.http.URL, Transport: w.base, Now: w.clock.Now,
		Timeout: 2 * time.Minute,
	}
	if edit != nil {
		edit(&cfg)
	}
	p, err := iks.New(cfg)
	require.NoError(t, err)
	return p
}

func (w *world) Advance(d time.Duration) {
	w.clock.Step(d)
	w.Server.Advance(0)
}

func (w *world) Workers() []cloud.Worker {
	var out []cloud.Worker
	for _, o := range w.Server.Workers(clusterID, providertest.PoolName) {
		state := cloud.WorkerProvisioning
		switch {
		case o.State == "deployed":
			state = cloud.WorkerDeployed
		case o.State == "deleting":
			state = cloud.WorkerDeleting
		case strings.HasSuffix(o.State, "_failed"):
			state = cloud.WorkerFailed
		}
		out = append(out, cloud.Worker{ID: o.ID, Zone: o.Zone, State: state})
	}
	return out
}

func (w *world) Pools() int {
	return len(slices.DeleteFunc(w.Server.Pools(clusterID), func(n string) bool { return n != providertest.PoolName }))
}

func (w *world) Untainted() int { return len(w.Server.Untainted(providertest.PoolName)) }

func (w *world) Mutations() int {
	_, n, _ := w.Counts()
	return n
}

func (w *world) Requests() int {
	reads, changes, _ := w.Counts()
	return reads + changes
}

func (w *world) FailWorkers(n int, message string) { w.FailNext(n, "provision_failed", message) }

func (w *world) Break(id, message string) {
	w.Server.Break(clusterID, id, "deploy_failed", "critical", message)
}

func (w *world) SetAutoscaled(on bool) { w.Server.SetAutoscaled(clusterID, providertest.PoolName, on) }

func (w *world) AddForeignPool() {
	w.AddPool(clusterID, iksserver.Pool{
		Name: providertest.PoolName, Flavor: "bx2.2x8", SizePerZone: 1, Zones: w.zones[:1], Taints: map[string]string{"a": "b:NoSchedule"},
	})
}

func (w *world) StripTaints() { w.SetPoolTaints(clusterID, providertest.PoolName, map[string]string{}) }

func (w *world) Heal() { w.ClearFaults() }

func (w *world) Inject(f providertest.Fault) {
	const api = "^/v[12]/"
	switch f {
	case providertest.ServerError:
		w.Server.Inject(iksserver.Fault{Path: api, Status: http.StatusBadGateway, Body: "<html>bad gateway</html>"})
	case providertest.Limited:
		w.Server.Inject(iksserver.RateLimited(providertest.LimitedFor).On("", api))
	case providertest.Denied:
		w.Server.Inject(iksserver.Fault{Path: api, Status: http.StatusForbidden, Body: `{"code":"A0656","description":"not allowed"}`})
	case providertest.Hanging:
		w.Server.Inject(iksserver.Fault{Path: api, Hang: true})
	case providertest.LostAnswer:
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			w.Server.Inject(iksserver.Fault{Method: method, Path: api, Executed: true, Status: http.StatusGatewayTimeout})
		}
	}
}

func ensure(t *testing.T, p cloud.Provider, want cloud.PoolSpec) cloud.Progress {
	t.Helper()
	got, err := p.Ensure(context.Background(), want)
	require.NoError(t, err)
	return got
}

func settled(t *testing.T, generation string, want cloud.PoolSpec) (*world, *iks.Provider) {
	t.Helper()
	w := newWorld(t, generation)
	p := w.provider(t, nil)
	settle(t, w, p, want)
	return w, p
}

func observe(t *testing.T, p cloud.Provider) cloud.Pool {
	t.Helper()
	pool, err := p.Observe(context.Background(), cloud.PoolSpec{})
	require.NoError(t, err)
	return pool
}

// unseen is the error of a look that has to fail so, refused that of a change.
func unseen(t *testing.T, p cloud.Provider, kind cloud.Kind) error {
	t.Helper()
	_, err := p.Observe(context.Background(), cloud.PoolSpec{})
	require.True(t, cloud.Is(err, kind), "%v", err)
	return err
}

func refused(t *testing.T, p cloud.Provider, want cloud.PoolSpec, kind cloud.Kind) error {
	t.Helper()
	_, err := p.Ensure(context.Background(), want)
	require.True(t, cloud.Is(err, kind), "%v", err)
	return err
}
