//go:build linux

package lab_test

import (
	"fmt"
	"slices"
	"strings"

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
