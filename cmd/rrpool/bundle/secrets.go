package bundle

import (
	"context"
	"encoding/base64"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// public are keys of Secrets whose values everybody knows: taken out of everything they
// would leave holes.
var public = []string{"namespace", "ca.crt", "tls.crt", "service-ca.crt", "username"}

// keysOf is what a report says about a Secret.
type keysOf struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Type      string   `json:"type,omitempty"`
	Keys      []string `json:"keys"`
}

// secrets comes first: what is learned here is taken out of all that follows. The
// manager's namespace has the API key; the passwords of BGP sessions are in calico-node's.
func (r *reader) secrets(ctx context.Context) {
	r.found.passwords = r.passwords(ctx)
	var out []keysOf
	for _, namespace := range []string{"calico-system", "kube-system", r.namespace} {
		own := namespace == r.namespace
		if !own && len(r.found.passwords) == 0 {
			continue
		}
		out = append(out, r.secretsIn(ctx, namespace, own)...)
	}
	if len(out) == 0 {
		return
	}
	content, err := yaml.Marshal(out)
	if err != nil {
		r.miss("Secrets", err)
		return
	}
	r.add("objects/secrets.yaml", "names of the keys of Secrets", string(content))
}

// secretsIn reduces the Secrets of a namespace: all of the manager's own, elsewhere those
// with passwords of BGP sessions.
func (r *reader) secretsIn(ctx context.Context, namespace string, own bool) []keysOf {
	objects, err := r.list(ctx, query{resource: core("secrets"), namespace: namespace})
	if err != nil {
		r.miss("names of the keys of Secrets in "+namespace, err)
		return nil
	}
	var out []keysOf
	for i := range objects {
		keys, used := r.reduce(&objects[i])
		if own || used {
			out = append(out, keys)
		}
	}
	return out
}

// reduce learns the values of a Secret and gives the names of its keys. used says that
// it has a password of BGP sessions.
func (r *reader) reduce(object *unstructured.Unstructured) (out keysOf, used bool) {
	out = keysOf{Namespace: object.GetNamespace(), Name: object.GetName(), Keys: []string{}}
	out.Type, _, _ = unstructured.NestedString(object.Object, "type")
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	for key, value := range data {
		out.Keys = append(out.Keys, key)
		isPassword := slices.Contains(r.found.passwords, passwordRef{out.Name, key})
		used = used || isPassword
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && !slices.Contains(public, key) {
			r.redact.learn(string(plain), isPassword || secretName.MatchString(key))
		}
	}
	slices.Sort(out.Keys)
	return out, used
}

// passwords are the references that BGP objects have.
func (r *reader) passwords(ctx context.Context) []passwordRef {
	var out []passwordRef
	for _, resource := range []string{"bgpconfigurations", "bgppeers"} {
		objects, err := r.list(ctx, query{resource: calico(resource)})
		if err != nil {
			continue // said where they are kept
		}
		for i := range objects {
			for _, field := range []string{"nodeMeshPassword", "password"} {
				name, _, _ := unstructured.NestedString(objects[i].Object, "spec", field, "secretKeyRef", "name")
				key, _, _ := unstructured.NestedString(objects[i].Object, "spec", field, "secretKeyRef", "key")
				if name != "" {
					out = append(out, passwordRef{name, key})
				}
			}
		}
	}
	return out
}
