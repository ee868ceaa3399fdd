// Package importenv translates the environment of the other operator, mhmxs/calico-route-reflector-operator.
package importenv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// flags of `rrpool import-env`.
type flags struct {
	cluster.Access
	envFile, file string
	fromCluster   bool
	zones         iostreams.Count
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{zones: iostreams.Count{Least: 1, Most: 100}}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "import-env",
		Short: "Translate the calico-route-reflector-operator's environment",
		Long: `Reads the environment variables of the calico-route-reflector-operator (ROUTE_REFLECTOR_*, DATASTORE_TYPE) and prints
the RouteReflectorPool that means the same. Comments say what differs and what has no counterpart.
Its mode is Paused: nothing happens when it is applied. Secrets and ConfigMaps are not read.`,
		Example: `  rrpool import-env --env-file operator.env > pool.yaml
  rrpool import-env --from-cluster`,
	}, func(cmd *cobra.Command) error { return f.run(cmd.Context(), s) })
	set := cmd.Flags()
	set.StringVar(&f.envFile, "env-file", "", "read the variables from this file of NAME=value lines")
	set.StringVarP(&f.file, "file", "f", "", "read them from the operator's Deployment in this manifest")
	set.BoolVar(&f.fromCluster, "from-cluster", false, "read them from the operator's Deployment in the cluster")
	f.zones.Register(cmd, "zones", "zones of the cluster, where the operator counts for each zone; default: those of the cluster, else 3")
	f.Register(set)
	cmd.MarkFlagsMutuallyExclusive("env-file", "file", "from-cluster")
	cmd.MarkFlagsOneRequired("env-file", "file", "from-cluster")
	return cmd
}

func (f *flags) run(ctx context.Context, s iostreams.Streams) error {
	e, zones, err := f.read(ctx)
	if err != nil {
		return err
	}
	text, err := translate(e, cmp.Or(f.zones.Value, zones))
	if err != nil {
		return fmt.Errorf("%s: %w", e.source, err)
	}
	_, err = io.WriteString(s.Out, text)
	return err //nolint:wrapcheck // Run prints it
}

// environment are the variables of the operator's container.
type environment struct {
	source string
	values map[string]string
	unread []string // those whose values a Secret, a ConfigMap or the pod has
}

// read gives the environment, and the number of zones if the cluster is asked.
func (f *flags) read(ctx context.Context) (e environment, zones int, err error) {
	flag, path, parse := "--env-file", f.envFile, ofEnvFile
	switch {
	case f.fromCluster:
		return f.ofCluster(ctx)
	case f.file != "":
		flag, path, parse = "--file", f.file, ofManifest
	}
	content, err := os.ReadFile(path) //nolint:gosec // G304: the user names it
	if err != nil {
		return e, 0, fmt.Errorf("%s: %q cannot be read: %w: give the name of a file", flag, path, iostreams.Reason(err))
	}
	if e, err = parse(content); err != nil {
		return e, 0, fmt.Errorf("%s: %s: %w", flag, path, err)
	}
	e.source = cmp.Or(e.source, path)
	return e, 0, nil
}

// assignment is a line of an env file; the value may be in quotes, and a comment may follow.
var assignment = regexp.MustCompile(`^(?:export\s+)?([A-Za-z_]\w*)=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'#][^"']*?)?)(?:\s+#.*)?$`)

func ofEnvFile(content []byte) (environment, error) {
	e := environment{values: map[string]string{}}
	for i, line := range strings.Split(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		match := assignment.FindStringSubmatch(line)
		if match == nil { // the line may hold a password, so it is not repeated
			return e, fmt.Errorf("line %d is no assignment: write NAME=value or NAME=\"value\", without blanks before the \"=\"", i+1)
		}
		e.values[match[1]] = match[2] + match[3] + match[4]
	}
	return e, nil
}

// ofManifest reads the operator's Deployment among the documents and lists of a file.
func ofManifest(content []byte) (environment, error) {
	var found []appsv1.Deployment
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		var document struct {
			appsv1.Deployment `json:",inline"`
			Items             []appsv1.Deployment `json:"items"`
		}
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return choose(found)
		} else if err != nil {
			return environment{}, fmt.Errorf("cannot be read as a Deployment: %w: give the output of kubectl get deployment --output yaml", err)
		}
		found = append(found, append(document.Items, document.Deployment)...)
	}
}

