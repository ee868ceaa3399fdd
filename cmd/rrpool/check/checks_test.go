package check

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// answerTo gives the answer to one question.
func answerTo(t *testing.T, f facts, id string) *Result {
	t.Helper()
	for _, g := range groups() {
		for _, c := range g.checks {
			if c.id == id {
				return c.look(f)
			}
		}
	}
	require.Fail(t, "there is no check "+id)
	return nil
}

// row is one case: a fit cluster, what is done to it, and what one check says then.
type row struct {
	id    string
	edit  func(*facts)
	want  Status
	says  string
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
		"the manager may do it all":              {id: "manager-rights", want: OK, says: "all 74 things"},
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
			f.object.Spec.BGP.NodeLabel, f.snapshot.Cluster.Nodes[0].RoleLabel = "example.com/rr", true
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
