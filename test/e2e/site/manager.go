//go:build linux

package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

const (
	// ServiceAccount is the manager's.
	ServiceAccount = "rrpool-manager"
	// Metrics is where the manager serves its metrics.
	Metrics = "127.0.0.1:8443"
	// Probes is where the manager serves healthz and readyz.
	Probes = "127.0.0.1:8081"
)

// User returns the manager's user name in the audit log.
func User() string { return controlplane.ServiceAccountUser(Namespace, ServiceAccount) }

// ManagerEnded reports whether the manager that was started last has ended by itself, as one that loses its lease does. The caller then starts it
// again, as a kubelet does.
func (s *Site) ManagerEnded() bool {
	if s.manager == nil || s.manager.Running() {
		return false
	}
	s.manager = nil
	return true
}

// file returns the path of a file in the site's folder.
func (s *Site) file(name string) string { return filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), name) }

// StartManager starts the manager with only the rights of its service account, and with further flags. Its log is appended to that of earlier
// managers. A killed manager's lease stays: with --leader-elect=false the next one need not wait for it.
func (s *Site) StartManager(flags ...string) (err error) {
	config := s.Apiserver
	if config == nil {
		config = s.Lab.ControlPlane().ServiceAccountConfig(Namespace, ServiceAccount)
	}
	kubeconfig := s.file("manager.kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	cmd := exec.Command(programs.Path("manager"), "--kubeconfig", kubeconfig, "--namespace", Namespace, //nolint:gosec // G204: ours
		"--metrics-bind-address="+Metrics, "--health-probe-bind-address="+Probes)
	cmd.Args = append(cmd.Args, flags...)
	cmd.Env = append(s.Environment(), "PATH=/nonexistent", "HOME=/nonexistent")
	s.manager, err = controlplane.StartProcess(cmd, s.file("manager.log"), nil)
	return err
}

// Environment returns the variables with the cloud's endpoints, if there is a cloud.
func (s *Site) Environment() []string {
	if s.Cloud == nil {
		return s.Lab.Datastore()
	}
	return []string{"IBMCLOUD_CS_API_ENDPOINT=" + s.endpoint + "/global", "IBMCLOUD_IAM_API_ENDPOINT=" + s.endpoint}
}

// KillManager ends the manager as kill -9 does.
func (s *Site) KillManager() {
	s.manager.Kill()
	s.manager = nil
}

// ManagerLog returns the log of all managers so far.
func (s *Site) ManagerLog() (string, error) {
	logs, err := filepath.Glob(s.file("*manager*.log"))
	var all strings.Builder
	for _, log := range logs {
		content, readErr := os.ReadFile(log) //nolint:gosec // G304: ours
		err = errors.Join(err, readErr)
		all.Write(content)
	}
	return all.String(), err
}

// Command returns a command of rrpool with an administrator's kubeconfig. It is interrupted, as by Ctrl-C, when ctx ends. programs.Build must
// have built rrpool.
func (s *Site) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, programs.Path("rrpool"), args...) //nolint:gosec // G204: ours
	cmd.Env = append(s.Environment(), "PATH=/nonexistent", "HOME=/nonexistent", "KUBECONFIG="+s.Lab.Kubeconfig())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// The label and annotation of a reflector, with the API's default label.
const (
	roleLabel           = "rrpool.io/route-reflector"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
)

// CreatePool creates the RouteReflectorPool, with ExistingNodes if there is no cloud. edit may change it before.
func (s *Site) CreatePool(ctx context.Context, edit func(*v1alpha1.RouteReflectorPool)) error {
	o := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	if s.Cloud == nil {
		o.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
	}
	if edit != nil {
		edit(o)
	}
	return s.Client.Create(ctx, o)
}

// Pool returns the RouteReflectorPool.
func (s *Site) Pool(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	o := &v1alpha1.RouteReflectorPool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, o); err != nil {
		return nil, fmt.Errorf("reading the RouteReflectorPool: %w", err)
	}
	return o, nil
}

// Reflectors returns the nodes of the dedicated pool's workers. Without a cloud see CurrentReflectors.
func (s *Site) Reflectors() []string {
	var names []string
	for _, w := range s.Cloud.Workers(ClusterID, PoolName) {
		names = append(names, w.IP)
	}
	return names
}

// CurrentReflectors returns the nodes that have both role label and cluster ID, sorted by name.
func (s *Site) CurrentReflectors(ctx context.Context) ([]string, error) {
	if s.options.Lab.Etcd {
		return s.currentInEtcd(ctx)
	}
	nodes, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: roleLabel})
	if err != nil {
		return nil, fmt.Errorf("listing the reflectors: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[clusterIDAnnotation] != "" {
			names = append(names, nodes.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (s *Site) currentInEtcd(ctx context.Context) (names []string, err error) {
	nodes, err := s.Lab.Calico().Nodes().List(ctx, options.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the reflectors: %w", err)
	}
	for i := range nodes.Items {
		if _, has := nodes.Items[i].Labels[roleLabel]; has && nodes.Items[i].Spec.BGP.RouteReflectorClusterID != "" {
			names = append(names, nodes.Items[i].Spec.OrchRefs[0].NodeName)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Edit patches the RouteReflectorPool's spec.
func (s *Site) Edit(ctx context.Context, edit func(*v1alpha1.RouteReflectorPoolSpec)) error {
	o, err := s.Pool(ctx)
	if err != nil {
		return err
	}
	before := o.DeepCopy()
	edit(&o.Spec)
	return s.Client.Patch(ctx, o, client.MergeFrom(before))
}

// SetMode changes spec.mode.
func (s *Site) SetMode(ctx context.Context, mode v1alpha1.Mode) error {
	return s.Edit(ctx, func(spec *v1alpha1.RouteReflectorPoolSpec) { spec.Mode = mode })
}

// WaitFor waits until is accepts the RouteReflectorPool. The error of a time-out describes its last state.
func (s *Site) WaitFor(ctx context.Context, what string, is func(*v1alpha1.RouteReflectorPool) bool) error {
	var last *v1alpha1.RouteReflectorPool
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if o, err := s.Pool(ctx); err == nil {
			if last = o; is(o) {
				return true, nil
			}
		}
		if s.ManagerEnded() {
			return false, errors.New("the manager ended: see its log")
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; last: %s", what, err, Describe(last))
	}
	return nil
}

// WaitReady waits until the manager has seen the newest spec and reports Ready.
func (s *Site) WaitReady(ctx context.Context) error {
	return s.WaitFor(ctx, "Ready", func(o *v1alpha1.RouteReflectorPool) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.Generation &&
			o.Status.ObservedGeneration == o.Generation
	})
}

// Describe returns a RouteReflectorPool's state in one line.
func Describe(o *v1alpha1.RouteReflectorPool) string {
	if o == nil {
		return "no RouteReflectorPool"
	}
	out := fmt.Sprintf("step %s (%s), waiting for %q", o.Status.Step.Name, o.Status.Step.Reason, o.Status.Step.WaitingFor)
	for _, c := range o.Status.Conditions {
		out += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return out
}

// Events returns the events about the RouteReflectorPool after since, in order.
func (s *Site) Events(ctx context.Context, since time.Time) ([]eventsv1.Event, error) {
	list, err := s.Lab.Kube().EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=RouteReflectorPool"})
	if err != nil {
		return nil, fmt.Errorf("listing the events: %w", err)
	}
	events := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return !e.EventTime.After(since) })
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return events, nil
}