// ofCluster finds the operator's Deployment, and counts the zones by its zone label.
func (f *flags) ofCluster(ctx context.Context) (e environment, zones int, err error) {
	connection, err := f.Connect()
	if err != nil {
		return e, 0, err
	}
	var deployments appsv1.DeploymentList
	if err := connection.List(ctx, &deployments); err != nil {
		return e, 0, connection.Explain(err, "list", "deployments.apps")
	}
	if e, err = choose(deployments.Items); err != nil || e.values["ROUTE_REFLECTOR_ZONE_LABEL"] == "" {
		return e, 0, err
	}
	var nodes corev1.NodeList
	if err := connection.List(ctx, &nodes); err != nil {
		return e, 0, connection.Explain(err, "list", "nodes")
	}
	names := map[string]bool{} // nodes without the label are one zone
	for i := range nodes.Items {
		names[nodes.Items[i].Labels[e.values["ROUTE_REFLECTOR_ZONE_LABEL"]]] = true
	}
	return e, len(names), nil
}

// choose gives the environment of the one container that is the operator's.
func choose(deployments []appsv1.Deployment) (environment, error) {
	var found []environment
	for i := range deployments {
		for _, c := range deployments[i].Spec.Template.Spec.Containers {
			e := environment{source: fmt.Sprintf("Deployment %q, container %q", deployments[i].Name, c.Name), values: map[string]string{}}
			operator := strings.Contains(c.Image, "route-reflector-operator")
			for _, v := range c.Env {
				operator = operator || strings.HasPrefix(v.Name, "ROUTE_REFLECTOR_")
				if e.values[v.Name] = v.Value; v.ValueFrom != nil {
					e.unread = append(e.unread, v.Name)
				}
			}
			if len(c.EnvFrom) > 0 {
				e.unread = append(e.unread, "envFrom")
			}
			if operator { // calico-node and rrpool's manager have a DATASTORE_TYPE as well
				found = append(found, e)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return environment{}, errors.New("no Deployment with variables of the operator (ROUTE_REFLECTOR_*): give its own manifest with --file, or an --env-file")
	default:
		return environment{}, fmt.Errorf("%s and %s both have variables of the operator: write one of them into a file and give --file", found[0].source, found[1].source)
	}
}

// translation is the RouteReflectorPool, what there is to say about it, and the first error.
type translation struct {
	environment
	spec     v1alpha1.RouteReflectorPoolSpec
	comments []string
	err      error
}

// translate gives the YAML of the RouteReflectorPool. zones is 0 where the number is not known.
func translate(e environment, zones int) (string, error) {
	t := &translation{environment: e}
	t.comment("The RouteReflectorPool that means the same as %s. docs/migrating.md says how the operator goes first.", e.source)
	t.comment("It uses the nodes that are there, as the operator does. For a worker pool on IBM Cloud write: provider: {type: IKS}.")
	t.spec.Mode, t.spec.Provider.Type = v1alpha1.ModePaused, v1alpha1.ProviderExistingNodes
	t.spec.Topology = v1alpha1.TopologySpec{Type: v1alpha1.TopologySingle, ClusterID: t.value("CLUSTER_ID", "224.0.0.0"), ZoneLabel: t.value("ZONE_LABEL", "")}
	if t.value("TOPOLOGY", "") == "multi" {
		t.comment("Topology multi becomes Single: the reflectors share one cluster ID, and every node peers with every reflector.")
	}
	t.sizing(cmp.Or(zones, 3))
	t.labels()
	t.others()
	text, err := yaml.Marshal(&v1alpha1.RouteReflectorPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RouteReflectorPool"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}, Spec: t.spec,
	})
	if err = cmp.Or(t.err, err); err == nil {
		_, err = crd.Read(text)
	}
	return strings.Join(t.comments, "") + string(text), err
}

// value gives a variable of the operator, or its default.
func (t *translation) value(name, byDefault string) string {
	return cmp.Or(t.values["ROUTE_REFLECTOR_"+name], byDefault)
}

func (t *translation) comment(format string, args ...any) {
	t.comments = append(t.comments, "# "+iostreams.Visible(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))+"\n")
}

