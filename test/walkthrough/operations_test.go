//go:build linux

package walkthrough

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
)

const nextKey = "rrpool-e2e-next-api-key-77aa01"

// Whoever operates rrpool as the page says, from its installation as docs/install.md says to its end, gets what the page promises, and
// loses nothing.
func TestOperations(t *testing.T) {
	skipWalk(t)
	ctx, s := site.ForTest(t, site.Options{MeshPassword: "s3cret", Bare: true, Pods: true})
	o := &operator{walker: newWalker(t, s), ctx: ctx, page: blocksOf(t, "docs/operations.md", `ibmcloud ks worker ls --cluster "$cluster" --worker-pool "$pool"`), done: map[int]bool{}}
	o.before, o.begun, o.objects = expect.BGPConfiguration(t, s), time.Now(), o.inventory()
	o.install(s.StartRuntime())

	o.doing("Install")
	o.follow("Operations", "keyfile=")
	o.follow("Install", "mode: Paused")
	// The manager has said what it would do, and neither the cluster nor the cloud was changed.
	o.requireSaid(`"name":"EnsurePool"`)
	require.Never(o, func() bool { return len(o.changes(o.begun)) > 0 }, 2*time.Second, 500*time.Millisecond)
	_, mutations, _ := o.site.Cloud.Counts()
	require.Zero(o, mutations)
	require.Equal(o, []string{"default"}, o.site.Cloud.Pools(site.ClusterID))
	o.follow("Install", `"mode":"RouteReflector"`)
	expect.Reflected(t, s, s.Reflectors()...)
	requireDeployedManagerDidIt(t, s, o.begun)

	o.doing("See what it does")
	o.follow("See what it does", "rrpool status")
	o.requireSeen()
	o.requireScrape(false)
	o.follow("See what it does", "clusterrolebinding")
	o.requireScrape(true)

	o.doing("Upgrade rrpool")
	undisturbed := o.requireUndisturbed()
	replaced := o.requireReplaced()
	// What a person does to their own kustomization for a new version.
	path := filepath.Join(o.dir, "repository", "mycluster", "kustomization.yaml")
	content, err := os.ReadFile(path)
	require.NoError(o, err)
	require.Contains(o, string(content), "newTag: v0.1.0")
	o.write("mycluster/kustomization.yaml", strings.Replace(string(content), "newTag: v0.1.0", "newTag: v0.2.0", 1))
	o.follow("Upgrade rrpool", "kubectl apply -k")
	replaced("v0.2.0")
	o.follow("Upgrade rrpool", "rrpool plan")
	// The exit code of a plan with changes is 2.
	out, err := o.site.Command(o.ctx, "plan").CombinedOutput()
	require.NoError(o, err, "%s", out)

	o.doing("Rotate the key")
	o.rotateKey()

	o.requireMistakesFail()
	undisturbed()
	o.doing("Change the session password")
	o.changePassword()

	o.doing("Pause")
	o.follow("Pause", "Paused")
	goesOff := o.requirePauseHolds()
	o.follow("Pause", "rrpool migrate")
	goesOff()

	o.doing("Take me back")
	o.follow("Take me back")
	o.requireBack(site.PoolName)

	o.doing("Delete")
	o.follow("Install")
	expect.Reflected(t, s, s.Reflectors()...)
	o.follow("Pause", "Paused")
	o.follow("Delete", "kubectl delete")
	// The object is gone, which the manager has let go; the manager itself is there.
	_, err = o.site.Pool(o.ctx)
	require.True(o, apierrors.IsNotFound(err), "%v", err)
	require.Len(o, o.pods(), 2)
	o.requireBack(site.PoolName)

	o.doing("Uninstall")
	o.follow("Install", "mode: Paused")
	o.requireFinalizer(false)
	o.follow("Take me back")
	o.requireFinalizer(true)
	o.follow("Delete", "deletionPolicy")
	o.follow("Uninstall")
	o.requireBack()
	// There is nothing that was not there before.
	require.Empty(o, slices.DeleteFunc(o.inventory(), func(name string) bool { return slices.Contains(o.objects, name) }))
	// Since the old key is void the cloud has let the manager in again, and neither key was ever shown.
	require.Greater(o, o.logins(), o.revoked)
	log, err := o.site.ManagerLog()
	require.NoError(o, err)
	require.NotContains(o, log, nextKey)

	for _, b := range o.page {
		require.True(o, b.Place == Nowhere || o.done[b.Line], "line %d, under %q, was not typed: %s", b.Line, b.Heading, b.First())
	}
	expect.NothingLost(t, s)
}

