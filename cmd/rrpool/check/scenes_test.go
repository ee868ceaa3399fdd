package check

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
	docs "github.com/rrpool/rrpool/test/docs/links"
)

// refused is what an apiserver's refusal looks like once explained.
func refused(verb, resource string) string {
	return fmt.Sprintf("the user of context \"prod\" may not %[1]s %[2]s: ask for a ClusterRole that allows it (kubectl auth can-i %[1]s %[2]s says when)", verb, resource)
}

// nodesIn makes so many Ready nodes in each zone that speak BGP.
func nodesIn(perZone int, zones ...string) []plan.Node {
	var out []plan.Node
	for z, zone := range zones {
		for i := range perZone {
			name := fmt.Sprintf("10.%d.0.%d", 240+z, i+1)
			out = append(out, plan.Node{
				Name: name, UID: name, Zone: zone, Ready: true, Created: cli.Now.Add(-time.Hour), ReadyChanged: cli.Now.Add(-time.Hour),
				Addresses: []netip.Addr{netip.MustParseAddr(name)},
			})
		}
	}
	return out
}

// scene is a cluster in which all is well: of so many nodes, with rrpool installed and
// without a RouteReflectorPool.
func scene(t *testing.T, nodes []plan.Node) facts {
	t.Helper()
	object := crd.Default()
	// Our CRD as an apiserver has it that has taken it.
	read, err := readDefinition()
	require.NoError(t, err)
	definition := read.DeepCopy()
	definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	f := facts{
		now: cli.Now, context: "prod", server: "https://203.0.113.7:6443", namespace: snapshot.DefaultNamespace,
		version: "v1.31.4", object: object,
		snapshot: &snapshot.Snapshot{Object: object, Scope: pool.Scope{
			Cluster: plan.Cluster{
				CalicoAPI: "crd.projectcalico.org/v1", Nodes: nodes, BGP: plan.BGPConfig{ASN: 64512},
				Routes: plan.Routes{Pools: []plan.PoolRoutes{{CIDR: "172.30.0.0/16", Encapsulation: "IP-in-IP CrossSubnet", BIRD: true}}},
			},
			Provider: v1alpha1.ProviderExistingNodes,
		}},
		peerings:      seen[*v1alpha1.ClusterPeeringList]{value: &v1alpha1.ClusterPeeringList{}},
		managerRights: answer{asked: len(rbac.Rights(snapshot.DefaultNamespace))},
		stored:        seen[*v1alpha1.RouteReflectorPool]{value: &v1alpha1.RouteReflectorPool{}},
		definition:    seen[*apiextensionsv1.CustomResourceDefinition]{value: definition, found: true},
		deployment:    seen[*appsv1.Deployment]{value: deployment(2, 2), found: true},
		manager:       status.Manager{Status: status.Running, Message: "m1 holds the lease"},
		information:   seen[*apiv3.ClusterInformation]{value: &apiv3.ClusterInformation{Spec: apiv3.ClusterInformationSpec{CalicoVersion: "v3.28.1"}}, found: true},
		calicoNode:    seen[*appsv1.DaemonSet]{value: daemonSet("calico-system", len(nodes), len(nodes)), found: true},
	}
	decide(t, &f)
	return f
}

