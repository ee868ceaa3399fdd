package deploy_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/controlplane"
)

// policyLag is how long the apiserver may take to learn of a policy.
const policyLag = 2 * time.Minute

var (
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pools      = schema.GroupVersionResource{Group: "rrpool.io", Version: "v1alpha1", Resource: "routereflectorpools"}
	bgpPeers   = calicoResource("bgppeers")
	bgpConfigs = calicoResource("bgpconfigurations")
	reports    = calicoResource("caliconodestatuses")
	ipPools    = calicoResource("ippools")
	peerings   = schema.GroupVersionResource{Group: "rrpool.io", Version: "v1alpha1", Resource: "clusterpeerings"}
)

func calicoResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: name}
}

// write is something that whoever has the manager's token may try, RBAC permitting.
type write struct {
	verb     string // create, patch or delete
	resource schema.GroupVersionResource
	name     string
	body     string // YAML
	// says is what the refusal says, "" when it is one of the manager's own writes.
	says string
}

// role and the others are what the manager writes, as controllers/calico has it.
const (
	role     = `{metadata: {labels: {rrpool.io/route-reflector: single}, annotations: {projectcalico.org/RouteReflectorClusterID: 244.0.0.1, rrpool.io/reflector-since: "2026-01-01T00:00:00Z"}}}`
	roleOff  = `{metadata: {labels: {rrpool.io/route-reflector: null}, annotations: {projectcalico.org/RouteReflectorClusterID: null, rrpool.io/reflector-since: null}}}`
	cordon   = `{metadata: {annotations: {rrpool.io/cordoned: "2026-01-01T00:00:00Z"}}, spec: {unschedulable: true}}`
	uncordon = `{metadata: {annotations: {rrpool.io/cordoned: null}}, spec: {unschedulable: false}}`
)

