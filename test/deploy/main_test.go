// Package deploy_test holds what is deployed, and the pages that say how, to what a real apiserver says of them.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != nil {
		if err := shared.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// shared is the cluster of all tests that do not start their own. Both overlays are the same objects: what holds for one holds for the
// other.
var shared *cluster

// cluster is an apiserver with Calico's CRDs, and a user who may do everything.
type cluster struct {
	plane    *controlplane.ControlPlane
	client   dynamic.Interface
	mapper   meta.RESTMapper
	warnings *warnings
}

// start starts a cluster with nothing of ours in it. Whoever does so stops its plane.
func start(t *testing.T) *cluster {
	t.Helper()
	native := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), native))
	// What Calico's operator-crds.yaml installs: the operator's own kinds and all of Calico's.
	const name = "operator-crds.yaml"
	content, err := os.ReadFile(calicoManifest(t, name))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{dir, native}})
	require.NoError(t, err)
	c := &cluster{plane: plane, warnings: &warnings{}}
	config := plane.AdminConfig()
	config.WarningHandler = c.warnings
	c.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	http, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	c.mapper, err = apiutil.NewDynamicRESTMapper(config, http)
	require.NoError(t, err)
	return c
}

// calicoManifest is a file that Calico publishes, of the release that we build against.
func calicoManifest(t *testing.T, name string) string {
	t.Helper()
	crds, err := controlplane.CalicoCRDs(context.Background())
	require.NoError(t, err)
	return filepath.Join(crds, "..", "..", "..", "manifests", name)
}

type warnings struct {
	sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) all() []string {
	w.Lock()
	defer w.Unlock()
	return slices.Clone(w.texts)
}

func path(parts ...string) string {
	return filepath.Join(append([]string{programs.Root()}, parts...)...)
}

type object = unstructured.Unstructured

// kustomize and helmTool are the pinned tools, as make verify uses them.
var kustomize, helmTool = pinned("kustomize"), pinned("helm")

func pinned(tool string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		out, err := exec.Command("go", "-C", path("test", "tools", tool), "tool", "-n", tool).Output()
		return strings.TrimSpace(string(out)), err
	})
}

// built are the outputs of kustomize by folder: nothing changes while the tests run.
var built sync.Map

// build is what kustomize makes of a folder, in the order of its application.
func build(t *testing.T, overlay string) []*object {
	t.Helper()
	content, found := built.Load(overlay)
	if !found {
		content = kustomized(t, overlay)
		built.Store(overlay, content)
	}
	objects := decode(t, content.([]byte)) //nolint:forcetypeassert // nothing else is stored
	slices.SortStableFunc(objects, func(a, b *object) int { return rank(a) - rank(b) })
	return objects
}

func kustomized(t *testing.T, overlay string) []byte {
	t.Helper()
	tool, err := kustomize()
	require.NoError(t, err)
	command := exec.Command(tool, "build", path(overlay))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	content, err := command.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String(), "kustomize warns of something")
	return content
}

// rank puts first what others need in order to be accepted.
func rank(o *object) int {
	order := []string{"CustomResourceDefinition", "Namespace", "ServiceAccount", "Role", "ClusterRole"}
	if i := slices.Index(order, o.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}

func decode(t *testing.T, content []byte) []*object {
	t.Helper()
	out, err := controlplane.Objects(content)
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

func read(t *testing.T, name string) []*object {
	t.Helper()
	return decode(t, []byte(text(t, path(name))))
}

// of is where objects of this kind are, once the apiserver serves it.
func (c *cluster) of(t *testing.T, o *object) dynamic.ResourceInterface {
	t.Helper()
	kind := o.GroupVersionKind()
	var mapping *meta.RESTMapping
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		var err error
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(collect, err)
	}, 2*time.Minute, 50*time.Millisecond)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.client.Resource(mapping.Resource)
	}
	return c.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// options are those of kubectl apply --server-side, with every unknown field refused.
func options(dryRun ...string) metav1.PatchOptions {
	return metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun}
}

// apply applies one object, server-side. It waits for the apiserver to serve what a CustomResourceDefinition has just defined.
func (c *cluster) apply(t *testing.T, o *object, dryRun ...string) (*object, error) {
	t.Helper()
	content, err := json.Marshal(o)
	require.NoError(t, err)
	return c.of(t, o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, content, options(dryRun...))
}

// try is apply for something that the apiserver is to look at only.
func (c *cluster) try(t *testing.T, o *object) (*object, error) {
	t.Helper()
	return c.apply(t, o, metav1.DryRunAll)
}

// get gives an object as it is: a CustomResourceDefinition once the apiserver has taken it over
// into its status, which changes its version by itself.
func (c *cluster) get(t *testing.T, o *object) (found *object, err error) {
	t.Helper()
	at := c.of(t, o)
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		found, err = at.Get(context.Background(), o.GetName(), metav1.GetOptions{})
		require.True(collect, err != nil || takenOver(found))
	}, 2*time.Minute, 20*time.Millisecond)
	return found, err
}

// takenOver is false for a CustomResourceDefinition of which the apiserver has not yet said that
// its names are accepted and its kind is served.
func takenOver(o *object) bool {
	if o.GetKind() != "CustomResourceDefinition" {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return equality.Semantic.DeepEqual(at(o, "spec", "names"), at(o, "status", "acceptedNames")) &&
		slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		})
}

func convert[T any](t *testing.T, o *object) *T {
	t.Helper()
	out := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out))
	return out
}

func set(t *testing.T, o map[string]any, value any, fields ...string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedField(o, value, fields...))
}

// at is a field of an object, nil where there is none.
func at(o *object, path ...string) any {
	out, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return out
}

// deployed is the cluster that the tests share, with the overlays' objects. Who changes them applies them again.
func deployed(t *testing.T) (*cluster, []*object) {
	t.Helper()
	if shared == nil {
		shared = start(t)
		return applied(t)
	}
	return shared, build(t, iksOverlay)
}

// applied applies the objects as a user does: every one is tried first, which leaves nothing behind, then taken in.
func applied(t *testing.T) (*cluster, []*object) {
	t.Helper()
	c, objects := shared, build(t, iksOverlay)
	for _, o := range objects {
		_, before := c.get(t, o)
		_, err := c.try(t, o)
		require.NoError(t, err, "trying %s %s", o.GetKind(), o.GetName())
		_, after := c.get(t, o)
		require.Equal(t, apierrors.IsNotFound(before), apierrors.IsNotFound(after), "trying leaves nothing behind")
		_, err = c.apply(t, o)
		require.NoError(t, err, "applying %s %s", o.GetKind(), o.GetName())
	}
	return c, objects
}

// versions are the resource versions of objects, by kind, namespace and name.
func (c *cluster) versions(t *testing.T, objects []*object) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range objects {
		found, err := c.get(t, o)
		require.NoError(t, err)
		out[identity(o)] = found.GetResourceVersion()
	}
	return out
}

func identity(o *object) string {
	return strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}
