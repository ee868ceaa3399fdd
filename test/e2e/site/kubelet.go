//go:build linux

package site

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// kubeletPort is where the apiserver asks a kubelet for logs.
const kubeletPort = "10250"

func (s *Site) podLog(name string) string {
	return filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "pods", name+".log")
}

// openLogs opens the log of a pod, and that of all managers.
func (s *Site) openLogs(p *pod) (out io.Writer, closeLogs func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.podLog(p.name)), 0o750); err != nil {
		return nil, nil, fmt.Errorf("making the pods' folder: %w", err)
	}
	var files []*os.File
	closeLogs = func() {
		for _, file := range files {
			_ = file.Close()
		}
	}
	for _, path := range []string{s.podLog(p.name), s.managerLog()} {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // G304: ours
		if err != nil {
			closeLogs()
			return nil, nil, fmt.Errorf("opening a manager's log: %w", err)
		}
		files = append(files, file)
	}
	return io.MultiWriter(files[0], files[1]), closeLogs, nil
}

// register makes a Pod of a process that runs, as its ReplicaSet and its kubelet do, where Options.Pods wants that. The namespace's Pod
// Security profile has to let it in. It is called ready from the start: the Deployment's status tells who is.
func (s *Site) register(ctx context.Context, d *appsv1.Deployment, p *pod) error {
	if !s.options.Pods {
		return nil
	}
	if err := s.serveLogs(p.node); err != nil {
		return err
	}
	pods := s.Lab.Kube().CoreV1().Pods(d.Namespace)
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: d.Namespace, Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}
	object.Spec.NodeName = p.node
	created, err := pods.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating Pod %q: %w", p.name, err)
	}
	p.gone = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = pods.Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}) // with its namespace it may have gone before
	}
	address := s.Lab.Address(p.node).String()
	created.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: address, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: ptr.To(metav1.Now()),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	for _, c := range created.Spec.Containers {
		created.Status.ContainerStatuses = append(created.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	if _, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		p.gone()
		return fmt.Errorf("reporting Pod %q: %w", p.name, err)
	}
	return nil
}

// serveLogs answers the apiserver on a node, as its kubelet does. The second time it does nothing.
func (s *Site) serveLogs(node string) error {
	if s.kubelets[node] != nil {
		return nil
	}
	listener, err := s.Lab.ListenOn(node, ":"+kubeletPort)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.answerLog)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	server.StartTLS()
	if s.kubelets == nil {
		s.kubelets = map[string]*httptest.Server{}
	}
	s.kubelets[node] = server
	return nil
}

// answerLog gives the last lines of a pod's log, with a time before each if one is asked for: that of the answer, not of the line.
func (s *Site) answerLog(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(s.podLog(filepath.Base(r.PathValue("pod"))))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	lines := strings.SplitAfter(string(content), "\n")
	if tail, err := strconv.Atoi(r.FormValue("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-1-tail):]
	}
	for _, line := range lines {
		if r.FormValue("timestamps") == "true" && line != "" {
			line = time.Now().UTC().Format(time.RFC3339Nano) + " " + line
		}
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}
