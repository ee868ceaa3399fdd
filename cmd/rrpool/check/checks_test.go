package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
)

// answerTo gives the answer to one question.
func answerTo(t *testing.T, f facts, id string) *Result {
	t.Helper()
	require.True(t, slices.ContainsFunc(groups(), func(g group) bool { return slices.ContainsFunc(g.checks, func(c check) bool { return c.id == id }) }), id)
	for _, g := range judge(f, "rrpool").Groups {
		for _, r := range g.Checks {
			if r.ID == id {
				return &r
			}
		}
	}
	return nil
}

// row is one case: a fit cluster, what is done to it, and what one check says then.
type row struct {
	id    string
	edit  func(*facts)
	want  Status
	says  string
	never string
	page  string
	unset bool
}

func try(t *testing.T, start func(*testing.T) facts, rows map[string]row) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			if tc.edit != nil {
				tc.edit(&f)
			}
			if f.snapshot != nil {
				require.True(t, judge(start(t), "rrpool").Fit, "fit before")
				decide(t, &f)
				if p := f.snapshot.Step.Problem; p != nil && p.Reason != "RoutesUnknown" { // what this user may not see, the manager may
					require.False(t, judge(f, "rrpool").Fit, "no cluster is called fit that the manager refuses: %s", p.Reason)
				}
			}
			got := answerTo(t, f, tc.id)
			if tc.unset {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, tc.want, got.Status, got.Message)
			require.Contains(t, fmt.Sprint(got.Message, got.Details, got.Remedy), tc.says)
			require.True(t, tc.never == "" || !strings.Contains(fmt.Sprint(got.Message, got.Details, got.Remedy), tc.never), got)
			if tc.page != "" {
				require.Equal(t, plan.Docs+tc.page, got.Link)
			}
			if got.Status == Error {
				require.NotEmpty(t, got.Remedy, "an error has a remedy")
			}
			if got.Unchecked {
				require.Equal(t, Warning, got.Status, "what could not be looked at is never right")
			}
		})
	}
}

func existing(t *testing.T) facts {
	t.Helper()
	return scene(t, nodesIn(4, frankfurt...))
}

func TestKubernetes(t *testing.T) {
	try(t, existing, map[string]row{
		"the oldest that works":                  {id: "kubernetes-version", edit: func(f *facts) { f.version = "v1.28.0" }, want: OK, says: "v1.28.0"},
		"one older":                              {id: "kubernetes-version", edit: func(f *facts) { f.version = "v1.27.16+IKS" }, want: Error, says: "needs 1.28 or newer"},
		"a version that is none":                 {id: "kubernetes-version", edit: func(f *facts) { f.version = "main" }, want: Warning, says: `"main"`},
		"the manager may do it all":              {id: "manager-rights", want: OK, says: fmt.Sprintf("all %d things", len(rbac.Rights("")))},
		"the manager cannot be asked for":        {id: "manager-rights", edit: func(f *facts) { f.managerRights.hidden = "no" }, want: Warning, says: "could not be checked"},
		"the manager's rights before installing": {id: "manager-rights", edit: func(f *facts) { f.pre = true }, unset: true},
	})
}

func TestOwn(t *testing.T) {
	version := func(f *facts) *apiextensionsv1.CustomResourceDefinitionVersion {
		return &f.definition.value.Spec.Versions[0]
	}
	try(t, existing, map[string]row{
		"no CRD":                   {id: "crd", edit: func(f *facts) { f.definition.found = false }, want: Error, says: applyDefinition},
		"no CRD before installing": {id: "crd", edit: func(f *facts) { f.pre = true; f.definition.found = false }, want: Note},
		"a CRD of another version": {id: "crd", edit: func(f *facts) { version(f).Name = "v1beta1" }, want: Error, says: "does not serve version v1alpha1"},
		"a CRD that is not served": {id: "crd", edit: func(f *facts) { version(f).Served = false }, want: Error, says: "does not serve"},
		"a CRD that lacks a field": {id: "crd", edit: func(f *facts) {
			delete(version(f).Schema.OpenAPIV3Schema.Properties["spec"].Properties["provider"].Properties, "existingNodes")
		}, want: Error, says: "spec.provider.existingNodes"},
		"a CRD that may not be read":   {id: "crd", edit: func(f *facts) { f.definition.hidden = "no" }, want: Warning, says: "rrpool's CRD could not be checked"},
		"no manager":                   {id: "manager", edit: func(f *facts) { f.deployment.found, f.manager = false, status.Manager{Status: status.ManagerUnknown} }, want: Error, says: "the manager does not run: "},
		"no manager before installing": {id: "manager", edit: func(f *facts) { f.pre, f.deployment.found, f.manager = true, false, status.Manager{} }, want: Note},
		"a manager under another name": {id: "manager", edit: func(f *facts) {
			f.deployment.found, f.deployment.hidden = false, "no"
		}, want: Warning, says: "m1 holds the lease; its Deployment rrpool-manager is not seen in namespace rrpool-system"},
		"a manager that does not run": {id: "manager", edit: func(f *facts) { f.deployment.value = deployment(2, 0) }, want: Error, says: "0 of 2"},
		"a manager that is alone":     {id: "manager", edit: func(f *facts) { f.deployment.value = deployment(2, 1) }, want: Warning, says: "1 of 2"},
		"a manager that may not be seen": {id: "manager", edit: func(f *facts) {
			f.deployment = seen[*appsv1.Deployment]{hidden: "no"}
			f.manager.Status = status.Stopped
		}, want: Warning, says: "could not be checked"},
		"an object":                      {id: "object", edit: func(f *facts) { f.stored.found = true }, want: OK, says: "mode RouteReflector"},
		"an object that may not be seen": {id: "object", edit: func(f *facts) { f.stored.hidden = "no" }, want: Warning, says: "could not be checked"},
		"a name that is taken":           {id: "decision", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", PeerIP: "192.0.2.1"}} }, want: Error, says: "NameTaken", page: "runbook/conditions.md#nametaken"},
		"a label that is taken": {id: "decision", edit: func(f *facts) {
			f.object.Spec.BGP.NodeLabel, f.snapshot.Cluster.Nodes[0].HasRoleLabel = "example.com/rr", true
		}, want: Error, says: "ForeignLabel"},
		"a refusal that another check explains": {id: "decision", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 1 }, unset: true},
	})
}

