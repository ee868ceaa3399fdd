package check

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
	"github.com/rrpool/rrpool/test/cli"
)

// stopped is a cluster in which the manager does nothing, for the reason that is the key.
type stopped struct {
	// cloud: on IBM Cloud, with so many nodes in each zone. Otherwise on existing nodes.
	cloud int
	edit  func(*facts)
	// unseen: the manager may know what this user does not, so it is ‼ and nothing is √.
	unseen bool
}

// problem is one that the datastore reports.
func problem(why string) stopped {
	return stopped{edit: func(f *facts) {
		f.snapshot.Cluster.Problems = []plan.Problem{{Reason: why, Message: "in its words"}}
	}}
}

func locked(why string) stopped {
	return stopped{edit: func(f *facts) { f.snapshot.Cluster.Locked = &plan.Problem{Reason: why, Message: "in its words"} }}
}

// providerProblem is one of the provider.
func providerProblem(why string) stopped {
	return stopped{cloud: 2, edit: func(f *facts) { f.snapshot.ProviderProblem = &plan.Problem{Reason: why, Message: "in its words"} }}
}

func spec(nodes int, edit func(*v1alpha1.RouteReflectorPoolSpec)) stopped {
	return stopped{cloud: nodes, edit: func(f *facts) { edit(&f.object.Spec) }}
}

func seenSoFar(s stopped) stopped {
	s.unseen = true
	return s
}

