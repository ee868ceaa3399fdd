package topology

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// mostGroups is the maximum number of groups in a layout. Each group adds a BGPPeer, which every node processes.
const mostGroups = 200

// sizeGroups is the number of groups of a Quorum or MultiCluster without racks and zones. With 12 groups, the
// reflectors' numbers of clients differ by only a few percent, and no group is divided when reflectors are added.
const sizeGroups = 12

// slack is by how many clients the open group of a Quorum may exceed the smallest
// group. Beyond that, another group becomes the open one, which changes two BGPPeers.
const slack = 8

// division is how clients are divided into groups.
type division int

const (
	byLabel division = iota // by a label that the user names
	byZone
	bySize // by plan.RackLabel, which rrpool writes
)

// census counts clients by a label's value.
type census struct {
	division
	key    string
	groups map[string]*tally
	// ungrouped are the clients without a valid value.
	ungrouped []*plan.Node
}

// tally counts the clients that have one value of the label.
type tally struct {
	clients int
	zones   map[string]int
	oldest  *plan.Node
}

func (t *tally) add(n *plan.Node) {
	t.clients++
	t.zones[n.Zone]++
	if t.oldest == nil || older(n, t.oldest) < 0 {
		t.oldest = n
	}
}

// older compares nodes by age, then by name.
func older(a, b *plan.Node) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// newCensus returns the census of clients.
func newCensus(by division, spec Spec, clients []plan.Node) *census {
	c := &census{division: by, groups: map[string]*tally{}}
	c.key = map[division]string{byLabel: spec.RackLabel, byZone: spec.ZoneLabel, bySize: plan.RackLabel}[by]
	valid := isValue
	if by == bySize {
		valid = isRack
	}
	for i := range clients {
		n := &clients[i]
		value := n.Labels[c.key]
		if by == bySize {
			value = n.Rack
		}
		if c.groups[value] == nil && !valid(value) {
			c.ungrouped = append(c.ungrouped, n)
			continue
		}
		c.group(value).add(n)
	}
	slices.SortFunc(c.ungrouped, func(a, b *plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// group returns the group of a label value. If there is none, it adds one.
func (c *census) group(value string) *tally {
	if c.groups[value] == nil {
		c.groups[value] = &tally{zones: map[string]int{}}
	}
	return c.groups[value]
}

// names returns the names of the groups, sorted. Names that are numbers come first, in numerical order.
func (c *census) names() []string {
	return slices.SortedFunc(maps.Keys(c.groups), byNumber)
}

// byNumber compares numbers by their value, and sorts them before other strings.
func byNumber(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return cmp.Or(plan.TrueFirst(errX == nil, errY == nil), cmp.Compare(x, y), cmp.Compare(a, b))
}

// currentOpen returns the index of the group that is open now (see Group.Open), or -1.
func currentOpen(spec Spec, groups []string) int {
	return slices.IndexFunc(groups, func(name string) bool { return slices.Contains(spec.Open, peerName(spec.Kind, name)) })
}

// largest returns the rack with most clients. Clients without a rack count as clients of the open rack, or of the first if none is open yet.
func (c *census) largest(spec Spec) (name string, clients int) {
	names := c.names()
	open := max(0, currentOpen(spec, names))
	for i, value := range names {
		n := c.groups[value].clients
		if i == open {
			n += len(c.ungrouped)
		}
		if n > clients {
			name, clients = value, n
		}
	}
	return name, clients
}

// chooseDivision returns the census by the division to use. If the user names a label, it is by
// that label. If most clients have plan.RackLabel already, it stays by size. Else it is by zone if
// two zones have clients and, for a Quorum or Hierarchy, none gets too many clients; else by size.
func chooseDivision(spec Spec, clients []plan.Node, zones []string) *census {
	if spec.RackLabel != "" {
		return newCensus(byLabel, spec, clients)
	}
	sized := newCensus(bySize, spec, clients)
	if 2*len(sized.ungrouped) < len(clients) {
		return sized
	}
	zoned := newCensus(byZone, spec, clients)
	if len(zoned.groups) < 2 {
		return sized
	}
	for _, z := range zones {
		if isValue(z) {
			zoned.group(z) // a zone keeps its group while it has no clients
		}
	}
	fits := true
	switch _, most := zoned.largest(spec); spec.Kind {
	case v1alpha1.TopologyQuorum:
		fits = quorumFits(spec, zoned, zones) || !quorumFits(spec, sized, zones)
	case v1alpha1.TopologyMultiCluster:
	default:
		fits = most <= spec.MaxClients
	}
	if fits {
		return zoned
	}
	return sized
}

// assignRacks assigns racks, in l.Racks, to the clients that have none, and returns the open rack. serving are the groups that have
// reflectors. While there are none, the clients are divided evenly. Later all of them get the open rack, whose BGPPeer selects them already.
func (l *Layout) assignRacks(spec Spec, c *census, serving []string) (open string) {
	names := c.names()
	if len(names) == 1 {
		return names[0] // its BGPPeer selects clients without the label too
	}
	l.Racks = map[string]string{}
	if len(serving) == 0 {
		counts := c.counts(names)
		for _, n := range c.ungrouped {
			least := smallest(counts)
			counts[least]++
			l.Racks[n.Name] = names[least]
		}
		return names[0]
	}
	open = c.chooseOpen(spec, serving)
	for _, n := range c.ungrouped {
		l.Racks[n.Name] = open
	}
	return open
}

// counts returns the number of clients of each of these groups.
func (c *census) counts(names []string) []int {
	out := make([]int, len(names))
	for i, name := range names {
		if group := c.groups[name]; group != nil {
			out[i] = group.clients
		}
	}
	return out
}

// smallest returns the index of the first of the smallest counts.
func smallest(counts []int) int { return slices.Index(counts, slices.Min(counts)) }

// chooseOpen returns which of the groups with reflectors (serving) is the open one. The open group stays the same while clients
// have no label yet, or while it has room: in a Hierarchy up to MaxClients, in a Quorum up to slack more than the smallest group.
func (c *census) chooseOpen(spec Spec, serving []string) string {
	counts := c.counts(serving)
	room := func(n int) bool { return n <= slices.Min(counts)+slack }
	if spec.Kind == v1alpha1.TopologyHierarchy {
		room = func(n int) bool { return n < spec.MaxClients }
	}
	if now := currentOpen(spec, serving); now >= 0 && (len(c.ungrouped) > 0 || room(counts[now])) {
		return serving[now]
	}
	if first := slices.IndexFunc(counts, room); first >= 0 && spec.Kind == v1alpha1.TopologyHierarchy {
		return serving[first]
	}
	return serving[smallest(counts)]
}

// addRacks adds racks to a census by size, as many as the clients need. A rack that has
// reflectors but no clients is kept unless the other racks have room for a tenth of MaxClients.
func (c *census) addRacks(spec Spec) {
	room := func() int {
		room := -len(c.ungrouped)
		for _, group := range c.groups {
			room += max(0, spec.MaxClients-group.clients)
		}
		return room
	}
	for _, rack := range spec.Racks {
		if isRack(rack) && c.groups[rack] == nil && room() < ceil(spec.MaxClients, 10) {
			c.group(rack)
		}
	}
	for n := 1; room() <= 0 && n <= mostGroups+1; n++ {
		c.group(strconv.Itoa(n))
	}
}