// decide makes the manager's decision on what the scene has become.
func decide(t *testing.T, f *facts) {
	t.Helper()
	s, spec := f.snapshot, f.object.Spec
	zones := map[string]bool{}
	var clients int
	for _, n := range s.Cluster.Nodes {
		if n.SpeaksBGP() {
			zones[n.Zone] = true
			clients++
		}
	}
	s.Desired = rollout.Desired{
		Mode: v1alpha1.ModeRouteReflector, Dedicated: s.Provider == v1alpha1.ProviderIKS, ClusterID: spec.Topology.ClusterID, RoleLabel: spec.BGP.NodeLabel,
		Timer: spec.Rollout.Gate == v1alpha1.GateTimer, Promotion: v1alpha1.PromotionStaged, SessionTimeout: 5 * time.Minute, MinServing: 2,
	}
	size, err := sizing.Reflectors(spec.Sizing, clients, max(len(zones), 1))
	require.NoError(t, err)
	s.Desired.Pool.SizePerZone = size
	for _, zone := range []string{"", "eu-de-1", "eu-de-2", "eu-de-3"} {
		if zones[zone] {
			s.Desired.Pool.Zones = append(s.Desired.Pool.Zones, zone)
		}
	}
	observed := rollout.Observed{Cluster: s.Cluster, Pool: &rollout.ObservedPool{}}
	s.Step = rollout.Next(observed, s.Desired, f.now)
}

var frankfurt = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

// onCloud is the scene on IBM Cloud, before rrpool has ordered anything.
func onCloud(t *testing.T, perZone int) facts {
	t.Helper()
	f := scene(t, nodesIn(perZone, frankfurt...))
	f.version = "v1.31.4+IKS"
	f.snapshot.Provider = v1alpha1.ProviderIKS
	f.snapshot.Pool = &cloud.Pool{Name: "route-reflectors", Flavor: "bx2.2x8", ClusterZones: frankfurt}
	f.snapshot.Cluster.BGP.Exists = true
	f.snapshot.Cluster.BGP.Mesh.Password = &plan.SecretRef{Name: "calico-bgp-password", Key: "password"}
	f.passwords = []password{{SecretRef: *f.snapshot.Cluster.BGP.Mesh.Password, field: "nodeMeshPassword", secret: holding("swordfish")}}
	decide(t, &f)
	return f
}

func deployment(wanted, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: status.ManagerName, Namespace: snapshot.DefaultNamespace},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To(wanted), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "manager", Image: "registry.example.com/rrpool-manager:v0.1.0"}},
		}}},
		Status: appsv1.DeploymentStatus{AvailableReplicas: available},
	}
}

func daemonSet(namespace string, wanted, ready int) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "calico-node", Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "calico-node",
			Containers:         []corev1.Container{{Name: "calico-node", Env: []corev1.EnvVar{{Name: datastoreVariable, Value: "kubernetes"}}}},
		}}},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(wanted), NumberReady: int32(ready)},
	}
}

// broken is a cluster in which much is wrong at once.
func broken(t *testing.T) facts {
	t.Helper()
	f := scene(t, nodesIn(3, "eu-de-1"))
	nodes := f.snapshot.Cluster.Nodes
	nodes[0].ASN, nodes[0].ClusterID = 65001, "1.0.0.1"
	nodes[1].Ready = false
	nodes[2].Cordoned = true
	f.snapshot.Cluster.Peers = []plan.Peer{
		{Name: "full-mesh-by-hand", NodeSelector: "all()", PeerSelector: "role == 'rr'"},
		{Name: "rack-switch", PeerIP: "192.0.2.1", ASN: 65100},
	}
	f.version = "v1.24.17"
	f.managerRights.lacking = []rbac.Right{
		{Verb: "create", Group: "crd.projectcalico.org", Resource: "bgppeers"},
		{Verb: "patch", Resource: "nodes"},
		{Verb: "create", Resource: "pods/eviction"},
		{Verb: "get", Resource: "secrets", Namespace: "rrpool-system"},
	}
	f.deployment.value = deployment(2, 0)
	f.information.value.Spec.CalicoVersion = "v3.19.1"
	f.calicoNode.value = daemonSet("calico-system", 3, 1)
	f.snapshot.Cluster.Problems = []plan.Problem{{Reason: "NodeStatusCRDMissing", Message: "the API has no CalicoNodeStatus: upgrade Calico to 3.21 or later"}}
	f.snapshot.Cluster.Routes = plan.Routes{Pools: []plan.PoolRoutes{{CIDR: "172.30.0.0/16", Encapsulation: "VXLAN Always", Felix: true}}}
	ref := plan.SecretRef{Name: "bgp-reflectors", Key: "password"}
	f.passwords = []password{{SecretRef: ref, field: "spec.bgp.passwordSecretRef", secret: seen[*corev1.Secret]{value: &corev1.Secret{}}}}
	f.stored.found = true
	decide(t, &f)
	return f
}

