//go:build unix

package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
	"github.com/rrpool/rrpool/test/walkthrough"
)

// site is a cluster of its own, on which people and helm work.
type site struct {
	*cluster
	kubeconfig string
	wanted     []*object
}

// unlike are the objects that the cluster has not, or has otherwise: applying them would change it.
func (s site) unlike(t *testing.T, objects []*object) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		live, err := s.get(t, o)
		if apierrors.IsNotFound(err) {
			out = append(out, "not there: "+identity(o))
			continue
		}
		require.NoError(t, err)
		force := options(metav1.DryRunAll)
		force.Force = ptr.To(true)
		applied, err := s.of(t, o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, []byte(manifest(t, o)), force)
		require.NoError(t, err)
		for _, each := range []*object{live, applied} {
			unstructured.RemoveNestedField(each.Object, "metadata", "managedFields")
			unstructured.RemoveNestedField(each.Object, "metadata", "generation")
			unstructured.RemoveNestedField(each.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		}
		out = append(out, differing(identity(o), live.Object, applied.Object)...)
	}
	return out
}

// imageOnly says that the cluster has what the overlay is, but for the image.
func (s site) imageOnly(t *testing.T) {
	t.Helper()
	const containers = ".spec.template.spec.containers"
	deployment := first(t, s.wanted, "Deployment")
	require.Equal(t, []string{identity(deployment) + containers}, s.unlike(t, s.wanted))
	live, err := s.get(t, deployment)
	require.NoError(t, err)
	require.Contains(t, manifest(t, live), "image: us.icr.io/mynamespace/rrpool-manager:v0.1.0\n")
}

func (s site) pool(t *testing.T) *object {
	t.Helper()
	found, err := s.get(t, read(t, samples[iksOverlay])[0])
	require.NoError(t, err)
	return found
}

func TestInstalling(t *testing.T) {
	t.Parallel()
	s := site{cluster: start(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), wanted: build(t, iksOverlay)}
	t.Cleanup(func() { require.NoError(t, s.plane.Stop()) })
	require.NoError(t, controlplane.WriteKubeconfig(s.kubeconfig, s.plane.AdminConfig()))
	externalSecrets(t, s.cluster)
	t.Run("as the page says", s.page)
	t.Run("a release, from its beginning to its end", s.release)
	t.Run("who says the mode", s.mode)
	t.Run("who says the mode, as Helm 3 applies", s.modeOfHelm3)
}

