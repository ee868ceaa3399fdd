package report

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// schemaVersion names the form of the JSON files in the archive.
const schemaVersion = "rrpool.io/report/v1"

// query names objects of a resource, "apps/v1/deployments", to read into a file.
type query struct {
	file, what, resource, namespace string
	options                         metav1.ListOptions
	// slim takes out what says nothing about routes.
	slim func(*unstructured.Unstructured)
}

func (q query) gvr() schema.GroupVersionResource {
	group, _ := schema.ParseGroupVersion(path.Dir(q.resource)) // they are constants
	return group.WithResource(path.Base(q.resource))
}

const (
	calico  = "crd.projectcalico.org/v1/"
	secrets = "v1/secrets"
)

// objects are what is kept as it is, in the order in which it is read.
func (r *reader) objects(ctx context.Context) {
	ofCalicoNode, n := metav1.ListOptions{LabelSelector: "k8s-app=calico-node"}, r.namespace
	r.keep(ctx, query{file: "routereflectorpools", what: "the RouteReflectorPool", resource: "rrpool.io/v1alpha1/routereflectorpools"})
	r.keep(ctx, query{file: "nodes", what: "nodes", resource: "v1/nodes", slim: func(node *unstructured.Unstructured) {
		only(node, "status", "conditions", "addresses", "nodeInfo")
	}})
	for _, kind := range []string{"BGPPeers", "BGPConfigurations", "BGPFilters", "CalicoNodeStatuses", "IPPools", "FelixConfigurations", "ClusterInformations", "BlockAffinities"} {
		resource := strings.ToLower(kind)
		found := r.keep(ctx, query{file: resource, what: kind, resource: calico + resource})
		if kind == "ClusterInformations" && len(found) > 0 {
			r.versions.Calico, _, _ = unstructured.NestedString(found[0].Object, "spec", "calicoVersion")
		}
	}
	r.versions.ManagerImages = imagesOf(r.keep(ctx, query{file: "manager-deployments", what: "Deployments in " + n, resource: "apps/v1/deployments", namespace: n}))
	r.managerPods = r.keep(ctx, query{file: "manager-pods", what: "pods in " + n, resource: "v1/pods", namespace: n})
	r.keep(ctx, query{file: "leases", what: "leases in " + n, resource: "coordination.k8s.io/v1/leases", namespace: n})
	sets := r.keep(ctx, query{file: "calico-node-daemonsets", what: "DaemonSets of calico-node", resource: "apps/v1/daemonsets", options: ofCalicoNode})
	r.versions.CalicoImages = imagesOf(sets)
	r.keep(ctx, query{file: "calico-node-pods", what: "pods of calico-node", resource: "v1/pods", options: ofCalicoNode, slim: func(pod *unstructured.Unstructured) {
		only(pod, "spec", "nodeName", "serviceAccountName", "priorityClassName")
		pod.SetAnnotations(nil)
	}})
	namespaces := []string{"default", n}
	for i := range sets {
		namespaces = append(namespaces, sets[i].GetNamespace())
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		r.events(ctx, namespace)
	}
}

// only keeps some fields of a part of an object.
func only(object *unstructured.Unstructured, part string, fields ...string) {
	have, _, _ := unstructured.NestedMap(object.Object, part)
	for field := range have {
		if !slices.Contains(fields, field) {
			unstructured.RemoveNestedField(object.Object, part, field)
		}
	}
}

func imagesOf(objects []unstructured.Unstructured) []string {
	out := []string{}
	for i := range objects {
		containers, _, _ := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", "containers")
		for _, container := range containers {
			fields, _ := container.(map[string]any)
			if image, ok := fields["image"].(string); ok {
				out = append(out, image)
			}
		}
	}
	return out
}

