package topology

import (
	"slices"
	"strconv"
)

// slack is how many clients more than the smallest group the open one of a Quorum may
// have before another is opened: not every new node has to rewrite two BGPPeers.
const slack = 8

// assign puts those without a rack into one, in l.Racks, and gives the open one. While
// nobody is served by these groups yet, all are made as large. Later they all go where
// they already are: into the open one.
func (l *Layout) assign(spec Spec, c *census, serving []string, limit int) (open string) {
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
	open = c.openOf(spec, serving, limit)
	for _, n := range c.others {
		l.Racks[n.Name] = open
	}
	return open
}

func (c *census) counts(names []string) []int {
	out := make([]int, len(names))
	for i, name := range names {
		out[i] = c.groups[name].clients
	}
	return out
}

// openOf is the group that takes whoever comes, among those that serve. It stays the
// same while somebody in it has no label yet, or there is room: in a rack, up to its
// limit; in a Quorum (no limit), as far as the others are filled.
func (c *census) openOf(spec Spec, serving []string, limit int) string {
	counts := c.counts(serving)
	least := counts[smallest(counts)]
	now := slices.IndexFunc(serving, func(name string) bool { return slices.Contains(spec.Open, peerName(spec.Kind, name)) })
	roomy := func(n int) bool {
		if limit > 0 {
			return n < limit
		}
		return n <= least+slack
	}
	if now >= 0 && (len(c.others) > 0 || roomy(counts[now])) {
		return serving[now]
	}
	for i, name := range serving {
		if limit > 0 && counts[i] < limit {
			return name
		}
	}
	return serving[smallest(counts)]
}

// racks opens as many racks as clients take, in a census by size, and keeps those that
// have reflectors: until they are empty, and the others have room for a tenth of one more.
func (c *census) racks(spec Spec) {
	limit := spec.MaxClients
	if limit <= 0 {
		c.open("1")
		return
	}
	for _, rack := range spec.Racks {
		if isRack(rack) && c.groups[rack] == nil && c.room(limit) < len(c.others)+ceil(limit, 10) {
			c.open(rack)
		}
	}
	for n := 1; c.room(limit) <= len(c.others) && n <= mostGroups+1; n++ {
		c.open(strconv.Itoa(n))
	}
}

// room is how many more the groups take, up to a limit each.
func (c *census) room(limit int) int {
	room := 0
	for _, group := range c.groups {
		room += max(0, limit-group.clients)
	}
	return room
}