// page types docs/install.md, block by block.
func (s site) page(t *testing.T) {
	blocks, err := walkthrough.Blocks([]byte(text(t, path("docs/install.md"))))
	require.NoError(t, err)
	shell, said := s.shell(t)
	checks := []struct {
		first string
		check func(t *testing.T)
	}{
		{"registry=", func(*testing.T) {}},
		{"kubectl create namespace", s.imageOnly},
		{"cat >values.yaml", func(t *testing.T) {
			t.Helper()
			require.Contains(t, manifest(t, s.pool(t)), "mode: Paused\n")
			require.Contains(t, manifest(t, s.pool(t)), "endpoint: Private\n")
			s.imageOnly(t)
		}},
		{"helm uninstall", func(t *testing.T) {
			t.Helper()
			_, err := s.get(t, first(t, s.wanted, "Deployment"))
			require.True(t, apierrors.IsNotFound(err))
			require.Nil(t, s.pool(t).GetDeletionTimestamp(), "the way back takes a manager: the object is for a person to delete")
		}},
		{"mkdir -p mycluster", s.imageOnly},
		{"helm install rrpool", s.imageOnly},
		{"read -r key", func(t *testing.T) {
			t.Helper()
			secret := &object{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
			secret.SetNamespace(namespace)
			secret.SetName("rrpool-ibmcloud")
			live, err := s.get(t, secret)
			require.NoError(t, err)
			require.Contains(t, manifest(t, live), "apikey: dGhlIGtleQo=\n")
			require.Equal(t, "/apikey\n", text(t, path(iksOverlay, "secret", ".gitignore")), "git would take the key")
		}},
		{"kubectl replace -k", func(*testing.T) {}},
		{"mkdir -p mycluster", func(t *testing.T) {
			t.Helper()
			s.imageOnly(t)
			live, err := s.get(t, first(t, build(t, with(t, "external-secret")), "ExternalSecret"))
			require.NoError(t, err)
			require.Contains(t, manifest(t, live), "key: mygroup/arbitrary/rrpool\n")
		}},
		{"cat >mycluster", func(t *testing.T) {
			t.Helper()
			live, err := s.get(t, first(t, s.wanted, "Deployment"))
			require.NoError(t, err)
			require.Contains(t, manifest(t, live), "mountPath: /var/run/secrets/tokens\n")
			require.Contains(t, manifest(t, s.pool(t)), "trustedProfile:\n          name: rrpool\n")
		}},
	}
	for _, b := range blocks {
		if b.Place == walkthrough.Nowhere {
			continue
		}
		require.NotEmpty(t, checks, "a block that nothing is known of: %s", b.First())
		require.Contains(t, b.First(), checks[0].first)
		require.NoError(t, shell.Run(t.Context(), b), said.String())
		checks[0].check(t)
		checks = checks[1:]
	}
	require.Empty(t, checks, "blocks that the page no longer has")
	require.Contains(t, said.String(), "rrpool plan\n  rrpool migrate\n")
	require.NotContains(t, said.String(), "pod-security.kubernetes.io/enforce=restricted", "the namespace has the profile")
	b := blocks[1]
	b.Text = "kubectl create -k config/overlays/iks/secret\n"
	require.Error(t, shell.Run(t.Context(), b), "a key that is there is not replaced by making it")
	require.Contains(t, said.String(), `secrets "rrpool-ibmcloud" already exists`)
}

// shell is one that has the tools of the page, and a copy of config.
func (s site) shell(t *testing.T) (*walkthrough.Shell, *bytes.Buffer) {
	t.Helper()
	require.NoError(t, programs.Build(t.Context(), os.Stderr, "kubectl"))
	helm, err := helmTool()
	require.NoError(t, err)
	dir, commands := t.TempDir(), t.TempDir()
	require.NoError(t, walkthrough.Programs(commands, map[string]string{"helm": helm, "kubectl": programs.Path("kubectl")}))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "config"), os.DirFS(path("config"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "my-api-key"), []byte("the key\n"), 0o600))
	said := &bytes.Buffer{}
	env := []string{"PATH=" + commands, "HOME=" + dir, "KUBECONFIG=" + s.kubeconfig}
	shell, err := walkthrough.StartShell(t.TempDir(), dir, env, said)
	require.NoError(t, err)
	t.Cleanup(shell.Stop)
	return shell, said
}

// run has helm install, upgrade or uninstall, and gives what it says.
func (s site) run(t *testing.T, arguments ...string) (string, string, error) {
	t.Helper()
	return helm(t, append(arguments, "--namespace", namespace, "--kubeconfig", s.kubeconfig)...)
}

func (s site) must(t *testing.T, arguments ...string) string {
	t.Helper()
	out, said, err := s.run(t, arguments...)
	require.NoError(t, err, said)
	return out
}

