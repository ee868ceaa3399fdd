package modelcheck

// exceptions look like gates, and are not taken out by themselves.
var exceptions = map[string]string{
	"connect":           "only adds sessions; that it does so is what lets in-place reflectors settle",
	"undoCordon":        "changes no session",
	"strayLabels":       "its gate is onceServed",
	"putInRacks":        "each client counts for its rack already, so no session changes",
	"writePeers":        "its gates are underMesh and mayStart",
	"clearForMesh":      "is deleteStrayPeerings, sooner",
	"promote":           "its gates are mayStart, promoteFirst, othersCarry and scopedFor",
	"reassign":          "its gates are underMesh, nowGate and needs",
	"trim":              "is removeReflector, sooner",
	"clearRacks":        "runs when no BGPPeer asks for racks",
	"awaitReports":      "writes nothing",
	"awaitNodes":        "writes nothing",
	"healHalf":          "is healRoles on the way back",
	"demote":            "its gate is meshGate",
	"deletePeers":       "runs when nobody reflects",
	"forgetMesh":        "runs when nothing else is left",
	"releasePool":       "runs when nothing else is left",
	"reflectorSessions": "passes on to sessionsOf, whose parts are sessionsUp and prove",
	"sessionsOf":        "passes on to sessionsIn",
	"sessionsIn":        "its parts are sessionsUp and prove",
	"steadyGate":        "only damps reflectors that flap, over minutes: rollout's TestFlappingReflectorsDoNotFlapTheMesh",
}
