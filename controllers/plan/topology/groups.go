package topology

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// mostGroups is how many groups a layout may have: each is a BGPPeer that every node reads.
const mostGroups = 200

// sizeGroups is how many groups a Quorum without racks and zones has: so many that reflectors differ by a few
// percent in their clients, and none has to be divided when reflectors come.
const sizeGroups = 12

// slack is how many clients more than the smallest group the open one of a Quorum may
// have before another is opened: not every new node has to rewrite two BGPPeers.
const slack = 8

// division is what puts clients into groups.
type division int

const (
	byLabel division = iota // one that the user names
	byZone
	bySize // the label that rrpool writes
)

// census counts clients by a label's value.
type census struct {
	division
	key    string
	groups map[string]*tally
	// others have no value, or none that can be.
	others []*plan.Node
}

// tally is what is known of the clients of one value.
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

func older(a, b *plan.Node) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// count takes the census of clients.
func count(by division, spec Spec, clients []plan.Node) *census {
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
			c.others = append(c.others, n)
			continue
		}
		c.open(value).add(n)
	}
	slices.SortFunc(c.others, func(a, b *plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// open gives a value a group, if it has none.
func (c *census) open(value string) *tally {
	if c.groups[value] == nil {
		c.groups[value] = &tally{zones: map[string]int{}}
	}
	return c.groups[value]
}

// names of the groups, numbers by their size.
func (c *census) names() []string {
	return slices.SortedFunc(maps.Keys(c.groups), natural)
}

func natural(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return cmp.Or(plan.TrueFirst(errX == nil, errY == nil), cmp.Compare(x, y), cmp.Compare(a, b))
}

// nowOpen is the place of the group that is open as things are, -1 for none.
func nowOpen(spec Spec, groups []string) int {
	return slices.IndexFunc(groups, func(name string) bool { return slices.Contains(spec.Open, peerName(spec.Kind, name)) })
}

// largest is the rack with most clients, those without a rack among them: they are in
// the open one, at first the first.
func (c *census) largest(spec Spec) (name string, clients int) {
	names := c.names()
	open := max(0, nowOpen(spec, names))
	for i, value := range names {
		n := c.groups[value].clients
		if i == open {
			n += len(c.others)
		}
		if n > clients {
			name, clients = value, n
		}
	}
	return name, clients
}

// divide finds out what puts clients into groups: the label that the user names; else the zone, where there are two
// and they fit; else their number. Once most carry the label of the last it stays, so that no client is moved back.
func divide(spec Spec, clients []plan.Node, zones []string) *census {
	if spec.RackLabel != "" {
		return count(byLabel, spec, clients)
	}
	sized := count(bySize, spec, clients)
	if 2*len(sized.others) < len(clients) {
		return sized
	}
	zoned := count(byZone, spec, clients)
	if len(zoned.groups) < 2 {
		return sized
	}
	for _, z := range zones {
		if isValue(z) {
			zoned.open(z) // its clients may be away for a moment
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

// assign puts those without a rack into one, in l.Racks, and gives the open one. While no group serves clients yet,
// all are made as large. Later they all go where they already are: into the open one.
func (l *Layout) assign(spec Spec, c *census, serving []string) (open string) {
	names := c.names()
	if len(names) == 1 {
		return names[0] // which needs no label
	}
	l.Racks = map[string]string{}
	if len(serving) == 0 {
		counts := c.counts(names)
		for _, n := range c.others {
			least := smallest(counts)
			counts[least]++
			l.Racks[n.Name] = names[least]
		}
		return names[0]
	}
	open = c.openOf(spec, serving)
	for _, n := range c.others {
		l.Racks[n.Name] = open
	}
	return open
}

func (c *census) counts(names []string) []int {
	out := make([]int, len(names))
	for i, name := range names {
		if group := c.groups[name]; group != nil {
			out[i] = group.clients
		}
	}
	return out
}

// smallest is the place of the first of the least.
func smallest(counts []int) int { return slices.Index(counts, slices.Min(counts)) }

// openOf is the group that takes whatever client comes, among those that serve. It stays the same while a client in
// it has no label yet, or there is room: in a rack, up to its limit; in a Quorum, as far as the others are filled.
func (c *census) openOf(spec Spec, serving []string) string {
	counts := c.counts(serving)
	room := func(n int) bool { return n <= slices.Min(counts)+slack }
	if spec.Kind == v1alpha1.TopologyHierarchy {
		room = func(n int) bool { return n < spec.MaxClients }
	}
	if now := nowOpen(spec, serving); now >= 0 && (len(c.others) > 0 || room(counts[now])) {
		return serving[now]
	}
	if first := slices.IndexFunc(counts, room); first >= 0 && spec.Kind == v1alpha1.TopologyHierarchy {
		return serving[first]
	}
	return serving[smallest(counts)]
}

// racks opens as many racks as clients take, in a census by size, and keeps those that
// have reflectors: until they are empty, and the others have room for a tenth of one more.
func (c *census) racks(spec Spec) {
	room := func() int {
		room := -len(c.others)
		for _, group := range c.groups {
			room += max(0, spec.MaxClients-group.clients)
		}
		return room
	}
	for _, rack := range spec.Racks {
		if isRack(rack) && c.groups[rack] == nil && room() < ceil(spec.MaxClients, 10) {
			c.open(rack)
		}
	}
	for n := 1; room() <= 0 && n <= mostGroups+1; n++ {
		c.open(strconv.Itoa(n))
	}
}
