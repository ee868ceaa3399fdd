package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// schemaVersion names the form of the JSON files in the archive.
const schemaVersion = "rrpool.io/report/v1"

// logs of the manager's pods: the current ones, and those before the last restart.
func (r *reader) logs(ctx context.Context) {
	for i := range r.found.managerPods {
		pod := &r.found.managerPods[i]
		for _, container := range containersOf(pod) {
			name := fmt.Sprintf("logs/%s/%s", pod.GetName(), container.name)
			r.log(ctx, pod.GetName(), name+".log", &corev1.PodLogOptions{Container: container.name})
			if container.restarts > 0 {
				r.log(ctx, pod.GetName(), name+".previous.log", &corev1.PodLogOptions{Container: container.name, Previous: true})
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
	if err != nil {
		r.miss(what, r.explainPod(err, "get", "pods/log"))
		return
	}
	defer stream.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(stream, int64(r.limit)+1))
	if err != nil {
		r.miss(what, r.c.Explain(err, "get", "pods/log"))
		return
	}
	r.add(name, fmt.Sprintf("%s, the last %d lines at most", what, r.lines), r.redact.text(r.lined(name, string(content))))
}

// lined drops the end of a text that is too long, from the last whole line on: half a
// secret would not be known for one.
func (r *reader) lined(name, text string) string {
	if len(text) <= r.limit {
		return text
	}
	text = text[:strings.LastIndex(text[:r.limit], "\n")+1]
	r.cut = append(r.cut, fmt.Sprintf("%s: its end is missing, after %d bytes", name, len(text)))
	return text
}

// explainPod keeps the kubelet's own words, which say most.
func (r *reader) explainPod(err error, verb, resource string) error {
	if apierrors.IsForbidden(err) || !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) && !apierrors.IsInternalError(err) {
		return r.c.Explain(err, verb, resource)
	}
	return err
}

type container struct {
	name     string
	restarts int64
}

func containersOf(pod *unstructured.Unstructured) []container {
	restarts := map[string]int64{}
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	for _, status := range statuses {
		if fields, ok := status.(map[string]any); ok {
			name, _ := fields["name"].(string)
			restarts[name], _ = fields["restartCount"].(int64)
		}
	}
	var out []container
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, fields := range containers {
		if fields, ok := fields.(map[string]any); ok {
			name, _ := fields["name"].(string)
			out = append(out, container{name, restarts[name]})
		}
	}
	return out
}

// seen is what the manager would see and do.
type seen struct {
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

// patience is how many times longer than one request the survey may take: on IBM Cloud it
// asks the cloud as well, with the manager's key, if that may be read.
const patience = 4

// survey looks with the manager's eyes, and changes nothing.
func (r *reader) snapshot(ctx context.Context) {
	const what = "what the manager would do next"
	ctx, cancel := context.WithTimeout(ctx, patience*r.c.Timeout)
	defer cancel()
	s, err := snapshot.Take(ctx, r.c, r.namespace, nil, false)
	if err != nil {
		r.miss(what, err)
		return
	}
	out := seen{
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
	r.document("survey.json", what, &out)
}

// made is who made what.
type made struct {
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

func (r *reader) versions(context.Context) {
	out := made{
		SchemaVersion: schemaVersion, CLI: "unknown", Go: goruntime.Version(), Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
		Calico: r.found.calicoVersion, CalicoImages: append([]string{}, r.found.calicoImages...), ManagerImages: append([]string{}, r.found.managerImages...),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		out.CLI = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				out.Revision = setting.Value
			}
		}
	}
	if r.found.server != nil {
		out.Kubernetes = r.found.server.GitVersion
	}
	r.document("versions.json", "versions of rrpool, Kubernetes and Calico", &out)
}

func (r *reader) document(name, what string, value any) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		r.miss(what, err)
		return
	}
	content, err := json.MarshalIndent(r.redact.object(fields), "", "  ")
	if err != nil {
		r.miss(what, err)
		return
	}
	r.add(name, what, string(content)+"\n")
}