// refusals are all reasons for which nothing is done, with a cluster for each.
var refusals = map[string]stopped{
	"MixedASNumbers":       {edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 65001 }},
	"SharedBGPAddress":     {edit: func(f *facts) { f.snapshot.Cluster.Nodes[1].Addresses = f.snapshot.Cluster.Nodes[0].Addresses }},
	"UnusableBGPAddress":   {edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.2")} }},
	"ForeignReflector":     {edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1" }},
	"ForeignInClusterPeer": {edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerSelector: "all()"}} }},
	"SelectorTooLong": {edit: func(f *facts) {
		f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", NodeSelector: strings.Repeat("(", 1_000_000), PeerIP: "192.0.2.1"}}
	}},
	"NameTaken": {edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", PeerIP: "192.0.2.1"}} }},
	"ForeignLabel": {edit: func(f *facts) {
		f.object.Spec.BGP.NodeLabel, f.snapshot.Cluster.Nodes[0].HasRoleLabel = "example.com/rr", true
	}},
	"TooFewNodes": {edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(1, frankfurt...) }},
	"RoutesUnknown": {unseen: true, edit: func(f *facts) {
		f.snapshot.Cluster.Routes = plan.Routes{Unknown: "listing ippools: forbidden"}
	}},
	"NoRoutesOverBGP": {edit: func(f *facts) {
		f.snapshot.Cluster.Routes.Pools = []plan.PoolRoutes{{CIDR: "172.30.0.0/16", Encapsulation: "VXLAN Always", Felix: true}}
	}},
	"BlocksOutsideIPPools": {edit: func(f *facts) {
		f.snapshot.Cluster.Routes.Ranges = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
		f.snapshot.Cluster.Nodes[0].Blocks = []netip.Prefix{netip.MustParsePrefix("192.168.10.0/26")}
	}},
	"BlocksMarkedNoAdvertise": {edit: func(f *facts) {
		f.snapshot.Cluster.Routes.Marks = map[string][]plan.Mark{"": {{Text: "10.244.0.0/16: 65535:65282 in BGPConfiguration default"}}}
		f.snapshot.Cluster.Nodes[0].Blocks = []netip.Prefix{netip.MustParsePrefix("10.244.10.0/26")}
	}},
	"RoutesFromRouters": {edit: func(f *facts) {
		f.snapshot.Cluster.BGP.Mesh.Enabled = new(bool)
		f.snapshot.Cluster.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1", ASN: 64512}}
	}},

	"CalicoNotInstalled":   problem("CalicoNotInstalled"),
	"BGPDisabled":          problem("BGPDisabled"),
	"NodeStatusCRDMissing": problem("NodeStatusCRDMissing"),
	"NodesStale":           problem("NodesStale"),
	"NodesNotJoined":       problem("NodesNotJoined"),
	"CalicoTooOld":         problem("CalicoTooOld"),
	"ObjectUnreadable":     problem("ObjectUnreadable"),
	"DatastoreLocked":      locked("DatastoreLocked"),
	"DatastoreChanged":     locked("DatastoreChanged"),
	"CloudUnsupported":     problem("CloudUnsupported"), // as the manager adds it
	"WriteRefused":         problem("WriteRefused"),     // the same

	"TooManyPaths": spec(20, func(s *v1alpha1.RouteReflectorPoolSpec) {
		s.Topology.Type, s.Sizing.Min = v1alpha1.TopologyMultiCluster, 9
	}),
	"TooManyClients": spec(20, func(s *v1alpha1.RouteReflectorPoolSpec) {
		s.Topology.Type, s.Topology.MaxClientsPerReflector = v1alpha1.TopologyQuorum, 2
	}),
	"TooManyRacks": spec(110, func(s *v1alpha1.RouteReflectorPoolSpec) {
		s.Topology.Type, s.Topology.MaxClientsPerReflector = v1alpha1.TopologyHierarchy, 1
	}),
	reason.SizingInvalid:        spec(2, func(s *v1alpha1.RouteReflectorPoolSpec) { s.Sizing.Min, s.Sizing.Max = 9, 3 }),
	reason.TopologyNotSupported: {edit: func(f *facts) { f.object.Spec.Topology.Type = v1alpha1.TopologyQuorum }},
	reason.SelectorInvalid: {edit: func(f *facts) {
		f.object.Spec.Provider.ExistingNodes.Preferred.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	}},

	reason.CredentialsMissing:    providerProblem(reason.CredentialsMissing),
	reason.CredentialsUnreadable: seenSoFar(providerProblem(reason.CredentialsUnreadable)),
	reason.ClusterIDUnknown:      providerProblem(reason.ClusterIDUnknown),
	reason.ClusterIDMismatch:     providerProblem(reason.ClusterIDMismatch),
	reason.PoolConflict:          providerProblem(reason.PoolConflict),
	reason.PoolAutoscaled:        providerProblem(reason.PoolAutoscaled),
	reason.PoolProblem:           seenSoFar(providerProblem(reason.PoolProblem)),
	"CloudNotFound":              providerProblem("CloudNotFound"),
	"CloudInvalidInput":          providerProblem("CloudInvalidInput"),
	"CloudUnauthorized":          providerProblem("CloudUnauthorized"),
	"CloudQuotaExceeded":         providerProblem("CloudQuotaExceeded"),
	"CloudRateLimited":           seenSoFar(providerProblem("CloudRateLimited")),
	"CloudUnavailable":           providerProblem("CloudUnavailable"),
	"CloudUnexpected":            providerProblem("CloudUnexpected"),
}

