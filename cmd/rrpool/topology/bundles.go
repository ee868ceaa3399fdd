package topology

import (
	"fmt"
	"slices"
)

// A picture of groups × reflectors single lines could not be read. So lines are
// bundled: what is drawn is one line between a group and the reflectors of a zone, and
// one bus that joins the reflectors. Where there are many zones with reflectors, the
// lines of a group that are alike become one, which a trunk spreads to their zones.

const (
	// manyZones is from how many zones with reflectors on there is a trunk.
	manyZones = 5
	// fewLines is how many lines of their own a group has besides the trunk.
	fewLines = 3
)

// wire is one drawn line: the sessions of a group with the reflectors of a zone, or of
// several by the trunk.
type wire struct {
	group      Group
	zones      []int
	reflectors int
	trunk      bool
	Sessions
}

// words on the line: clients × reflectors where every client has a session with each.
func (w wire) words(n *Network) string {
	each := w.reflectors
	if w.group.Each > 0 { // as many for each client, but not the same
		each = w.Expected / max(w.group.Clients, 1)
	}
	switch pairs := w.group.Clients * each; w.Expected {
	case pairs:
		return joined(fmt.Sprintf("%s × %d sessions", grouped(w.group.Clients), each), n.soMany(w.Sessions))
	case 2 * pairs:
		return joined(fmt.Sprintf("%s × %d × 2 sessions", grouped(w.group.Clients), each), n.soMany(w.Sessions))
	}
	return n.sessions(w.Sessions)
}

// home gives the zone of each reflector, by its place.
func (n *Network) home() map[string]int {
	out := map[string]int{}
	for i, zone := range n.Zones {
		for _, r := range zone.Reflectors {
			out[r.Name] = i
		}
	}
	return out
}

// wires of a group, by zone; that of the trunk comes last.
func (n *Network) wires(g Group) []wire {
	home := n.home()
	byZone := make([]wire, len(n.Zones))
	for _, l := range n.Links {
		if zone, ok := home[l.To]; ok && l.Group == g.ID {
			w := &byZone[zone]
			w.group, w.zones = g, []int{zone}
			w.reflectors++
			w.add(l.Sessions)
		}
	}
	var out []wire
	for _, w := range byZone {
		if w.reflectors > 0 {
			out = append(out, w)
		}
	}
	if len(out) < manyZones {
		return out
	}
	return n.trunked(out)
}

// trunked leads the wires that are as most are over the trunk, or all of them when too
// many differ.
func (n *Network) trunked(all []wire) []wire {
	count := map[state]int{}
	usual := idle
	for _, w := range all {
		s := n.of(w.Sessions)
		if count[s]++; count[s] > count[usual] {
			usual = s
		}
	}
	trunk := wire{group: all[0].group, trunk: true}
	var out []wire
	for _, w := range all {
		if n.of(w.Sessions) != usual && len(all)-count[usual] <= fewLines {
			out = append(out, w)
			continue
		}
		trunk.zones = append(trunk.zones, w.zones...)
		trunk.reflectors += w.reflectors
		trunk.add(w.Sessions)
	}
	return append(out, trunk)
}

// spread sums up what the trunk brings to each zone.
func (n *Network) spread() map[int]Sessions {
	home, out := n.home(), map[int]Sessions{}
	for _, zone := range n.Zones {
		for _, g := range zone.Groups {
			for _, w := range n.wires(g) {
				if w.trunk {
					n.addShares(out, w, home)
				}
			}
		}
	}
	return out
}

// addShares adds the sessions of a wire by zone.
func (n *Network) addShares(out map[int]Sessions, w wire, home map[string]int) {
	for _, l := range n.Links {
		zone := home[l.To]
		if l.Group == w.group.ID && slices.Contains(w.zones, zone) {
			sum := out[zone]
			sum.add(l.Sessions)
			out[zone] = sum
		}
	}
}

// ring are the sessions that reflectors have with each other.
type ring struct {
	// total counts each once, byZone those with an end in the zone.
	total  Sessions
	byZone []Sessions
	// complete: each reflector has a session with each other. tiered: each spine has one with
	// each of the others, and there is no other.
	complete, tiered bool
}

func (n *Network) ring() ring {
	home := n.home()
	out := ring{byZone: make([]Sessions, len(n.Zones))}
	links, across := 0, 0
	for _, l := range n.Links {
		if l.Reflector == "" {
			continue
		}
		links++
		a, b := home[l.Reflector], home[l.To]
		if (n.Zones[a].Kind == spineFrame) != (n.Zones[b].Kind == spineFrame) {
			across++
		}
		out.total.add(l.Sessions)
		out.byZone[a].add(l.Sessions)
		if a != b {
			out.byZone[b].add(l.Sessions)
		}
	}
	all, spines := 0, 0
	for _, zone := range n.Zones {
		all += len(zone.Reflectors)
		if zone.Kind == spineFrame {
			spines = len(zone.Reflectors)
		}
	}
	out.complete = links == all*(all-1)/2
	out.tiered = across == links && links == spines*(all-spines)
	return out
}

// words about all sessions between reflectors.
func (r ring) words(n *Network) string {
	switch {
	case r.complete:
		return "reflectors each with each: " + n.sessions(r.total)
	case r.tiered:
		return "spines with all reflectors of the racks: " + n.sessions(r.total)
	}
	return "between reflectors: " + n.sessions(r.total)
}

// panelWords head the reflectors of a zone.
func (n *Network) panelWords(zone int, r ring) string {
	frame, what := n.Zones[zone], "reflector"
	if frame.Kind == spineFrame {
		what = "spine"
	}
	text := count(roles(frame.Reflectors), what)
	if roles(frame.Reflectors) == 0 && len(frame.Reflectors) > 0 {
		text = "no " + what
		if n.coming {
			text += " yet"
		}
	}
	if id := frame.commonID(); id != "" {
		text += ", cluster ID " + id
	}
	if with := r.byZone[zone]; with.Expected > 0 && n.Live && n.of(with) != up {
		text += fmt.Sprintf(", to reflectors %s/%s up", grouped(with.Established), grouped(with.Expected))
	}
	return text
}
