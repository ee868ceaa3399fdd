package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// flags of `rrpool simulate`.
type flags struct {
	set                                               *pflag.FlagSet
	nodes, clients, zones, reflectors, racks          iostreams.Count
	redundancy, perClient, maxClients, maxPaths, fail iostreams.Count
	topology, output                                  *iostreams.Choice
	file, outputFile                                  string
	compare                                           bool
}

// kinds are the topologies by the words of --topology.
var kinds = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// mostNodes is the largest cluster that is simulated.
const mostNodes = 50000

func newFlags() *flags {
	return &flags{
		nodes:      iostreams.Count{Least: 2, Most: mostNodes},
		clients:    iostreams.Count{Least: 1, Most: mostNodes},
		zones:      iostreams.Count{Least: 1, Most: 100},
		reflectors: iostreams.Count{Least: 1, Most: 100},
		racks:      iostreams.Count{Least: 1, Most: 300},
		redundancy: iostreams.Count{Least: 1, Most: 100},
		perClient:  iostreams.Count{Least: 1, Most: 100},
		maxClients: iostreams.Count{Least: 1, Most: mostNodes},
		maxPaths:   iostreams.Count{Least: 1, Most: 1000000},
		fail:       iostreams.Count{Least: 1, Most: 10},
		topology:   iostreams.NewChoice("auto", "single", "quorum", "hierarchy", "multicluster"),
		output:     iostreams.NewChoice("table", "json", "yaml"),
	}
}

func (f *flags) register(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.SortFlags = false
	f.set.Var(&f.nodes, "nodes", "all nodes of the cluster, the reflectors among them")
	f.set.Var(&f.clients, "clients", "the nodes besides the reflectors, instead of --nodes")
	f.set.Var(&f.zones, "zones", "zones of the cluster; default 1")
	f.topology.Register(cmd, "topology", "", "topology: auto, single, quorum, hierarchy or multicluster; default that of the file")
	f.set.BoolVar(&f.compare, "compare", false, "all topologies beside each other, and which one Auto takes")
	f.set.Var(&f.fail, "fail", "which sets of so many reflectors may fail together")
	f.set.Var(&f.reflectors, "reflectors", "reflectors, all zones together; default as many as sizing and topology take")
	f.set.Var(&f.redundancy, "redundancy", "spec.topology.redundancy: reflectors that keep two clients in touch")
	f.set.Var(&f.racks, "racks", "racks that the nodes are labelled with; default none")
	f.set.Var(&f.maxClients, "max-clients", "spec.topology.maxClientsPerReflector")
	f.set.Var(&f.maxPaths, "max-paths", "spec.topology.maxPathsPerPrefix")
	f.set.Var(&f.perClient, "per-client", "quorum by hand: each client has exactly so many reflectors, and every combination of them its clients")
	f.set.StringVarP(&f.file, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	f.output.Register(cmd, "output", "o", "format: table, json or yaml")
	f.set.StringVar(&f.outputFile, "output-file", "", "write to this file instead of standard output")
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, flag := range []string{"nodes", "clients", "zones", "fail", "reflectors", "redundancy", "racks", "max-clients", "max-paths", "per-client"} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, none))
	}
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

func (f *flags) given(flag string) bool { return f.set.Changed(flag) }

// check refuses flags that do not go together.
func (f *flags) check() error {
	switch {
	case f.given("nodes") && f.given("clients"):
		return fmt.Errorf("--nodes %d and --clients %d exclude each other: count all nodes, or those besides the reflectors", f.nodes.Value, f.clients.Value)
	case !f.given("nodes") && !f.given("clients"):
		return fmt.Errorf("--nodes: missing: say how many nodes the cluster has, such as --nodes 2000 --zones 3")
	case f.compare && f.given("topology"):
		return fmt.Errorf("--compare and --topology %s exclude each other: all topologies are compared; leave out one of them", f.topology.Value)
	case f.compare && f.given("per-client"):
		return fmt.Errorf("--compare and --per-client %d exclude each other: it is no topology that rrpool makes; leave out one of them", f.perClient.Value)
	}
	return f.byHand()
}

// byHand refuses --per-client where it says nothing.
func (f *flags) byHand() error {
	if !f.given("per-client") {
		return nil
	}
	switch {
	case f.topology.Value != "quorum":
		return fmt.Errorf("--per-client: %d, and --topology is %s: it is for quorum only; elsewhere --redundancy says it", f.perClient.Value, f.topology.Value)
	case !f.given("reflectors"):
		return fmt.Errorf("--reflectors: missing, and --per-client %d is so many of them: give it as well", f.perClient.Value)
	case f.perClient.Value > f.reflectors.Value:
		return fmt.Errorf("--per-client: %d of %d reflectors: give at most %d", f.perClient.Value, f.reflectors.Value, f.reflectors.Value)
	}
	for _, other := range []string{"redundancy", "racks"} {
		if f.given(other) {
			return fmt.Errorf("--per-client %d and --%s exclude each other: by hand, each client has exactly so many reflectors; leave out one of them", f.perClient.Value, other)
		}
	}
	return nil
}

// question is what the flags and the file ask.
func (f *flags) question(s iostreams.Streams) (question, error) {
	if err := f.check(); err != nil {
		return question{}, err
	}
	object, err := snapshot.Object(f.file, s.In)
	if err == nil && object == nil {
		object, err = crd.Default()
		if err == nil {
			object.Spec.Topology.Type = v1alpha1.TopologyAuto
		}
	}
	if err != nil {
		return question{}, err
	}
	spec := object.Spec
	if f.given("topology") {
		spec.Topology.Type = kinds[f.topology.Value]
	}
	f.over(&spec.Topology)
	if spec.Provider.Type == v1alpha1.ProviderExistingNodes {
		if kind := spec.Topology.Type; f.compare || kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
			return question{}, errors.New("--filename: spec.provider.type is ExistingNodes, whose reflectors run workloads as well: they know single only; leave --topology and --compare out, or the field")
		}
		spec.Topology.Type = v1alpha1.TopologySingle
	}
	q := question{
		spec: spec, nodes: f.nodes.Value, clients: f.clients.Value, reflectors: f.reflectors.Value, racks: f.racks.Value,
		perClient: f.perClient.Value, fail: f.fail.Value, compare: f.compare, zones: f.zonesOf(spec),
	}
	return q, q.check()
}

// over writes what flags say over what the file says.
func (f *flags) over(spec *v1alpha1.TopologySpec) {
	if f.given("redundancy") {
		spec.Redundancy = int32(f.redundancy.Value) //nolint:gosec // G115: at most 100
	}
	if f.given("max-clients") {
		spec.MaxClientsPerReflector = int32(f.maxClients.Value) //nolint:gosec // G115: at most mostNodes
	}
	if f.given("max-paths") {
		spec.MaxPathsPerPrefix = int32(f.maxPaths.Value) //nolint:gosec // G115: at most a million
	}
	if f.given("racks") && spec.RackLabel == "" {
		spec.RackLabel = inventedRackLabel
	}
}

// zonesOf are those of --zones, else those of the file, else one.
func (f *flags) zonesOf(spec v1alpha1.RouteReflectorPoolSpec) []string {
	if named := spec.Provider.IKS.Zones; !f.given("zones") && len(named) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(named)))
	}
	return numbered("zone-", max(f.zones.Value, 1))
}
