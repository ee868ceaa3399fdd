package check

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
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
				decide(t, &f)
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
	hide := refused("create", "selfsubjectaccessreviews.authorization.k8s.io")
	lack := []rbac.Right{{Verb: "patch", Resource: "nodes"}}
	try(t, existing, map[string]row{
		"the oldest that works":                  {id: "kubernetes-version", edit: func(f *facts) { f.version = "v1.28.0" }, want: OK, says: "v1.28.0"},
		"one older":                              {id: "kubernetes-version", edit: func(f *facts) { f.version = "v1.27.16+IKS" }, want: Error, says: "needs 1.28 or newer"},
		"a version of a cloud":                   {id: "kubernetes-version", edit: func(f *facts) { f.version = "v1.30.2-eks-1552ad0" }, want: OK, says: "v1.30.2-eks"},
		"a version that is none":                 {id: "kubernetes-version", edit: func(f *facts) { f.version = "main" }, want: Warning, says: `"main"`},
		"rights before installing":               {id: "install-rights", edit: func(f *facts) { f.pre = true }, want: OK, says: "you may install"},
		"no rights to install":                   {id: "install-rights", edit: func(f *facts) { f.pre = true; f.installRights.lacking = lack }, want: Error, says: "patch nodes"},
		"rights that cannot be asked for":        {id: "install-rights", edit: func(f *facts) { f.pre = true; f.installRights.hidden = hide }, want: Warning, says: "selfsubjectaccessreviews"},
		"rights to install, once installed":      {id: "install-rights", unset: true},
		"giving away what one has":               {id: "escalation", edit: func(f *facts) { f.pre = true }, want: OK, says: "its 42 rights"},
		"giving away what one lacks":             {id: "escalation", edit: func(f *facts) { f.pre = true; f.giverRights.lacking = lack }, want: Error, says: "escalate and bind"},
		"not knowing what one has":               {id: "escalation", edit: func(f *facts) { f.pre = true; f.giverRights.hidden = hide }, want: Warning, says: "could not be checked"},
		"the manager may do it all":              {id: "manager-rights", want: OK, says: "all 42 things"},
		"the manager lacks one":                  {id: "manager-rights", edit: func(f *facts) { f.managerRights.lacking = lack }, want: Error, says: "1 of the 42 rights that it needs: patch nodes"},
		"no service account":                     {id: "manager-rights", edit: func(f *facts) { f.account.found = false }, want: Error, says: "no ServiceAccount rrpool-manager"},
		"the manager cannot be asked for":        {id: "manager-rights", edit: func(f *facts) { f.managerRights.hidden = hide }, want: Warning, says: "could not be checked"},
		"the manager's rights before installing": {id: "manager-rights", edit: func(f *facts) { f.pre = true }, unset: true},
	})
}