// events of the manager's namespace, and of others those about a RouteReflectorPool, a node or calico-node.
func (r *reader) events(ctx context.Context, namespace string) {
	q := query{what: "events in " + namespace, resource: "events.k8s.io/v1/events", namespace: namespace}
	found := r.list(ctx, q)
	if found == nil {
		return
	}
	found = slices.DeleteFunc(found, func(event unstructured.Unstructured) bool {
		about, _, _ := unstructured.NestedStringMap(event.Object, "regarding")
		return namespace != r.namespace && about["kind"] != "RouteReflectorPool" && about["kind"] != "Node" && !strings.HasPrefix(about["name"], "calico-node")
	})
	slices.SortStableFunc(found, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	r.render("events/"+namespace+".yaml", q.what, found)
}

// clusterInfo keeps the id of an IKS cluster and nothing else of that ConfigMap, which has addresses and passwords.
func (r *reader) clusterInfo(ctx context.Context) {
	q := query{what: "the cluster's id in ConfigMap kube-system/cluster-info", resource: "v1/configmaps", namespace: "kube-system"}
	q.options.FieldSelector = "metadata.name=cluster-info"
	for _, info := range r.list(ctx, q) {
		text, _, _ := unstructured.NestedString(info.Object, "data", "cluster-config.json")
		var config struct {
			ClusterID string `json:"cluster_id"`
		}
		if err := json.Unmarshal([]byte(text), &config); err == nil && config.ClusterID != "" {
			r.add("objects/cluster-info.yaml", q.what, fmt.Sprintf("cluster_id: %q\n", config.ClusterID))
		}
	}
}

// logs of the manager's pods: the current ones, and those before the last restart.
func (r *reader) logs(ctx context.Context) {
	for i := range r.managerPods {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.managerPods[i].Object, &pod); err != nil {
			r.miss("logs of pod "+r.managerPods[i].GetName(), err)
			continue
		}
		for _, c := range pod.Spec.Containers {
			name := fmt.Sprintf("logs/%s/%s", pod.Name, c.Name)
			r.log(ctx, pod.Name, name+".log", &corev1.PodLogOptions{Container: c.Name})
			if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name && s.RestartCount > 0 }) {
				r.log(ctx, pod.Name, name+".previous.log", &corev1.PodLogOptions{Container: c.Name, Previous: true})
			}
		}
	}
}

func (r *reader) log(ctx context.Context, pod, name string, options *corev1.PodLogOptions) {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	what := "log of pod " + pod
	options.TailLines, options.LimitBytes, options.Timestamps = ptr.To(r.lines), ptr.To(int64(r.limit)+1), true
	stream, err := r.kube.CoreV1().Pods(r.namespace).GetLogs(pod, options).Stream(ctx)
	var content []byte
	if err == nil {
		defer stream.Close() //nolint:errcheck // only read
		content, err = io.ReadAll(io.LimitReader(stream, int64(r.limit)+1))
	}
	if err != nil {
		// Other errors are the kubelet's own words, which say most.
		if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) && !apierrors.IsInternalError(err) {
			err = r.c.Explain(err, "get", "pods/log")
		}
		r.miss(what, err)
		return
	}
	text := string(content)
	if len(text) > r.limit { // up to the last whole line: half a secret would not be recognised
		text = text[:strings.LastIndex(text[:r.limit], "\n")+1]
		r.cut = append(r.cut, fmt.Sprintf("%s: its end is missing, after %d bytes", name, len(text)))
	}
	r.add(name, fmt.Sprintf("%s, the last %d lines at most", what, r.lines), r.redact.text(text))
}

// secrets comes first: the values that are read here are taken out of all that follows. The
// manager's namespace has the API key. Of calico-node's namespace only the Secrets are read that
// BGP objects name.
func (r *reader) secrets(ctx context.Context) {
	var out []map[string]any
	for _, namespace := range []string{"calico-system", "kube-system"} {
		for _, name := range r.passwords(ctx) {
			object, err := r.dynamic.Resource(query{resource: secrets}.gvr()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				out = append(out, r.reduce(object, true))
			case !apierrors.IsNotFound(err):
				r.miss("the password of BGP sessions, if it is Secret "+namespace+"/"+name+", to take it out of everything else", r.c.Explain(err, "get", "secrets"))
			}
		}
	}
	for _, own := range r.list(ctx, query{what: "names of the keys of Secrets in " + r.namespace, resource: secrets, namespace: r.namespace}) {
		out = append(out, r.reduce(&own, false))
	}
	if len(out) == 0 {
		return
	}
	content, err := yaml.Marshal(out)
	if err != nil {
		r.miss("Secrets", err)
		return
	}
	r.add("objects/secrets.yaml", "names of the keys of Secrets", string(content))
}

