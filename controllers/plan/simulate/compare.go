package simulate

// Change is what the nodes do when one configuration follows another, counted in
// sessions.
type Change struct{ Added, Removed, Restarted int }

// Compare says what becomes of the sessions when after follows before, among the nodes
// that both have.
func Compare(before, after *Configuration) Change {
	var out Change
	groups := common(before, after)
	for i, a := range groups {
		for j, b := range groups[:i+1] {
			pairs := a.size * b.size
			if i == j {
				pairs = a.size * (a.size - 1) / 2
			}
			if pairs > 0 {
				out.count(pairs, state(before, a.before, b.before), state(after, a.after, b.after))
			}
		}
	}
	return out
}

// shared are the nodes that are of one kind before, and of one after.
type shared struct{ before, after, size int }

func common(before, after *Configuration) []shared {
	var out []shared
	index := map[shared]int{}
	for _, name := range before.names {
		m, known := after.Members[name]
		if !known {
			continue
		}
		key := shared{before: before.Members[name].kind, after: m.kind}
		i, seen := index[key]
		if !seen {
			i = len(out)
			index[key] = i
			out = append(out, key)
		}
		out[i].size++
	}
	return out
}

// sided is a session, if there is one, as both sides configure it.
type sided struct {
	mine, yours Side
	ok          bool
}

func state(c *Configuration, a, b int) sided {
	mine, yours, ok := c.sides(a, b)
	return sided{mine, yours, ok}
}

func (c *Change) count(pairs int, was, is sided) {
	switch {
	case is.ok && !was.ok:
		c.Added += pairs
	case was.ok && !is.ok:
		c.Removed += pairs
	case is.ok && was != is:
		c.Restarted += pairs
	}
}
