package importenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, append([]string{"import-env"}, args...)...)
}

func askIn(t *testing.T, s iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	return cli.AskIn(t, s, New, append([]string{"import-env"}, args...)...)
}

// set is the environment with these variables.
func set(pairs ...string) iostreams.Streams {
	return iostreams.Streams{Getenv: cli.Environment(pairs...)}
}

// api plays an apiserver that has these objects, by the path of their list.
type api struct {
	lists map[string][]map[string]any
	// refuse answers these paths with this code.
	refuse map[string]int
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if code, ok := a.refuse[r.URL.Path]; ok {
		answer(w, code, "")
		return
	}
	if list, ok := a.lists[r.URL.Path]; ok {
		selected := list
		if name, only := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName="); only {
			name, _, _ = strings.Cut(name, ",")
			selected = nil
			for _, object := range list {
				if on, _, _ := unstructured.NestedString(object, "spec", "nodeName"); on == name {
					selected = append(selected, object)
				}
			}
		}
		version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path[:strings.LastIndex(r.URL.Path, "/")], "/apis/"), "/api/")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": listKinds[r.URL.Path], "apiVersion": version, "metadata": map[string]any{}, "items": selected})
		return
	}
	path, name := r.URL.Path[:strings.LastIndex(r.URL.Path, "/")], r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	for _, object := range a.lists[path] {
		if found, _, _ := unstructured.NestedString(object, "metadata", "name"); found == name {
			_ = json.NewEncoder(w).Encode(object)
			return
		}
	}
	if _, ok := a.lists[path]; ok {
		answer(w, http.StatusNotFound, name)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	http.NotFound(w, r)
}

func answer(w http.ResponseWriter, code int, name string) {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 401: "Unauthorized", 500: "InternalError"}[code]
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason, "details": map[string]any{"name": name},
	})
}

// Paths of lists.
const (
	nodesPath       = "/api/v1/nodes"
	podsPath        = "/api/v1/pods"
	deploymentsPath = "/apis/apps/v1/deployments"
	peersPath       = "/apis/crd.projectcalico.org/v1/bgppeers"
	configsPath     = "/apis/crd.projectcalico.org/v1/bgpconfigurations"
	statusesPath    = "/apis/crd.projectcalico.org/v1/caliconodestatuses"
	rolesPath       = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	bindingsPath    = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	crdsPath        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	poolsPath       = "/apis/rrpool.io/v1alpha1/routereflectorpools"
)

var listKinds = map[string]string{
	nodesPath: "NodeList", podsPath: "PodList", deploymentsPath: "DeploymentList", peersPath: "BGPPeerList", configsPath: "BGPConfigurationList",
	statusesPath: "CalicoNodeStatusList", rolesPath: "ClusterRoleList", bindingsPath: "ClusterRoleBindingList", crdsPath: "CustomResourceDefinitionList",
	poolsPath: "RouteReflectorPoolList",
}

// world is a cluster of nodes with a pod each, and nothing of the operator.
func world(nodes int) *api {
	a := &api{lists: map[string][]map[string]any{}, refuse: map[string]int{}}
	for _, path := range []string{nodesPath, podsPath, deploymentsPath, peersPath, configsPath, statusesPath, rolesPath, bindingsPath, crdsPath, poolsPath} {
		a.lists[path] = []map[string]any{}
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		a.put(nodesPath, fmt.Sprintf(`{kind: Node, apiVersion: v1, metadata: {name: %s, labels: {topology.kubernetes.io/zone: zone-%d},
  annotations: {projectcalico.org/IPv4Address: 10.0.0.%d/24}}, status: {conditions: [{type: Ready, status: "True"}]}}`, name, i%3, i+1))
		a.put(podsPath, fmt.Sprintf(`{kind: Pod, apiVersion: v1, metadata: {name: pod-%d, namespace: default}, spec: {nodeName: %s}, status: {phase: Running}}`, i, name))
	}
	return a
}