func TestOwn(t *testing.T) {
	version := func(f *facts) *apiextensionsv1.CustomResourceDefinitionVersion {
		return &f.definition.value.Spec.Versions[0]
	}
	degraded := func(status metav1.ConditionStatus, reason string) func(*facts) {
		return func(f *facts) {
			asking(f, condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, "why"), condition(v1alpha1.ConditionDegraded, status, reason, "why"))
		}
	}
	try(t, existing, map[string]row{
		"no CRD":                        {id: "crd", edit: func(f *facts) { f.definition.found = false }, want: Error, says: applyDefinition},
		"no CRD before installing":      {id: "crd", edit: func(f *facts) { f.pre = true; f.definition.found = false }, want: Note},
		"a CRD of another version":      {id: "crd", edit: func(f *facts) { version(f).Name = "v1beta1" }, want: Error, says: "does not serve version v1alpha1"},
		"a CRD that is not served":      {id: "crd", edit: func(f *facts) { version(f).Served = false }, want: Error, says: "does not serve"},
		"a CRD that is not established": {id: "crd", edit: func(f *facts) { f.definition.value.Status.Conditions = nil }, want: Error, says: "not established"},
		"a CRD that lacks a field": {id: "crd", edit: func(f *facts) {
			delete(version(f).Schema.OpenAPIV3Schema.Properties["spec"].Properties["provider"].Properties, "existingNodes")
		}, want: Error, says: "spec.provider.existingNodes"},
		"a CRD that may not be read": {id: "crd", edit: func(f *facts) { f.definition.hidden = "no" }, want: Warning, says: "rrpool's CRD could not be checked"},
		"no manager":                 {id: "manager", edit: func(f *facts) { f.deployment.found, f.manager = false, status.Manager{Status: status.ManagerUnknown} }, want: Error, says: "the manager does not run: "},
		"a manager under another name": {id: "manager", edit: func(f *facts) {
			f.deployment.found = false
		}, want: Warning, says: "m1 holds the lease; its Deployment rrpool-manager is not seen in namespace rrpool-system"},
		"a manager that is there before installing": {id: "manager", edit: func(f *facts) {
			f.pre, f.deployment.found = true, false
		}, want: Warning, says: "m1 holds the lease"},
		"a manager that has left its lease": {id: "manager", edit: func(f *facts) {
			f.deployment.found, f.manager = false, status.Manager{Status: status.Stopped, Message: "m1 has not renewed the lease since then"}
		}, want: Error, says: "m1 has not renewed"},
		"a manager that is known by its lease only": {id: "manager", edit: func(f *facts) {
			f.deployment.found, f.deployment.hidden = false, "no"
		}, want: Warning, says: "m1 holds the lease; its Deployment rrpool-manager is not seen"},
		"a manager that does not run":   {id: "manager", edit: func(f *facts) { f.deployment.value = deployment(2, 0) }, want: Error, says: "0 of 2"},
		"a manager that is alone":       {id: "manager", edit: func(f *facts) { f.deployment.value = deployment(2, 1) }, want: Warning, says: "1 of 2"},
		"a manager that is scaled away": {id: "manager", edit: func(f *facts) { f.deployment.value = deployment(0, 0) }, want: Error, says: "--replicas=2"},
		"a manager that may not be seen": {id: "manager", edit: func(f *facts) {
			f.deployment = seen[*appsv1.Deployment]{hidden: "no"}
			f.manager.Status = status.Stopped
		}, want: Warning, says: "could not be checked"},
		"an object that is valid":        {id: "object", edit: func(f *facts) { asking(f) }, want: OK, says: "mode RouteReflector"},
		"an object that is not":          {id: "object", edit: func(f *facts) { f.object.Spec.Sizing.Ratio = "2"; asking(f) }, want: Error, says: "spec.sizing.ratio"},
		"an object that may not be seen": {id: "object", edit: func(f *facts) { f.stored.hidden = "no" }, want: Warning, says: "could not be checked"},
		"a file with another provider": {id: "object", edit: func(f *facts) {
			asking(f)
			f.file, f.stored.value.Status.Pool = "p.yaml", "existing-nodes"
			f.object.Spec.Provider.Type = v1alpha1.ProviderIKS
		}, want: Error, says: "p.yaml: spec.provider.type Auto and iks.poolName route-reflectors cannot become IKS and route-reflectors while the pool existing-nodes exists"},
		"a file with another pool": {id: "object", edit: func(f *facts) {
			asking(f)
			f.file, f.stored.value.Status.Pool = "p.yaml", "route-reflectors"
			f.object.Spec.Provider.IKS.PoolName = "other"
		}, want: Error, says: "cannot become Auto and other"},
		"no object, no conditions":            {id: "conditions", unset: true},
		"a manager that has said nothing":     {id: "conditions", edit: func(f *facts) { asking(f); f.stored.value.Status.ObservedGeneration = 0 }, want: Warning, says: "has not observed the RouteReflectorPool"},
		"a manager that has not looked again": {id: "conditions", edit: func(f *facts) { degraded(metav1.ConditionFalse, "Steady")(f); f.stored.value.Generation = 2 }, want: Warning, says: "generation 2, observed 1"},
		"a manager with a problem":            {id: "conditions", edit: degraded(metav1.ConditionTrue, "DrainBlocked"), want: Error, says: "the manager reports DrainBlocked: why", page: "runbook/conditions.md#drainblocked"},
		"a manager that is paused": {id: "conditions", edit: func(f *facts) {
			degraded(metav1.ConditionFalse, "Paused")(f)
			f.stored.value.Spec.Mode = v1alpha1.ModePaused
		}, want: Note, says: "Paused"},
		"a manager that does not know": {id: "conditions", edit: func(f *facts) {
			asking(f, condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, "ObservationFailed", "why"), condition(v1alpha1.ConditionDegraded, metav1.ConditionUnknown, "ObservationFailed", "why"))
		}, want: Error, page: "runbook/conditions.md#observationfailed"},
		"a manager that has arrived":            {id: "conditions", edit: func(f *facts) { asking(f, condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Steady", "done")) }, want: OK, says: "Ready: done"},
		"a name that is taken":                  {id: "decision", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", PeerIP: "192.0.2.1"}} }, want: Error, says: "NameTaken", page: "runbook/conditions.md#nametaken"},
		"a refusal that another check explains": {id: "decision", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 1 }, unset: true},
	})
}

// configures is the ConfigMap of the autoscaler with these pools.
func configures(pools string) seen[*corev1.ConfigMap] {
	return seen[*corev1.ConfigMap]{value: &corev1.ConfigMap{Data: map[string]string{autoscalerKey: pools}}, found: true}
}

func TestNodesAndProviders(t *testing.T) {
	try(t, existing, map[string]row{
		"a small cluster":          {id: "size", want: Note, says: "the mesh is fine as well"},
		"a large cluster":          {id: "size", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(100, "eu-de-1") }, want: OK, says: "100"},
		"a node that is not Ready": {id: "readiness", edit: func(f *facts) { f.snapshot.Cluster.Nodes[1].Ready = false }, want: Warning, says: "kubectl describe node 10.240.0.2"},
		"one zone":                 {id: "zones", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(5, "eu-de-1") }, want: Warning, says: "eu-de-1 (5)"},
		"a node without a zone":    {id: "zones", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].Zone = "" }, want: Warning, says: "10.240.0.1"},
		"too few that can reflect": {id: "eligible", edit: func(f *facts) {
			f.snapshot.Cluster.Nodes = nodesIn(4, "eu-de-1")
			f.snapshot.Cluster.Nodes[0].Cordoned, f.snapshot.Cluster.Nodes[1].Ready = true, false
		}, want: Error, says: "2 of 4 nodes can be route reflectors", page: "runbook/conditions.md#awaitnodes"},
		"as many nodes as reflectors": {id: "eligible", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(3, "eu-de-1") }, want: Error, says: "3 route reflectors are wanted of 3 nodes", page: "runbook/conditions.md#toofewnodes"},
		"no substitute": {id: "eligible", edit: func(f *facts) {
			f.snapshot.Cluster.Nodes = nodesIn(4, "eu-de-1")
			f.snapshot.Cluster.Nodes[0].Cordoned = true
		}, want: Warning, says: "10.240.0.1 (it is cordoned)"},
		"enough":                {id: "eligible", want: OK, says: "12 nodes can be"},
		"no node is chosen yet": {id: "chosen", unset: true},
		"nodes that are chosen": {id: "chosen", edit: func(f *facts) { f.snapshot.Pool = &cloud.Pool{Exists: true, Workers: make([]cloud.Worker, 3)} }, want: OK, says: "3 chosen nodes"},
		"a chosen node that is unfit": {id: "chosen", edit: func(f *facts) {
			f.snapshot.ProviderProblem = &plan.Problem{Reason: "PoolProblem", Message: "node n: it is cordoned"}
		}, want: Warning, says: "it is cordoned", page: "runbook/conditions.md#poolproblem"},
		"chosen nodes we may not see":    {id: "chosen", edit: func(f *facts) { f.snapshot.ProviderProblem = &plan.Problem{Reason: "CloudUnauthorized"} }, want: Warning, page: "runbook/conditions.md#cloudunauthorized"},
		"nothing about clouds elsewhere": {id: "credentials", unset: true},
	})
	problem := func(reason string) func(*facts) {
		return func(f *facts) {
			f.snapshot.Pool, f.snapshot.ProviderProblem = nil, &plan.Problem{Reason: reason, Message: "in the cloud's words"}
		}
	}
	// byProfile: the token is mounted, and the manager reads the file that a flag names, if any.
	byProfile := func(audience, subPath string, flags ...string) func(*facts) {
		return func(f *facts) {
			f.object.Spec.Provider.IKS.Credentials.TrustedProfile.Name = "a b"
			f.snapshot.Pool = nil
			pod := &f.deployment.value.Spec.Template.Spec
			pod.Volumes = []corev1.Volume{{Name: "other"}, {Name: "sa-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "sa-token"}}},
			}}}}
			pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "other", MountPath: "/x"}, {Name: "sa-token", MountPath: "/var/run/secrets/tokens", SubPath: subPath}}
			pod.Containers[0].Args = append([]string{"--leader-elect"}, flags...)
		}
	}
	try(t, func(t *testing.T) facts { t.Helper(); return onCloud(t, 5) }, map[string]row{
		"a profile":                              {id: "credentials", edit: byProfile("iam", ""), want: OK, says: `trusted profile "a b" is used, and no API key; the manager mounts the token`},
		"a profile, a token for others":          {id: "credentials", edit: byProfile("vault", ""), want: Error, says: "a token for audience iam is mounted nowhere"},
		"a profile, a token that is not renewed": {id: "credentials", edit: byProfile("iam", "sa-token"), want: Error, says: "is mounted nowhere"},
		"a profile, another file":                {id: "credentials", edit: byProfile("iam", "", "--iam-token-file=/x"), want: Error, says: "it reads /x, and a token for audience iam is mounted /var/run/secrets/tokens/sa-token"},
		"a profile, the file of a flag":          {id: "credentials", edit: byProfile("iam", "", "--zap-devel", "--iam-token-file", "/var/run/secrets/tokens/sa-token"), want: OK},
		"a profile, no manager": {id: "credentials", edit: func(f *facts) {
			byProfile("iam", "")(f)
			f.pre, f.deployment.found = true, false
		}, want: Note, says: "the manager, which mounts the token"},
		"a profile, a manager that may not be seen": {id: "credentials", edit: func(f *facts) {
			byProfile("iam", "")(f)
			f.deployment = seen[*appsv1.Deployment]{hidden: "no"}
		}, want: Warning, says: "could not be checked"},
		"a profile, the cloud's answer": {id: "cloud", edit: byProfile("iam", ""), want: Note, says: `only the manager's pods have the token that trusted profile "a b" logs in with`},
		"a profile, no cluster":         {id: "credentials", edit: func(f *facts) { byProfile("iam", "")(f); problem("ClusterIDUnknown")(f) }, unset: true},
		"a key":                         {id: "credentials", want: OK},
		"no cluster, no key":            {id: "credentials", edit: problem("ClusterIDUnknown"), unset: true},
		"no key":                        {id: "credentials", edit: problem("CredentialsMissing"), want: Error, page: "runbook/conditions.md#credentialsmissing"},
		"a key that may not be seen":    {id: "credentials", edit: problem("CredentialsUnreadable"), want: Warning, says: "could not be checked"},
		"no key yet":                    {id: "credentials", edit: func(f *facts) { f.pre = true; problem("CredentialsMissing")(f) }, want: Note, says: "not there yet"},
		"no cluster id":                 {id: "cluster-id", edit: problem("ClusterIDUnknown"), want: Error, page: "runbook/conditions.md#clusteridunknown"},
		"a cluster id we may not read":  {id: "cluster-id", edit: func(f *facts) { problem("ClusterIDUnknown")(f); f.clusterInfo.hidden = "no" }, want: Warning},
		"another cluster's id":          {id: "cluster-id", edit: problem("ClusterIDMismatch"), want: Error, page: "runbook/conditions.md#clusteridmismatch"},
		"a cloud that answers":          {id: "cloud", want: OK, says: "known only when it does"},
		"a key that is refused":         {id: "cloud", edit: problem("CloudUnauthorized"), want: Error, says: "see what to do about CloudUnauthorized", page: "runbook/conditions.md#cloudunauthorized"},
		"a cloud out of reach":          {id: "cloud", edit: problem("CloudUnavailable"), want: Error, says: "in the cloud's words"},
		"a private cloud out of reach": {id: "cloud", edit: func(f *facts) {
			problem("CloudUnavailable")(f)
			f.object.Spec.Provider.IKS.Endpoint = v1alpha1.EndpointPrivate
		}, want: Warning, says: "IBM's network only"},
		"a cloud with an odd answer":  {id: "cloud", edit: problem("CloudQuotaExceeded"), want: Error, says: "see what to do about CloudQuotaExceeded"},
		"a cloud that is busy":        {id: "cloud", edit: problem("CloudRateLimited"), want: Warning},
		"a cloud that was not asked":  {id: "cloud", edit: func(f *facts) { f.snapshot.Pool = nil }, want: Note, says: "was not asked"},
		"a pool that is not rrpool's": {id: "worker-pool", edit: problem("PoolConflict"), want: Error, page: "runbook/conditions.md#poolconflict"},
		"a pool that grows by itself": {id: "worker-pool", edit: problem("PoolAutoscaled"), want: Error, page: "runbook/conditions.md#poolautoscaled"},
		"a pool with problems": {id: "worker-pool", edit: func(f *facts) {
			f.snapshot.Pool = &cloud.Pool{Exists: true, Owned: true, Problems: []string{"over quota"}}
		}, want: Warning, says: "over quota"},
		"our pool": {id: "worker-pool", edit: func(f *facts) { f.snapshot.Pool = &cloud.Pool{Exists: true, Owned: true, Workers: []cloud.Worker{{}}} }, want: OK, says: "1 worker"},
		"an autoscaler that stays away": {id: "autoscaler", edit: func(f *facts) {
			f.autoscaler = configures(`[{"name":"default","enabled":true},{"name":"route-reflectors","enabled":false}]`)
		}, want: OK},
		"an autoscaler that takes the pool":   {id: "autoscaler", edit: func(f *facts) { f.autoscaler = configures(`[{"name":"route-reflectors","enabled":true}]`) }, want: Error, page: "runbook/conditions.md#poolautoscaled"},
		"an autoscaler with unreadable pools": {id: "autoscaler", edit: func(f *facts) { f.autoscaler = configures(`{`) }, want: Warning, says: "is no JSON"},
		"an autoscaler that may not be seen":  {id: "autoscaler", edit: func(f *facts) { f.autoscaler.hidden = "no" }, want: Warning, says: "could not be checked"},
		"quota":                               {id: "quota", want: Note, says: "IBM's API does not say"},
		"a cluster that is full":              {id: "quota", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(166, frankfurt...) }, want: Error, says: "IBM allows 500"},
	})
}

