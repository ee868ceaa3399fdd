package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
	"github.com/rrpool/rrpool/test/iksserver"
)

// speed is how much faster than real time the managers of these tests run. Above it a
// busy machine's answers come too late by their clocks.
const speed = 10

// environment is a cluster whose managers are killed, held up and replaced. Its scenarios
// follow each other: each leaves the cluster as it was.
type environment struct {
	*testing.T
	kind     v1alpha1.ProviderType
	plane    *controlplane.ControlPlane
	admin    client.Client
	cloud    *iksserver.Server
	clock    fastClock
	net      *fakeNetwork
	between  *intercept.Interceptor
	identity *rest.Config
	// managers that run or ran in this scenario, the latest last.
	mu       sync.Mutex
	managers []*managerProcess
	args     []string
	// onWrite sees every write that was answered, if set.
	onWrite func(intercept.Request)
}

// managerProcess is a manager that is killed when its line is cut.
type managerProcess struct {
	*process
	name string
	line *intercept.Line
}

// newEnvironment has a cluster of six nodes, on IBM Cloud or elsewhere.
func newEnvironment(t *testing.T, kind v1alpha1.ProviderType) *environment {
	t.Helper()
	t.TempDir() // so that it goes after the managers, which log there
	a := &environment{T: t, kind: kind, clock: fastClock{epoch: time.Now(), speed: speed}, between: intercept.New()}
	if kind == v1alpha1.ProviderIKS {
		a.plane = auditedPlane(t)
		a.admin = adminOf(t, a.plane)
		cluster(t, a.admin)
	} else {
		a.plane, a.admin = busyCluster(t)
	}
	a.identity = a.plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	a.net = &fakeNetwork{Client: a.admin, now: a.clock.now}
	require.NoError(t, a.net.take(t.Context(), "the beginning"))
	a.between.Observe(func(r intercept.Request) {
		if r.Executed() && (r.Resource == "nodes" || r.Resource == "bgppeers" || r.Resource == "bgpconfigurations") {
			a.look(r.String())
		}
		if a.onWrite != nil {
			a.onWrite(r)
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	go a.net.run(ctx, 30*time.Millisecond)
	if kind != v1alpha1.ProviderIKS {
		go fakeKubelet(ctx, a.admin)
	}
	t.Cleanup(a.stopAll)
	return a
}

// look takes in what has just changed.
func (a *environment) look(why string) {
	if err := a.net.take(context.WithoutCancel(a.Context()), why); err != nil {
		a.Errorf("the network cannot see: %v", err)
	}
}

// begin prepares a scenario.
func (a *environment) begin() {
	a.Helper()
	a.between.Rules()
	a.between.Forget()
	a.args, a.clock.lease, a.onWrite = []string{"--leader-elect=false"}, 0, nil
	if a.kind == v1alpha1.ProviderIKS {
		a.cloud = cloudFor(a.T, watched{a.admin, a})
		return
	}
	ctx := a.Context()
	require.NoError(a, a.admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0)))
	for i := range 6 {
		for name, owner := range map[string]string{"web": "ReplicaSet", "log": "DaemonSet", "bare": ""} {
			runPod(a.T, a.admin, fmt.Sprintf("10.1.0.%d", i+1), fmt.Sprintf("%s-%d", name, i+1), owner)
		}
	}
}

// watched is an admin whose changes of nodes the network sees.
type watched struct {
	client.Client
	*environment
}

func (w watched) Status() client.SubResourceWriter {
	return watchedStatus{w.Client.Status(), w.environment}
}

func (w watched) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	defer w.look("node " + o.GetName() + " is gone")
	return w.Client.Delete(ctx, o, opts...)
}

type watchedStatus struct {
	client.SubResourceWriter
	*environment
}

func (w watchedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	defer w.look("node " + o.GetName() + " changes its mind")
	return w.SubResourceWriter.Update(ctx, o, opts...)
}

// start starts a manager.
func (a *environment) start() *managerProcess {
	a.Helper()
	m := &managerProcess{name: fmt.Sprintf("manager-%d", len(a.managers)+1)}
	var cloud *iksserver.Server
	if a.kind == v1alpha1.ProviderIKS {
		cloud = a.cloud
	}
	var err error
	m.line, err = a.between.Open(m.name, a.identity, cloud, func() { a.manager(m.name).Kill() })
	require.NoError(a, err)
	file := filepath.Join(a.TempDir(), m.name)
	require.NoError(a, controlplane.WriteKubeconfig(file, m.line.Config()))
	a.mu.Lock()
	defer a.mu.Unlock()
	m.process = launchInto(a.T, file+".log", []string{
		a.clock.variable(), "KUBECONFIG=" + file, "IBMCLOUD_CS_API_ENDPOINT=" + m.line.CloudURL(), "IBMCLOUD_IAM_API_ENDPOINT=" + m.line.CloudURL(),
	}, append([]string{
		"--namespace=" + testNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--zap-time-encoding=rfc3339nano",
	}, a.args...)...)
	a.managers = append(a.managers, m)
	return m
}

// manager gives the one of a line.
func (a *environment) manager(name string) *managerProcess {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.managers {
		if m.name == name {
			return m
		}
	}
	return nil
}

// alive are the managers that run.
func (a *environment) alive() (out []*managerProcess) {
	for _, m := range a.managers {
		if m.Running() {
			out = append(out, m)
		}
	}
	return out
}

// restart replaces the manager that was killed.
func (a *environment) restart() {
	a.Helper()
	if len(a.alive()) == 0 {
		a.start()
	}
}

// twoAlive replaces managers as a Deployment of two does.
func (a *environment) twoAlive() {
	a.Helper()
	for len(a.alive()) < 2 {
		a.start()
	}
}

// stopAll ends all managers, and looks into what they said.
func (a *environment) stopAll() {
	for _, m := range a.managers {
		m.Kill()
		m.line.Close()
		m.stop()
	}
	a.managers = nil
}

// object is the RouteReflectorPool as it is, or nil.
func (a *environment) object() *v1alpha1.RouteReflectorPool {
	a.Helper()
	o := &v1alpha1.RouteReflectorPool{}
	err := a.admin.Get(a.Context(), client.ObjectKey{Name: v1alpha1.SingletonName}, o)
	if client.IgnoreNotFound(err) != nil {
		require.NoError(a, err)
	}
	if err != nil {
		return nil
	}
	return o
}

// stepNow is the step in the object's status.
func (a *environment) stepNow() string {
	o := &v1alpha1.RouteReflectorPool{}
	if a.admin.Get(context.WithoutCancel(a.Context()), client.ObjectKey{Name: v1alpha1.SingletonName}, o) != nil {
		return ""
	}
	return o.Status.Step.Name
}

// waitFor waits for what managers do without an object.
func (a *environment) waitFor(what string, so func() bool) {
	a.Helper()
	require.Eventually(a, so, phaseTimeout, 20*time.Millisecond, what)
}

func rawMerge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// setReady makes a node Ready or not.
func (a *environment) setReady(name string, ready bool) {
	a.Helper()
	node := &corev1.Node{}
	require.NoError(a, a.admin.Get(a.Context(), client.ObjectKey{Name: name}, node))
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(a.clock.now()), Reason: "Test",
	}}
	require.NoError(a, a.admin.Status().Update(a.Context(), node))
	a.look(fmt.Sprintf("node %s is ready: %t", name, ready))
}
