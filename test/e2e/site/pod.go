//go:build linux

package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

	"github.com/rrpool/rrpool/test/programs"
)

// tokenFolder is where a container finds the token of its service account.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // G101: a folder

// pod is one process of the manager's Deployment.
type pod struct {
	name, node string
	grace      time.Duration
	template   string
	probe      string // URL, "" without a readiness probe
	cmd        *exec.Cmd
	gone       func() // takes it out of the API
	ended      chan struct{}
	endedAt    time.Time // once ended is closed
}

// start runs the container of a Deployment's pod on a node.
func (r *Runtime) start(ctx context.Context, d *appsv1.Deployment, node string) (*pod, error) {
	spec := &d.Spec.Template.Spec
	if err := known(spec); err != nil {
		return nil, err
	}
	p := &pod{
		name: fmt.Sprintf("%s-%d", d.Name, r.started), node: node, template: r.template, ended: make(chan struct{}), gone: func() {},
		grace: time.Duration(ptr.Deref(spec.TerminationGracePeriodSeconds, 30)) * time.Second,
	}
	container := &spec.Containers[0]
	var err error
	if p.probe, err = r.site.probeURL(container, node); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(programs.Path("manager"), container.Args...) //nolint:gosec // G204: ours
	if p.cmd.Env, err = r.site.environmentOf(ctx, d, container, p); err != nil {
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
	if err := r.site.launch(p); err != nil {
		return nil, err
	}
	if err := r.site.register(ctx, d, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// launch starts the process. What it says goes into a log of its own, and into that of all managers.
func (s *Site) launch(p *pod) error {
	out, closeLogs, err := s.openLogs(p)
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := s.Lab.StartOn(p.node, p.cmd); err != nil {
		closeLogs()
		return err
	}
	go func() {
		_ = p.cmd.Wait()
		closeLogs()
		p.endedAt = time.Now()
		close(p.ended)
	}()
	return nil
}

// known refuses what is not imitated: it would be run, but not as the Deployment says.
func known(spec *corev1.PodSpec) error {
	if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 || len(spec.Volumes) > 0 {
		return errors.New("imitated is one container without volumes")
	}
	c := spec.Containers[0]
	if len(c.Command) > 0 || len(c.EnvFrom) > 0 || strings.Contains(strings.Join(c.Args, " "), "$(") {
		return errors.New("command, envFrom, and variables in args are not imitated")
	}
	return nil
}

// environmentOf is what the container has, and what the Runtime's comment says it gets besides.
func (s *Site) environmentOf(ctx context.Context, d *appsv1.Deployment, container *corev1.Container, p *pod) ([]string, error) {
	apiserver, err := url.Parse(s.Lab.AdminConfig().Host)
	if err != nil {
		return nil, fmt.Errorf("reading the apiserver's address: %w", err)
	}
	env := []string{
		"PATH=/nonexistent", "HOME=/nonexistent", "KUBERNETES_SERVICE_HOST=" + apiserver.Hostname(), "KUBERNETES_SERVICE_PORT=" + apiserver.Port(),
	}
	for i := range container.Env {
		value, err := s.valueOf(ctx, d, &container.Env[i], p)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", container.Env[i].Name, err)
		}
		env = append(env, container.Env[i].Name+"="+value)
	}
	for name, value := range s.Environment() {
		env = append(env, name+"="+value)
	}
	return env, nil
}

func (s *Site) valueOf(ctx context.Context, d *appsv1.Deployment, v *corev1.EnvVar, p *pod) (string, error) {
	switch {
	case v.ValueFrom == nil:
		return v.Value, nil
	case v.ValueFrom.FieldRef != nil:
		fields := map[string]string{
			"metadata.namespace": d.Namespace, "metadata.name": p.name, "spec.nodeName": p.node, "status.podIP": s.Lab.Address(p.node).String(),
		}
		value, ok := fields[v.ValueFrom.FieldRef.FieldPath]
		if !ok {
			return "", fmt.Errorf("field %s is not imitated", v.ValueFrom.FieldRef.FieldPath)
		}
		return value, nil
	case v.ValueFrom.SecretKeyRef != nil:
		ref := v.ValueFrom.SecretKeyRef
		secret, err := s.Lab.Kube().CoreV1().Secrets(d.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("reading its Secret: %w", err)
		}
		return string(secret.Data[ref.Key]), nil
	}
	return "", errors.New("its source is not imitated")
}

// mountToken gives a pod what it says of itself to the apiserver: a token that the apiserver has made for its service account.
func (s *Site) mountToken(ctx context.Context, namespace, account string, p *pod) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	token, err := s.Lab.Kube().CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of service account %q: %w", account, err)
	}
	folder := filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "pods", p.name)
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
	return s.Lab.MountOn(p.node, folder, tokenFolder)
}

// probeURL is where a container says whether it is ready.
func (s *Site) probeURL(container *corev1.Container, node string) (string, error) {
	if container.ReadinessProbe == nil {
		return "", nil
	}
	get := container.ReadinessProbe.HTTPGet
	if get == nil {
		return "", errors.New("a readiness probe without httpGet is not imitated")
	}
	port := get.Port.IntValue()
	for _, named := range container.Ports {
		if get.Port.Type == intstr.String && named.Name == get.Port.StrVal {
			port = int(named.ContainerPort)
		}
	}
	return "http://" + net.JoinHostPort(s.Lab.Address(node).String(), strconv.Itoa(port)) + get.Path, nil
}

// ready asks the readiness probe; without one, who runs is ready.
func (p *pod) ready(ctx context.Context) bool {
	if p.endedFor() > 0 {
		return false
	}
	if p.probe == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.probe, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode < http.StatusBadRequest
}

// endedFor is how long ago the process has ended, 0 if it runs.
func (p *pod) endedFor() time.Duration {
	select {
	case <-p.ended:
		return max(time.Since(p.endedAt), 1)
	default:
		return 0
	}
}

// stop ends the process as a kubelet does.
func (p *pod) stop() {
	defer p.gone()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(p.grace):
		p.kill()
	}
}

func (p *pod) kill() {
	defer p.gone()
	_ = p.cmd.Process.Kill()
	<-p.ended
}
