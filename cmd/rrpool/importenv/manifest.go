package importenv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ofManifest reads a file with a Deployment, among whatever else stands there.
func ofManifest(path string) (variables, error) {
	content, err := read("--file", path)
	if err != nil {
		return variables{}, err
	}
	found, err := deployments(content)
	if err != nil {
		return variables{}, fmt.Errorf("--file: %s: %w", path, err)
	}
	if len(found) == 0 {
		return variables{}, fmt.Errorf("--file: %s has no Deployment: give the manifest of the operator's (kubectl get deployment --output yaml prints it), or --env-file", path)
	}
	all := candidates(found)
	chosen := strongest(all)
	switch len(chosen) {
	case 0:
		return variables{}, fmt.Errorf("--file: %s: no container of Deployment %s sets a variable of the operator (%s…, %s): give the operator's own manifest", path, namesOf(found), prefix, datastore)
	case 1:
		return chosen[0], nil
	default:
		return variables{}, fmt.Errorf("--file: %s: %s all set variables of the operator: leave one of them in the file", path, sources(chosen))
	}
}

// deployments are those in a file of YAML documents or JSON, in lists as well.
func deployments(content []byte) ([]appsv1.Deployment, error) {
	var out []appsv1.Deployment
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("this is no YAML: %w", err)
		}
		found, err := deploymentsIn(document)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
}

func deploymentsIn(document []byte) ([]appsv1.Deployment, error) {
	var head struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, nil
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return nil, fmt.Errorf("this is no YAML: %w", err)
	}
	switch {
	case head.Kind == "Deployment":
		var object appsv1.Deployment
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("this is no Deployment: %w", err)
		}
		return []appsv1.Deployment{object}, nil
	case strings.HasSuffix(head.Kind, "List"):
		var out []appsv1.Deployment
		for _, item := range head.Items {
			if head.Kind == "DeploymentList" {
				item["kind"] = "Deployment" // it may be left out there
			}
			part, err := yaml.Marshal(item)
			if err != nil {
				return nil, fmt.Errorf("this is no list: %w", err)
			}
			found, err := deploymentsIn(part)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		return out, nil
	}
	return nil, nil
}

// candidates are the containers that set variables of the operator.
func candidates(found []appsv1.Deployment) []variables {
	var out []variables
	for i := range found {
		object := &found[i]
		for _, containers := range [][]corev1.Container{object.Spec.Template.Spec.InitContainers, object.Spec.Template.Spec.Containers} {
			for j := range containers {
				v := ofContainer(fmt.Sprintf("Deployment %s, container %s", full(object), containers[j].Name), &containers[j])
				if v.any() || isOperator(object) && len(v.wholesale) > 0 {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// strongest drops those that only have what others have too, if there are better ones.
func strongest(all []variables) []variables {
	if slices.ContainsFunc(all, variables.strong) {
		return slices.DeleteFunc(all, func(v variables) bool { return !v.strong() })
	}
	return all
}

// images and names that the two operators are known by.
const (
	operatorName = "route-reflector-operator"
	ibmName      = "rr-operator"
)

// isOperator knows one of the two operators by its name or image, or by variables that
// nobody else has.
func isOperator(object *appsv1.Deployment) bool {
	if strings.Contains(object.Name, operatorName) || object.Name == ibmName || strings.Contains(object.Namespace, operatorName) {
		return true
	}
	for i := range object.Spec.Template.Spec.Containers {
		container := &object.Spec.Template.Spec.Containers[i]
		if strings.Contains(container.Image, operatorName) || ofContainer("", container).strong() {
			return true
		}
	}
	return false
}

func full(object *appsv1.Deployment) string {
	if object.Namespace == "" {
		return object.Name
	}
	return object.Namespace + "/" + object.Name
}

func namesOf(found []appsv1.Deployment) string {
	var out []string
	for i := range found {
		out = append(out, full(&found[i]))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func sources(all []variables) string {
	var out []string
	for _, v := range all {
		out = append(out, v.source)
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}