// install types what docs/install.md says about kustomize, and about the key.
func (o *operator) install(runtime *site.Runtime) {
	o.Helper()
	o.write("my-api-key", site.APIKey+"\n")
	source, err := os.ReadFile(filepath.Join("..", "..", "docs", "install.md"))
	require.NoError(o, err)
	blocks, err := Blocks(source)
	require.NoError(o, err)
	for _, words := range []string{"registry=", "kubectl apply -k mycluster", "kubectl create -k config/overlays/iks/secret"} {
		o.walk([]Block{blockWith(o.T, blocks, words)})
	}
	// As rollout status waits for it.
	require.EventuallyWithT(o, func(c *assert.CollectT) {
		d, err := o.site.Lab.Kube().AppsV1().Deployments(site.Namespace).Get(o.ctx, "rrpool-manager", metav1.GetOptions{})
		require.NoError(c, err)
		require.EqualValues(c, 2, d.Status.AvailableReplicas)
		require.NoError(c, runtime.Err())
	}, patience, 200*time.Millisecond)
}

// changePassword has every session restart with the new one, which calico-node alone was let to read.
func (o *operator) changePassword() {
	o.Helper()
	o.requireReads("bgp-2", false)
	o.follow("Change the session password", "create secret")
	o.requireReads("bgp-2", true)
	restarted := o.requireRestarted()
	o.follow("Change the session password", "passwordSecretRef")
	expect.Reflected(o.T, o.site, o.site.Reflectors()...)
	restarted("bgp-2")
}

// rotateKey: while both keys are valid a new one is put in, first a wrong one, which is reported, then the right one; then the old one is
// revoked.
func (o *operator) rotateKey() {
	o.Helper()
	o.site.Cloud.SetAPIKeys(site.APIKey, nextKey)
	o.write("apikey", "mistyped\n")
	o.follow("Rotate the key", "kubectl replace")
	o.requireProvider(metav1.ConditionFalse, "CloudUnauthorized")
	o.write("apikey", nextKey+"\n")
	asked := o.logins()
	o.follow("Rotate the key", "kubectl replace")
	o.requireKey(nextKey)
	o.requireProvider(metav1.ConditionTrue, "PoolReady")
	require.Greater(o, o.logins(), asked)
	o.follow("Rotate the key", "ProviderReady")
	o.requireSaid(`"status":"True"`)
	o.site.Cloud.SetAPIKeys(nextKey)
	o.site.Cloud.ExpireTokens()
	o.revoked = o.logins()
}

// requireMistakesFail types blocks with a mistake, at desks of their own: none passes for done, and what they would have changed is as
// it was.
func (o *operator) requireMistakesFail() {
	o.Helper()
	for right, wrong := range map[string]string{
		"kubectl diff -k mycluster": "kubectl diff -k nowhere", `"mode":"Paused"`: `"mode":"Pause"`, "passwordSecretRef": "passwordSecretRefs",
		"rollback --yes": "rollback",
	} {
		b := blockWith(o.T, o.page, right)
		b.Text = o.page[0].Text + strings.Replace(b.Text, right, wrong, 1)
		require.Error(o, newWalker(o.T, o.site).typed(o.ctx, b), wrong)
	}
}

func (o *operator) write(name, content string) {
	o.Helper()
	require.NoError(o, os.WriteFile(filepath.Join(o.dir, "repository", name), []byte(content), 0o600))
}

// doing begins a part: what is lost from here on is lost in it.
func (o *operator) doing(part string) {
	o.Logf("=== %s, after %s", part, time.Since(o.begun).Round(time.Second))
	o.site.Lab.Checkpoint(part)
}

// follow types the blocks under a heading, in their order: those that have these words in them, or all.
func (o *operator) follow(heading string, words ...string) {
	o.Helper()
	typed := slices.DeleteFunc(slices.Clone(o.page), func(b Block) bool {
		return b.Heading != heading || len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(b.Text, w) })
	})
	require.NotEmpty(o, typed, "no block under %q has %q", heading, words)
	for _, b := range typed {
		o.done[b.Line] = true
	}
	o.walk(typed)
}
