// Package deploy_test holds what is deployed, and the pages that say how, to what a real apiserver says of them.
package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/rrpool/rrpool/test/controlplane"
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
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{operatorCRDs(t), native}})
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

// operatorCRDs is a folder with what Calico's operator-crds.yaml installs: the
// operator's own kinds and all of Calico's.
func operatorCRDs(t *testing.T) string {
	t.Helper()
	const name = "operator-crds.yaml"
	content, err := os.ReadFile(calicoManifest(t, name))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	return dir
}

// calicoManifest is a file that Calico publishes, of the release that we build against.
func calicoManifest(t *testing.T, name string) string {
	t.Helper()
	crds, err := controlplane.CalicoCRDs(context.Background())
	require.NoError(t, err)
	return filepath.Join(crds, "..", "..", "..", "manifests", name)
}

// warnings keeps what the apiserver warns of.
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

// path is that of a file of the repository.
func path(parts ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file), "..", ".."}, parts...)...)
}
