package topology

// state is how some sessions are together. Each has a colour, and for those who cannot
// tell colours apart a pattern, a mark and words as well.
type state int

const (
	idle state = iota // no sessions
	up
	partial
	down0
	unknown
	planned
)

// look is how a state is shown.
type look struct {
	// name is the state's class in the drawing, words what the legend says.
	name, words string
	// light and dark are its colours on light and on dark paper.
	light, dark string
	// dash and width of its lines; dot is the pattern in the words of Graphviz.
	dash  string
	width float64
	dot   string
}

var looks = map[state]look{
	idle:    {name: "idle", words: "no sessions", light: "#6e7781", dark: "#9aa4af", dash: "1 6", width: 1.5, dot: "dotted"},
	up:      {name: "up", words: "all sessions up", light: "#0a7d5a", dark: "#3fbf92", width: 2, dot: "solid"},
	partial: {name: "partial", words: "some sessions up", light: "#b06000", dark: "#f0a63c", dash: "10 5", width: 2.5, dot: "dashed"},
	down0:   {name: "down", words: "no session up", light: "#c22f0a", dark: "#ff7b5c", dash: "2 5", width: 3.5, dot: "dotted"},
	unknown: {name: "unknown", words: "not known", light: "#6e7781", dark: "#9aa4af", dash: "14 4 3 4", width: 1.5, dot: "dashed"},
	planned: {name: "planned", words: "planned", light: "#2f66b0", dark: "#78aef2", width: 2, dot: "solid"},
}

// states in the order of the legend.
var states = []state{up, partial, down0, unknown, idle, planned}

// of is the state that sessions of this network are shown in.
func (n *Network) of(s Sessions) state {
	if !n.Live && s.Expected > 0 {
		return planned
	}
	return s.state()
}

// ofGroup is the state of a group: the one of all its links.
func (n *Network) ofGroup(g Group) state {
	var sum Sessions
	for _, l := range n.Links {
		if l.Group == g.ID {
			sum.add(l.Sessions)
		}
	}
	if sum.Expected == 0 && n.Live && g.None > 0 {
		return down0
	}
	return n.of(sum)
}
