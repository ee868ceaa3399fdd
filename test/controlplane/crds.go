package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// CalicoCRDs is the folder with Calico's own CustomResourceDefinitions, from the Calico module that we build against.
func CalicoCRDs(ctx context.Context) (string, error) {
	dir, err := moduleDir(ctx, "github.com/projectcalico/calico")
	return filepath.Join(dir, "libcalico-go", "config", "crd"), err
}

// OwnCRDs is the folder with the CustomResourceDefinitions of this repository, config/crd.
func OwnCRDs(ctx context.Context) (string, error) {
	dir, err := moduleDir(ctx, thisModule)
	return filepath.Join(dir, "config", "crd"), err
}

// InstallCRDs creates or updates every CustomResourceDefinition in the folders and waits until they are served. Other YAML
// files in a folder, and folders that do not exist, are skipped.
func InstallCRDs(config *rest.Config, dirs ...string) error {
	if len(dirs) == 0 {
		return nil
	}
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: dirs, MaxTime: time.Minute})
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	return nil
}
