package importenv

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The variables of the operator, as its main.go reads them.
const (
	prefix       = "ROUTE_REFLECTOR_"
	datastore    = "DATASTORE_TYPE"
	clusterID    = prefix + "CLUSTER_ID"
	least        = prefix + "MIN"
	most         = prefix + "MAX"
	ratio        = prefix + "RATIO"
	nodeLabel    = prefix + "NODE_LABEL"
	zoneLabel    = prefix + "ZONE_LABEL"
	incompatible = prefix + "INCOMPATIBLE_NODE_LABELS"
	arrangement  = prefix + "TOPOLOGY"
	waitTimeout  = prefix + "WAIT_TIMEOUT"
)

// known are the variables that mean something, in the order they are told.
var known = []string{datastore, clusterID, least, most, ratio, nodeLabel, zoneLabel, incompatible, arrangement, waitTimeout}

// Its defaults, of the code and not of its README, which says otherwise of two.
const (
	oldClusterID = "224.0.0.0"
	oldMin       = 3
	oldMax       = 10
	oldRatio     = "0.005"
	oldNodeLabel = "calico-route-reflector"
)

// connecting begin the names of variables that only say how libcalico-go reaches its
// datastore. Some hold passwords: their values are never shown.
var connecting = []string{"K8S_", "ETCD_", "CALICO_", "KUBECONFIG", "KUBERNETES_"}

// variable is one that is set.
type variable struct {
	value string
	// from says where the value would come from when it cannot be read here.
	from string
}

// variables are those of one operator.
type variables struct {
	// source says where they were read, for comments and errors.
	source string
	set    map[string]variable
	// wholesale are sources of variables whose names are not even known (envFrom).
	wholesale []string
}

// value of a variable that is set and readable.
func (v variables) value(name string) (string, bool) {
	found, ok := v.set[name]
	return found.value, ok && found.from == ""
}

// any reports whether a variable of the operator is among them.
func (v variables) any() bool {
	return slices.ContainsFunc(known, func(name string) bool { _, ok := v.set[name]; return ok }) || v.strong()
}

// strong: a variable that only this operator has. DATASTORE_TYPE is calico-node's and
// our manager's as well.
func (v variables) strong() bool {
	for name := range v.set {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// unknown are those of the operator's prefix that it never reads, sorted.
func (v variables) unknown() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.set)), func(name string) bool {
		return !strings.HasPrefix(name, prefix) || slices.Contains(known, name)
	})
}

// connections are those for libcalico-go, sorted.
func (v variables) connections() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.set)), func(name string) bool {
		return !slices.ContainsFunc(connecting, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
}

// ofEnvironment reads the process's own. An empty variable cannot be told from one that
// is not set. What is for libcalico-go is not asked for: there it is the user's own.
func ofEnvironment(getenv func(string) string) variables {
	out := variables{source: "the environment", set: map[string]variable{}}
	for _, name := range known {
		if value := getenv(name); value != "" {
			out.set[name] = variable{value: value}
		}
	}
	return out
}

// ofContainer reads those of one container.
func ofContainer(source string, container *corev1.Container) variables {
	out := variables{source: source, set: map[string]variable{}}
	for _, env := range container.Env {
		out.set[env.Name] = variable{value: env.Value, from: origin(env.ValueFrom)}
	}
	for _, from := range container.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			out.wholesale = append(out.wholesale, "ConfigMap "+from.ConfigMapRef.Name)
		case from.SecretRef != nil:
			out.wholesale = append(out.wholesale, "Secret "+from.SecretRef.Name)
		}
	}
	return out
}

func origin(from *corev1.EnvVarSource) string {
	switch {
	case from == nil:
		return ""
	case from.SecretKeyRef != nil:
		return "Secret " + from.SecretKeyRef.Name + ", key " + from.SecretKeyRef.Key
	case from.ConfigMapKeyRef != nil:
		return "ConfigMap " + from.ConfigMapKeyRef.Name + ", key " + from.ConfigMapKeyRef.Key
	case from.FieldRef != nil:
		return "the pod's own " + from.FieldRef.FieldPath
	default:
		return "a source that only the kubelet reads"
	}
}
