//go:build linux

package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

// tokenFolder is where a container has the token of its service account.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // G101: a folder

type pod struct {
	name, node string
	template   string
	probe      string // URL
	process    *controlplane.Process
	delete     func() // deletes it from the API
}

// start runs the container of a Deployment's pod on a node.
func (r *Runtime) start(ctx context.Context, d *appsv1.Deployment, node string) (*pod, error) {
	spec := &d.Spec.Template.Spec
	if err := known(spec); err != nil {
		return nil, err
	}
	p := &pod{
		name: fmt.Sprintf("%s-%d", d.Name, r.started), node: node, template: r.template, delete: func() {},
	}
	container := &spec.Containers[0]
	p.probe = r.site.probeURL(container, node)
	cmd := exec.Command(programs.Path("manager"), container.Args...) //nolint:gosec // G204: ours
	var err error
	if cmd.Env, err = r.site.environmentOf(d, container); err != nil {
		return nil, err
	}
	if ptr.Deref(spec.AutomountServiceAccountToken, true) {
		if err := r.site.mountToken(ctx, d.Namespace, spec.ServiceAccountName, p); err != nil {
			return nil, err
		}
	}
	if err := r.site.cloudOn(node); err != nil {
		return nil, err
	}
	enter := func(start func() error) error { return r.site.Lab.Enter(node, start) }
	if p.process, err = controlplane.StartProcess(cmd, r.site.file("pod-"+p.name+".log"), enter); err != nil {
		return nil, err
	}
	if err := r.site.register(ctx, d, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// known returns an error for a pod spec with fields that the Runtime does not implement.
func known(spec *corev1.PodSpec) error {
	if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 || len(spec.Volumes) > 0 {
		return errors.New("imitated is one container without volumes")
	}
	c := spec.Containers[0]
	if probe := c.ReadinessProbe; probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.Type != intstr.String {
		return errors.New("imitated is a readiness probe that asks a port by its name")
	}
	if len(c.Command) > 0 || len(c.EnvFrom) > 0 || strings.Contains(strings.Join(c.Args, " "), "$(") {
		return errors.New("command, envFrom, and variables in args are not imitated")
	}
	return nil
}

// environmentOf returns the container's environment, with the additions that Runtime documents.
func (s *Site) environmentOf(d *appsv1.Deployment, container *corev1.Container) ([]string, error) {
	apiserver, err := url.Parse(s.Lab.AdminConfig().Host)
	if err != nil {
		return nil, fmt.Errorf("reading the apiserver's address: %w", err)
	}
	env := append(s.Environment(), "PATH=/nonexistent", "HOME=/nonexistent",
		"KUBERNETES_SERVICE_HOST="+apiserver.Hostname(), "KUBERNETES_SERVICE_PORT="+apiserver.Port())
	for _, v := range container.Env {
		value := v.Value
		if from := v.ValueFrom; from != nil {
			if from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.namespace" {
				return nil, fmt.Errorf("variable %s: its source is not imitated", v.Name)
			}
			value = d.Namespace
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// mountToken requests a token of the pod's service account from the apiserver and writes it to the pod's token folder.
func (s *Site) mountToken(ctx context.Context, namespace, account string, p *pod) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	token, err := s.Lab.Kube().CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of service account %q: %w", account, err)
	}
	folder := s.file("pods/" + p.name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("making a pod's folder: %w", err)
	}
	for name, content := range map[string][]byte{
		"token": []byte(token.Status.Token), "ca.crt": s.Lab.AdminConfig().CAData, "namespace": []byte(namespace),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return fmt.Errorf("writing a pod's %s: %w", name, err)
		}
	}
	return s.Lab.Enter(p.node, func() error {
		if err := os.MkdirAll(tokenFolder, 0o755); err != nil { //nolint:gosec // G301: as a kubelet makes it
			return err
		}
		return syscall.Mount(folder, tokenFolder, "", syscall.MS_BIND, "")
	})
}

// probeURL returns the URL of a container's readiness probe, which must name a port.
func (s *Site) probeURL(container *corev1.Container, node string) string {
	get := container.ReadinessProbe.HTTPGet
	port := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == get.Port.StrVal })
	address := net.JoinHostPort(s.Lab.Address(node).String(), strconv.Itoa(int(container.Ports[port].ContainerPort)))
	return "http://" + address + get.Path
}

func (p *pod) ready() bool {
	if !p.process.Running() {
		return false
	}
	response, err := (&http.Client{Timeout: time.Second}).Get(p.probe)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode < http.StatusBadRequest
}

// stop ends the process as a kubelet does.
func (p *pod) stop() {
	_ = p.process.Stop(syscall.SIGTERM) // how it ended is in its log
	p.delete()
}

func (p *pod) kill() {
	p.process.Kill()
	p.delete()
}

// kubeletPort is where the apiserver asks a kubelet for logs.
const kubeletPort = "10250"

// register creates the Pod of a running process, if Options.Pods is set. The namespace's Pod Security profile must admit it. The Pod is Ready
// from the start; the Deployment's status shows how many processes are.
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
	p.delete = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = pods.Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}) // it may be deleted already, with its namespace
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
		p.delete()
		return fmt.Errorf("reporting Pod %q: %w", p.name, err)
	}
	return nil
}

// serveLogs serves the kubelet's API for logs on a node. The second call for a node does nothing.
func (s *Site) serveLogs(node string) error {
	if s.kubelets[node] != nil {
		return nil
	}
	listener, err := s.listenOn(node, ":"+kubeletPort)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.answerLog)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	server.StartTLS()
	s.kubelets[node] = server
	return nil
}

// answerLog returns the last lines of a pod's log. If timestamps are requested, each line begins with the time of the response.
func (s *Site) answerLog(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(s.file("pod-" + filepath.Base(r.PathValue("pod")) + ".log"))
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
