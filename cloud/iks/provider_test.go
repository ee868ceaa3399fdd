package iks_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/leaks"
	"github.com/rrpool/rrpool/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient gives goroutines time to end before goleak looks.
type patient struct{ *testing.M }

// Run implements goleak.TestingM.
func (p patient) Run() int {
	code := p.M.Run()
	if code == 0 {
		_ = leaks.Find() // goleak looks once more, and reports
	}
	return code
}

// changes gives the changing requests as text.
func changes(w *world) []string {
	var out []string
	for _, r := range w.Server.Requests() {
		if r.Mutating() {
			out = append(out, strings.TrimSpace(r.Method+" "+r.Path+" "+strings.TrimSpace(r.Body)))
		}
	}
	return out
}

func TestRequestsAreTheOnesOfTheRealClients(t *testing.T) {
	const zones = "POST /v1/clusters/CLUSTER/workerpools/POOL/zones "
	labels := `"labels":{"rrpool.io/options":"` + poolplan.Fingerprint(spec(1)) + `","rrpool.io/pool":"route-reflectors"},`
	taints := `POST /v2/setWorkerPoolTaints {"cluster":"CLUSTER","workerpool":"POOL","taints":{"rrpool.io/dedicated":"route-reflector:NoExecute"}}`
	for generation, requests := range map[string][]string{
		iksserver.VPC: {
			`POST /v2/vpc/createWorkerPool {"cluster":"CLUSTER","entitlement":"","flavor":"bx2.2x8",` + labels +
				`"name":"route-reflectors","vpcID":"r006-vpc","workerCount":1,"zones":[]}`,
			taints,
			`POST /v2/vpc/createWorkerPoolZone {"cluster":"CLUSTER","id":"us-south-1","subnetID":"sub-us-south-1","workerPoolID":"POOL"}`,
			`POST /v2/vpc/createWorkerPoolZone {"cluster":"CLUSTER","id":"us-south-2","subnetID":"sub-us-south-2","workerPoolID":"POOL"}`,
			`POST /v2/vpc/createWorkerPoolZone {"cluster":"CLUSTER","id":"us-south-3","subnetID":"sub-us-south-3","workerPoolID":"POOL"}`,
		},
		iksserver.Classic: {
			`POST /v1/clusters/CLUSTER/workerpools {"name":"route-reflectors","sizePerZone":1,"machineType":"u3c.2x4","isolation":"public",` + labels +
				`"entitlement":"","diskEncryption":true,"zones":[]}`,
			taints,
			zones + `{"privateVlan":"10010","publicVlan":"20010","id":"dal10"}`,
			zones + `{"privateVlan":"10012","publicVlan":"20012","id":"dal12"}`,
			zones + `{"privateVlan":"10013","publicVlan":"20013","id":"dal13"}`,
		},
	} {
		w, _ := settled(t, generation, spec(1))
		short := strings.NewReplacer(poolID(w), "POOL", clusterID, "CLUSTER")
		require.Equal(t, strings.Join(requests, "\n"), short.Replace(strings.Join(changes(w), "\n")))
	}
}

func poolID(w *world) string { return w.Server.Workers(clusterID, providertest.PoolName)[0].PoolID }

