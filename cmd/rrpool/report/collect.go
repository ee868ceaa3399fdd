package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// reader reads a cluster into the files of an archive.
type reader struct {
	c         *cluster.Connection
	kube      kubernetes.Interface
	namespace string
	now       time.Time
	redact    *redactor
	// warn tells the user what could not be read.
	warn func(string)

	// kubernetes is the version of the apiserver.
	kubernetes string
	// files has the contents by name, and missing what could not be read.
	files   map[string]string
	missing []string
	// first is the first error of reading.
	first error
}

// objects adds the objects, without fields that are long and of no use.
func (r *reader) objects(ctx context.Context) {
	own, ofCalicoNode := client.InNamespace(r.namespace), client.MatchingLabels{"k8s-app": "calico-node"}
	r.keep(ctx, "routereflectorpools", v1alpha1.GroupVersion.WithKind("RouteReflectorPool"), nil)
	r.keep(ctx, "clusterpeerings", v1alpha1.GroupVersion.WithKind("ClusterPeering"), nil)
	r.keep(ctx, "nodes", corev1.SchemeGroupVersion.WithKind("Node"), []string{"status.images", "status.volumesAttached", "status.volumesInUse"})
	if err := r.c.FindCalico(ctx); err != nil {
		r.miss("the API group of Calico's objects", err)
	}
	for _, kind := range []string{"BGPPeer", "BGPConfiguration", "BGPFilter", "CalicoNodeStatus", "IPPool", "FelixConfiguration", "ClusterInformation", "BlockAffinity"} {
		resource, _ := meta.UnsafeGuessKindToResource(r.c.Calico.WithKind(kind))
		r.keep(ctx, resource.Resource, r.c.Calico.WithKind(kind), nil)
	}
	if r.c.InEtcd() {
		r.keep(ctx, "calico-nodes", r.c.Calico.WithKind("Node"), nil)
	}
	r.keep(ctx, "manager-deployments", appsv1.SchemeGroupVersion.WithKind("Deployment"), nil, own)
	r.keep(ctx, "manager-pods", corev1.SchemeGroupVersion.WithKind("Pod"), nil, own)
	r.keep(ctx, "leases", coordinationv1.SchemeGroupVersion.WithKind("Lease"), nil, own)
	r.keep(ctx, "calico-node-daemonsets", appsv1.SchemeGroupVersion.WithKind("DaemonSet"), nil, ofCalicoNode)
	r.keep(ctx, "calico-node-pods", corev1.SchemeGroupVersion.WithKind("Pod"),
		[]string{"metadata.annotations", "spec.containers", "spec.initContainers", "spec.ephemeralContainers", "spec.tolerations", "spec.volumes"}, ofCalicoNode)
}

// keep adds a file with all objects of a kind. without are the fields to leave out.
func (r *reader) keep(ctx context.Context, file string, kind schema.GroupVersionKind, without []string, options ...client.ListOption) {
	file = "objects/" + file + ".yaml"
	found, err := r.list(ctx, kind, options...)
	if err != nil {
		r.miss(file, err)
		return
	}
	for i := range found {
		for _, field := range without {
			unstructured.RemoveNestedField(found[i].Object, strings.Split(field, ".")...)
		}
	}
	r.render(file, found)
}

// events adds all events of the manager's namespace. Of the other namespaces it
// adds those about a RouteReflectorPool, a ClusterPeering, a node or calico-node.
func (r *reader) events(ctx context.Context) {
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values([]string{"calico-system", "default", "kube-system", r.namespace}))) {
		file := "events/" + namespace + ".yaml"
		found, err := r.list(ctx, eventsv1.SchemeGroupVersion.WithKind("Event"), client.InNamespace(namespace))
		if err != nil {
			r.miss(file, err)
			continue
		}
		found = slices.DeleteFunc(found, func(event unstructured.Unstructured) bool {
			about, _, _ := unstructured.NestedStringMap(event.Object, "regarding")
			return namespace != r.namespace && !slices.Contains([]string{"RouteReflectorPool", "ClusterPeering", "Node"}, about["kind"]) && !strings.HasPrefix(about["name"], "calico-node")
		})
		slices.SortStableFunc(found, func(a, b unstructured.Unstructured) int {
			return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
		})
		r.render(file, found)
	}
}

