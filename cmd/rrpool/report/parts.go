package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

func apps(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
}

func calico(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: resource}
}

// calicoNodeLabel is on the pods and the DaemonSet of calico-node, however installed.
const calicoNodeLabel = "k8s-app=calico-node"

// ours is the RouteReflectorPool.
func (r *reader) ours(ctx context.Context) {
	r.keep(ctx, "objects/routereflectorpools.yaml", "the RouteReflectorPool", query{
		resource: schema.GroupVersionResource{Group: "rrpool.io", Version: "v1alpha1", Resource: "routereflectorpools"},
	}, nil)
}

// nodes are slim: images, volumes and capacity say nothing about routes.
func (r *reader) nodes(ctx context.Context) {
	r.keep(ctx, "objects/nodes.yaml", "nodes", query{resource: core("nodes")}, func(node *unstructured.Unstructured) {
		only(node, "status", "conditions", "addresses", "nodeInfo")
	})
}

// only keeps some fields of a part of an object.
func only(object *unstructured.Unstructured, part string, fields ...string) {
	have, _, _ := unstructured.NestedMap(object.Object, part)
	out := map[string]any{}
	for _, field := range fields {
		if value, ok := have[field]; ok {
			out[field] = value
		}
	}
	if len(out) > 0 {
		object.Object[part] = out
	}
}

// calico is what decides about BGP.
func (r *reader) calico(ctx context.Context) {
	for _, kind := range []struct{ resource, what string }{
		{"bgppeers", "BGPPeers"},
		{"bgpconfigurations", "BGPConfigurations"},
		{"bgpfilters", "BGPFilters"},
		{"caliconodestatuses", "CalicoNodeStatuses"},
		{"ippools", "IPPools"},
		{"felixconfigurations", "FelixConfigurations"},
		{"clusterinformations", "ClusterInformations"},
		{"blockaffinities", "block affinities"},
	} {
		objects := r.keep(ctx, "objects/"+kind.resource+".yaml", kind.what, query{resource: calico(kind.resource)}, nil)
		for i := range objects {
			if kind.resource == "clusterinformations" {
				r.found.calicoVersion, _, _ = unstructured.NestedString(objects[i].Object, "spec", "calicoVersion")
			}
		}
	}
}

// manager is rrpool's own.
func (r *reader) manager(ctx context.Context) {
	deployments := r.keep(ctx, "objects/manager-deployments.yaml", "Deployments in "+r.namespace, query{resource: apps("deployments"), namespace: r.namespace}, nil)
	for i := range deployments {
		r.found.managerImages = append(r.found.managerImages, imagesOf(&deployments[i], "spec", "template", "spec", "containers")...)
	}
	r.found.managerPods = r.keep(ctx, "objects/manager-pods.yaml", "pods in "+r.namespace, query{resource: core("pods"), namespace: r.namespace}, nil)
	r.keep(ctx, "objects/leases.yaml", "leases in "+r.namespace, query{
		resource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, namespace: r.namespace,
	}, nil)
}

func imagesOf(object *unstructured.Unstructured, path ...string) []string {
	var out []string
	containers, _, _ := unstructured.NestedSlice(object.Object, path...)
	for _, container := range containers {
		if fields, ok := container.(map[string]any); ok {
			if image, ok := fields["image"].(string); ok {
				out = append(out, image)
			}
		}
	}
	return out
}

// calicoNode is found by its label, in whatever namespace.
func (r *reader) calicoNode(ctx context.Context) {
	selected := metav1.ListOptions{LabelSelector: calicoNodeLabel}
	sets := r.keep(ctx, "objects/calico-node-daemonsets.yaml", "DaemonSets of calico-node", query{resource: apps("daemonsets"), options: selected}, nil)
	for i := range sets {
		r.found.calicoNamespaces = append(r.found.calicoNamespaces, sets[i].GetNamespace())
		r.found.calicoImages = append(r.found.calicoImages, imagesOf(&sets[i], "spec", "template", "spec", "containers")...)
	}
	r.keep(ctx, "objects/calico-node-pods.yaml", "pods of calico-node", query{resource: core("pods"), options: selected}, func(pod *unstructured.Unstructured) {
		only(pod, "spec", "nodeName", "serviceAccountName", "priorityClassName")
		delete(pod.Object["metadata"].(map[string]any), "annotations") //nolint:forcetypeassert // every object has them
	})
}

// events are those about what the report is about.
func (r *reader) events(ctx context.Context) {
	resource := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	namespaces := append([]string{"default", r.namespace}, r.found.calicoNamespaces...)
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		what := "events in " + namespace
		objects, err := r.list(ctx, query{resource: resource, namespace: namespace})
		if err != nil {
			r.miss(what, err)
			continue
		}
		if namespace != r.namespace {
			objects = slices.DeleteFunc(objects, func(event unstructured.Unstructured) bool { return !r.matters(&event) })
		}
		slices.SortStableFunc(objects, func(a, b unstructured.Unstructured) int {
			return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
		})
		r.render("events/"+namespace+".yaml", what, objects)
	}
}

// matters: the event is about a RouteReflectorPool, a node, or calico-node.
func (*reader) matters(event *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(event.Object, "regarding", "kind")
	name, _, _ := unstructured.NestedString(event.Object, "regarding", "name")
	return kind == "RouteReflectorPool" || kind == "Node" || strings.HasPrefix(name, "calico-node")
}

// clusterInfo is the id of an IKS cluster, and nothing else of where it stands.
func (r *reader) clusterInfo(ctx context.Context) {
	const what = "the cluster's id in ConfigMap kube-system/cluster-info"
	objects, err := r.list(ctx, query{resource: core("configmaps"), namespace: "kube-system", options: metav1.ListOptions{FieldSelector: "metadata.name=cluster-info"}})
	if err != nil {
		r.miss(what, err)
		return
	}
	for i := range objects {
		text, _, _ := unstructured.NestedString(objects[i].Object, "data", "cluster-config.json")
		var config struct {
			ClusterID string `json:"cluster_id"`
		}
		if err := json.Unmarshal([]byte(text), &config); err == nil && config.ClusterID != "" {
			r.add("objects/cluster-info.yaml", what, fmt.Sprintf("cluster_id: %q\n", config.ClusterID))
		}
	}
}
