package report

import (
	"context"
	"encoding/base64"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// manager's namespace has the API key. Of calico-node's only the Secrets are read that
// BGP objects name.
func (r *reader) secrets(ctx context.Context) {
	var out []keysOf
	for _, namespace := range []string{"calico-system", "kube-system"} {
		for _, name := range r.passwords(ctx) {
			out = append(out, r.passwordIn(ctx, namespace, name)...)
		}
	}
	own, err := r.list(ctx, query{resource: core("secrets"), namespace: r.namespace})
	if err != nil {
		r.miss("names of the keys of Secrets in "+r.namespace, err)
	}
	for i := range own {
		out = append(out, r.reduce(&own[i], false))
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

// passwordIn reduces the Secret with a password of BGP sessions, if it is there.
func (r *reader) passwordIn(ctx context.Context, namespace, name string) []keysOf {
	object, err := r.objects.Resource(core("secrets")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		r.miss("the password of BGP sessions, if it is Secret "+namespace+"/"+name+", to take it out of everything else", r.c.Explain(err, "get", "secrets"))
		return nil
	}
	return []keysOf{r.reduce(object, true)}
}

// reduce learns the values of a Secret and gives the names of its keys. sure says that
// they are passwords, however short.
func (r *reader) reduce(object *unstructured.Unstructured, sure bool) keysOf {
	out := keysOf{Namespace: object.GetNamespace(), Name: object.GetName(), Keys: []string{}}
	out.Type, _, _ = unstructured.NestedString(object.Object, "type")
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	for key, value := range data {
		out.Keys = append(out.Keys, key)
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && !slices.Contains(public, key) {
			r.redact.learn(string(plain), sure || secretName.MatchString(key))
		}
	}
	slices.Sort(out.Keys)
	return out
}

// passwords are the names of Secrets that BGP objects refer to.
func (r *reader) passwords(ctx context.Context) []string {
	var out []string
	for _, resource := range []string{"bgpconfigurations", "bgppeers"} {
		objects, err := r.list(ctx, query{resource: calico(resource)})
		if err != nil {
			continue // said where they are kept
		}
		for i := range objects {
			for _, field := range []string{"nodeMeshPassword", "password"} {
				if name, _, _ := unstructured.NestedString(objects[i].Object, "spec", field, "secretKeyRef", "name"); name != "" {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
