//go:build linux

package walkthrough

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
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
	ctx    context.Context //nolint:containedctx // of the test
	page   []Block
	done   map[int]bool
	before any // the BGPConfiguration
	begun  time.Time
	// revoked is how often the cloud had let somebody in when the old key was revoked.
	revoked int
}

// soonReady waits for the Deployment, as rollout status does.
func soonReady(o *operator, runtime *site.Runtime) {
	o.Helper()
	require.EventuallyWithT(o, func(c *assert.CollectT) {
		d, err := o.site.Lab.Kube().AppsV1().Deployments(site.Namespace).Get(o.ctx, "rrpool-manager", metav1.GetOptions{})
		require.NoError(c, err)
		require.EqualValues(c, 2, d.Status.AvailableReplicas)
		require.NoError(c, runtime.Err())
	}, time.Minute, 200*time.Millisecond)
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

// requireSeen: what was asked for was told, and the files are there.
func (o *operator) requireSeen() {
	o.Helper()
	o.requireSaid("√ Ready: 3 route reflectors serve 6 nodes", "Sessions   24 of 24 Established", "USD/MONTH", "Conditions")
	picture, err := os.ReadFile(filepath.Join(o.dir, "repository", "topology.svg"))
	require.NoError(o, err)
	for _, name := range o.site.Reflectors() {
		require.Contains(o, string(picture), name)
	}
	report := o.report()
	require.Contains(o, report, "index.txt")
	require.Contains(o, report["survey.json"], "Steady")
	for _, pod := range o.pods() {
		o.requireSaid("[pod/" + pod.Name + "/manager]")
		require.NotEmpty(o, report["logs/"+pod.Name+"/manager.log"])
	}
	for name, content := range report {
		require.NotContains(o, content, site.APIKey, name)
		require.NotContains(o, content, "s3cret", name)
	}
}

// report is what the archive holds.
func (o *operator) report() map[string]string {
	o.Helper()
	archives, err := filepath.Glob(filepath.Join(o.dir, "repository", "rrpool-report-*.tar.gz"))
	require.NoError(o, err)
	require.Len(o, archives, 1)
	file, err := os.Open(archives[0])
	require.NoError(o, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(o, err)
	out := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(o, err)
		content, err := io.ReadAll(archive)
		require.NoError(o, err)
		_, name, _ := strings.Cut(header.Name, "/")
		out[name] = string(content)
	}
}

// pods are the manager's.
func (o *operator) pods() []corev1.Pod {
	o.Helper()
	list, err := o.site.Lab.Kube().CoreV1().Pods(site.Namespace).List(o.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=rrpool"})
	require.NoError(o, err)
	return list.Items
}

// requireScrape: Prometheus' service account gets the metrics of both managers, or of none.
func (o *operator) requireScrape(may bool) {
	o.Helper()
	kube := o.site.Lab.Kube().CoreV1()
	if !may {
		_, err := kube.Namespaces().Create(o.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}, metav1.CreateOptions{})
		require.NoError(o, err)
		_, err = kube.ServiceAccounts("monitoring").Create(o.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus-k8s"}}, metav1.CreateOptions{})
		require.NoError(o, err)
	}
	token, err := kube.ServiceAccounts("monitoring").CreateToken(o.ctx, "prometheus-k8s", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(o, err)
	scraper := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // G402: as the page says of the certificate
	defer scraper.CloseIdleConnections()
	for _, pod := range o.pods() {
		soon(o.T, func(c *assert.CollectT) { // what was refused is remembered for a while
			request, err := http.NewRequestWithContext(o.ctx, http.MethodGet, "https://"+pod.Status.PodIP+":8443/metrics", http.NoBody)
			require.NoError(c, err)
			request.Header.Set("Authorization", "Bearer "+token.Status.Token)
			response, err := scraper.Do(request)
			require.NoError(c, err)
			content, err := io.ReadAll(response.Body)
			require.NoError(c, errors.Join(err, response.Body.Close()))
			if !may {
				require.Equal(c, http.StatusForbidden, response.StatusCode, pod.Name)
				return
			}
			require.Equal(c, http.StatusOK, response.StatusCode, pod.Name)
			require.Contains(c, string(content), "rrpool_")
		})
	}
}

// sessions are all sessions of the cluster that are Established, and since when, as BIRD has it: by a clock of whole seconds, of which
// it has two.
func (o *operator) sessions() map[string]time.Time {
	o.Helper()
	out := map[string]time.Time{}
	for _, node := range o.site.Lab.Nodes() {
		sessions, err := o.site.Lab.Sessions(node)
		require.NoError(o, err)
		for _, s := range sessions {
			require.True(o, s.Established(), "%s: %+v", node, s)
			since, err := time.Parse(time.TimeOnly, s.Since)
			require.NoError(o, err)
			out[node+" "+s.Name] = since
		}
	}
	require.NotEmpty(o, out)
	return out
}

// restarted are those of the sessions of before that are not there, or have begun anew. A session that restarts needs seconds for it.
func (o *operator) restarted(before map[string]time.Time) []string {
	o.Helper()
	var out []string
	is := o.sessions()
	for name, since := range before {
		if now, there := is[name]; !there || now.Sub(since).Abs() > time.Second {
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

// requireReplaced gives a check that the managers are others since, of this version, and that one of them has the lease.
func (o *operator) requireReplaced() (check func(version string)) {
	o.Helper()
	was := map[string]bool{}
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
		o.requireKey(site.APIKey)
	}
}

// requireNothingPlanned: the exit code of a plan with changes is 2.
func (o *operator) requireNothingPlanned() {
	o.Helper()
	out, err := o.site.Command(o.ctx, "plan").CombinedOutput()
	require.NoError(o, err, "%s", out)
}

// requireKey: the Secret holds this key, and shows it nowhere else.
func (o *operator) requireKey(key string) {
	o.Helper()
	secret, err := o.site.Lab.Kube().CoreV1().Secrets(site.Namespace).Get(o.ctx, "rrpool-ibmcloud", metav1.GetOptions{})
	require.NoError(o, err)
	require.Equal(o, key+"\n", string(secret.Data["apikey"]))
	require.Empty(o, secret.Annotations)
}

// logins is how often the cloud has taken a key.
func (o *operator) logins() int {
	n := 0
	for _, r := range o.site.Cloud.Requests() {
		if r.Token() && r.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// requireRevoked: since the old key is void the cloud has let the manager in again, and neither key was ever told.
func (o *operator) requireRevoked() {
	o.Helper()
	require.Greater(o, o.logins(), o.revoked)
	log, err := o.site.ManagerLog()
	require.NoError(o, err)
	require.NotContains(o, log, nextKey)
}

// requireReads: calico-node may, or may not, read a Secret, as confd does.
func (o *operator) requireReads(secret string, may bool) {
	o.Helper()
	for _, verb := range []string{"get", "list", "watch"} {
		review, err := o.site.Lab.Kube().AuthorizationV1().SubjectAccessReviews().Create(o.ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               controlplane.ServiceAccountUser("kube-system", "calico-node"),
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: verb, Resource: "secrets", Name: secret},
			},
		}, metav1.CreateOptions{})
		require.NoError(o, err)
		require.Equal(o, may, review.Status.Allowed, verb)
	}
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

// requirePauseHolds switches the mesh on behind the manager's back: it says so, and leaves it at that. The check afterwards is that the
// mesh goes off once somebody goes on.
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

// requireGone: the object, which the manager has let go; the manager itself is there.
func (o *operator) requireGone() {
	o.Helper()
	_, err := o.site.Pool(o.ctx)
	require.True(o, apierrors.IsNotFound(err), "%v", err)
	require.Len(o, o.pods(), 2)
}

// requireUninstalled: nothing of what was installed is there, the kind neither.
func (o *operator) requireUninstalled() {
	o.Helper()
	_, err := o.site.Pool(o.ctx)
	require.True(o, meta.IsNoMatchError(err) || apierrors.IsNotFound(err), "%v", err)
	_, err = o.site.Lab.Kube().CoreV1().Namespaces().Get(o.ctx, site.Namespace, metav1.GetOptions{})
	require.True(o, apierrors.IsNotFound(err), "%v", err)
	require.Empty(o, o.pods())
	left, err := o.site.Lab.Kube().RbacV1().ClusterRoles().List(o.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=rrpool"})
	require.NoError(o, err)
	require.Empty(o, left.Items)
}