// passwords are the names of Secrets that BGP objects refer to.
func (r *reader) passwords(ctx context.Context) []string {
	var out []string
	for _, resource := range []string{"bgpconfigurations", "bgppeers"} {
		found, _ := r.pages(ctx, query{resource: calico + resource}) // objects reports the error
		for _, object := range found {
			for _, field := range []string{"nodeMeshPassword", "password"} {
				if name, _, _ := unstructured.NestedString(object.Object, "spec", field, "secretKeyRef", "name"); name != "" {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// public are keys of Secrets whose values are no secrets.
var public = []string{"namespace", "ca.crt", "tls.crt", "service-ca.crt", "username"}

// reduce learns the values of a Secret and keeps the names of its keys. sure says that the
// values are passwords, however short.
func (r *reader) reduce(object *unstructured.Unstructured, sure bool) map[string]any {
	keys := []string{}
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	for key, value := range data {
		keys = append(keys, key)
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && !slices.Contains(public, key) {
			r.redact.learn(string(plain), sure || secretName.MatchString(key))
		}
	}
	slices.Sort(keys)
	out := map[string]any{"namespace": object.GetNamespace(), "name": object.GetName(), "keys": keys}
	if kind, _, _ := unstructured.NestedString(object.Object, "type"); kind != "" {
		out["type"] = kind
	}
	return out
}

// next is what the manager would see and do.
type next struct {
	SchemaVersion string   `json:"schemaVersion"`
	Asked         bool     `json:"asked"`
	Provider      string   `json:"provider"`
	Obstacle      string   `json:"obstacle,omitempty"`
	Step          string   `json:"step"`
	Reason        string   `json:"reason"`
	Problem       string   `json:"problem,omitempty"`
	WaitingFor    []string `json:"waitingFor"`
	// Spec with all defaults, and the status that the manager would report.
	Spec   v1alpha1.RouteReflectorPoolSpec   `json:"spec"`
	Status v1alpha1.RouteReflectorPoolStatus `json:"status"`
}

// snapshot decides as the manager would, and changes nothing. On IBM Cloud it asks the cloud
// as well, with the manager's key if that may be read, so it has more time than one request.
func (r *reader) snapshot(ctx context.Context) {
	const what = "what the manager would do next"
	ctx, cancel := context.WithTimeout(ctx, 4*r.c.Timeout)
	defer cancel()
	s, err := snapshot.Take(ctx, r.c, r.namespace, nil, false)
	if err != nil {
		r.miss(what, err)
		return
	}
	out := next{
		SchemaVersion: schemaVersion, Asked: s.Stored, Provider: string(s.Provider), Step: s.Step.Name, Reason: s.Step.Reason,
		WaitingFor: append([]string{}, s.WaitingFor...), Spec: s.Object.Spec, Status: s.Status,
	}
	// When a condition changed is known to the manager only, and is in the object.
	for i := range out.Status.Conditions {
		out.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	out.Status.Step.Since = metav1.Time{}
	if s.Obstacle != nil {
		out.Obstacle = s.Obstacle.Reason + ": " + s.Obstacle.Message
	}
	if s.Step.Problem != nil {
		out.Problem = s.Step.Problem.Reason + ": " + s.Step.Problem.Message
	}
	r.document("snapshot.json", what, &out)
}

// versions of everything that takes part.
type versions struct {
	SchemaVersion string   `json:"schemaVersion"`
	CLI           string   `json:"cli"`
	Revision      string   `json:"revision,omitempty"`
	Go            string   `json:"go"`
	Platform      string   `json:"platform"`
	Kubernetes    string   `json:"kubernetes,omitempty"`
	Calico        string   `json:"calico,omitempty"`
	CalicoImages  []string `json:"calicoImages"`
	ManagerImages []string `json:"managerImages"`
}

func (r *reader) keepVersions(context.Context) {
	cli, out := version.Get(), &r.versions
	out.SchemaVersion, out.CLI, out.Revision, out.Go, out.Platform = schemaVersion, cli.Version, cli.Revision, cli.Go, cli.Platform
	r.document("versions.json", "versions of rrpool, Kubernetes and Calico", out)
}

func (r *reader) document(name, what string, value any) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err == nil {
		var content []byte
		if content, err = json.MarshalIndent(r.redact.object(fields), "", "  "); err == nil {
			r.add(name, what, string(content)+"\n")
			return
		}
	}
	r.miss(what, err)
}