// writes are tried one after the other, on a cluster with the nodes plain and cordoned.
var writes = map[string][]write{
	"the role, and back": {
		{"patch", nodes, "plain", role, ""},
		{"patch", nodes, "plain", roleOff, ""},
	},
	"the pool and the rack": {
		{"patch", nodes, "plain", `{metadata: {labels: {rrpool.io/pool: existing-nodes}}}`, ""},
		{"patch", nodes, "plain", `{metadata: {labels: {rrpool.io/rack: r1}}}`, ""},
		{"patch", nodes, "plain", `{metadata: {labels: {rrpool.io/pool: null, rrpool.io/rack: null}}}`, ""},
	},
	"a cordon, and back": {
		{"patch", nodes, "plain", cordon, ""},
		{"patch", nodes, "plain", uncordon, ""},
	},
	"the cordon of a person": {
		{"patch", nodes, "cordoned", `{spec: {unschedulable: false}}`, "uncordons only what bears it"},
		{"patch", nodes, "cordoned", `{metadata: {annotations: {rrpool.io/cordoned: x}}}`, "only in making it"},
		{"patch", nodes, "cordoned", `{metadata: {annotations: {rrpool.io/cordoned: x}}, spec: {unschedulable: false}}`, "uncordons only what bears it"},
	},
	"a cordon without a mark": {{"patch", nodes, "plain", `{spec: {unschedulable: true}}`, "cordons with its mark"}},
	"a taint":                 {{"patch", nodes, "plain", `{spec: {taints: [{key: a, effect: NoExecute}]}}`, "unschedulable only, not taints"}},
	"a taint taken off":       {{"patch", nodes, "cordoned", `{spec: {taints: null}}`, "unschedulable only, not taints"}},
	"another machine":         {{"patch", nodes, "plain", `{spec: {providerID: "other://1"}}`, "unschedulable only, not providerID"}},
	"a finalizer":             {{"patch", nodes, "plain", `{metadata: {finalizers: [a.example/b]}}`, "finalizers or owners"}},
	"an owner":                {{"patch", nodes, "plain", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}}`, "finalizers or owners"}},
	"a control plane of one's own": {
		{"patch", nodes, "plain", `{metadata: {labels: {node-role.kubernetes.io/control-plane: ""}}}`, "node-role.kubernetes.io/control-plane"},
	},
	"another zone": {{"patch", nodes, "plain", `{metadata: {labels: {topology.kubernetes.io/zone: b}}}`, "topology.kubernetes.io/zone"}},
	"a zone taken off": {
		{"patch", nodes, "plain", `{metadata: {labels: {topology.kubernetes.io/zone: null}}}`, "topology.kubernetes.io/zone"},
	},
	"a label that workloads choose nodes by": {{"patch", nodes, "plain", `{metadata: {labels: {team: red}}}`, "spec.bgp.nodeLabel: not team"}},
	"another address for BGP": {
		{"patch", nodes, "plain", `{metadata: {annotations: {projectcalico.org/IPv4Address: 192.0.2.1/24}}}`, "not change these annotations: projectcalico.org/IPv4Address"},
	},
	"our BGPPeers": {
		{"create", bgpPeers, "rrpool-clients", `{spec: {nodeSelector: "!has(r)", peerSelector: has(r)}}`, ""},
		{"patch", bgpPeers, "rrpool-clients", `{spec: {peerSelector: all()}}`, ""},
		{"delete", bgpPeers, "rrpool-clients", "", ""},
		{"create", bgpPeers, "rrpool.a.b.v4.c8c72761", `{spec: {node: plain, peerIP: 192.0.2.1, asNumber: 64512}}`, ""},
		{"delete", bgpPeers, "rrpool.a.b.v4.c8c72761", "", ""},
		{"create", bgpPeers, "rrpoolish", `{spec: {node: plain, peerIP: 192.0.2.1, asNumber: 64512}}`, "not rrpoolish"},
	},
	"a BGPPeer of others": {
		{"create", bgpPeers, "uplink2", `{spec: {peerIP: 192.0.2.1, asNumber: 64512}}`, "begin with rrpool- or rrpool. only, not uplink2"},
		{"patch", bgpPeers, "uplink", `{spec: {peerIP: 192.0.2.9}}`, "begin with rrpool- or rrpool. only, not uplink"},
		{"delete", bgpPeers, "uplink", "", "begin with rrpool- or rrpool. only, not uplink"},
	},
	"status reports": {
		{"create", reports, "rrpool-plain", `{spec: {node: plain, classes: [BGP], updatePeriodSeconds: 10}}`, ""},
		{"patch", reports, "rrpool-plain", `{status: {bgp: null}}`, ""},
		{"delete", reports, "rrpool-plain", "", ""},
		{"create", reports, "theirs", `{spec: {node: plain, classes: [BGP], updatePeriodSeconds: 10}}`, "begin with rrpool- or rrpool. only, not theirs"},
	},
	"a ClusterPeering's IPPools": {
		{"create", ipPools, "rrpool-peering-b", `{spec: {cidr: 10.250.0.0/16, disabled: true}}`, ""},
		{"create", ipPools, "rrpool-peering-on", `{spec: {cidr: 10.251.0.0/16}}`, "rrpool writes IPPools that are disabled only: rrpool-peering-on is not"},
		{"create", ipPools, "rrpool-peering-on", `{spec: {cidr: 10.251.0.0/16, disabled: false}}`, "disabled only"},
		{"patch", ipPools, "rrpool-peering-b", `{spec: {disabled: false}}`, "disabled only"},
		{"patch", ipPools, "rrpool-peering-b", `{spec: {disabled: null}}`, "disabled only"},
		{"delete", ipPools, "rrpool-peering-b", "", ""},
	},
	"an IPPool of others": {
		{"patch", ipPools, "theirs", `{spec: {disabled: true}}`, "begin with rrpool- or rrpool. only, not theirs"},
		{"delete", ipPools, "theirs", "", "begin with rrpool- or rrpool. only, not theirs"},
	},
	"a ClusterPeering": {
		{"patch", peerings, "b", `{metadata: {finalizers: [rrpool.io/test]}}`, ""},
		{"patch", peerings, "b", `{metadata: {finalizers: null}}`, ""},
		{"patch", peerings, "b", `{spec: {nextHop: Nodes}}`, "does not change the spec"},
	},
	"the mesh, where there was no object": {
		{"create", bgpConfigs, "default", `{spec: {nodeToNodeMeshEnabled: false}}`, ""},
		{"patch", bgpConfigs, "default", `{metadata: {annotations: {rrpool.io/mesh-before: "{}"}}, spec: {nodeToNodeMeshEnabled: true, nodeMeshMaxRestartTime: 60s}}`, ""},
		{"patch", bgpConfigs, "default", `{spec: {nodeMeshMaxRestartTime: null}}`, ""},
		{"patch", bgpConfigs, "default", `{spec: {asNumber: 64999}}`, "changes the mesh and serviceClusterIPs only, not asNumber"},
		{"patch", bgpConfigs, "default", `{spec: {serviceExternalIPs: [{cidr: 10.0.0.0/8}]}}`, "changes the mesh and serviceClusterIPs only, not serviceExternalIPs"},
		{"delete", bgpConfigs, "default", "", ""},
	},
	"a BGPConfiguration with more": {{"create", bgpConfigs, "default", `{spec: {asNumber: 64999}}`, "changes the mesh and serviceClusterIPs only, not asNumber"}},
	"that of one node":             {{"create", bgpConfigs, "node.plain", `{spec: {}}`, "default only, not node.plain"}},
	"our finalizer": {
		{"patch", pools, "default", `{metadata: {finalizers: [rrpool.io/test]}}`, ""},
		{"patch", pools, "default", `{metadata: {finalizers: null}}`, ""},
	},
	"the spec": {{"patch", pools, "default", `{spec: {bgp: {nodeLabel: team}}}`, "does not change the spec"}},
}

// guarded is a cluster with the policies in force, and one who has all of the rights that the manager has, and many more.
func guarded(t *testing.T) (admin, manager dynamic.Interface) {
	t.Helper()
	c, objects := deployed(t)
	manager, err := dynamic.NewForConfig(c.plane.UserConfig(policedUser(t, objects), "system:masters"))
	require.NoError(t, err)
	_, err = c.apply(t, read(t, samples[kindOverlay])[0])
	require.NoError(t, err)
	put(t, c.client, nodes, "plain", `{metadata: {labels: {topology.kubernetes.io/zone: a}}}`)
	put(t, c.client, nodes, "cordoned", `{spec: {unschedulable: true, taints: [{key: a, effect: NoSchedule}]}}`)
	put(t, c.client, bgpPeers, "uplink", `{spec: {peerIP: 192.0.2.1, asNumber: 64999}}`)
	put(t, c.client, write{resource: bgpPeers}.inV3().resource, "uplink", `{spec: {peerIP: 192.0.2.1, asNumber: 64999}}`)
	for _, resource := range []schema.GroupVersionResource{ipPools, write{resource: ipPools}.inV3().resource} {
		put(t, c.client, resource, "theirs", `{spec: {cidr: 10.251.0.0/16}}`)
	}
	put(t, c.client, peerings, "b", `{spec: {remote: {kubeconfigSecretRef: {name: b, key: kubeconfig}}}}`)
	for _, w := range []write{
		writes["a taint"][0], writes["a label that workloads choose nodes by"][0], writes["a BGPPeer of others"][0],
		writes["a BGPConfiguration with more"][0], writes["the spec"][0],
	} {
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			require.ErrorContains(collect, w.try(t, manager, metav1.DryRunAll), w.says)
		}, policyLag, 100*time.Millisecond)
	}
	require.EventuallyWithT(t, func(collect *assert.CollectT) { // the object that is asked for the label is another
		require.NoError(collect, writes["the role, and back"][0].try(t, manager, metav1.DryRunAll))
	}, policyLag, 100*time.Millisecond)
	return c.client, manager
}

// policedUser is whom the policies are about: whoever the manager is.
func policedUser(t *testing.T, objects []*object) string {
	t.Helper()
	deployment := first(t, objects, "Deployment")
	account := convert[appsv1.Deployment](t, deployment).Spec.Template.Spec.ServiceAccountName
	user := controlplane.ServiceAccountUser(deployment.GetNamespace(), account)
	count := 0
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			require.Contains(t, manifest(t, o), "request.userInfo.username == '"+user+"'", o.GetName())
			count++
		}
	}
	require.Equal(t, 5, count)
	return user
}

func put(t *testing.T, c dynamic.Interface, resource schema.GroupVersionResource, name, body string) {
	t.Helper()
	err := write{verb: "create", resource: resource, name: name, body: body}.try(t, c)
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

func (w write) inV3() write {
	w.resource.Group, w.resource.Version = "projectcalico.org", "v3"
	return w
}

func (w write) try(t *testing.T, c dynamic.Interface, dryRun ...string) error {
	t.Helper()
	at := c.Resource(w.resource)
	content, err := yaml.YAMLToJSON([]byte(w.body))
	require.NoError(t, err)
	switch w.verb {
	case "create":
		o := &object{}
		require.NoError(t, yaml.Unmarshal(content, &o.Object))
		o.SetAPIVersion(w.resource.GroupVersion().String())
		o.SetKind(map[string]string{
			"nodes": "Node", "bgppeers": "BGPPeer", "bgpconfigurations": "BGPConfiguration", "caliconodestatuses": "CalicoNodeStatus", "ippools": "IPPool",
			"clusterpeerings": "ClusterPeering",
		}[w.resource.Resource])
		o.SetName(w.name)
		_, err = at.Create(t.Context(), o, metav1.CreateOptions{DryRun: dryRun})
	case "patch":
		_, err = at.Patch(t.Context(), w.name, types.MergePatchType, content, metav1.PatchOptions{DryRun: dryRun})
	case "delete":
		err = at.Delete(t.Context(), w.name, metav1.DeleteOptions{DryRun: dryRun})
	}
	return err
}

// With the manager's token one can do what the manager does, and RBAC's coarse rights go no further. Whatever is
// refused to the manager is permitted to an administrator: it is the policy that says no.
func TestThePoliciesLetThroughWhatTheManagerWritesAndNoMore(t *testing.T) {
	admin, manager := guarded(t)
	all := maps.Clone(writes)
	for name, steps := range writes {
		if steps[0].resource.Group == bgpPeers.Group {
			for _, w := range steps {
				all[name+", in the other group"] = append(all[name+", in the other group"], w.inV3())
			}
		}
	}
	for name, steps := range all {
		t.Run(name, func(t *testing.T) {
			for _, w := range steps {
				if w.says == "" {
					require.NoError(t, w.try(t, manager), "%s", w.body)
					continue
				}
				err := w.try(t, manager)
				require.True(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "%s: %v", w.body, err)
				require.ErrorContains(t, err, w.says)
				if w.resource.Resource != bgpConfigs.Resource || w.verb == "create" {
					require.NoError(t, w.try(t, admin, metav1.DryRunAll), "negative control: %s", w.body)
				}
			}
		})
	}
}

// Another key for the label of the role works as soon as the object says so, and the one before it does no longer.
func TestThePoliciesFollowTheLabelOfTheRole(t *testing.T) {
	admin, manager := guarded(t)
	const other = `{metadata: {labels: {node-restriction.kubernetes.io/reflects: single}}}`
	set := write{verb: "patch", resource: nodes, name: "plain", body: other}
	require.ErrorContains(t, set.try(t, manager), "not node-restriction.kubernetes.io/reflects")
	change := func(key string) {
		w := write{verb: "patch", resource: pools, name: "default", body: `{spec: {bgp: {nodeLabel: ` + key + `}}}`}
		require.NoError(t, w.try(t, admin))
	}
	change("node-restriction.kubernetes.io/reflects")
	defer change("rrpool.io/route-reflector") // the next test waits for it
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(c, set.try(t, manager)) }, policyLag, 100*time.Millisecond)
	require.ErrorContains(t, write{verb: "patch", resource: nodes, name: "plain", body: role}.try(t, manager), "not rrpool.io/route-reflector")
}

// All others work on, also where the object or its CRD has been removed first: a
// policy that cannot find what it asks for must not stop the nodes of a cluster.
func TestThePoliciesAreForTheManagerOnly(t *testing.T) {
	admin, manager := guarded(t)
	gone := write{verb: "delete", resource: pools, name: "default"}
	require.NoError(t, gone.try(t, admin))
	relabel := writes["a label that workloads choose nodes by"][0]
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, relabel.try(t, manager, metav1.DryRunAll), "nothing says which label it is")
	}, policyLag, 100*time.Millisecond)
	require.ErrorContains(t, writes["another zone"][0].try(t, manager), "labels of Kubernetes: topology.kubernetes.io/zone")
	taint := writes["a taint"][0]
	require.NoError(t, taint.try(t, admin, metav1.DryRunAll))
	require.ErrorContains(t, taint.try(t, manager), taint.says, "the other policies ask for nothing")

	crd := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	require.NoError(t, write{verb: "delete", resource: crd, name: "routereflectorpools.rrpool.io"}.try(t, admin))
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		require.NoError(t, taint.try(t, admin, metav1.DryRunAll))
		require.ErrorContains(t, taint.try(t, manager), taint.says)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := admin.Resource(crd).Get(t.Context(), "routereflectorpools.rrpool.io", metav1.GetOptions{})
		require.True(c, apierrors.IsNotFound(err))
	}, policyLag, 100*time.Millisecond)
	applied(t) // for whoever comes next
}