func TestNetworkOfAZoneWithoutOtherPools(t *testing.T) {
	want := spec(1)
	want.Zones = []string{"us-south-4"}
	t.Run("the subnet with the most room is taken", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		addZone(w, iksserver.Zone{ID: "us-south-4", Subnets: []iksserver.Subnet{{ID: "small", Available: 3}, {ID: "large-b", Available: 90}, {ID: "large-a", Available: 90}}})
		settle(t, w, w.provider(t, nil), want)
		require.Contains(t, strings.Join(changes(w), "\n"), `"subnetID":"large-a"`)
	})
	t.Run("a zone without a subnet is an input error that says so", func(t *testing.T) {
		w := newWorld(t, iksserver.VPC)
		addZone(w, iksserver.Zone{ID: "us-south-4"})
		require.Contains(t, refusedOrder(t, w, want), "no subnet in zone us-south-4")
	})
	t.Run("VLANs of one router go together", func(t *testing.T) {
		want.Zones = []string{"dal14"}
		w := newWorld(t, iksserver.Classic)
		addZone(w, iksserver.Zone{ID: "dal14", VLANs: []iksserver.VLAN{
			{ID: "1", Type: "private", Router: "bcr02a.dal14"}, {ID: "2", Type: "public", Router: "fcr01a.dal14"}, {ID: "3", Type: "private", Router: "bcr01a.dal14"},
		}})
		settle(t, w, w.provider(t, nil), want)
		require.Contains(t, strings.Join(changes(w), "\n"), `{"privateVlan":"3","publicVlan":"2","id":"dal14"}`)
	})
	t.Run("the first of VLANs without public ones", func(t *testing.T) {
		want.Zones = []string{"dal14"}
		w := newWorld(t, iksserver.Classic)
		addZone(w, iksserver.Zone{ID: "dal14", VLANs: []iksserver.VLAN{
			{ID: "1", Type: "private", Router: "bcr02a.dal14"}, {ID: "2", Type: "public", Router: "fcr03a.dal14"}, {ID: "3", Type: "private", Router: "bcr01a.dal14"},
		}})
		settle(t, w, w.provider(t, nil), want)
		require.Contains(t, strings.Join(changes(w), "\n"), `{"privateVlan":"1","publicVlan":"","id":"dal14"}`)
	})
}

func addZone(w *world, z iksserver.Zone) { w.AddZone(clusterID, z) }

// TestTheNetworkOfMostWorkersIsTaken: a small pool whose name comes first may have one of its own.
func TestTheNetworkOfMostWorkersIsTaken(t *testing.T) {
	for generation, c := range map[string]struct{ other, usual string }{
		iksserver.VPC: {`"id":"sub-us-south-1"`, `"subnetID":"sub-us-south-1"`}, iksserver.Classic: {`"privateVlan":"10010"`, `"privateVlan":"10010"`},
	} {
		w := newWorld(t, generation, func(c *iksserver.Cluster) {
			c.Pools = append([]iksserver.Pool{{Name: "aaa-edge", Flavor: "bx2.4x16", SizePerZone: 1, Zones: c.Pools[0].Zones}}, c.Pools...)
		})
		w.Server.Inject(rewrite(poolList, 0, func(body []byte) []byte { // the first pool is in a network of its own
			return bytes.Replace(body, []byte(c.other), []byte(strings.Replace(c.other, ":\"", ":\"edge-", 1)), 1)
		}))
		settle(t, w, w.provider(t, nil), spec(1))
		require.Contains(t, strings.Join(changes(w), "\n"), c.usual)
		require.NotContains(t, strings.Join(changes(w), "\n"), "edge-")
	}
}

func TestDangerousIDs(t *testing.T) {
	for _, id := range []string{"", ".", "..", "a/b", "a b", "a?b", "a&b=c", "a#b", "../../v1/clusters/x", "a..b", "%2e", strings.Repeat("a", 200)} {
		_, err := iks.New(iks.Config{ClusterID: id, PoolName: "rr", APIKey: "k"})
		require.True(t, cloud.Is(err, cloud.InvalidInput), "cluster %q: %v", id, err)
		_, err = iks.New(iks.Config{ClusterID: "c", PoolName: id, APIKey: "k"})
		require.True(t, cloud.Is(err, cloud.InvalidInput), "pool %q: %v", id, err)
	}
	for _, generation := range both {
		w := newWorld(t, generation)
		p := w.provider(t, nil)
		bad := spec(1)
		bad.Zones = []string{"dal10&x=1"}
		_ = refused(t, p, bad, cloud.InvalidInput)
		settle(t, w, p, spec(1))
		before, id := w.Mutations(), poolID(w)
		// The cloud itself names a pool so that its deletion would delete the cluster.
		w.Server.Inject(iksserver.Fault{Method: "GET", Spoil: func(b []byte) []byte {
			return []byte(strings.ReplaceAll(string(b), `"`+id+`"`, `".."`))
		}})
		_, err := p.Delete(context.Background())
		require.Error(t, err)
		require.Equal(t, before, w.Mutations())
	}
}