// logs adds the logs of the pods in the manager's namespace, and those from before the last restart.
func (r *reader) logs(ctx context.Context) {
	var pods corev1.PodList
	if err := r.c.List(ctx, &pods, client.InNamespace(r.namespace)); err != nil {
		r.miss("logs", r.c.Explain(err, "list", "pods"))
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Spec.Containers {
			name := "logs/" + pod.Name + "/" + c.Name
			r.log(ctx, pod.Name, name+".log", &corev1.PodLogOptions{Container: c.Name})
			if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name && s.RestartCount > 0 }) {
				r.log(ctx, pod.Name, name+".previous.log", &corev1.PodLogOptions{Container: c.Name, Previous: true})
			}
		}
	}
}

// mostOfLog is the limit of a log in bytes, as a line may have any length.
const mostOfLog = 8 << 20

func (r *reader) log(ctx context.Context, pod, name string, options *corev1.PodLogOptions) {
	options.TailLines, options.LimitBytes, options.Timestamps = new(int64(5000)), new(int64(mostOfLog)), true
	content, err := r.kube.CoreV1().Pods(r.namespace).GetLogs(pod, options).Do(ctx).Raw()
	switch {
	case err == nil:
		if len(content) >= mostOfLog {
			r.miss(name, fmt.Errorf("its end: the last 5000 lines have more than %d bytes", mostOfLog))
		}
		r.add(name, r.redact.text(string(content)))
	case apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err): // the error has the kubelet's reason
		r.miss(name, err)
	default:
		r.miss(name, r.c.Explain(err, "get", "pods/log"))
	}
}

// secrets adds the names of the keys of Secrets. It runs first, so that the values of Secrets are removed from all other files. It reads all
// Secrets in the manager's namespace, where the API key is. In calico-node's namespaces it reads only the Secrets that BGP objects name.
func (r *reader) secrets(ctx context.Context) {
	var out []map[string]any
	for _, name := range r.passwords(ctx) {
		for _, namespace := range []string{"calico-system", "kube-system"} {
			var secret corev1.Secret
			err := r.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
			switch {
			case err == nil:
				out = append(out, r.learn(secret, true))
			case !apierrors.IsNotFound(err):
				r.miss("the password of BGP sessions, if it is Secret "+namespace+"/"+name+", to take it out of everything else", r.c.Explain(err, "get", "secrets"))
			}
		}
	}
	var own corev1.SecretList
	if err := r.c.List(ctx, &own, client.InNamespace(r.namespace)); err != nil {
		r.miss("names of the keys of Secrets in "+r.namespace, r.c.Explain(err, "list", "secrets"))
	}
	for _, secret := range own.Items {
		out = append(out, r.learn(secret, false))
	}
	if content, err := yaml.Marshal(out); err == nil && len(out) > 0 { // strings can always be marshalled
		r.add("objects/secrets.yaml", string(content))
	}
}