// blind is a cluster seen by a user without rights.
func blind(t *testing.T) facts {
	t.Helper()
	f := scene(t, nil)
	f.snapshot, f.blind = nil, refused("list", "nodes")
	f.managerRights.hidden = refused("create", "subjectaccessreviews.authorization.k8s.io")
	f.definition = seen[*apiextensionsv1.CustomResourceDefinition]{hidden: refused("get", "customresourcedefinitions.apiextensions.k8s.io")}
	f.stored.hidden = refused("get", "routereflectorpools.rrpool.io")
	f.deployment, f.manager = seen[*appsv1.Deployment]{hidden: refused("get", "deployments.apps")}, status.Manager{}
	return f
}

// shown renders an answer.
func shown(t *testing.T, f facts, format string, s iostreams.Streams) string {
	t.Helper()
	var out bytes.Buffer
	s.Out = &out
	v := judge(f, "rrpool")
	require.NoError(t, cli.Defaults(s).Print("answer", format, v, v.print))
	return out.String()
}

// readDefinition reads our CRD, once: it is long.
var readDefinition = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := os.ReadFile("../../../config/crd/rrpool.io_routereflectorpools.yaml")
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	return out, yaml.Unmarshal(content, out)
})

// Each scene is kept once as the table that people read, and one as JSON. A narrow terminal gets narrow lines. Every warning
// and error has a link to a section that is there, and what is right has none.
func TestOutputs(t *testing.T) {
	// The clusters whose answers are kept.
	kind := scene(t, nodesIn(5, ""))
	kind.calicoNode.value.Namespace = "kube-system"
	kind.snapshot.Cluster.Routes = plan.Routes{Pools: []plan.PoolRoutes{{CIDR: "10.244.0.0/16", Encapsulation: "not encapsulated", BIRD: true}}}
	decide(t, &kind)

	before := onCloud(t, 50)
	before.pre = true
	before.definition.found, before.deployment.found, before.manager = false, false, status.Manager{}
	before.snapshot.Pool = nil
	before.snapshot.ProviderProblem = &plan.Problem{Reason: reason.CredentialsMissing, Message: `Secret "rrpool-ibmcloud" in namespace "rrpool-system" does not exist: store an IBM Cloud API key there`}
	for name, f := range map[string]facts{
		"iks": onCloud(t, 50), "kind": kind, "iks-before-installation": before,
		"broken": broken(t), "blind": blind(t),
	} {
		cli.Golden(t, name+".golden", shown(t, f, "table", iostreams.Streams{}))
		got := shown(t, f, "table", iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")})
		cli.RequireWidth(t, got, 60)
		for _, g := range judge(f, "rrpool").Groups {
			for _, c := range g.Checks {
				bad := c.Status == Warning || c.Status == Error
				require.Equal(t, bad, c.Link != "", "%s: %s", name, c.ID)
				require.True(t, !bad || anchored(t, c.Link), "%s: %s", name, c.Link)
			}
		}
	}
	cli.Golden(t, "iks.json.golden", shown(t, onCloud(t, 50), "json", iostreams.Streams{}))
	for _, colour := range []string{iostreams.Red, iostreams.Yellow, iostreams.Green, iostreams.Dim} {
		require.Contains(t, shown(t, broken(t), "table", iostreams.Streams{Terminal: true, Width: 100}), colour)
	}
}

// anchored says whether a link leads to a page of ours, and to a heading if it names one.
func anchored(t *testing.T, link string) bool {
	t.Helper()
	return docs.Leads(os.DirFS("../../.."), "docs/"+strings.TrimPrefix(link, plan.Docs)) == nil
}
