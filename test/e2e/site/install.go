//go:build linux

package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/programs"
)

// install does what the user does before the manager starts: the manifests of
// config/rbac as they are, and, on a cloud, the credentials. What IKS puts into a
// cluster is there in any case.
func (s *Site) install(ctx context.Context) error {
	if s.Cloud != nil {
		if err := s.create(ctx, clusterInfo()); err != nil {
			return err
		}
	}
	if s.options.Bare {
		return nil
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}}
	if s.Cloud != nil {
		objects = append(objects, credentials())
	}
	if err := s.create(ctx, objects...); err != nil {
		return err
	}
	for _, name := range []string{"service_account.yaml", "role.yaml", "bindings.yaml"} {
		if err := s.createFile(ctx, filepath.Join(programs.Root(), "config", "rbac", name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := s.Client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("installing %T %q: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// credentials are the user's Secret.
func credentials() client.Object {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: Namespace},
		StringData: map[string]string{"apikey": APIKey},
	}
}

// clusterInfo is what IKS itself puts into a cluster.
func clusterInfo() client.Object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-system"},
		Data:       map[string]string{"cluster-config.json": fmt.Sprintf(`{"cluster_id":%q,"name":"demo"}`, ClusterID)},
	}
}

// createFile creates every object of a manifest.
func (s *Site) createFile(ctx context.Context, path string) error {
	content, err := os.ReadFile(path) //nolint:gosec // G304: our own manifests
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(o.Object) > 0 {
			err = s.Client.Create(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("creating what %s says: %w", path, err)
		}
	}
}
