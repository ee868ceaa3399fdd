package simulate

// simulationSchema names the form of `simulate -o json`. It changes when a field changes
// its meaning or goes away.
const simulationSchema = "rrpool.io/simulate/v1"

// view is the answer as it is shown.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	// Subject says in a sentence what was asked about.
	Subject string `json:"subject"`
	// Topologies are the one that was asked about, or those that are compared.
	Topologies []topologyView `json:"topologies"`
	// Auto is the topology that Auto takes, where topologies are compared; empty where
	// it takes none.
	Auto string `json:"auto,omitempty"`
	// Fail is --fail.
	Fail int `json:"fail,omitempty"`
}

// topologyView is one topology for this size.
type topologyView struct {
	// Type is never Auto, unless Auto takes none.
	Type string `json:"type"`
	// ByHand: rrpool would not arrange it like this.
	ByHand bool `json:"byHand,omitempty"`
	// Refused is why the manager does not build it. The rest then is what would come of
	// it, as far as it can be said.
	Refused *problemView `json:"refused,omitempty"`
	// Figures are missing where it cannot be arranged at all.
	Figures  *figures      `json:"figures,omitempty"`
	Failures *failuresView `json:"failures,omitempty"`
}

type problemView struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// figures are the sizes of an arrangement once it is built.
type figures struct {
	Nodes      int `json:"nodes"`
	Reflectors int `json:"reflectors"`
	// Spines are those of the reflectors that only join racks.
	Spines  int `json:"spines,omitempty"`
	Clients int `json:"clients"`
	// Redundancy is how many reflectors keep any two clients in touch.
	Redundancy int `json:"redundancy"`
	ClusterIDs int `json:"clusterIDs"`
	// Groups of clients with the same reflectors that have clients, and how many.
	Groups          int  `json:"groups"`
	ClientsPerGroup span `json:"clientsPerGroup"`
	BGPPeers        int  `json:"bgpPeers"`
	// Labelled is how many clients rrpool writes a label to.
	Labelled               int  `json:"clientsLabelled"`
	ClientsPerReflector    span `json:"clientsPerReflector"`
	ReflectorsPerReflector span `json:"reflectorsPerReflector"`
	SessionsPerReflector   span `json:"sessionsPerReflector"`
	SessionsPerClient      span `json:"sessionsPerClient"`
	// Sessions are all of the cluster, FullMesh how many the node-to-node mesh has.
	Sessions int `json:"sessions"`
	FullMesh int `json:"fullMeshSessions"`
	// PathsOnClient and PathsOnReflector are to a prefix of a client, the most there are.
	PathsOnClient    paths `json:"pathsOnClient"`
	PathsOnReflector paths `json:"pathsOnReflector"`
	// RIBs: paths to all prefixes, if each client announces one.
	ClientRIB    paths `json:"clientRIB"`
	ReflectorRIB paths `json:"reflectorRIB"`
	// Memory is what BIRD needs on the busiest reflector, in bytes.
	Memory memory `json:"reflectorMemory"`
	// GroupPairs are the pairs of groups, Unreached those of them without a route.
	GroupPairs int `json:"groupPairs"`
	Unreached  int `json:"groupPairsWithoutRoute"`
}

// span is what several nodes have.
type span struct {
	Least int `json:"least"`
	Most  int `json:"most"`
	// Mean is rounded down to hundredths.
	Mean float64 `json:"mean"`
}

// paths is a number of paths. AtLeast: there are more than were counted.
type paths struct {
	Paths   uint64 `json:"paths"`
	AtLeast bool   `json:"atLeast,omitempty"`
}

// memory in bytes. AtLeast: it was computed from paths of which there are more.
type memory struct {
	Bytes   uint64 `json:"bytes"`
	AtLeast bool   `json:"atLeast,omitempty"`
}

// failuresView is what an arrangement survives.
type failuresView struct {
	// Partitioned: clients are cut off from each other while nothing has failed.
	Partitioned bool `json:"partitioned,omitempty"`
	// SurvivesAny is how many reflectors may fail together, whichever they are.
	SurvivesAny int `json:"survivesAny"`
	// Zones: what the loss of each zone does to the clients of the others.
	Zones []zoneView `json:"zones"`
	// Sets of --fail reflectors, alike ones together.
	Sets []setView `json:"sets,omitempty"`
	// Tried sets of All, where there are too many.
	Tried uint64 `json:"setsTried,omitempty"`
	All   uint64 `json:"setsThereAre,omitempty"`
	// Breaking is the first set that cuts clients off from each other: the seats. Where
	// those that were tried do not, it is a smallest one, which may have fewer.
	Breaking []string `json:"breaking,omitempty"`
	// Cut names two groups that it cuts off from each other.
	Cut []string `json:"cut,omitempty"`
}

type zoneView struct {
	Name       string `json:"name"`
	Reflectors int    `json:"reflectors"`
	Clients    int    `json:"clients"`
	// Cut: clients of the other zones are cut off from each other.
	Cut bool `json:"cut"`
	// Remain: there are clients in other zones.
	Remain bool `json:"remain"`
}

// setView are sets of reflectors that are alike, and fail as a whole.
type setView struct {
	Which string `json:"which"`
	Sets  uint64 `json:"sets"`
	// Cutting is how many of them cut clients off from each other.
	Cutting uint64 `json:"cutting"`
}
