//go:build linux

package walkthrough

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// operator types docs/operations.md, and looks what comes of it.
type operator struct {
	*walker
	ctx    context.Context
	page   []Block
	done   map[int]bool
	before any // the BGPConfiguration
	begun  time.Time
	// objects are what there was before anything was installed.
	objects []string
	// revoked is how often the cloud had let a client in when the old key was revoked.
	revoked int
}

// requireAvailable waits for the Deployment, as rollout status does.
func (o *operator) requireAvailable(runtime *site.Runtime) {
	o.Helper()
	require.EventuallyWithT(o, func(c *assert.CollectT) {
		d, err := o.site.Lab.Kube().AppsV1().Deployments(site.Namespace).Get(o.ctx, "rrpool-manager", metav1.GetOptions{})
		require.NoError(c, err)
		require.EqualValues(c, 2, d.Status.AvailableReplicas)
		require.NoError(c, runtime.Err())
	}, patience, 200*time.Millisecond)
}

// changes are the manager's writes, but for those that only say something.
func (o *operator) changes(since time.Time) []controlplane.AuditEvent {
	o.Helper()
	writes, err := o.site.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(o, err)
	var out []controlplane.AuditEvent
	for _, w := range writes {
		if !w.Lease() && w.Resource != "events" && w.Resource != "routereflectorpools/status" {
			out = append(out, w)
		}
	}
	return out
}

// requireIdle: the manager has said what it would do, and neither the cluster nor the cloud was changed.
func (o *operator) requireIdle(since time.Time, step string) {
	o.Helper()
	o.requireSaid(`"name":"` + step + `"`)
	require.Never(o, func() bool { return len(o.changes(since)) > 0 }, 2*time.Second, 500*time.Millisecond)
	_, mutations, _ := o.site.Cloud.Counts()
	require.Zero(o, mutations)
	require.Equal(o, []string{"default"}, o.site.Cloud.Pools(site.ClusterID))
}

// requireSaid: the block that was typed last has said this.
func (o *operator) requireSaid(words ...string) {
	o.Helper()
	soon(o.T, func(c *assert.CollectT) {
		for _, w := range words {
			require.Contains(c, o.said.text(), w)
		}
	})
}

// requirePauseHolds switches the mesh on behind the manager's back: it says so, and leaves it at that. The check afterwards is that the
// mesh goes off once a person goes on.
func (o *operator) requirePauseHolds() (goesOff func()) {
	o.Helper()
	require.NoError(o, o.site.WaitFor(o.ctx, "the pause", func(p *v1alpha1.RouteReflectorPool) bool { return p.Status.ObservedGeneration == p.Generation }))
	since := time.Now()
	configs := o.site.Lab.Calico().BGPConfigurations()
	config, err := configs.Get(o.ctx, "default", options.GetOptions{})
	require.NoError(o, err)
	require.False(o, *config.Spec.NodeToNodeMeshEnabled)
	config.Spec.NodeToNodeMeshEnabled, config.Spec.NodeMeshPassword = ptr.To(true), lab.PasswordRef()
	_, err = configs.Update(o.ctx, config, options.SetOptions{})
	require.NoError(o, err)
	require.NoError(o, o.site.WaitFor(o.ctx, "the mesh to be seen", func(p *v1alpha1.RouteReflectorPool) bool {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return ready.Reason == "Paused"
	}))
	off := func() bool {
		config, err := configs.Get(o.ctx, "default", options.GetOptions{})
		return err != nil || !*config.Spec.NodeToNodeMeshEnabled
	}
	require.Never(o, off, 3*time.Second, 500*time.Millisecond)
	require.Empty(o, o.changes(since))
	return func() {
		o.Helper()
		require.True(o, off())
		requireReflected(o.T, o.ctx, o.site, o.site.Reflectors()...)
	}
}

// requireBack: the mesh is as it was before, and of the pools these are left besides the default one.
func (o *operator) requireBack(pools ...string) {
	o.Helper()
	requireMeshed(o.T, o.ctx, o.site)
	require.Equal(o, o.before, bgpConfiguration(o.T, o.ctx, o.site))
	require.True(o, *o.before.(map[string]any)["spec"].(apiv3.BGPConfigurationSpec).NodeToNodeMeshEnabled)
	require.Equal(o, append([]string{"default"}, pools...), o.site.Cloud.Pools(site.ClusterID))
}

// requireFinalizer: the object is held until the mesh is back, or not.
func (o *operator) requireFinalizer(held bool) {
	o.Helper()
	pool, err := o.site.Pool(o.ctx)
	require.NoError(o, err)
	require.Equal(o, held, slices.Contains(pool.Finalizers, v1alpha1.Finalizer))
}

// requireGone: the object, which the manager has let go; the manager itself is there.
func (o *operator) requireGone() {
	o.Helper()
	_, err := o.site.Pool(o.ctx)
	require.True(o, apierrors.IsNotFound(err), "%v", err)
	require.Len(o, o.pods(), 2)
}

// inventory names all objects that something of ours, or of this page, could be among.
func (o *operator) inventory() []string {
	o.Helper()
	kinds := "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,secrets,serviceaccounts,configmaps,deployments,pods," +
		"poddisruptionbudgets,networkpolicies,leases,validatingadmissionpolicies,validatingadmissionpolicybindings"
	cmd := exec.CommandContext(o.ctx, filepath.Join(o.dir, "programs", "kubectl"), "get", kinds, "--all-namespaces", "--output",
		`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	cmd.Env = o.env
	out, err := cmd.Output()
	require.NoError(o, err, "%v", cmd.Args)
	names := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Greater(o, len(names), 50)
	return names
}

// requireUninstalled: there is nothing that was not there before.
func (o *operator) requireUninstalled() {
	o.Helper()
	require.Empty(o, slices.DeleteFunc(o.inventory(), func(name string) bool { return slices.Contains(o.objects, name) }))
}
