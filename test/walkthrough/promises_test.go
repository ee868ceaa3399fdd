//go:build linux

package walkthrough

import (
	"context"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// operator types docs/operations.md, and looks what comes of it.
type operator struct {
	*walker
	ctx    context.Context
	page   []Block
	done   map[int]bool
	before *apiv3.BGPConfiguration
	begun  time.Time
	// objects are what there was before anything was installed.
	objects []string
	// revoked is how often the cloud had let a client in when the old key was revoked.
	revoked int
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
		expect.Reflected(o.T, o.site, o.site.Reflectors()...)
	}
}

// requireBack: the mesh is as it was before, and of the pools these are left besides the default one.
func (o *operator) requireBack(pools ...string) {
	o.Helper()
	expect.Meshed(o.T, o.site, o.before)
	require.True(o, *o.before.Spec.NodeToNodeMeshEnabled)
	require.Equal(o, append([]string{"default"}, pools...), o.site.Cloud.Pools(site.ClusterID))
}

// requireFinalizer: the object is held until the mesh is back, or not.
func (o *operator) requireFinalizer(held bool) {
	o.Helper()
	pool, err := o.site.Pool(o.ctx)
	require.NoError(o, err)
	require.Equal(o, held, slices.Contains(pool.Finalizers, v1alpha1.Finalizer))
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

// sessions are all sessions of the cluster, which are Established.
func (o *operator) sessions() map[string]lab.Session {
	o.Helper()
	out := map[string]lab.Session{}
	for _, node := range o.site.Lab.Nodes() {
		sessions, err := o.site.Lab.Sessions(node)
		require.NoError(o, err)
		for _, s := range sessions {
			require.True(o, s.Established(), "%s: %+v", node, s)
			out[node+" "+s.Name] = s
		}
	}
	require.NotEmpty(o, out)
	return out
}

// restarted are those of the sessions of before that are not there, or have begun anew.
func (o *operator) restarted(before map[string]lab.Session) []string {
	o.Helper()
	var out []string
	is := o.sessions()
	for name, session := range before {
		if !session.Same(is[name]) {
			out = append(out, name)
		}
	}
	return out
}

// requireUndisturbed gives a check that routing has not noticed anything since: every session is the one that it was, and nothing of
// BGP was written.
func (o *operator) requireUndisturbed() (check func()) {
	o.Helper()
	was, since := o.sessions(), time.Now()
	return func() {
		o.Helper()
		require.Empty(o, o.restarted(was))
		require.Empty(o, o.changes(since))
	}
}

func (o *operator) leader() string {
	o.Helper()
	lease, err := o.site.Lab.Kube().CoordinationV1().Leases(site.Namespace).Get(o.ctx, "rrpool-manager", metav1.GetOptions{})
	require.NoError(o, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// requireReplaced gives a check that the managers are others since, of this version, that another one has the lease, and that the key is
// the same.
func (o *operator) requireReplaced() (check func(version string)) {
	o.Helper()
	was, held := map[string]bool{}, o.leader()
	for _, pod := range o.pods() {
		was[pod.Name] = true
	}
	require.Len(o, was, 2)
	return func(version string) {
		o.Helper()
		pods := o.pods()
		require.Len(o, pods, 2)
		for _, pod := range pods {
			require.False(o, was[pod.Name], pod.Name)
			require.Equal(o, "us.icr.io/mynamespace/rrpool-manager:"+version, pod.Spec.Containers[0].Image)
		}
		soon(o.T, func(c *assert.CollectT) {
			require.NotContains(c, []string{held, ""}, o.leader())
		})
		o.requireKey(site.APIKey)
	}
}

// requireKey: the Secret holds this key, and shows it nowhere else.
func (o *operator) requireKey(key string) {
	o.Helper()
	secret, err := o.site.Lab.Kube().CoreV1().Secrets(site.Namespace).Get(o.ctx, "rrpool-ibmcloud", metav1.GetOptions{})
	require.NoError(o, err)
	require.Equal(o, key+"\n", string(secret.Data["apikey"]))
	require.Empty(o, secret.Annotations)
}

// requireProvider waits until the manager says this of the cloud, which it does within seconds.
func (o *operator) requireProvider(status metav1.ConditionStatus, reason string) {
	o.Helper()
	begun := time.Now()
	soon(o.T, func(c *assert.CollectT) {
		pool, err := o.site.Pool(o.ctx)
		require.NoError(c, err)
		condition := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionProviderReady)
		require.NotNil(c, condition)
		require.Equal(c, []any{status, reason}, []any{condition.Status, condition.Reason})
	})
	o.Logf("ProviderReady is %s, %s after %s", status, reason, time.Since(begun).Round(100*time.Millisecond))
}

func (o *operator) logins() int {
	n := 0
	for _, r := range o.site.Cloud.Requests() {
		if r.Token() && r.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// requireReads: calico-node may, or may not, read a Secret, as confd does.
func (o *operator) requireReads(secret string, may bool) {
	o.Helper()
	for _, verb := range []string{"get", "list", "watch"} {
		o.requireMay(may, authorizationv1.SubjectAccessReviewSpec{
			User:               controlplane.ServiceAccountUser("kube-system", "calico-node"),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: verb, Resource: "secrets", Name: secret},
		})
	}
}

// requireScrape: Prometheus' service account may, or may not, read the metrics. That the managers ask for that is their own test's business.
func (o *operator) requireScrape(may bool) {
	o.Helper()
	o.requireMay(may, authorizationv1.SubjectAccessReviewSpec{
		User:                  controlplane.ServiceAccountUser("monitoring", "prometheus-k8s"),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	})
}

// requireMay asks the apiserver, to which a new binding is known after a moment.
func (o *operator) requireMay(may bool, what authorizationv1.SubjectAccessReviewSpec) {
	o.Helper()
	soon(o.T, func(c *assert.CollectT) {
		review, err := o.site.Lab.Kube().AuthorizationV1().SubjectAccessReviews().Create(o.ctx, &authorizationv1.SubjectAccessReview{Spec: what}, metav1.CreateOptions{})
		require.NoError(c, err)
		require.Equal(c, may, review.Status.Allowed, "%+v", what)
	})
}

// requireRestarted gives a check that every session has begun anew since, with the password of this Secret.
func (o *operator) requireRestarted() (check func(secret string)) {
	o.Helper()
	was := o.sessions()
	return func(name string) {
		o.Helper()
		secret, err := o.site.Lab.Kube().CoreV1().Secrets("kube-system").Get(o.ctx, name, metav1.GetOptions{})
		require.NoError(o, err)
		password := string(secret.Data["password"])
		require.Regexp(o, "^[A-Za-z0-9]{40}$", password)
		require.Len(o, o.sessions(), len(was))
		require.ElementsMatch(o, slices.Collect(maps.Keys(was)), o.restarted(was))
		for _, node := range o.site.Lab.Nodes() {
			config, err := o.site.Lab.BIRDConfig(node)
			require.NoError(o, err)
			require.Contains(o, config, `password "`+password+`";`, node)
			require.NotContains(o, config, "s3cret", node)
		}
	}
}

// requireSeen: what was asked for was shown, and the files are there.
func (o *operator) requireSeen() {
	o.Helper()
	o.requireSaid("√ Ready: 3 route reflectors serve 6 nodes", "Sessions   24 of 24 Established", "USD/MONTH", "Conditions")
	picture, err := os.ReadFile(filepath.Join(o.dir, "repository", "topology.dot"))
	require.NoError(o, err)
	for _, name := range o.site.Reflectors() {
		require.Contains(o, string(picture), name)
	}
	report := o.report()
	require.Contains(o, report, "index.txt")
	require.Contains(o, report["snapshot.yaml"], "Steady")
	for _, pod := range o.pods() {
		o.requireSaid("[pod/" + pod.Name + "/manager]")
		require.NotEmpty(o, report["logs/"+pod.Name+"/manager.log"])
	}
	for name, content := range report {
		require.NotContains(o, content, site.APIKey, name)
		require.NotContains(o, content, "s3cret", name)
	}
}

func (o *operator) report() map[string]string {
	o.Helper()
	folder := o.TempDir()
	out, err := exec.CommandContext(o.ctx, "bash", "-c", "tar -xzf "+filepath.Join(o.dir, "repository", "rrpool-report-*.tar.gz")+" --strip-components=1 -C "+folder).CombinedOutput()
	require.NoError(o, err, "%s", out)
	files := map[string]string{}
	require.NoError(o, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder+"/")] = string(content)
		return err
	}))
	return files
}

func (o *operator) pods() []corev1.Pod {
	o.Helper()
	list, err := o.site.Lab.Kube().CoreV1().Pods(site.Namespace).List(o.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=rrpool"})
	require.NoError(o, err)
	return list.Items
}