func TestTheEnvironmentIsNotListenedTo(t *testing.T) {
	for k, v := range map[string]string{
		"IC_API_KEY": "stray", "IBMCLOUD_API_KEY": "stray", "BLUEMIX_API_KEY": "stray", "IC_IAM_TOKEN": "Bearer stray",
		"IBMCLOUD_IAM_TOKEN": "Bearer stray", "IC_IAM_REFRESH_TOKEN": "stray", "MAX_RETRIES": "9", "IC_TIMEOUT": "x",
		"IC_ENDPOINTS_FILE_PATH": "/does/not/exist", "IBMCLOUD_ENDPOINTS_FILE_PATH": "/does/not/exist", "IC_VISIBILITY": "private",
		"IC_REGION": "mars", "BLUEMIX_TRACE": "true",
	} {
		t.Setenv(k, v)
	}
	w := newWorld(t, iksserver.VPC)
	t.Setenv(iks.CSEndpointVariable, w.http.URL+"/global/")
	t.Setenv(iks.IAMEndpointVariable, w.http.URL)
	x := &tap{base: w.base, auth: map[string]bool{}}
	p := w.provider(t, func(c *iks.Config) { c.Transport, c.CSEndpoint, c.IAMEndpoint = x, "", "" })
	settle(t, w, p, spec(1))
	for secret := range x.auth {
		require.NotContains(t, secret, "stray")
	}
	for _, r := range w.Server.Requests() {
		require.True(t, r.Status < 300 || r.Status == http.StatusNotFound && strings.HasSuffix(r.Path, "/getWorkerPool"), "%+v", r)
	}
}

