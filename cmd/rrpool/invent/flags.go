package invent

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// Flags describe a cluster that does not exist.
type Flags struct {
	Nodes, zones, reflectors, racks iostreams.Count
	topology                        *iostreams.Choice
	file                            string
}

// kinds are the topologies by the words of --topology.
var kinds = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// Register adds them to a command, which has that topology where no file is named.
func (f *Flags) Register(cmd *cobra.Command, topology string) {
	count := func(most int) iostreams.Count { return iostreams.Count{Least: 1, Most: most} }
	f.Nodes, f.zones, f.reflectors, f.racks = count(50000), count(100), count(100), count(300)
	f.topology = iostreams.NewChoice("auto", "single", "quorum", "hierarchy", "multicluster")
	f.topology.Value = topology
	f.Nodes.Register(cmd, "nodes", "nodes that run workloads")
	f.zones.Register(cmd, "zones", "zones of the cluster; default those in the file, else 1")
	f.reflectors.Register(cmd, "reflectors", "size of the pool, all zones together; default as many as sizing and topology take")
	f.racks.Register(cmd, "racks", "racks that the nodes are labelled with; default none")
	f.topology.Register(cmd, "topology", "", "topology: auto, single, quorum, hierarchy or multicluster; default that of the file")
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

// Cluster is the one that the flags and the file describe.
func (f *Flags) Cluster(cmd *cobra.Command, s iostreams.Streams) (Cluster, error) {
	object, err := snapshot.Object(f.file, s.In)
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Spec: cmp.Or(object, crd.Default()).Spec, Nodes: f.Nodes.Value, Reflectors: f.reflectors.Value, Racks: f.racks.Value}
	if f.file == "" || cmd.Flags().Changed("topology") {
		c.Spec.Topology.Type = kinds[f.topology.Value]
	}
	if c.Zones = Names("zone-", max(f.zones.Value, 1)); f.zones.Value == 0 && len(c.Spec.Provider.IKS.Zones) > 0 {
		c.Zones = slices.Compact(slices.Sorted(slices.Values(c.Spec.Provider.IKS.Zones)))
	}
	return c, c.Check()
}