func TestNodesAndProviders(t *testing.T) {
	try(t, existing, map[string]row{
		"a small cluster":        {id: "size", want: Note, says: "the mesh is fine as well"},
		"a large cluster":        {id: "size", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(100, "eu-de-1") }, want: OK, says: "100"},
		"one zone":               {id: "zones", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(5, "eu-de-1") }, want: Warning, says: "eu-de-1 (5)"},
		"a node without a zone":  {id: "zones", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].Zone = "" }, want: Warning, says: "10.240.0.1"},
		"nodes that are there":   {id: "provider", want: OK, says: "nodes that are there already"},
		"nodes that are not IBM": {id: "updates", unset: true},
		"a chosen node that is unfit": {id: "provider", edit: func(f *facts) {
			f.snapshot.ProviderProblem = &plan.Problem{Reason: "PoolProblem", Message: "node n: it is cordoned"}
		}, want: Warning, says: "it is cordoned", page: "runbook/conditions.md#poolproblem"},
		"chosen nodes we may not see": {id: "provider", edit: func(f *facts) { f.snapshot.ProviderProblem = &plan.Problem{Reason: "CloudUnauthorized"} }, want: Warning, says: "could not be checked", page: "runbook/conditions.md#cloudunauthorized"},
		"too few that can reflect": {id: "eligible", edit: func(f *facts) {
			f.snapshot.Cluster.Nodes = nodesIn(4, "eu-de-1")
			f.snapshot.Cluster.Nodes[0].Cordoned, f.snapshot.Cluster.Nodes[1].Ready = true, false
		}, want: Error, says: "2 of 4 nodes can be route reflectors", page: "runbook/conditions.md#awaitnodes"},
		"as many nodes as reflectors": {id: "eligible", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(3, "eu-de-1") }, want: Error, says: "3 route reflectors are wanted of 3 nodes", page: "runbook/conditions.md#toofewnodes"},
		"no substitute": {id: "eligible", edit: func(f *facts) {
			f.snapshot.Cluster.Nodes = nodesIn(4, "eu-de-1")
			f.snapshot.Cluster.Nodes[0].Cordoned = true
		}, want: Warning, says: "10.240.0.1 (it is cordoned)"},
	})
	problem := func(reason string) func(*facts) {
		return func(f *facts) {
			f.snapshot.Pool, f.snapshot.ProviderProblem = nil, &plan.Problem{Reason: reason, Message: "in the cloud's words"}
		}
	}
	rule := func(percent int) func(*facts) {
		return func(f *facts) {
			f.snapshot.Cluster.Nodes[0].Labels = map[string]string{"ibm-cloud.kubernetes.io/iaas-provider": "softlayer"}
			limit := fmt.Sprintf(`{"MaxUnavailablePercentage":%d,"NodeSelectorKey":"rrpool.io/pool","NodeSelectorValue":"route-reflectors"}`, percent)
			f.updates = seen[*corev1.ConfigMap]{value: &corev1.ConfigMap{Data: map[string]string{"drain_timeout_seconds": "120", "x.json": limit}}}
		}
	}
	try(t, func(t *testing.T) facts { t.Helper(); return onCloud(t, 5) }, map[string]row{
		"a pool to be ordered":       {id: "provider", want: OK, says: "no worker pool has the name route-reflectors yet"},
		"our pool":                   {id: "provider", edit: func(f *facts) { f.snapshot.Pool = &cloud.Pool{Exists: true, Owned: true, Workers: []cloud.Worker{{}}} }, want: OK, says: "1 worker"},
		"a cloud that was not asked": {id: "provider", edit: func(f *facts) { f.snapshot.Pool = nil }, want: Note, says: "nothing depends on it"},
		"a profile": {id: "provider", edit: func(f *facts) {
			f.object.Spec.Provider.IKS.Credentials.TrustedProfile.Name, f.snapshot.Pool = "a b", nil
		}, want: Note, says: "only the manager's pods have the token"},
		"no key":                     {id: "provider", edit: problem("CredentialsMissing"), want: Error, page: "runbook/conditions.md#credentialsmissing"},
		"a key that may not be seen": {id: "provider", edit: problem("CredentialsUnreadable"), want: Warning, says: "could not be checked"},
		"no key yet":                 {id: "provider", edit: func(f *facts) { f.pre = true; problem("CredentialsMissing")(f) }, want: Note, says: "not there yet"},
		"a cloud that says no":       {id: "provider", edit: problem("CloudUnauthorized"), want: Error, says: "in the cloud's words", page: "runbook/conditions.md#cloudunauthorized"},
		"a private cloud out of reach": {id: "provider", edit: func(f *facts) {
			problem("CloudUnavailable")(f)
			f.object.Spec.Provider.IKS.Endpoint = v1alpha1.EndpointPrivate
		}, want: Warning, says: "IBM's network only"},
		"a cloud that is busy":        {id: "provider", edit: problem("CloudRateLimited"), want: Warning},
		"two updates at once":         {id: "updates", edit: rule(34), want: Warning, says: `{"MaxUnavailablePercentage":33,"NodeSelectorKey":"rrpool.io/pool","NodeSelectorValue":"route-reflectors"}`},
		"updates one at a time":       {id: "updates", edit: rule(33), want: OK},
		"updates that are not seen":   {id: "updates", edit: func(f *facts) { rule(33)(f); f.updates.hidden = "no" }, want: Warning, says: "could not be checked"},
		"VPC, which has no such rule": {id: "updates", unset: true},
	})
}

