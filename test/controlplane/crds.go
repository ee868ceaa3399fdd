package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/rrpool/rrpool/test/programs"
)

// servedTimeout is how long it may take until new kinds are served.
const servedTimeout = 4 * time.Minute

// CalicoSources returns the folder of the Calico module that the lab runs: that of go.mod unless RRPOOL_CALICO is set.
func CalicoSources(ctx context.Context) (string, error) {
	const module = "github.com/projectcalico/calico"
	_, modfile, err := programs.Calico()
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-mod=readonly", "-modfile="+modfile, "-f", "{{.Dir}}", module) //nolint:gosec // G204: a file of ours
	list.Dir = programs.Root()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// CalicoCRDs returns the folder of Calico's own CustomResourceDefinitions.
func CalicoCRDs(ctx context.Context) (string, error) {
	sources, err := CalicoSources(ctx)
	return filepath.Join(sources, "libcalico-go", "config", "crd"), err
}

// migrationCRD is the kind by which Calico migrates its objects from one API group to the other.
const migrationCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: datastoremigrations.migration.projectcalico.org}
spec:
  group: migration.projectcalico.org
  names: {kind: DatastoreMigration, listKind: DatastoreMigrationList, plural: datastoremigrations, singular: datastoremigration}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// NativeCRDs writes Calico's CustomResourceDefinitions into a folder as they are in group projectcalico.org/v3 of Calico 3.33, which our
// version of Calico's module does not have: those of crd.projectcalico.org with what is different there for rrpool, and DatastoreMigration.
func NativeCRDs(ctx context.Context, dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "migration.yaml"), []byte(migrationCRD), 0o600), NewerCRDs(ctx, dir, true))
}

// NewerCRDs writes the CustomResourceDefinitions of Calico 3.33, in group crd.projectcalico.org/v1 or, if native, projectcalico.org/v3.
func NewerCRDs(ctx context.Context, dir string, native bool) error {
	from, err := CalicoCRDs(ctx)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "crd.projectcalico.org_*.yaml"))
	if err != nil {
		return fmt.Errorf("finding Calico's CRDs: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // G304: of a module
		if err != nil {
			return err
		}
		text, name := string(content), filepath.Base(file)
		switch name {
		case "crd.projectcalico.org_caliconodestatuses.yaml":
			text = strings.Replace(text, "classes:\n", "classes:\n                  x-kubernetes-list-type: set\n", 1)
			text += "      subresources:\n        status: {}\n"
		case "crd.projectcalico.org_bgpconfigurations.yaml":
			text = strings.Replace(text, "logSeverityScreen:\n", "logSeverityScreen:\n                  default: Info\n", 1)
		}
		if native {
			name = strings.TrimPrefix(name, "crd.")
			text = strings.ReplaceAll(strings.ReplaceAll(text, "crd.projectcalico.org", "projectcalico.org"), "    - name: v1\n", "    - name: v3\n")
			text = strings.Replace(text, "deleted:\n                  type: string", "deleted:\n                  type: boolean\n                  default: false", 1)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// OwnCRDs returns the folder of this repository's CustomResourceDefinitions, config/crd.
func OwnCRDs() string { return filepath.Join(programs.Root(), "config", "crd") }

// Objects returns the objects of a manifest.
func Objects(manifest []byte) (out []*unstructured.Unstructured, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading a manifest: %w", err)
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}

// Rights returns the objects in files of config/rbac.
func Rights(files ...string) (out []client.Object, err error) {
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(programs.Root(), "config", "rbac", file)) //nolint:gosec // G304: our own manifests
		if err != nil {
			return nil, fmt.Errorf("reading rights: %w", err)
		}
		objects, err := Objects(content)
		if err != nil {
			return nil, fmt.Errorf("reading rights: %w", err)
		}
		for _, o := range objects {
			out = append(out, o)
		}
	}
	return out, nil
}

// Reporters returns objects that let all service accounts write CalicoNodeStatus, as calico-node's ClusterRole does.
func Reporters() []client.Object {
	name, role := metav1.ObjectMeta{Name: "calico-node"}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "calico-node"}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"crd.projectcalico.org", "projectcalico.org"}, Resources: []string{"caliconodestatuses"}, Verbs: []string{"get", "list", "watch", "update"},
		}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: role, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts"}}},
	}
}

// InstallCRDs creates or updates every CustomResourceDefinition in the folders and waits until they are served. Other YAML
// documents in a folder, and folders that do not exist, are skipped.
func InstallCRDs(config *rest.Config, dirs ...string) error {
	if len(dirs) == 0 {
		return nil
	}
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: dirs, MaxTime: servedTimeout})
	return err
}
