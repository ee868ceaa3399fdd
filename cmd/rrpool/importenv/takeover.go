// Package importenv is the command that moves a cluster from the operators that exist,
// mhmxs/calico-route-reflector-operator and IBM's on top of it, to rrpool: it translates
// their settings, and says in which order to take over what they have left.
package importenv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// flags of `rrpool import-env`.
type flags struct {
	cluster.Access
	envFile, file         string
	fromCluster, takeover bool
	zones                 iostreams.Count
	output                *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{zones: iostreams.Count{Least: 1, Most: 100}, output: iostreams.NewChoice("yaml", "json")}
	cmd := &cobra.Command{
		Use:   "import-env",
		Short: "Take over from the calico-route-reflector-operator",
		Long: `Reads the environment variables of the calico-route-reflector-operator (ROUTE_REFLECTOR_*, DATASTORE_TYPE) and prints
the RouteReflectorPool that asks rrpool for the same. Comments say what is different, and what has no equivalent
and why. Its mode is Paused: nothing happens when it is applied.

The variables come from the environment of this process, an env file, the manifest of a Deployment, or the
cluster. Values that a Secret or ConfigMap holds are not read, and named.

With --takeover it looks at what the operator has left in the cluster, reflectors, BGPPeers and all, and prints
the steps that take over from it: each with its commands, what it costs and whom, and how to see that it is done.
It changes nothing itself. Ask again after each step: what is done is left out.`,
		Example: `  rrpool import-env --env-file operator.env > pool.yaml
  rrpool import-env --file deployment.yaml
  rrpool import-env --from-cluster -o json
  rrpool import-env --takeover`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.envFile, "env-file", "", "read the variables from this file of NAME=value lines")
	set.StringVarP(&f.file, "file", "f", "", "read them from the Deployment in this manifest")
	set.BoolVar(&f.fromCluster, "from-cluster", false, "read them from the operator's Deployment in the cluster")
	set.BoolVar(&f.takeover, "takeover", false, "say instead which steps take over from the operator in the cluster")
	set.Var(&f.zones, "zones", "zones of the cluster, where the operator counts for each zone; default: those of the cluster, else 3")
	f.output.Register(cmd, "output", "o", "format: yaml (with --takeover: text) or json")
	f.Register(set)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("zones", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)))
	cmd.MarkFlagsMutuallyExclusive("env-file", "file", "from-cluster", "takeover")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if f.takeover {
		return f.takeOver(cmd, s)
	}
	v, zones, err := f.variables(cmd, s)
	if err != nil {
		return err
	}
	if f.zones.Value > 0 {
		zones = f.zones.Value
	}
	t, err := translate(v, zones)
	if err != nil {
		return err
	}
	if err := s.Emit("RouteReflectorPool", "", func(s iostreams.Streams) error { return t.render(s, f.output.Value) }); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "next: %s --takeover says how to take over from the operator in the cluster\n", cmd.CommandPath())
	return nil
}

// takeOver prints the steps.
func (f *flags) takeOver(cmd *cobra.Command, s iostreams.Streams) error {
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "looking at the cluster of context %q …\n", connection.Name)
	found, err := Look(cmd.Context(), connection)
	if err != nil {
		return err
	}
	v := newView(strings.TrimSuffix(cmd.CommandPath(), " "+cmd.Name()), connection.Name, found)
	render := textOf
	if f.output.Value == "json" {
		render = jsonOf
	}
	return s.Emit("steps", "", func(s iostreams.Streams) error { return render(s, v) })
}

// variables come from where the flags say.
func (f *flags) variables(cmd *cobra.Command, s iostreams.Streams) (v variables, zones int, err error) {
	switch {
	case f.envFile != "":
		v, err = ofEnvFile(f.envFile)
	case f.file != "":
		v, err = ofManifest(f.file)
	case f.fromCluster:
		return f.ofCluster(cmd.Context())
	default:
		if v = ofEnvironment(s.Getenv); !v.any() {
			err = fmt.Errorf("no variable of the operator (%s…, %s) is set here: give --env-file, --file with its Deployment, or --from-cluster", prefix, datastore)
		}
	}
	return v, 0, err
}

// ofCluster finds the Deployment of the operator, and counts the zones it knows.
func (f *flags) ofCluster(ctx context.Context) (variables, int, error) {
	connection, err := f.Connect()
	if err != nil {
		return variables{}, 0, err
	}
	found, err := operatorsOf(ctx, connection)
	if err != nil {
		return variables{}, 0, err
	}
	chosen := strongest(candidates(found))
	switch {
	case len(found) == 0:
		return variables{}, 0, fmt.Errorf("--from-cluster: the cluster of context %q has no Deployment of the operator: give --file or --env-file, or choose another --context", connection.Name)
	case len(chosen) == 0:
		return variables{}, 0, fmt.Errorf("--from-cluster: Deployment %s sets none of the operator's variables: give --env-file", namesOf(found))
	case len(chosen) > 1:
		return variables{}, 0, fmt.Errorf("--from-cluster: %s all set variables of the operator: write the right one into a file (kubectl get deployment --output yaml) and give --file", sources(chosen))
	}
	key, _ := chosen[0].value(zoneLabel)
	if key == "" {
		return chosen[0], 0, nil
	}
	zones, err := zonesOf(ctx, connection, key)
	return chosen[0], zones, err
}

// operatorsOf are the Deployments of the two operators.
func operatorsOf(ctx context.Context, c *cluster.Connection) ([]appsv1.Deployment, error) {
	var out []appsv1.Deployment
	var list appsv1.DeploymentList
	for {
		if err := c.List(ctx, &list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, c.Explain(err, "list", "deployments.apps")
		}
		for i := range list.Items {
			if isOperator(&list.Items[i]) {
				out = append(out, list.Items[i])
			}
		}
		if list.Continue == "" {
			return out, nil
		}
	}
}

// page is how many objects one request brings.
const page = 500

// zonesOf counts the values of a label; nodes without it are one zone more.
func zonesOf(ctx context.Context, c *cluster.Connection, key string) (int, error) {
	nodes, err := nodesOf(ctx, c)
	if err != nil {
		return 0, err
	}
	zones := map[string]bool{}
	for i := range nodes {
		zones[nodes[i].Labels[key]] = true
	}
	return len(zones), nil
}

func nodesOf(ctx context.Context, c *cluster.Connection) ([]corev1.Node, error) {
	var out []corev1.Node
	var list corev1.NodeList
	for {
		if err := c.List(ctx, &list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, c.Explain(err, "list", "nodes")
		}
		out = append(out, list.Items...)
		if list.Continue == "" {
			return out, nil
		}
	}
}

// errNoNodes: a cluster without nodes has nothing to take over.
var errNoNodes = errors.New("the cluster has no nodes that speak BGP: is Calico installed, and is this the right --context?")