func TestTheIdsOfChecks(t *testing.T) {
	known := map[string]bool{}
	for _, g := range groups() {
		for _, c := range g.checks {
			require.False(t, known[c.id], c.id)
			require.Empty(t, validation.IsDNS1123Label(c.id))
			require.True(t, anchored(t, plan.Docs+"check.md#"+c.id), c.id)
			known[c.id] = true
		}
	}
}

// meshless switches the mesh off, with these BGPPeers in its place.
func meshless(peers ...plan.Peer) func(*facts) {
	return func(f *facts) { f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.Peers = new(bool), peers }
}

func TestCalico(t *testing.T) {
	problem := func(reason string) func(*facts) {
		return func(f *facts) {
			f.snapshot.Cluster.Problems = []plan.Problem{{Reason: reason, Message: reason + " it is"}}
		}
	}
	onOurs := func(f *facts) {
		f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.Saved = new(bool), &plan.Mesh{}
	}
	twice := func(f *facts) { f.snapshot.Cluster.Nodes[1].Addresses = f.snapshot.Cluster.Nodes[0].Addresses }
	loopback := func(f *facts) {
		f.snapshot.Cluster.Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	ownAddress := func(f *facts) {
		f.snapshot.Cluster.Nodes[0].MachineAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		f.snapshot.Cluster.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1"}}
	}
	env := func(value string) func(*facts) {
		return func(f *facts) { f.calicoNode.value.Spec.Template.Spec.Containers[0].Env[0].Value = value }
	}
	try(t, existing, map[string]row{
		"no Calico":                           {id: "calico", edit: problem("CalicoNotInstalled"), want: Error, page: "runbook/conditions.md#caliconotinstalled"},
		"without Calico nothing else matters": {id: "mesh", edit: problem("CalicoNotInstalled"), unset: true},
		"etcd":                                {id: "datastore", edit: env("etcdv3"), want: Error, says: `its DATASTORE_TYPE is "etcdv3", rrpool's is "kubernetes"`},
		"etcd, and rrpool as well": {id: "datastore", edit: func(f *facts) {
			env("etcdv3")(f)
			f.snapshot.Cluster.CalicoAPI = "etcdv3"
		}, want: OK, says: "uses an etcd of its own"},
		"the apiserver, and rrpool etcd": {id: "datastore", edit: func(f *facts) {
			env("kubernetes")(f)
			f.snapshot.Cluster.CalicoAPI = "etcdv3"
		}, want: Error, says: `its DATASTORE_TYPE is "kubernetes", rrpool's is "etcdv3"`},
		"the mesh is off in etcd": {id: "mesh", edit: func(f *facts) {
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.CalicoAPI = new(bool), "etcdv3"
		}, want: Error, says: "calicoctl patch"},
		"the mesh is described elsewhere": {id: "mesh", edit: func(f *facts) { f.snapshot.Cluster.BGP.ManagedBy = "Argo CD: label x" }, want: Warning, says: "(Argo CD: label x)", page: "runbook/conditions.md#meshreversed"},
		"and it is off, by rrpool":        {id: "mesh", edit: func(f *facts) { onOurs(f); f.snapshot.Cluster.BGP.ManagedBy = "Flux: label x" }, want: Warning, says: "may undo"},
		"and it is off, by others": {id: "mesh", edit: func(f *facts) {
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.ManagedBy = new(bool), "Flux: label x"
		}, want: Error, says: "not by rrpool"},
		"nodes that cannot be joined":    {id: "decision", edit: problem("NodesNotJoined"), want: Error, page: "runbook/conditions.md#nodesnotjoined"},
		"a datastore that objects prove": {id: "datastore", edit: func(f *facts) { f.calicoNode.found = false }, want: OK, says: "Kubernetes datastore"},
		"a Calico of no known version":   {id: "datastore", edit: func(f *facts) { f.information.value.Spec.CalicoVersion = "" }, want: Note, says: `which Calico it is, is not known: calicoVersion of ClusterInformation default is ""`},
		"a build of Calico":              {id: "datastore", edit: func(f *facts) { f.information.value.Spec.CalicoVersion = "master" }, want: Note, says: `is "master"`},
		"an etcd of no known Calico": {id: "datastore", edit: func(f *facts) {
			f.snapshot.Cluster.CalicoAPI, f.calicoNode.found, f.information.found = calico.EtcdAPI, false, false
		}, want: Warning, says: "there is no ClusterInformation"},
		"a webhook without dry runs": {id: "writes", edit: func(f *facts) { f.snapshot.Untried = webhookerrors.NewDryRunUnsupportedErr("w") }, want: Note, says: "nobody can try it", never: "your user"},
		"an etcd has no dry runs": {id: "writes", edit: func(f *facts) {
			f.snapshot.Cluster.CalicoAPI, f.snapshot.Step.Ahead = calico.EtcdAPI, []plan.Action{plan.DisableMesh{}}
		}, want: Note, says: "etcd has no dry runs"},
		"reports in known words": {id: "reports", unset: true},
		"reports in unknown words": {id: "reports", edit: func(f *facts) {
			f.snapshot.Cluster.Statuses = map[string]plan.Status{"n": {Unread: []string{`session with "x"`}, UnreadRoutes: []string{`route to "y"`}}}
		}, want: Warning, says: `[n: session with "x" n: route to "y"]`},
		"annotations that Calico reads":      {id: "annotations", unset: true},
		"annotations that it does not read":  {id: "annotations", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].Unread = []string{`projectcalico.org/ASNumber="x"`} }, want: Warning, says: `ASNumber="x"`},
		"a datastore that nothing proves":    {id: "datastore", edit: func(f *facts) { f.calicoNode.found, f.information.found = false, false }, want: Warning, says: "could not be checked"},
		"calico-node is not Ready somewhere": {id: "calico-node", edit: func(f *facts) { f.calicoNode.value = daemonSet("calico-system", 12, 11) }, want: Warning, says: "11 of 12"},
		"calico-node does not select all nodes that speak BGP": {
			id: "calico-node", edit: func(f *facts) {
				selected := len(f.snapshot.Cluster.Nodes) - 1
				f.calicoNode.value = daemonSet("calico-system", selected, selected)
			}, want: Warning, says: "is Ready on 11 of 12 nodes",
		},
		"a pod of calico-node is missing where a node speaks BGP": {
			id: "calico-node", edit: func(f *facts) { f.snapshot.Cluster.Nodes[2].CalicoNode.State = plan.CalicoNodeAbsent }, want: Warning, says: "10.240.0.3",
		},
		"calico-node is Ready nowhere":       {id: "calico-node", edit: func(f *facts) { f.calicoNode.value = daemonSet("calico-system", 12, 0) }, want: Error, says: "0 of 12"},
		"a calico-node that may not be seen": {id: "calico-node", edit: func(f *facts) { f.calicoNode.found, f.calicoNode.hidden = false, "no" }, want: Warning, says: "could not be checked"},
		"no calico-node":                     {id: "calico-node", edit: func(f *facts) { f.calicoNode.found = false }, want: Warning, says: "calico-node, or canal, or canal-node"},
		"two that say they are":              {id: "calico-node", edit: func(f *facts) { f.calicoNodes = []string{"kube-system/calico-node", "calico-system/web"} }, want: Warning, says: "2 DaemonSets say that they are calico-node[kube-system/calico-node calico-system/web]"},
		"no BIRD":                            {id: "bgp", edit: func(f *facts) { f.backend = seen[string]{value: "none", found: true} }, want: Error, says: `CALICO_NETWORKING_BACKEND of DaemonSet calico-system/calico-node is "none"`, page: "runbook/conditions.md#bgpdisabled"},
		"BIRD by default, and no pod seen":   {id: "bgp", edit: func(f *facts) { f.backend.found, f.snapshot.Cluster.BGPUnknown = true, "no pod" }, want: OK},
		"nothing of calico-node seen":        {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.BGPUnknown = "no pod" }, want: Warning, says: "whether BGP is enabled is not known: no pod"},
		"a backend that may not be read":     {id: "bgp", edit: func(f *facts) { f.backend.hidden = "no" }, want: Warning, says: "not known: no"},
		"a clusterType with BGP":             {id: "bgp", edit: func(f *facts) { f.information.value.Spec.ClusterType = "typha,kdd,k8s,bgp" }, want: OK},
		"a clusterType without BGP":          {id: "bgp", edit: func(f *facts) { f.information.value.Spec.ClusterType = "k8s,canal" }, want: Warning, says: `"k8s,canal", which does not name bgp`},
		"and a backend that names BIRD": {id: "bgp", edit: func(f *facts) {
			f.information.value.Spec.ClusterType, f.backend = "kubeadm,kdd", seen[string]{value: "bird", found: true}
		}, want: OK},
		"one address twice": {id: "addresses", edit: twice, want: Error, says: "several Ready nodes", page: "runbook/conditions.md#sharedbgpaddress"},
		"one address twice on our reflectors": {id: "addresses", edit: func(f *facts) {
			onOurs(f)
			twice(f)
		}, want: Warning, page: "runbook/conditions.md#sharedbgpaddress"},
		"a loopback address": {id: "addresses", edit: loopback, want: Error, page: "runbook/conditions.md#unusablebgpaddress"},
		"a loopback address without the mesh": {id: "addresses", edit: func(f *facts) {
			meshless()(f)
			loopback(f)
		}, want: Warning, page: "runbook/conditions.md#unusablebgpaddress"},
		"two AS numbers on our reflectors": {id: "as-numbers", edit: func(f *facts) {
			onOurs(f)
			f.snapshot.Cluster.Nodes[0].ASN = 65001
		}, want: Error, never: "remove none of them"},
		"another address of a machine": {id: "peers", edit: ownAddress, want: Error, page: "runbook/conditions.md#foreigninclusterpeer"},
		"and on our reflectors": {id: "peers", edit: func(f *facts) {
			onOurs(f)
			ownAddress(f)
		}, want: OK, says: "left alone: tor"},
		"no BGP":             {id: "bgp", edit: problem("BGPDisabled"), want: Error, page: "runbook/conditions.md#bgpdisabled"},
		"a node without BGP": {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes[2].Addresses = nil }, want: Warning, says: "10.240.0.3"},
		"no nodes":           {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nil }, want: Error, says: "no nodes"},
		"calico-node may not report": {id: "node-status", edit: func(f *facts) {
			f.reporter.lacking = []rbac.Right{{Verb: "update", Group: "crd.projectcalico.org", Resource: "caliconodestatuses"}}
		}, want: Error, says: "lacks update caliconodestatuses.crd.projectcalico.org"},
		"and need not": {id: "node-status", edit: func(f *facts) {
			f.reporter.lacking = []rbac.Right{{Verb: "update", Resource: "caliconodestatuses"}}
			f.object.Spec.Rollout.Gate = v1alpha1.GateTimer
		}, want: OK},
		"whether it may is not known":        {id: "node-status", edit: func(f *facts) { f.reporter.hidden = "no" }, want: Warning, says: "could not be checked"},
		"no reports":                         {id: "node-status", edit: problem("NodeStatusCRDMissing"), want: Error, page: "runbook/conditions.md#nodestatuscrdmissing"},
		"the mesh is off, and not by rrpool": {id: "mesh", edit: meshless(), want: Error, says: "not by rrpool: no BGPPeer gives nodes a session", page: "runbook/conditions.md#awaitmesh"},
		"and nothing would be done":          {id: "decision", edit: meshless(), want: Note, says: "the manager would wait: AwaitMesh"},
		"routers outside bring routes":       {id: "mesh", edit: meshless(plan.Peer{Name: "tor", PeerIP: "192.0.2.1"}), want: Error, says: "leave it as it is", page: "runbook/conditions.md#routesfromrouters"},
		"and the AS numbers differ": {id: "mesh", edit: func(f *facts) {
			meshless(plan.Peer{Name: "tor", PeerIP: "192.0.2.1"})(f)
			f.snapshot.Cluster.Nodes[0].ASN = 65001
		}, want: Warning, says: "leave it off"},
		"and reflectors by hand, in etcd": {id: "mesh", edit: func(f *facts) {
			meshless(plan.Peer{Name: "p", PeerSelector: "all()"})(f)
			f.snapshot.Cluster.Nodes[0].ClusterID, f.snapshot.Cluster.CalicoAPI = "1.0.0.1", "etcdv3"
		}, want: Warning, says: "calicoctl patch"},
		"reflectors by hand with the mesh off": {id: "reflectors", edit: func(f *facts) {
			meshless(plan.Peer{Name: "p", PeerSelector: "all()"})(f)
			f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1"
		}, want: Error, says: "route reflectors among them: remove none of them while that is so"},
		"a mesh that no pod needs": {id: "mesh", edit: func(f *facts) {
			meshless()(f)
			f.snapshot.Cluster.Routes.Pools = []plan.PoolRoutes{{Felix: true}}
		}, want: Note, says: "no pod needs it"},
		"a peer whose selector no node has": {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerSelector: "has(x)"}} }, want: Error, says: "p makes no sessions now: no node is selected by its peerSelector has(x)"},
		"the mesh is off by us": {id: "mesh", edit: func(f *facts) {
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.SavedAbsent = new(bool), true
		}, want: OK, says: "by rrpool"},
		"two AS numbers":                     {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 65001 }, want: Error, says: "AS 65001: 10.240.0.1", page: "runbook/conditions.md#mixedasnumbers"},
		"a node that speaks no BGP has none": {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN, f.snapshot.Cluster.Nodes[0].Addresses = 65001, nil }, want: OK},
		"a reflector that is not ours":       {id: "reflectors", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1" }, want: Error, says: "10.240.0.1", page: "runbook/conditions.md#foreignreflector"},
		"a peer between nodes by selector":   {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerSelector: "x"}} }, want: Error, page: "runbook/conditions.md#foreigninclusterpeer"},
		"a peer outside":                     {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1"}} }, want: OK, says: "tor"},
		"our own peer": {id: "peers", edit: func(f *facts) {
			f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", Owned: true, PeerSelector: "x"}}
		}, want: OK, says: "no BGPPeers but rrpool's"},
	})
}