func (a *api) put(path, object string) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(object), &content); err != nil {
		panic(err)
	}
	a.lists[path] = append(a.lists[path], content)
}

// node edits one of the nodes.
func (a *api) node(i int, labels, annotations map[string]any) {
	metadata := a.lists[nodesPath][i]["metadata"].(map[string]any)
	for key, value := range labels {
		metadata["labels"].(map[string]any)[key] = value
	}
	for key, value := range annotations {
		metadata["annotations"].(map[string]any)[key] = value
	}
}

// idle takes the pods from nodes.
func (a *api) idle(nodes ...int) {
	for _, i := range nodes {
		a.lists[podsPath][i]["spec"].(map[string]any)["hostNetwork"] = true
	}
}

const deployment = `{kind: Deployment, apiVersion: apps/v1,
  metadata: {name: calico-route-reflector-operator-controller-manager, namespace: calico-route-reflector-operator-system},
  spec: {replicas: %[1]d, template: {spec: {containers: [{name: proxy, image: kube-rbac-proxy}, {name: manager, image: mhmxs/calico-route-reflector-operator:v0.1.0, env: [
    {name: DATASTORE_TYPE, value: incluster}, {name: ROUTE_REFLECTOR_MIN, value: "3"}, {name: ROUTE_REFLECTOR_ZONE_LABEL, value: topology.kubernetes.io/zone}]}]}}},
  status: {replicas: %[1]d}}`

// operated is a cluster with the operator in topology simple, at work.
func operated(nodes int, reflectors ...int) *api {
	a := world(nodes)
	a.put(deploymentsPath, fmt.Sprintf(deployment, 1))
	a.put(configsPath, `{kind: BGPConfiguration, apiVersion: crd.projectcalico.org/v1, metadata: {name: default}, spec: {nodeToNodeMeshEnabled: false}}`)
	a.put(peersPath, `{kind: BGPPeer, apiVersion: crd.projectcalico.org/v1, metadata: {name: rrs-to-rrs}, spec: {nodeSelector: has(calico-route-reflector), peerSelector: has(calico-route-reflector)}}`)
	a.put(peersPath, `{kind: BGPPeer, apiVersion: crd.projectcalico.org/v1, metadata: {name: peer-to-rrs-1}, spec: {nodeSelector: "!has(calico-route-reflector)", peerSelector: has(calico-route-reflector)}}`)
	a.put(peersPath, `{kind: BGPPeer, apiVersion: crd.projectcalico.org/v1, metadata: {name: rack-switch}, spec: {nodeSelector: all(), peerIP: 192.168.0.1, asNumber: 65000}}`)
	a.put(rolesPath, `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: calico-route-reflector-operator-manager-role}}`)
	a.put(rolesPath, `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: view}}`)
	a.put(bindingsPath, `{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: calico-route-reflector-operator-manager-rolebinding}}`)
	a.put(crdsPath, `{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: routereflectorconfigs.route-reflector.calico-route-reflector-operator.mhmxs.github.com}}`)
	for _, i := range reflectors {
		a.node(i, map[string]any{"calico-route-reflector": ""}, map[string]any{idAnnotation: "224.0.0.0"})
	}
	return a
}

// multiplied is the same in topology multi.
func multiplied(nodes int, reflectors ...int) *api {
	a := operated(nodes, reflectors...)
	a.lists[peersPath] = a.lists[peersPath][:1]
	for n, i := range reflectors {
		a.node(i, map[string]any{"calico-route-reflector": fmt.Sprint(1000 + i)}, map[string]any{idAnnotation: fmt.Sprintf("224.%d.7.1", n)})
		for c := range nodes {
			a.put(peersPath, fmt.Sprintf(`{kind: BGPPeer, apiVersion: crd.projectcalico.org/v1, metadata: {name: peer-to-rrs-%d-uid-%d}, spec: {nodeSelector: "kubernetes.io/hostname=='node-%d'", peerSelector: "calico-route-reflector=='%d'"}}`, 1000+i, c, c, 1000+i))
		}
	}
	return a
}
