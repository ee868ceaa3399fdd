//go:build linux

package lab_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/lab"
)

// table is who has sessions with whom, and who knows whose prefixes: as it is in the lab, or as the simulator has it.
type table map[string]row

// row is what a node has.
type row struct {
	// sessions are the nodes that it has one with, sorted; count is their number.
	sessions string
	count    int
	// from gives, by node, what it knows of that node's prefix; rib is the number of all paths.
	from map[string]cell
	rib  string
}

// cell is what a node knows of another's prefix.
type cell struct {
	paths string
	// senders are the neighbours that have sent them, sorted.
	senders string
	// reached: the kernel has a route.
	reached bool
}

// measured reads the table of the nodes that are up from BIRD and the kernel.
func measured(l *lab.Lab, down ...string) (table, error) {
	names := map[string]string{}
	for _, node := range l.Nodes() {
		names[l.Address(node).String()] = node
	}
	out := table{}
	for _, node := range l.Nodes() {
		if slices.Contains(down, node) {
			continue
		}
		r, err := measuredRow(l, node, names)
		if err != nil {
			return nil, err
		}
		out[node] = r
	}
	return out, nil
}

func measuredRow(l *lab.Lab, node string, names map[string]string) (row, error) {
	sessions, err := l.Sessions(node)
	if err != nil {
		return row{}, err
	}
	var with []string
	for _, s := range sessions {
		if s.Established() {
			with = append(with, names[s.Peer.String()])
		}
	}
	slices.Sort(with)
	paths, err := l.Paths(node)
	if err != nil {
		return row{}, err
	}
	out := row{sessions: strings.Join(with, " "), count: len(with), from: map[string]cell{}}
	rib := 0
	for _, from := range l.Nodes() {
		var senders []string
		count := 0
		for sender, n := range paths[l.Block(from)] {
			senders = append(senders, names[sender.String()])
			count += n
		}
		slices.Sort(senders)
		reached, err := l.Reaches(node, from)
		if err != nil {
			return row{}, err
		}
		rib += count
		out.from[from] = cell{paths: fmt.Sprint(count), senders: strings.Join(senders, " "), reached: reached || from == node}
	}
	out.rib = fmt.Sprint(rib)
	return out, nil
}

// simulated is the table that the simulator has for these nodes, some of which may be down.
func simulated(n *simulate.Network, nodes []string, down ...string) table {
	out := table{}
	for _, node := range nodes {
		if slices.Contains(down, node) {
			continue
		}
		var with []string
		for _, other := range nodes {
			if n.Connected(node, other) {
				with = append(with, other)
			}
		}
		slices.Sort(with)
		r := row{sessions: strings.Join(with, " "), count: n.Sessions(node), from: map[string]cell{}, rib: count(n.RIB(node))}
		for _, from := range nodes {
			paths := n.Paths(from, node)
			r.from[from] = cell{paths: count(paths), senders: strings.Join(n.Senders(from, node), " "), reached: paths.Paths > 0 || from == node}
		}
		out[node] = r
	}
	return out
}

func count(c simulate.Count) string {
	if c.More {
		return fmt.Sprintf("≥%d", c.Paths)
	}
	return fmt.Sprint(c.Paths)
}

// disagreement is "" when two tables say the same, else the differences and both tables.
func disagreement(inTheLab, inTheSimulator table) string {
	var differences []string
	for _, node := range slices.Sorted(maps.Keys(inTheLab)) {
		differences = append(differences, inTheLab[node].differences(node, inTheSimulator[node])...)
	}
	if len(inTheLab) != len(inTheSimulator) {
		differences = append(differences, fmt.Sprintf("%d nodes in the lab, %d in the simulator", len(inTheLab), len(inTheSimulator)))
	}
	if len(differences) == 0 {
		return ""
	}
	const most = 20
	if more := len(differences) - most; more > 0 {
		differences = append(differences[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("lab and simulator disagree:\n%s\n\nThe lab:\n%s\nThe simulator:\n%s", strings.Join(differences, "\n"), inTheLab, inTheSimulator)
}

func (r row) differences(node string, o row) []string {
	var out []string
	if r.sessions != o.sessions || r.count != o.count {
		out = append(out, fmt.Sprintf("sessions of %s: lab %d (%s), simulator %d (%s)", node, r.count, r.sessions, o.count, o.sessions))
	}
	if r.rib != o.rib {
		out = append(out, fmt.Sprintf("paths on %s: lab %s, simulator %s", node, r.rib, o.rib))
	}
	for _, from := range slices.Sorted(maps.Keys(r.from)) {
		if a, b := r.from[from], o.from[from]; a != b {
			out = append(out, fmt.Sprintf("%s → %s: lab %s, simulator %s", from, node, a, b))
		}
	}
	return out
}

func (c cell) String() string {
	kernel := "no route"
	if c.reached {
		kernel = "a route"
	}
	return fmt.Sprintf("%s paths (%s), %s", c.paths, c.senders, kernel)
}

// String is a line for each node: its sessions, its paths, and those to each node's prefix. A prefix without a route has an x.
func (t table) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	nodes := slices.Sorted(maps.Keys(t))
	if len(nodes) == 0 {
		return "no node\n"
	}
	origins := slices.Sorted(maps.Keys(t[nodes[0]].from))
	fmt.Fprintln(w, "NODE\tSESSIONS\tPATHS\tfrom "+strings.Join(origins, "\t"))
	for _, node := range nodes {
		r := t[node]
		fmt.Fprintf(w, "%s\t%d\t%s", node, r.count, r.rib)
		for _, from := range origins {
			c := r.from[from]
			if fmt.Fprint(w, "\t", c.paths); !c.reached {
				fmt.Fprint(w, " x")
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return out.String()
}