// What a ClusterPeering has in Calico is no BGPPeer of others, for no check.
func TestPeerings(t *testing.T) {
	of := func(node string) plan.Peer {
		return plan.Peer{Name: "rrpool-peering-b-1", Peering: "b", Node: node, PeerIP: "10.9.0.7", ASN: 64513, Filters: []string{"rrpool-peering-b"}}
	}
	reflecting := func(peers ...plan.Peer) func(*facts) {
		return func(f *facts) {
			n := &f.snapshot.Cluster.Nodes[0]
			n.Pooled, n.Marked, n.HasRoleLabel, n.ClusterID = true, true, true, "244.0.0.1"
			f.snapshot.Cluster.BGP.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("203.0.113.200/32")}
			f.snapshot.Cluster.BGP.ASN, f.snapshot.Cluster.Peers = 64512, peers
			f.peerings = peeringList(metav1.ConditionTrue, 1)
		}
	}
	const reflector = "10.240.0.1"
	try(t, existing, map[string]row{
		"no ClusterPeering":                        {id: "peerings", unset: true},
		"one with all its sessions":                {id: "peerings", edit: reflecting(of(reflector)), want: OK, says: "1 ClusterPeering"},
		"its BGPPeers are not those of others":     {id: "peers", edit: reflecting(of(reflector)), want: OK, says: "no BGPPeers but rrpool's"},
		"they are no routers":                      {id: "routers", edit: reflecting(of(reflector)), unset: true},
		"the manager refuses nothing for them":     {id: "decision", edit: reflecting(of(reflector)), want: OK},
		"a BGPPeer on a node that is no reflector": {id: "peerings", edit: reflecting(of("10.240.0.2")), want: Warning, says: "b: its BGPPeer rrpool-peering-b-1 is of node 10.240.0.2, which is no route reflector", page: "peering.md#conditions-and-reasons"},
		"a BGPPeer on a node that is gone":         {id: "peerings", edit: reflecting(of("10.240.9.9")), want: Warning, says: "10.240.9.9, which is no route reflector"},
		"one that is not Ready": {id: "peerings", edit: func(f *facts) {
			reflecting(of(reflector))(f)
			f.peerings = peeringList(metav1.ConditionFalse, 1)
		}, want: Warning, says: "b: SessionsMissing: not Established: x ↔ y"},
		"one that has just been changed": {id: "peerings", edit: func(f *facts) {
			reflecting(of(reflector))(f)
			f.peerings = peeringList(metav1.ConditionTrue, 2)
		}, want: Warning, says: "b: NotReported"},
		"a BGPPeer without its ClusterPeering": {id: "peerings", edit: func(f *facts) {
			reflecting(of(reflector))(f)
			f.peerings = seen[*v1alpha1.ClusterPeeringList]{value: &v1alpha1.ClusterPeeringList{}}
		}, want: Warning, says: "is left of ClusterPeering b"},
		"no right to see them":       {id: "peerings", edit: func(f *facts) { f.peerings.hidden = "no" }, want: Warning, says: "could not be checked"},
		"a BGPPeer of others is one": {id: "peers", edit: reflecting(plan.Peer{Name: "tor", Node: reflector, PeerIP: "10.9.0.7", ASN: 64513}), want: OK, says: "tor"},
		"and its router too":         {id: "routers", edit: reflecting(plan.Peer{Name: "tor", Node: reflector, PeerIP: "10.9.0.7", ASN: 64513}), want: Warning, says: "tor"},
	})
}