// check, plan and the manager say the same of every cluster in which the manager does nothing. What this user cannot see
// is said by both, and nothing is √ then.
func TestCheckAndPlanRefuseWhatTheManagerRefuses(t *testing.T) {
	for why, c := range refusals {
		t.Run(why, func(t *testing.T) {
			f := existing(t)
			if c.cloud > 0 {
				f = onCloud(t, c.cloud)
			}
			f.snapshot.Name = "prod"
			c.edit(&f)
			look(t, &f)
			if p := f.snapshot.ProviderProblem; p == nil || p.Reason != why {
				require.NotNil(t, f.snapshot.Step.Problem, f.snapshot.Step)
				require.Equal(t, why, f.snapshot.Step.Problem.Reason, f.snapshot.Step.Reason)
				require.Empty(t, f.snapshot.Step.Actions)
			}
			v := judge(f, "rrpool")
			require.Equal(t, c.unseen, v.Fit)
			var named []Result
			for _, g := range v.Groups {
				for _, r := range g.Checks {
					if r.Link == plan.Docs+plan.Page(why) {
						named = append(named, r)
					}
				}
			}
			require.NotEmpty(t, named, "a check says it")
			for _, r := range named {
				require.Equal(t, c.unseen, r.Status == Warning, r.Message)
			}

			p, err := plancmd.Run(t.Context(), plancmd.Input{Snapshot: f.snapshot, Now: f.now})
			require.NoError(t, err)
			var out bytes.Buffer
			plancmd.Show(cli.Defaults(iostreams.Streams{Out: &out}), p)
			require.NotContains(t, out.String(), "√")
			var code iostreams.ExitError
			if c.unseen {
				require.ErrorAs(t, p.Verdict(), &code, "there are steps, and what they assume is said")
				require.Contains(t, out.String(), "‼")
				return
			}
			require.Error(t, p.Verdict())
			require.NotErrorAs(t, p.Verdict(), &code)
			require.True(t, strings.HasPrefix(p.Verdict().Error(), why+": "), p.Verdict())
		})
	}
}

// Every reason to refuse has its cluster in the table above.
func TestEveryReasonToRefuseHasItsCluster(t *testing.T) {
	for _, of := range reason.All() {
		if of.Severity == reason.Refusal || of.Severity == reason.Provider {
			require.Contains(t, refusals, of.Name)
		}
	}
}

// look lets the manager itself look at what the scene has become.
func look(t *testing.T, f *facts) {
	t.Helper()
	object, before, secrets := f.object.DeepCopy(), f.snapshot.Scope, holdsKey{}
	object.Spec.Provider.Type, object.Spec.Provider.IKS.ClusterID = before.Provider, "c1"
	manager := &pool.Reconciler{
		Client: secrets, Live: secrets, Datastore: still(before.Cluster), Now: func() time.Time { return f.now },
		Providers: func(config pool.ProviderConfig) (cloud.Provider, error) {
			if config.Type == v1alpha1.ProviderExistingNodes {
				return wiring.ExistingNodes(config, still(before.Cluster), nil, nil), nil
			}
			return fake.New(fake.Options{PoolName: config.PoolName, Flavor: "default", Zones: frankfurt, Now: func() time.Time { return f.now }}).Provider(), nil
		},
		Platforms: wiring.Platforms, Workload: still{},
	}
	scope, err := manager.Look(t.Context(), object)
	require.NoError(t, err)
	if scope.Pool == nil {
		scope.Pool = before.Pool
	}
	if before.ProviderProblem != nil {
		scope.ProviderProblem = before.ProviderProblem
	}
	f.snapshot.Scope, f.snapshot.Object = scope, f.object
}

// still is a cluster in which nothing happens.
type still plan.Cluster

func (s still) Observe(context.Context, plan.DatastoreOptions) (plan.Cluster, error) {
	return plan.Cluster(s), nil
}

func (still) Apply(context.Context, plan.DatastoreOptions, plan.Action) (bool, error) {
	panic("nothing is written")
}
func (still) Try(context.Context, plan.DatastoreOptions, plan.Action) error { return nil }
func (still) Watch(context.Context, []plan.StatusRequest) (bool, error)     { panic("nothing is written") }
func (s still) List(context.Context) ([]plan.Node, error)                   { return s.Nodes, nil }
func (still) SetPool(context.Context, plan.Node, string) error              { panic("nothing is written") }

func (still) Count(context.Context, []string) (map[string]int, error) { return map[string]int{}, nil }

func (still) Evictable(context.Context, string) (moving, staying []string, _ error) {
	return nil, nil, nil
}

func (still) Evict(context.Context, string) (workload.Eviction, error) { panic("nothing is written") }

// holdsKey has the Secret with the API key.
type holdsKey struct{ client.Client }

func (holdsKey) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if secret, ok := o.(*corev1.Secret); ok {
		secret.Data = map[string][]byte{"apikey": []byte("key")}
	}
	return nil
}