// Whatever keeps the manager from acting is an error of some check: no cluster is called
// fit that the manager then refuses.
func TestEveryRefusalIsSeen(t *testing.T) {
	for reason, edit := range map[string]func(*facts){
		"CalicoNotInstalled": func(f *facts) { f.snapshot.Cluster.Problems = []plan.Problem{{Reason: "CalicoNotInstalled"}} },
		"BGPDisabled":        func(f *facts) { f.snapshot.Cluster.Problems = []plan.Problem{{Reason: "BGPDisabled"}} },
		"NodeStatusCRDMissing": func(f *facts) {
			f.snapshot.Cluster.Problems = []plan.Problem{{Reason: "NodeStatusCRDMissing"}}
		},
		"MixedASNumbers":       func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 1 },
		"ForeignReflector":     func(f *facts) { f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1" },
		"ForeignInClusterPeer": func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerIP: "10.240.0.2"}} },
		"TooFewNodes":          func(f *facts) { f.snapshot.Cluster.Nodes = nodesIn(3, "eu-de-1") },
		"NameTaken":            func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", PeerIP: "192.0.2.1"}} },
		"ForeignLabel": func(f *facts) {
			f.object.Spec.BGP.NodeLabel = "example.com/rr"
			f.snapshot.Cluster.Nodes[0].RoleLabel = true
		},
	} {
		t.Run(reason, func(t *testing.T) {
			f := existing(t)
			require.True(t, judge(f, "rrpool").Fit, "fit before")
			edit(&f)
			decide(t, &f)
			require.NotNil(t, f.snapshot.Step.Problem)
			require.Equal(t, reason, f.snapshot.Step.Problem.Reason, "the manager refuses")
			require.NotEmpty(t, judge(f, "rrpool").wrong())
		})
	}
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