// peeringList is one ClusterPeering, b, whose condition is of its first generation.
func peeringList(is metav1.ConditionStatus, generation int64) seen[*v1alpha1.ClusterPeeringList] {
	p := v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: generation}}
	p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: is, Reason: "SessionsMissing", Message: "not Established: x ↔ y", ObservedGeneration: 1}}
	return seen[*v1alpha1.ClusterPeeringList]{value: &v1alpha1.ClusterPeeringList{Items: []v1alpha1.ClusterPeering{p}}}
}

func TestRouters(t *testing.T) {
	const single = "203.0.113.200/32"
	with := func(services []string, peers ...plan.Peer) func(*facts) {
		return func(f *facts) {
			for _, s := range services {
				f.snapshot.Cluster.BGP.Services = append(f.snapshot.Cluster.BGP.Services, netip.MustParsePrefix(s))
			}
			f.snapshot.Cluster.BGP.ASN, f.snapshot.Cluster.Peers = 64512, peers
		}
	}
	peer := func(as uint32, selector string) plan.Peer {
		return plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: as, NodeSelector: selector}
	}
	keeps := peer(65001, "all()")
	keeps.KeepNextHop = true
	self := func(as uint32, selector string) plan.Peer {
		p := peer(as, selector)
		p.SelfNextHop = true
		return p
	}
	const reflectors, others = "has(rrpool.io/route-reflector)", "!has(rrpool.io/route-reflector)"
	try(t, existing, map[string]row{
		"no router":                {id: "routers", edit: with([]string{single}), unset: true},
		"no services":              {id: "routers", edit: with(nil, peer(65001, "")), unset: true},
		"ranges":                   {id: "routers", edit: with([]string{"10.255.0.0/16"}, peer(65001, "")), want: OK, says: "tor"},
		"route reflectors only":    {id: "routers", edit: with(nil, peer(65001, reflectors)), want: Warning, says: "learn nothing: tor"},
		"one value of their label": {id: "routers", edit: with(nil, peer(65001, "rrpool.io/route-reflector == 'true'")), want: Warning, says: "learn nothing: tor"},
		"a single address":         {id: "routers", edit: with([]string{single}, peer(65001, "all()")), want: Warning, says: "with themselves as the next hop"},
		"and the next hop kept":    {id: "routers", edit: with([]string{single}, keeps), want: OK},
		"and the router in our AS": {id: "routers", edit: with([]string{single}, peer(64512, "")), want: Warning, says: "become clients"},
		"a router in the nodes' AS": {id: "routers", edit: func(f *facts) {
			with([]string{single}, peer(65001, ""))(f)
			for i := range f.snapshot.Cluster.Nodes {
				f.snapshot.Cluster.Nodes[i].ASN = 65001
			}
		}, want: Warning, says: "become clients"},
		"a router in the cluster's AS, not the nodes'": {id: "routers", edit: func(f *facts) {
			with([]string{single}, peer(64512, ""))(f)
			for i := range f.snapshot.Cluster.Nodes {
				f.snapshot.Cluster.Nodes[i].ASN = 65001
			}
		}, want: Warning, says: "with themselves as the next hop"},
		"a router in the AS that nodes have for it":  {id: "routers", edit: with(nil, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001, LocalASN: 65001}), want: Warning, says: "become clients"},
		"a router in the nodes' AS, not that for it": {id: "routers", edit: with(nil, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 64512, LocalASN: 65001}), unset: true},
		"one in the AS, and no route reflector":      {id: "routers", edit: with(nil, peer(64512, others)), unset: true},
		"and with itself as next hop":                {id: "routers", edit: with([]string{single}, self(64512, "")), want: Warning, says: "tor (by its nextHopMode packets to all pods come through the route reflectors)"},
		"no service, and likewise":                   {id: "routers", edit: with(nil, self(64512, "all()")), want: Warning, says: "tor"},
		"the same, in another AS":                    {id: "routers", edit: with([]string{"10.255.0.0/16"}, self(65001, "")), want: OK},
		"the same, of other nodes":                   {id: "routers", edit: with([]string{single}, self(64512, others)), want: OK},
		"and no route reflector":                     {id: "routers", edit: with([]string{single}, peer(65001, others)), want: OK},
		"and one node":                               {id: "routers", edit: with([]string{single}, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 64512, Node: "10.240.0.2"}), want: Warning, says: "that session restarts once"},
		"a selector that is no":                      {id: "routers", edit: with(nil, peer(65001, "((")), unset: true},
		"a reflector by its name": {id: "routers", edit: func(f *facts) {
			with([]string{single}, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001, Node: f.snapshot.Cluster.Nodes[0].Name})(f)
			n := &f.snapshot.Cluster.Nodes[0]
			n.Pooled, n.Marked, n.HasRoleLabel, n.ClusterID = true, true, true, "244.0.0.1"
		}, want: Warning, says: "with themselves as the next hop"},
		"a dedicated node by its name": {id: "routers", edit: func(f *facts) {
			with(nil, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001, Node: f.snapshot.Cluster.Nodes[0].Name})(f)
			f.snapshot.Provider, f.snapshot.Cluster.Nodes[0].Pooled = "IKS", true
		}, want: Warning, says: "learn nothing: tor"},
		"a cluster that has no nodes": {id: "routers", edit: func(f *facts) { with(nil, peer(65001, "all()"))(f); f.snapshot.Cluster.Nodes = nil }, unset: true},
		"on reflectors": {id: "routers", edit: func(f *facts) {
			with(nil, peer(64512, reflectors))(f)
			n := &f.snapshot.Cluster.Nodes[0]
			n.Marked, n.HasRoleLabel, n.ClusterID = true, true, "244.0.0.1"
		}, want: Warning, says: "learn nothing"},
	})
}

