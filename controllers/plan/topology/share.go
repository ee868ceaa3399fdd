package topology

// shares assigns slots to groups of clients: each group gets the number that it needs, and all slots serve about the same number of
// groups. The result depends only on the number of slots per zone. It is computed for one slot per zone, then for two and so on; each step
// changes at most one of a group's earlier slots in a zone. Groups are mapped to a fixed number of members, so that the result does not
// depend on which groups exist. Each member has a home zone; the other zones follow in their order, and after the last zone the first.
type shares struct {
	zones int
	// keepsHome: each member has all slots of its home zone, because all of its clients are there and fail together with
	// the zone. Otherwise clients may be in every zone, and a member's slots are distributed evenly over the zones.
	keepsHome bool
	// has[member][zone][number - 1]: the member peers with that slot.
	has [][][]bool
	// load[zone][number - 1] is how many members peer with that slot.
	load [][]int
}

// newShares returns the shares of so many members; own is keepsHome. quota returns the number of slots of each member, given the number
// of slots per zone. When the latter grows by one, quota must grow by at most the number of zones, and if own is true by at least one.
func newShares(zones, perZone, members int, own bool, quota func(perZone int) int) *shares {
	s := &shares{zones: zones, keepsHome: own, has: make([][][]bool, members), load: make([][]int, zones)}
	for i := range s.has {
		s.has[i] = make([][]bool, zones)
	}
	for p := 1; p <= perZone; p++ {
		s.grow(p, quota(p))
	}
	return s
}

// grow adds a slot to each zone, assigns it to all members, and removes a slot from each member that then has
// too many: the slot with most members. A member that keeps the new slot may exchange it for an older slot
// with fewer members. Each member loses an older slot in at most one zone, and exchanges in at most one zone.
func (s *shares) grow(perZone, quota int) {
	members := len(s.has)
	moved, swapped := make([]bool, members), make([]bool, members)
	for i := range s.zones {
		z := (i + perZone) % s.zones
		s.load[z] = append(s.load[z], members)
		for j := range members {
			m := (i + j) % members
			s.has[m][z] = append(s.has[m][z], true)
			for surplus := countTrue(s.has[m][z]) - s.quota(m, z, perZone, quota); surplus > 0; surplus-- {
				slot := s.mostUsed(m, z, moved[m])
				moved[m] = moved[m] || slot != perZone-1
				s.set(m, z, slot, false)
			}
			idle := s.leastUsed(m, z)
			if s.has[m][z][perZone-1] && !swapped[m] && idle >= 0 && s.load[z][idle] < s.load[z][perZone-1]-1 {
				swapped[m] = true
				s.set(m, z, perZone-1, false)
				s.set(m, z, idle, true)
			}
		}
	}
}

func (s *shares) set(m, z, slot int, has bool) {
	s.has[m][z][slot] = has
	if has {
		s.load[z][slot]++
	} else {
		s.load[z][slot]--
	}
}

// countTrue counts the slots that a member has.
func countTrue(slots []bool) int {
	n := 0
	for _, has := range slots {
		if has {
			n++
		}
	}
	return n
}

// quota returns how many of a member's slots should be in a zone.
func (s *shares) quota(m, z, perZone, quota int) int {
	distance := (z - m%s.zones + s.zones) % s.zones
	if !s.keepsHome {
		return (quota + s.zones - 1 - distance) / s.zones
	}
	if distance == 0 {
		return perZone
	}
	return (quota - perZone + s.zones - 1 - distance) / (s.zones - 1)
}

// mostUsed returns the slot with most members among those that a member has in a
// zone, the newest among equals. If moved is true, it returns the newest in any case.
func (s *shares) mostUsed(m, z int, moved bool) int {
	newest := len(s.load[z]) - 1
	for !s.has[m][z][newest] {
		newest--
	}
	best := newest
	for slot := newest - 1; slot >= 0 && !moved; slot-- {
		if s.has[m][z][slot] && s.load[z][slot] > s.load[z][best] {
			best = slot
		}
	}
	return best
}

// leastUsed returns the slot with fewest members among those that a member does not have in a zone, or -1.
func (s *shares) leastUsed(m, z int) int {
	best := -1
	for slot, has := range s.has[m][z] {
		if !has && (best < 0 || s.load[z][slot] < s.load[z][best]) {
			best = slot
		}
	}
	return best
}

// quorumSizes returns the number of reflectors that each client of a Quorum needs, as a function of the
// number per zone, so that any two clients share a reflector after so many failures, and after the failure of
// a zone. Two sets of q of all reflectors share at least 2q - all. The number grows as newShares requires.
func quorumSizes(zones, failures int) func(perZone int) int {
	known := []int{0}
	return func(perZone int) int {
		for p := len(known); p <= perZone; p++ {
			all := zones * p
			q := (all+failures)/2 + 1
			if zones > 1 {
				q = max(q, known[p-1]+1)
			}
			for q < all && zones > 1 && 2*(q-ceil(q, zones)) <= all-p {
				q++
			}
			known = append(known, min(q, all))
		}
		return known[perZone]
	}
}

// ceil returns the quotient of n and by, rounded up.
func ceil(n, by int) int { return (n + by - 1) / by }
