package modelcheck

// Mutation takes one gate out of rollout: Statement becomes the first one of Function. Two
// of the same name go together.
type Mutation struct {
	Name string
	// Function is the name of a function or method of package rollout.
	Function  string
	Statement string
	// Guards says what goes wrong without it.
	Guards string
	// Scenario finds that.
	Scenario string
	// Redundant says which other gate protects as well, and why a run finds nothing.
	Redundant string
}

// Mutations are all the gates.
var Mutations = []Mutation{
	{"reflector gate", "reflectorGate", "return &gate{}", "sessions before the mesh goes, and before a reflector does", "probe: timer", ""},
	{"sessions", "sessionsUp", "return time.Time{}", "each session of a gate", "probe: back", ""},
	{"proof", "prove", "return", "settled sessions, seen after the last write, in a fresh report", "probe: there, quickly", ""},
	{"settle", "prove", "settled = time.Time{}", "sessions that have carried routes for a moment", "probe: back", ""},
	{"quiet", "prove", "after = time.Time{}", "what was seen before the last write was rendered", "probe: existing nodes, a cordon", ""},
	{"freshness", "prove", "st.Updated = v.now", "an old report", "", "the route gate protects as well: see what follows"},
	{"freshness and routes", "prove", "st.Updated = v.now", "an old report", "probe: stale", ""},
	{"freshness and routes", "routesGate", "return", "routes on clients", "probe: stale", ""},
	{"removal delay", "removeReflector", "v.d.RemovalDelay = 0", "a reflector before the others have proven themselves", "probe: existing nodes, a cordon", ""},
	{"one at a time", "removeReflector", "return &Step{Name: \"RemoveReflector\", Actions: func() (out []plan.Action) { for _, h := range v.current { out = append(out, plan.ClearReflector{Node: h.Name}) }; return out }()}", "two reflectors in one step", "probe: fewer", ""},
	{"completeness", "complete", "return true", "as many reflectors as wanted before the mesh goes", "", "growPool comes first and waits for the whole pool; the reflector gate covers those that are there: rollout's TestTheMeshStaysOnWhile"},
	{"start", "mayStart", "return true", "no role before the pool is complete", "probe: too small a pool", ""},
	{"route gate", "sampleGate", "return nil", "routes on clients, not only sessions", "probe: mute", ""},
	{"routes", "routesGate", "return", "the same, of one client", "probe: mute", ""},
	{"learned", "learned", "return", "every prefix from every reflector", "probe: mute", ""},
	{"mesh gate", "meshGate", "return &gate{}, nil, nil", "the mesh before the reflectors go", "probe: back", ""},
	{"mesh sessions", "meshSessions", "return", "each session of the mesh", "probe: back", ""},
	{"mesh batch", "proveBatch", "return nil", "each node of the mesh", "probe: back", ""},
	{"restore", "restoreMesh", "return nil", "the mesh on, before the reflectors go", "probe: back", ""},
	{"under mesh", "underMesh", "return change", "the mesh, before reflector sessions restart", "probe: a password", ""},
	{"safety net", "safetyNet", "return nil", "the mesh when too few serve", "probe: two failures", ""},
	{"carriers", "carriersGate", "return &gate{}", "others that carry an in-place node's routes", "probe: existing nodes, 3 of 5", ""},
	{"promotion gate", "othersCarry", "return &gate{}, nil", "the same, at a promotion", "probe: existing nodes, there", ""},
	{"stage demotion", "stepDown", "return nil", "other reflectors before an in-place node gives the role back", "probe: existing nodes, a cordon", ""},
	{"stage promotion", "makeClient", "return nil", "other reflectors before an in-place node gets the role", "probe: existing nodes, there", ""},
	{"bridge", "bridged", "return true", "a reflector of both, while a session is reversed", "probe: existing nodes, a cordon", ""},
	{"first of all", "promoteFirst", "v.quiet = 0", "peers rendered before the first reflector", "", "it only shortens an outage that is announced, and the model has no seconds; rollout's goldens show it"},
	{"stray peerings", "deleteStrayPeerings", "v.StraySince = v.now.Add(-1 << 50)", "a change of role rendered before its peers go", "", "nobody else gives the role back within the removal delay, which is longer: rollout's TestABlockedDrainDoesNotKeepStrayPeerings"},
	{"slots now", "nowGate", "return &gate{}", "the others while a reflector changes its slot", "probe: single to multi", ""},
	{"depth", "needs", "return 0", "how many others are enough for that", "probe: single to multi", ""},
	{"scope time", "scopedFor", "return 0", "scoped peers rendered before other reflectors come", "", "what is rendered too early multiplies paths for seconds and cuts nobody off; the scope itself is taken out above"},
	{"scope", "scoped", "return layout.Peers", "Single's peers away from other cluster IDs", "probe: single to hierarchy", ""},
	{"narrow", "narrow", "v = opened(v)", "sessions that end, until the reflectors serve without", "", "disableMesh has waited for the same gate, and no edit in these small clusters leaves a BGPPeer too wide: rollout's TestGrowingTakesNoSessionBeforeTheNextIsUp"},
	{"mesh off", "disableMesh", "v = opened(v)", "all of it, before the mesh goes", "probe: there, quickly", ""},
	{"removal", "removeReflector", "v = opened(v)", "all of it, before a reflector goes", "probe: existing nodes, a cordon", ""},
	{"ID change", "changeID", "v = opened(v)", "all of it, before a cluster ID changes", "probe: another cluster ID", ""},
	{"ID gate", "anyIDGate", "return &gate{}", "the others while a cluster ID changes", "probe: another cluster ID", ""},
	{"timer", "timerGate", "return", "fixed waits where nothing is reported", "probe: timer", ""},
	{"unsupported cluster", "unsupportedCluster", "return nil", "anything while something is in the way", "probe: in the way", ""},
	{"hold", "hold", "return nil", "anything while the datastore reports a problem", "probe: in the way", ""},
	{"foreign peer", "foreignPeer", "return nil", "BGPPeers of others", "probe: in the way", ""},
	{"pool unknown", "growPool", "if v.Pool == nil { v.Pool = &Pool{} }", "orders while the pool is unknown", "probe: too small a pool", ""},
	{"pool unknown, smaller", "shrink", "if v.Pool == nil { v.Pool = &Pool{Exists: true} }", "removals while the pool is unknown", "probe: in the way, fewer", ""},
	{"stray label", "onceServed", "return s", "the reflectors before a label goes", "", "the label is a person's doing, and what its removal costs is announced, so the model excuses it: rollout's TestALabelOnOneOfTwoClientsIsTakenAway"},
	{"unready", "unreadyGate", "return", "nodes that only their kubelet has left", "", "a kubelet that dies alone is not in the model: rollout's TestADeadKubeletIsNoReasonToLoseAPacket"},
	{"silent", "silentGate", "return nil", "the same, of a node that is promoted", "", "a kubelet that dies alone is not in the model: rollout's TestANodeThatIsNotReadyIsWaitedForWhileItMayBeAlive"},
	{"stray peers", "deleteStrayPeers", "v = opened(v)", "sessions that end, until the reflectors serve without", "", "reassign has waited for the same sessions one reflector at a time: rollout's TestFromEveryTopologyToEveryOther"},
	{"heal", "healRoles", "return nil", "half a role that stays half", "probe: edits", ""},
}