// holding is a Secret with that in its key.
func holding(value string) seen[*corev1.Secret] {
	return seen[*corev1.Secret]{value: &corev1.Secret{Data: map[string][]byte{"k": []byte(value), "password": []byte(value)}}, found: true}
}

func TestPasswordsAndRoutes(t *testing.T) {
	good, lacks := holding("swordfish"), answer{lacking: []rbac.Right{{Verb: "get", Resource: "secrets"}}}
	with := func(secret seen[*corev1.Secret], reader answer) func(*facts) {
		return func(f *facts) {
			f.passwords = []password{{plan.SecretRef{Name: "s", Key: "k"}, "nodeMeshPassword", secret, reader}}
		}
	}
	having := func(all ...plan.PoolRoutes) func(*facts) {
		return func(f *facts) { f.snapshot.Cluster.Routes = plan.Routes{Pools: all} }
	}
	plain, ipip, vxlan := plan.PoolRoutes{CIDR: "1", Encapsulation: "none", BIRD: true}, plan.PoolRoutes{CIDR: "2", BIRD: true, Felix: true}, plan.PoolRoutes{CIDR: "3", Encapsulation: "VXLAN", Felix: true}
	try(t, existing, map[string]row{
		"no password":                      {id: "password", want: OK, says: "no password"},
		"a password that is read":          {id: "password", edit: with(good, answer{}), want: OK, says: "Secret s, key k (nodeMeshPassword)"},
		"a Secret that is not there":       {id: "password", edit: with(seen[*corev1.Secret]{value: &corev1.Secret{}}, answer{}), want: Error, says: "does not exist"},
		"a key that is empty":              {id: "password", edit: with(holding(" "), answer{}), want: Error, says: "has no value"},
		"a Secret calico-node cannot read": {id: "password", edit: with(good, lacks), want: Error, says: "get, list and watch"},
		"a Secret we cannot read":          {id: "password", edit: with(seen[*corev1.Secret]{hidden: "no"}, answer{}), want: Warning, says: "could not be checked"},
		"not knowing who may read it":      {id: "password", edit: with(good, answer{hidden: "no"}), want: Warning, says: "could not be checked"},
		"plain routes":                     {id: "routes", edit: having(plain), want: OK, says: "BGP carries"},
		"routes of both":                   {id: "routes", edit: having(plain, ipip), want: Warning, says: "both or neither"},
		"routes of nobody":                 {id: "routes", edit: having(plan.PoolRoutes{CIDR: "2"}), want: Error, says: "neither Felix nor BIRD"},
		"VXLAN":                            {id: "routes", edit: having(vxlan), want: Error, says: "route reflectors would change nothing", page: "runbook/conditions.md#noroutesoverbgp"},
		"VXLAN, on reflectors": {id: "routes", edit: func(f *facts) {
			having(vxlan)(f)
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.Saved = new(bool), &plan.Mesh{}
		}, want: Warning, says: "the route reflectors change nothing"},
		"VXLAN and BGP":           {id: "routes", edit: having(plain, vxlan), want: Warning, says: "matter for the others only"},
		"not known by whom":       {id: "routes", edit: having(plain, plan.PoolRoutes{CIDR: "4", Encapsulation: "not encapsulated", Unknown: "WireGuard is on"}), want: Warning, says: "of 1 IPPool is not known"},
		"not known, and by Felix": {id: "routes", edit: having(vxlan, plan.PoolRoutes{CIDR: "4", Unknown: "WireGuard is on"}), want: Warning, says: "of 1 IPPool is not known"},
		"no pools":                {id: "routes", edit: having(), want: Note, says: "no IPPool"},
		"routes by whom":          {id: "routes", edit: func(f *facts) { f.snapshot.Cluster.Routes.Unknown = "no" }, want: Warning, says: "could not be checked"},
	})
}

// TestATenantsDaemonSetIsNotCalicoNode, whatever its labels, its name, and how many nodes it is for.
func TestATenantsDaemonSetIsNotCalicoNode(t *testing.T) {
	in := func(namespace string, wanted int, host bool) *appsv1.DaemonSet {
		d := daemonSet(namespace, wanted, wanted)
		d.Spec.Template.Spec.HostNetwork = host
		return d
	}
	for name, tc := range map[string]struct{ real, other *appsv1.DaemonSet }{
		"of the same size, and first by namespace": {in("calico-system", 12, true), in("apps", 12, true)},
		"for more nodes":          {in("kube-system", 12, true), in("apps", 30, true)},
		"in a network of its own": {in("canal", 12, true), in("kube-system", 30, false)},
		"left over, for no node":  {in("canal", 12, true), in("kube-system", 0, true)},
		"Calico's former one":     {in("calico-system", 10, true), in("kube-system", 2, true)},
	} {
		require.Negative(t, likelier(tc.real, tc.other), name)
		require.Positive(t, likelier(tc.other, tc.real), name)
	}
}
