package importenv

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is one change to the cluster, which a person makes with kubectl.
type Action struct {
	// Verb is patch, apply, delete or scale.
	Verb      string
	Resource  schema.GroupVersionResource
	Namespace string
	// Names of the objects: one, but for delete.
	Names []string
	// Body is a merge patch, or the whole object.
	Body map[string]any
}

// wordOf is what kubectl calls a resource.
func wordOf(resource schema.GroupVersionResource) string {
	if resource.Group == "" || resource.Group == "apps" {
		return strings.TrimSuffix(resource.Resource, "s")
	}
	return resource.GroupResource().String()
}

var (
	nodeResource       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	deploymentResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// Command is the action as one types it.
func (a Action) Command() string {
	word := wordOf(a.Resource)
	switch a.Verb {
	case "scale":
		return fmt.Sprintf("kubectl --namespace %s scale %s %s --replicas=0", a.Namespace, word, a.Names[0])
	case "patch":
		return fmt.Sprintf("kubectl patch %s %s --type=merge -p '%s'", word, a.Names[0], compact(a.Body))
	case "apply":
		return applied([]Action{a})
	default:
		return deletion(word, a.Names)
	}
}

// applied is one command for several objects.
func applied(actions []Action) string {
	var out strings.Builder
	out.WriteString("kubectl apply -f - <<'END'\n")
	for i, a := range actions {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(compact(a.Body) + "\n")
	}
	return out.String() + "END"
}

// compact is JSON in one line, which is YAML too, with its "&&" as they are.
func compact(body map[string]any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		panic(err) // only strings, numbers, and lists and maps of them are ever put in
	}
	return strings.TrimSpace(out.String())
}

// commands are those for actions in their order; what is applied in a row is one.
func commands(actions []Action) []string {
	var out []string
	for i := 0; i < len(actions); i++ {
		last := i
		for actions[i].Verb == "apply" && last+1 < len(actions) && actions[last+1].Verb == "apply" {
			last++
		}
		if last > i {
			out = append(out, applied(actions[i:last+1]))
			i = last
			continue
		}
		out = append(out, actions[i].Command())
	}
	return out
}

// manyNames are too many for one command line that people can read.
const manyNames = 8

// deletion names what it deletes, unless those are the many peers of topology multi.
func deletion(word string, names []string) string {
	if len(names) <= manyNames {
		return fmt.Sprintf("kubectl delete --ignore-not-found %s %s", word, strings.Join(names, " "))
	}
	return fmt.Sprintf("kubectl get %s --output name | grep -E '/(%s|%s.*|%s.*)$' | xargs kubectl delete --ignore-not-found", word, reflectorsPeer, clientPrefix, helperPrefix)
}

func patchNode(name string, labels, annotations map[string]any) Action {
	metadata := map[string]any{}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return Action{Verb: "patch", Resource: nodeResource, Names: []string{name}, Body: map[string]any{"metadata": metadata}}
}

func applyPeer(name string, spec map[string]any) Action {
	return applyCalico("bgppeers", "BGPPeer", name, spec)
}

func applyCalico(resource, kind, name string, spec map[string]any) Action {
	return Action{Verb: "apply", Resource: calico(resource), Names: []string{name}, Body: map[string]any{
		"apiVersion": "crd.projectcalico.org/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}
