//go:build linux

package walkthrough

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

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

// leader is the manager that acts.
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

// requireRevoked: since the old key is void the cloud has let the manager in again, and neither key was ever shown.
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
