package topology

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// mostGroups is how many groups a layout may have: each is a BGPPeer that every node
// reads.
const mostGroups = 200

// sizeGroups is how many groups a Quorum without racks and zones has: so many that
// reflectors differ by a few percent in their clients, and none has to be divided when
// reflectors come.
const sizeGroups = 12

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
		group, known := c.groups[value]
		switch {
		case known:
		case valid(value):
			group = c.open(value)
		default:
			c.others = append(c.others, n)
			continue
		}
		group.add(n)
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
	out := slices.Collect(maps.Keys(c.groups))
	slices.SortFunc(out, natural)
	return out
}

func natural(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return cmp.Or(plan.TrueFirst(errX == nil, errY == nil), cmp.Compare(x, y), cmp.Compare(a, b))
}

// largest is the rack with most clients, those without a rack among them: they are in
// the open one, at first the first.
func (c *census) largest(spec Spec) (name string, clients int) {
	names := c.names()
	open := max(0, slices.IndexFunc(names, func(name string) bool { return slices.Contains(spec.Open, peerName(spec.Kind, name)) }))
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

// divide finds out what puts clients into groups: the label that the user names; else
// the zone, where there are two and they fit; else their number. Once most carry the
// label of the last it stays, so that nobody is moved back.
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
	if fits(spec, zoned, zones) || spec.Kind == v1alpha1.TopologyMultiCluster {
		return zoned
	}
	if spec.Kind == v1alpha1.TopologyQuorum && !quorumFits(spec, sized, zones) {
		return zoned
	}
	return sized
}

// fits reports whether zones can be the groups without a reflector having too many
// clients.
func fits(spec Spec, zoned *census, zones []string) bool {
	if spec.Kind == v1alpha1.TopologyQuorum {
		return quorumFits(spec, zoned, zones)
	}
	_, most := zoned.largest(spec)
	return within(most, spec.MaxClients)
}

// within: 0 is no limit.
func within(n, limit int) bool { return limit <= 0 || n <= limit }
