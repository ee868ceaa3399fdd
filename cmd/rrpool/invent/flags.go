package invent

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// Flags describe a cluster that does not exist. The command gives the bounds, and the
// words of --topology, of which the first counts where no file is named.
type Flags struct {
	Nodes, Zones, Reflectors, Racks iostreams.Count
	Topology                        *iostreams.Choice
	File                            string
}

// kinds are the topologies by the words of --topology.
var kinds = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// Register adds them to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	f.Nodes.Register(cmd, "nodes", "nodes that run workloads")
	f.Zones.Register(cmd, "zones", "zones of the cluster; default those in the file, else 1")
	f.Reflectors.Register(cmd, "reflectors", "size of the pool, all zones together; default as many as sizing and topology take")
	f.Racks.Register(cmd, "racks", "racks that the nodes are labelled with; default none")
	f.Topology.Register(cmd, "topology", "", "topology: auto, single, quorum, hierarchy or multicluster; default that of the file")
	cmd.Flags().StringVarP(&f.File, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

// Cluster is the one that the flags and the file describe.
func (f *Flags) Cluster(cmd *cobra.Command, s iostreams.Streams) (Cluster, error) {
	object, err := snapshot.Object(f.File, s.In)
	if err == nil && object == nil {
		object, err = crd.Default()
	}
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Spec: object.Spec, Nodes: f.Nodes.Value, Reflectors: f.Reflectors.Value, Racks: f.Racks.Value}
	if f.File == "" || cmd.Flags().Changed("topology") {
		c.Spec.Topology.Type = kinds[f.Topology.Value]
	}
	if c.Zones = Names("zone-", max(f.Zones.Value, 1)); f.Zones.Value == 0 && len(c.Spec.Provider.IKS.Zones) > 0 {
		c.Zones = slices.Compact(slices.Sorted(slices.Values(c.Spec.Provider.IKS.Zones)))
	}
	return c, c.Check()
}
