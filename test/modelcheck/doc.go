// Package modelcheck looks at every state that a small cluster can get into under
// rollout.Next, and is the exhaustive sister of rollout's own random tests.
//
// A state is what is in the datastore (nodes, BGPPeers, BGPConfiguration, the pool), what
// each node has rendered, the sessions, the reports as the manager knows them, and what it
// remembers. From each state every move is made that the Scenario allows: the manager
// takes its turn, or dies after any of the turn's actions and forgets; a node renders; a
// session comes up, and its routes arrive; a report falls behind, and catches up; time
// passes; somebody or something disturbs. Nodes render by Calico's rules
// (simulate.Configuration.Side), a session starts anew when what either side has rendered
// about the other changes, and routes spread by BIRD's rules of reflection, written here a
// second time.
//
// # What is checked
//
// In every state: (1) any two Ready nodes with pods reach each other; (2) while the mesh is
// off, each client has sessions with min(2, reflectors) reflectors. Of every turn: (3) it
// takes at most one reflector away, and in mode RouteReflector only when the reports show
// that the others have been Established with everyone for the removal delay; (5) it writes
// nothing while something is in the way, orders and removes nothing while the pool is
// unknown, and touches no BGPPeer of others. From every state: (4) the run in which nothing
// disturbs and nobody is slow comes to rest in Steady where it should be, without a circle;
// where something is broken that no manager can put right (a dead node, a BGPPeer of
// somebody else), in a step that says what it waits for, and that writes nothing but
// questions for reports.
//
// # What is excused
//
// A disturbance may cut off the pairs, and no others, that no unchanged session joins at
// that moment, and take from a client the reflector sessions that it restarts; both until
// they are there again, and what is there again may not be lost again. A step may cut off
// the node, or the pair, whose outage its Reason announces. A node that returns is excused
// until it is Ready and joined. A busy node on which a person has put the role label is excused until
// the label is gone. Reflectors that are new count for (2) when they have their sessions.
//
// # Time
//
// Whatever has a date has an age instead: just now, or one, two, or three and more ticks
// ago, which rollout is told is 0 s, 25 s, 100 s and 20 minutes. A tick cannot begin before
// every node that runs has rendered everything, every session that could start has (or, in
// a Late scenario, has been starting for no longer than a tick), and every route has
// arrived. So one tick is longer than quiet (15 s) and than any session's start (2 to 18 s
// and the rendering before), and shorter than a report is fresh or the safety net waits
// (30 s); two are longer than the removal delay, the grace, the timer gate.
//
// What this cannot see: waits that are wrong by less than such a step; rules that compare
// two dates in the same class; more than one disturbance at a time, save where the Budget
// is larger; more than one report behind at a time. Reports that show too little do not
// fall behind: they make the manager wait. A report keeps, for all sessions of a kind, the
// date of the youngest; BGPPeers and dedicated roles, the date of the latest. Nodes have
// one address family, BIRD dies with its node only, and the cloud does what it is asked.
// Unless a Scenario is Fine, the sessions of a node come up together.
package modelcheck
