package modelcheck

// Mutation takes one gate out of rollout: Statement becomes the first one of Function.
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
	{"reflector gate", "reflectorGate", "return &gate{}", "sessions before the mesh goes, and before a reflector does", "", ""},
	{"sessions", "sessionsUp", "return time.Time{}", "each session of a gate", "", ""},
	{"proof", "prove", "return", "settled sessions, seen after the last write, in a fresh report", "", ""},
	{"settle", "prove", "settled = time.Time{}", "sessions that have carried routes for a moment", "", ""},
	{"quiet", "prove", "after = time.Time{}", "what was seen before the last write was rendered", "", ""},
	{"freshness", "prove", "st.Updated = v.now", "an old report", "", ""},
	{"removal delay", "removeReflector", "v.d.RemovalDelay = 0", "a reflector before the others have proven themselves", "", ""},
	{"one at a time", "removeReflector", "return &Step{Name: \"RemoveReflector\", Actions: func() (out []plan.Action) { for _, h := range v.holders { out = append(out, plan.ClearReflector{Node: h.Name}) }; return out }()}", "two reflectors in one step", "", ""},
	{"completeness", "complete", "return true", "as many reflectors as wanted before the mesh goes", "", ""},
	{"start", "mayStart", "return true", "no role before the pool is complete", "", ""},
	{"route gate", "sampleGate", "return nil", "routes on clients, not only sessions", "", ""},
	{"routes", "routesGate", "return", "the same, of one client", "", ""},
	{"learned", "learned", "return", "every prefix from every reflector", "", ""},
	{"mesh gate", "meshGate", "return &gate{}, nil, nil", "the mesh before the reflectors go", "", ""},
	{"mesh sessions", "meshSessions", "return", "each session of the mesh", "", ""},
	{"mesh batch", "proveBatch", "return nil", "each node of the mesh", "", ""},
	{"restore", "restoreMesh", "return nil", "the mesh on, before the reflectors go", "", ""},
	{"under mesh", "underMesh", "return change", "the mesh, before reflector sessions restart", "", ""},
	{"safety net", "safetyNet", "return nil", "the mesh when too few serve", "", ""},
	{"carriers", "carriersGate", "return &gate{}", "others that carry a busy node's routes", "", ""},
	{"lifeline", "lifeline", "return &gate{}, nil", "the same, at a promotion", "", ""},
	{"stage demotion", "stepDown", "return nil", "seniors before a busy node gives the role back", "", ""},
	{"stage promotion", "subordinate", "return nil", "seniors before a busy node gets the role", "", ""},
	{"bridge", "bridged", "return true", "a senior to both, while a session turns round", "", ""},
	{"first of all", "promoteFirst", "v.quiet = 0", "peers rendered before the first reflector", "", ""},
	{"stray pairs", "deleteStrayPairs", "v.StraySince = v.now.Add(-1 << 50)", "a change of role rendered before its peers go", "", ""},
	{"seats now", "nowGate", "return &gate{}", "the others while a reflector changes its seat", "", ""},
	{"depth", "needs", "return 0", "how many others are enough for that", "", ""},
	{"fence time", "fencedFor", "return 0", "fenced peers rendered before other reflectors come", "", ""},
	{"fence", "fenced", "return layout.Peers", "Single's peers away from other cluster IDs", "", ""},
	{"narrow", "narrow", "v = opened(v)", "sessions that end, until the reflectors serve without", "", ""},
	{"mesh off", "disableMesh", "v = opened(v)", "all of it, before the mesh goes", "", ""},
	{"removal", "removeReflector", "v = opened(v)", "all of it, before a reflector goes", "", ""},
	{"ID change", "changeID", "v = opened(v)", "all of it, before a cluster ID changes", "", ""},
	{"ID gate", "anyIDGate", "return &gate{}", "the others while a cluster ID changes", "", ""},
	{"timer", "timerGate", "return", "fixed waits where nothing is reported", "", ""},
	{"refuse", "refuse", "return nil", "anything while something is in the way", "", ""},
	{"hold", "hold", "return nil", "anything while the datastore reports a problem", "", ""},
	{"foreign peer", "foreignPeer", "return nil", "BGPPeers of others", "", ""},
	{"pool unknown", "growPool", "if v.Pool == nil { v.Pool = &Pool{} }", "orders while the pool is unknown", "", ""},
	{"pool unknown, smaller", "shrink", "if v.Pool == nil { v.Pool = &Pool{Exists: true} }", "removals while the pool is unknown", "", ""},
	{"stray label", "onceServed", "return s", "the reflectors before a label goes", "", ""},
	{"unready", "unreadyGate", "return", "nodes that only their kubelet has left", "", ""},
	{"silent", "silentGate", "return nil", "the same, of a node that is promoted", "", ""},
	{"stray peers", "deleteStrayPeers", "v = opened(v)", "sessions that end, until the reflectors serve without", "", ""},
	{"heal", "healRoles", "return nil", "", "", ""},
}