func (t *translation) refuse(name, remedy string) {
	t.err = cmp.Or(t.err, fmt.Errorf("%s: %q: %s", name, t.values[name], remedy))
}

// sizing: with zones and topology simple the operator counts for each zone, else for the cluster.
func (t *translation) sizing(zones int) {
	low, high, each := t.number("MIN", "3"), t.number("MAX", "10"), int32(zones) //nolint:gosec // G115: counted nodes
	t.spec.Sizing = v1alpha1.SizingSpec{Method: v1alpha1.SizingLinear, Ratio: t.value("RATIO", "0.005"), Min: low, Max: high, MinPerZone: 1}
	if t.value("ZONE_LABEL", "") != "" && t.value("TOPOLOGY", "") != "multi" {
		t.spec.Sizing.MinPerZone, t.spec.Sizing.Max = low, high*each
		t.comment("The operator counts for each zone: minPerZone is its MIN, and max is its MAX for %d zones. Give --zones if there are more or fewer.", zones)
	} else if whole := (low + each - 1) / each * each; whole > high && low <= high {
		t.spec.Sizing.Max = whole
		t.comment("max is not the operator's %d: %d reflectors cannot be the same number in each of %d zones.", high, low, zones)
	}
}

func (t *translation) number(name, byDefault string) int32 {
	value, err := strconv.ParseInt(t.value(name, byDefault), 10, 16)
	if err != nil {
		t.refuse("ROUTE_REFLECTOR_"+name, "write a whole number")
	}
	return int32(value)
}

// labels: a label is key=value, and key= for one without a value.
func (t *translation) labels() {
	key, _, _ := strings.Cut(t.value("NODE_LABEL", "calico-route-reflector"), "=")
	if key == "calico-route-reflector" || strings.Contains(key, "kubernetes.io/") || strings.Contains(key, "k8s.io/") {
		t.comment("The operator's label %q is not taken over: rrpool writes rrpool.io/route-reflector=true.", key)
	} else {
		t.spec.BGP.NodeLabel = key
		t.comment("spec.bgp.nodeLabel is the operator's key, and its value is always \"true\". The old label has to be off all nodes before.")
	}
	set, err := labels.ConvertSelectorToLabelsMap(t.value("INCOMPATIBLE_NODE_LABELS", ""))
	if err != nil {
		t.refuse("ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS", "write key=value, or key= for a label without a value: the operator panics at a key alone")
	} else if len(set) > 0 {
		t.spec.Provider.ExistingNodes.Excluded.MatchLabels = set
	}
	if len(set) > 1 {
		t.spec.Provider.ExistingNodes.Excluded.MatchLabels = labels.Set{"rrpool.io/never-reflect": "true"}
		t.comment("DO: the operator excludes nodes with any of its labels, a selector asks for all of them. Label these nodes, now and when more are added:")
		for _, key := range slices.Sorted(maps.Keys(set)) {
			t.comment("kubectl label nodes --selector %s=%s --overwrite rrpool.io/never-reflect=true", key, set[key])
		}
	}
}

// others says what has no field.
func (t *translation) others() {
	if store := cmp.Or(t.values["DATASTORE_TYPE"], "incluster"); store != "incluster" && store != "kubernetes" {
		t.refuse("DATASTORE_TYPE", "rrpool needs Calico's Kubernetes datastore: move Calico to it first (calicoctl datastore migrate)")
	}
	known := "DATASTORE_TYPE CLUSTER_ID MIN MAX RATIO NODE_LABEL ZONE_LABEL INCOMPATIBLE_NODE_LABELS TOPOLOGY"
	for _, name := range slices.Sorted(maps.Keys(t.values)) {
		if !slices.Contains(strings.Fields(known), strings.TrimPrefix(name, "ROUTE_REFLECTOR_")) {
			t.comment("%q has no counterpart.", name)
		}
	}
	for _, name := range t.unread {
		t.comment("DO: the value of %q is in a Secret, a ConfigMap or the pod, and is not read here. The operator's default stands in its place: give it in an --env-file.", name)
	}
}