func (s site) release(t *testing.T) {
	_, err := s.apply(t, read(t, "config/manager/namespace.yaml")[0])
	require.True(t, err == nil || apierrors.IsConflict(err), "%v", err)
	s.must(t, "uninstall", "rrpool", "--ignore-not-found")
	said := s.must(t, "install", "rrpool", path(chart))
	require.Contains(t, said, "image.repository: no registry has rrpool-manager.")
	require.Empty(t, s.unlike(t, s.wanted), "what was kept is taken over again")
	spoilt := first(t, s.wanted, "Deployment").DeepCopy()
	set(t, spoilt.Object, int64(3), "spec", "replicas")
	require.Equal(t, []string{identity(spoilt) + ".spec.replicas"}, s.unlike(t, []*object{spoilt}), "negative control")

	before := s.versions(t, s.wanted)
	s.must(t, "upgrade", "rrpool", path(chart))
	require.Equal(t, before, s.versions(t, s.wanted), "an upgrade to the same changes nothing")

	newer := filepath.Join(t.TempDir(), "rrpool")
	require.NoError(t, os.CopyFS(newer, os.DirFS(path(chart))))
	crd := filepath.Join(newer, "files", "crd.yaml")
	require.NoError(t, os.WriteFile(crd, []byte(strings.Replace(text(t, crd), "- rrp\n", "- rrp\n    - rrps\n", 1)), 0o600))
	s.must(t, "upgrade", "rrpool", newer)
	kind := slices.IndexFunc(s.wanted, func(o *object) bool { return o.GetName() == "routereflectorpools.rrpool.io" })
	live, err := s.get(t, s.wanted[kind])
	require.NoError(t, err)
	require.Contains(t, manifest(t, live), "- rrps\n", "the kind is upgraded with the chart")
	s.must(t, "upgrade", "rrpool", path(chart))
	require.Empty(t, s.unlike(t, s.wanted))
	before = s.versions(t, s.wanted)

	_, refused, err := s.run(t, "install", "second", path(chart))
	require.Error(t, err)
	require.Contains(t, refused, "second", "there is one rrpool in a cluster")
	require.Equal(t, before, s.versions(t, s.wanted))

	_, refused, err = s.run(t, "upgrade", "rrpool", path(chart), "--set", "pool.create=true,pool.spec.mode=Paused,pool.spec.modus=Paused")
	require.Error(t, err, "what the kind does not have is refused, and not dropped")
	require.Contains(t, refused, "modus")
	s.must(t, "upgrade", "rrpool", path(chart))
}

// person says a mode as rrpool migrate and rrpool rollback do.
func (s site) person(t *testing.T, mode string) {
	t.Helper()
	patch := []byte(`{"spec":{"mode":"` + mode + `"}}`)
	o := read(t, samples[iksOverlay])[0]
	_, err := s.of(t, o).Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "rrpool"})
	require.NoError(t, err)
}

func (s site) upgrade(t *testing.T, values string, how ...string) error {
	t.Helper()
	_, said, err := s.run(t, append([]string{"upgrade", "rrpool", path(chart), "--set", "pool.create=true," + values}, how...)...)
	if err != nil {
		require.Contains(t, said, ".spec.mode")
	}
	return err
}

const byPeople = "pool.modeByPeople=true"

// mode: it is the values' or, when they say so, a person's.
func (s site) mode(t *testing.T) {
	s.without(t)
	require.Error(t, s.upgrade(t, "pool.spec.provider.type=IKS"), "without a mode nothing migrates")
	require.NoError(t, s.upgrade(t, byPeople))
	require.Contains(t, manifest(t, s.pool(t)), "mode: Paused\n", "a new one waits for a person")
	s.person(t, "RouteReflector")
	require.NoError(t, s.upgrade(t, byPeople))
	require.Contains(t, manifest(t, s.pool(t)), "mode: RouteReflector\n")
	s.person(t, "FullMesh")
	require.NoError(t, s.upgrade(t, byPeople+",pool.spec.provider.type=ExistingNodes"))
	require.Contains(t, manifest(t, s.pool(t)), "mode: FullMesh\n", "an upgrade does not migrate again")
	require.Error(t, s.upgrade(t, "pool.spec.mode=RouteReflector"), "the mode is a person's")
	require.Contains(t, manifest(t, s.pool(t)), "mode: FullMesh\n")
}

// modeOfHelm3: Helm 3, and Helm 4 on a release of its, send a patch that takes out what the release before had and this one has not.
func (s site) modeOfHelm3(t *testing.T) {
	s.without(t)
	const client = "--server-side=false"
	require.NoError(t, s.upgrade(t, "pool.spec.mode=Paused", client))
	s.person(t, "FullMesh")
	require.NoError(t, s.upgrade(t, byPeople, client))
	require.Contains(t, manifest(t, s.pool(t)), "mode: FullMesh\n")
	require.NoError(t, s.upgrade(t, "pool.spec.mode=Paused", client))
	require.Contains(t, manifest(t, s.pool(t)), "mode: Paused\n", "no conflict: what the values say is put back")
}

// without deletes the pool, which has no finalizer as long as no manager runs.
func (s site) without(t *testing.T) {
	t.Helper()
	err := s.of(t, read(t, samples[iksOverlay])[0]).Delete(t.Context(), "default", metav1.DeleteOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
}