func TestEndpoints(t *testing.T) {
	base := iks.Config{ClusterID: "c", PoolName: "rr", APIKey: "k"}
	for name, c := range map[string]struct {
		edit func(*iks.Config)
		host []string
		bad  string
	}{
		"public by default":              {func(*iks.Config) {}, []string{"iam.cloud.ibm.com"}, ""},
		"private by region":              {func(c *iks.Config) { c.Private, c.Region = true, "us-south" }, []string{"private.iam.cloud.ibm.com"}, ""},
		"private without a region":       {func(c *iks.Config) { c.Private = true }, nil, "set spec.provider.iks.endpoint to Public"},
		"an address with a password":     {func(c *iks.Config) { c.CSEndpoint = "https://user:hunter2@host" }, nil, "plain"},
		"something that is no address":   {func(c *iks.Config) { c.IAMEndpoint = "host" }, nil, "plain"},
		"an override beats the defaults": {func(c *iks.Config) { c.IAMEndpoint = "https://my.iam" }, []string{"my.iam"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, asked := base, ""
			cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = r.URL.Host
				return nil, net.ErrClosed
			})
			c.edit(&cfg)
			p, err := iks.New(cfg)
			if c.bad != "" {
				require.True(t, cloud.Is(err, cloud.InvalidInput))
				require.ErrorContains(t, err, c.bad)
				require.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			_, err = p.Observe(context.Background(), cloud.PoolSpec{})
			require.True(t, cloud.Is(err, cloud.Unavailable))
			require.Contains(t, c.host, asked)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWorkerStates(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		worker := w.Workers()[0].ID
		for _, c := range []struct {
			state, health string
			want          cloud.WorkerState
		}{
			{"deployed", "warning", cloud.WorkerUnhealthy},
			{"deployed", "critical", cloud.WorkerUnhealthy},
			{"deployed", "pending", cloud.WorkerProvisioning},
			{"provision_failed", "critical", cloud.WorkerFailed},
			{"deploy_failed", "critical", cloud.WorkerFailed},
			{"reloading", "pending", cloud.WorkerProvisioning},
			{"somethingnew", "warning", cloud.WorkerUnhealthy},
		} {
			w.Server.Break(clusterID, worker, c.state, c.health, "the cloud's words")
			pool := observe(t, p)
			require.Equal(t, c.want, pool.Workers[0].State, "%s %s", c.state, c.health)
			require.Equal(t, "the cloud's words", pool.Workers[0].Message)
			require.Equal(t, "10.", pool.Workers[0].NodeName[:3])
		}
		w.Server.Break(clusterID, worker, "deployed", "normal", "Not ready")
		pool := observe(t, p)
		require.Equal(t, generation == iksserver.Classic, pool.Workers[0].State == cloud.WorkerUnhealthy, "VPC has no such words")
		w.Server.Inject(rewrite(workerList, 1, replaced(`"actualState":"deployed"`, `"actualState":"deleted"`, `"state":"normal"`, `"state":"deleted"`)))
		pool = observe(t, p)
		require.Empty(t, pool.Workers)
	}
}

// A pool is rrpool's by the label rrpool.io/pool, whatever else it has or has lost; those of earlier versions had another label too.
func TestAPoolIsOursByItsLabel(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		labels, _ := w.Labels(clusterID, providertest.PoolName)
		require.Equal(t, map[string]string{v1alpha1.PoolLabel: providertest.PoolName, v1alpha1.OptionsLabel: poolplan.Fingerprint(spec(1))}, labels, "kubelets refuse keys of Kubernetes")
		theirs := map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue, v1alpha1.PoolLabel: providertest.PoolName, "team": "network"}
		w.SetPoolLabels(clusterID, providertest.PoolName, theirs)
		settle(t, w, p, spec(1))
		labels, _ = w.Labels(clusterID, providertest.PoolName)
		require.Equal(t, theirs, labels)

		for _, others := range []map[string]string{
			{"team": "network"}, {v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}, {v1alpha1.PoolLabel: "another"},
		} {
			w.SetPoolLabels(clusterID, providertest.PoolName, others)
			err := refused(t, p, spec(2), cloud.Conflict)
			require.ErrorContains(t, err, v1alpha1.PoolLabel+"="+providertest.PoolName)
		}
	}
}

// Workers that are older than the master are told, and those that come have its version.
func TestOutdatedWorkersAreTold(t *testing.T) {
	for _, generation := range both {
		w, p := settled(t, generation, spec(1))
		versions := func() (out []string) {
			pool := observe(t, p)
			for _, x := range pool.Workers {
				out = append(out, x.Outdated)
			}
			slices.Sort(out)
			return out
		}
		require.Equal(t, []string{"", "", ""}, versions())
		w.SetVersion(clusterID, "1.32.1_1520")
		old := "1.31.1_1500 to 1.32.1_1520"
		require.Equal(t, []string{old, old, old}, versions())
		settle(t, w, p, spec(2))
		require.Equal(t, []string{"", "", "", old, old, old}, versions())
		w.Server.Inject(rewrite(workerList, 1, replaced(`"1.31.1_1500"`, `"pending"`, `"1.32.1_1520"`, `""`)))
		require.Equal(t, make([]string, 6), versions(), "a version that is being set, or not known, is not outdated")
		for _, none := range []string{"-", "1.32.1_1520 (pending)", "(pending)", "unknown"} {
			w.Server.Inject(rewrite(workerList, 1, replaced(`"1.31.1_1500"`, `"`+none+`"`)))
			require.Equal(t, make([]string, 6), versions(), none)
			w.Server.Inject(rewrite(workerList, 1, replaced(`"1.32.1_1520"`, `"`+none+`"`)))
			require.Equal(t, make([]string, 6), versions(), none)
		}
	}
}
