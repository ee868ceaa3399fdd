package topology

// shares divides the slots of each zone among groups of clients, so that each group has its number of them and each
// slot about as many groups. Everything follows from the number of slots per zone alone, step by step from one: a
// step keeps what each group had before, but for one slot at most. To be the same whatever other groups exist,
// groups are mapped to a fixed number of members. Of these each has a home, the zone that comes first, and the
// others after it, in a circle.
type shares struct {
	zones int
	// own: each member has all the slots of its home. Its clients are all there, so with
	// the home they lose no other. Otherwise clients may be in every zone, and theirs are
	// spread evenly, so that no zone takes too many with it.
	own bool
	// has[member][zone][number - 1]: the member peers with that slot.
	has [][][]bool
	// load[zone][number - 1] is how many members peer with that slot.
	load [][]int
}

// share divides. quota is how many slots each member gets when there are so many per zone: when that grows by one,
// it grows by at most one per zone, and for members with their own zone by at least one.
func share(zones, perZone, members int, own bool, quota func(perZone int) int) *shares {
	s := &shares{zones: zones, own: own, has: make([][][]bool, members), load: make([][]int, zones)}
	for i := range s.has {
		s.has[i] = make([][]bool, zones)
	}
	for p := 1; p <= perZone; p++ {
		s.grow(p, quota(p))
	}
	return s
}

// grow gives all members the new slot of each zone, and takes one away from those that then have too many: the
// busiest, but from each member an old one in one zone only. One that still gets more may take a slot that it did
// not have before instead of the new, in one zone as well: on the way back that is the one to give up.
func (s *shares) grow(perZone, quota int) {
	members := len(s.has)
	moved, swapped := make([]bool, members), make([]bool, members)
	for i := range s.zones {
		z := (i + perZone) % s.zones
		s.load[z] = append(s.load[z], members)
		for j := range members {
			m := (i + j) % members
			s.has[m][z] = append(s.has[m][z], true)
			for surplus := held(s.has[m][z]) - s.quota(m, z, perZone, quota); surplus > 0; surplus-- {
				slot := s.busiest(m, z, moved[m])
				moved[m] = moved[m] || slot != perZone-1
				s.set(m, z, slot, false)
			}
			idle := s.idlest(m, z)
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

func held(slots []bool) int {
	n := 0
	for _, has := range slots {
		if has {
			n++
		}
	}
	return n
}

// quota of a member in a zone.
func (s *shares) quota(m, z, perZone, quota int) int {
	distance := (z - m%s.zones + s.zones) % s.zones
	if !s.own {
		return (quota + s.zones - 1 - distance) / s.zones
	}
	if distance == 0 {
		return perZone
	}
	return (quota - perZone + s.zones - 1 - distance) / (s.zones - 1)
}

// busiest of the slots that a member has in a zone, the newest among equals, and the
// newest anyway if no other may go.
func (s *shares) busiest(m, z int, moved bool) int {
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

// idlest of the slots that a member does not have in a zone, or -1.
func (s *shares) idlest(m, z int) int {
	best := -1
	for slot, has := range s.has[m][z] {
		if !has && (best < 0 || s.load[z][slot] < s.load[z][best]) {
			best = slot
		}
	}
	return best
}

// quorums gives the number of reflectors that each client needs, by their number per zone: so many that any two
// clients still share one when some have failed, or when a whole zone has. It grows evenly, see share.
func quorums(zones, failures int) func(perZone int) int {
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

func ceil(n, by int) int { return (n + by - 1) / by }
