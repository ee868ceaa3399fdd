package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/rrpool/rrpool/test/programs"
)

// servedTimeout is how long a new kind may take to be served.
const servedTimeout = 4 * time.Minute

// CalicoCRDs is the folder with Calico's own CustomResourceDefinitions, from the Calico module that we build against.
func CalicoCRDs(ctx context.Context) (string, error) {
	const module = "github.com/projectcalico/calico"
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = programs.Root()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources of %s: %w", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "libcalico-go", "config", "crd"), nil
}

// OwnCRDs is the folder with the CustomResourceDefinitions of this repository, config/crd.
func OwnCRDs() string { return filepath.Join(programs.Root(), "config", "crd") }

// InstallCRDs creates or updates every CustomResourceDefinition in the folders and waits until they are served. Other YAML
// documents in a folder, and folders that do not exist, are skipped.
func InstallCRDs(ctx context.Context, config *rest.Config, dirs ...string) error {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, dir := range dirs {
		found, err := readCRDs(dir)
		if err != nil {
			return err
		}
		definitions = append(definitions, found...)
	}
	if len(definitions) == 0 {
		return nil
	}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, definition := range definitions {
		if err := applyCRD(ctx, client, definition); err != nil {
			return fmt.Errorf("installing CRD %q: %w", definition.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	for _, definition := range definitions {
		if err := waitServed(ctx, client.Discovery(), definition); err != nil {
			return fmt.Errorf("waiting for CRD %q to be served: %w", definition.Name, err)
		}
	}
	return nil
}

func readCRDs(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", dir, err)
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, path := range files {
		found, err := readCRDFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", path, err)
		}
		definitions = append(definitions, found...)
	}
	return definitions, nil
}

func readCRDFile(path string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	file, err := os.Open(path) //nolint:gosec // G304: a folder that the caller names
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for documents := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := documents.Decode(definition)
		if errors.Is(err, io.EOF) {
			return definitions, nil
		}
		if err != nil {
			return nil, err
		}
		if definition.Kind == "CustomResourceDefinition" {
			definitions = append(definitions, definition)
		}
	}
}

func applyCRD(ctx context.Context, client apiextensions.Interface, definition *apiextensionsv1.CustomResourceDefinition) error {
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(ctx, definition, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the apiserver writes its status
		existing, err := crds.Get(ctx, definition.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		definition.ResourceVersion = existing.ResourceVersion
		_, err = crds.Update(ctx, definition, metav1.UpdateOptions{})
		return err
	})
}

func waitServed(ctx context.Context, client discovery.DiscoveryInterface, definition *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		group := metav1.GroupVersion{Group: definition.Spec.Group, Version: version.Name}.String()
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			served, err := client.ServerResourcesForGroupVersion(group)
			return err == nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool {
				return r.Name == definition.Spec.Names.Plural
			}), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
