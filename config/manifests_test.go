// Package config_test holds the manifests to what a real apiserver says of them.
package config_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// strict refuses fields that a kind does not have, such as misspelt ones.
var strict = client.FieldValidation("Strict")

func admin(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(controlplane.ForTest(t).AdminConfig(), client.Options{})
	require.NoError(t, err)
	return c
}

func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, content.Close()) }()
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(content, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, file)
		out = append(out, object)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	return found
}

func TestEverySampleAndManifestIsAccepted(t *testing.T) {
	c := admin(t)
	makeNamespace(t, c)
	for _, pattern := range []string{"samples/*.yaml", "overlays/*/*.example.yaml", "rbac/*.yaml", "manager/*.yaml"} {
		for _, file := range files(t, pattern) {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			t.Run(file, func(t *testing.T) {
				for _, object := range objects(t, file) {
					err := c.Create(t.Context(), object, client.DryRunAll, strict)
					if !apierrors.IsAlreadyExists(err) {
						require.NoError(t, err, object.GetName())
					}
				}
			})
		}
	}
}

// granted and denied are what the manager may and may not do.
var (
	granted = map[string]authorizationv1.ResourceAttributes{
		"patch a node":                        ask("patch", "", "nodes", "", "n1"),
		"read its object":                     ask("get", "rrpool.io", "routereflectorpools", "", "default"),
		"put a finalizer on its object":       ask("patch", "rrpool.io", "routereflectorpools", "", "default"),
		"create a BGPPeer":                    ask("create", "crd.projectcalico.org", "bgppeers", "", ""),
		"update the default BGPConfiguration": ask("update", "crd.projectcalico.org", "bgpconfigurations", "", "default"),
		"read the credentials":                ask("list", "", "secrets", "rrpool-system", ""),
		"read the cluster's id":               ask("get", "", "configmaps", "kube-system", "cluster-info"),
		"see whether calico-node runs BIRD":   ask("get", "", "configmaps", "kube-system", "calico-config"),
		"renew its lease":                     ask("update", "coordination.k8s.io", "leases", "rrpool-system", "rrpool-manager"),
		"write events about its object":       ask("create", "events.k8s.io", "events", "default", ""),
	}
	denied = map[string]authorizationv1.ResourceAttributes{
		"delete a node":                   ask("delete", "", "nodes", "", "n1"),
		"change a node's status":          ask("patch", "", "nodes", "", "n1", "status"),
		"create its object":               ask("create", "rrpool.io", "routereflectorpools", "", "default"),
		"delete its object":               ask("delete", "rrpool.io", "routereflectorpools", "", "default"),
		"update another BGPConfiguration": ask("update", "crd.projectcalico.org", "bgpconfigurations", "", "node.n1"),
		"change an address pool":          ask("update", "crd.projectcalico.org", "ippools", "", "default"),
		"change a block affinity":         ask("update", "crd.projectcalico.org", "blockaffinities", "", "b"),
		"read the session password":       ask("get", "", "secrets", "kube-system", "bgp-reflectors"),
		"list all secrets":                ask("list", "", "secrets", "", ""),
		"change its credentials":          ask("update", "", "secrets", "rrpool-system", "rrpool-ibmcloud"),
		"read other configuration":        ask("get", "", "configmaps", "kube-system", "kubeadm-config"),
		"take another lease":              ask("update", "coordination.k8s.io", "leases", "rrpool-system", "other"),
		"run a command in a pod":          ask("create", "", "pods", "kube-system", "calico-node-x", "exec"),
		"give itself more":                ask("update", "rbac.authorization.k8s.io", "clusterroles", "", "rrpool-manager"),
	}
)

func TestTheManagerMayDoItsWorkAndNoMore(t *testing.T) {
	c := admin(t)
	makeNamespace(t, c)
	for _, file := range []string{"rbac/service_account.yaml", "rbac/role.yaml", "rbac/bindings.yaml"} {
		for _, object := range objects(t, file) {
			require.NoError(t, c.Create(t.Context(), object, strict))
			t.Cleanup(func() { require.NoError(t, c.Delete(context.Background(), object)) })
		}
	}
	// Once all that is granted has been seen to be, nothing more is on its way.
	for name, attributes := range granted {
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			require.True(collect, may(t, c, attributes), name)
		}, authorizerLag, 100*time.Millisecond)
	}
	for name, attributes := range denied {
		require.False(t, may(t, c, attributes), name)
	}
}

func may(t *testing.T, c client.Client, attributes authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               controlplane.ServiceAccountUser("rrpool-system", "rrpool-manager"),
		ResourceAttributes: &attributes,
	}}
	require.NoError(t, c.Create(t.Context(), review))
	return review.Status.Allowed
}

// authorizerLag is how long the apiserver may take to learn of a binding.
const authorizerLag = 2 * time.Minute

func ask(verb, group, resource, namespace, name string, subresource ...string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name,
		Subresource: strings.Join(subresource, ""),
	}
}

// makeNamespace makes what the other manifests live in. It stays: no controller
// here would ever finish its deletion.
func makeNamespace(t *testing.T, c client.Client) {
	t.Helper()
	for _, object := range objects(t, "manager/namespace.yaml") {
		if err := c.Create(t.Context(), object, strict); !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
	}
}