// passwords returns the names of the Secrets that BGP objects refer to.
func (r *reader) passwords(ctx context.Context) []string {
	names := map[string]bool{}
	_ = r.c.FindCalico(ctx) // r.objects reports the error
	for _, kind := range []string{"BGPConfiguration", "BGPPeer"} {
		found, _ := r.list(ctx, r.c.Calico.WithKind(kind)) // r.objects reports the error
		for _, object := range found {
			for _, field := range []string{"nodeMeshPassword", "password"} {
				if name, _, _ := unstructured.NestedString(object.Object, "spec", field, "secretKeyRef", "name"); name != "" {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// public are the keys in Secrets whose values are not secret.
var public = []string{"namespace", "ca.crt", "tls.crt", "service-ca.crt", "username"}

// learn passes the values of a Secret to the redactor, and returns what the report
// shows of the Secret. sure means that the values are passwords, even short ones.
func (r *reader) learn(secret corev1.Secret, sure bool) map[string]any {
	for key, value := range secret.Data {
		if !slices.Contains(public, key) {
			r.redact.learn(string(value), sure || secretName.MatchString(key))
		}
	}
	return map[string]any{"namespace": secret.Namespace, "name": secret.Name, "type": secret.Type, "keys": slices.Sorted(maps.Keys(secret.Data))}
}

// snapshot adds the object with the status that the manager would report. This may ask
// IBM Cloud, with the manager's key, and so has four times the time limit of a request.
func (r *reader) snapshot(ctx context.Context) {
	const file = "snapshot.yaml"
	ctx, cancel := context.WithTimeout(ctx, 4*r.c.Timeout)
	defer cancel()
	seen, err := snapshot.Take(ctx, r.c, r.namespace, nil, false)
	if err != nil {
		r.miss(file, err)
		return
	}
	object := v1alpha1.RouteReflectorPool{Spec: seen.Object.Spec, Status: seen.Status}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool"))
	// Only the manager knows when a condition changed.
	for i := range object.Status.Conditions {
		object.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	object.Status.Step.Since = metav1.Time{}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&object)
	if err != nil {
		r.miss(file, err)
		return
	}
	r.render(file, []unstructured.Unstructured{{Object: fields}})
}

func newReader(c *cluster.Connection, namespace string, now time.Time) (*reader, error) {
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	r := &reader{c: c, kube: kube, namespace: namespace, now: now, redact: &redactor{}, warn: func(string) {}, files: map[string]string{}}
	for _, own := range []string{c.Config.BearerToken, c.Config.Password, string(c.Config.KeyData)} {
		r.redact.learn(own, true)
	}
	return r, nil
}

// add puts a file into the archive, after removing known secrets and whatever looks like one. Every file goes through add.
func (r *reader) add(name, content string) {
	r.files[local(name)] = r.redact.anywhere(content)
}

// odd matches the characters that are replaced in names of files.
var odd = regexp.MustCompile(`[^-_./A-Za-z0-9]`)

// local returns a name that unpacks into the archive's folder on any system. Names need that, as they can contain the names of pods.
func local(name string) string {
	name = strings.ReplaceAll(odd.ReplaceAllString(name, "_"), "..", "_")
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// miss records what could not be read.
func (r *reader) miss(what string, err error) {
	if errors.Is(err, iostreams.ErrInterrupted) {
		return
	}
	if r.first == nil {
		r.first = err
	}
	text := r.redact.text(fmt.Sprintf("%s: %s", what, iostreams.Sentence(err)))
	r.missing = append(r.missing, text)
	r.warn("not in the report: " + text)
}

// list returns all objects of a kind, in the apiserver's order: by name.
func (r *reader) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	var page unstructured.UnstructuredList
	for {
		page.SetGroupVersionKind(kind)
		err := r.c.List(ctx, &page, append(options, client.Limit(500), client.Continue(page.GetContinue()))...)
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		switch {
		case apierrors.IsNotFound(err) && kind.Group != "rrpool.io":
			return nil, fmt.Errorf("the cluster does not know %s", resource.GroupResource())
		case err != nil:
			return nil, r.c.Explain(err, "list", resource.GroupResource().String())
		}
		if out = append(out, page.Items...); page.GetContinue() == "" {
			return out, nil
		}
	}
}

// render adds a file with the objects as YAML documents.
func (r *reader) render(name string, objects []unstructured.Unstructured) {
	var out strings.Builder
	for i := range objects {
		content, err := yaml.Marshal(r.redact.object(objects[i].Object))
		if err != nil {
			r.miss(name, err)
			return
		}
		out.WriteString("---\n")
		out.Write(content)
	}
	if len(objects) == 0 {
		out.WriteString("# none\n")
	}
	r.add(name, out.String())
}
