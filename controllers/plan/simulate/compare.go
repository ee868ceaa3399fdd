package simulate

// Change is what the nodes do when one configuration follows another, counted in
// sessions.
type Change struct{ Added, Removed, Restarted int }

// Compare says what becomes of the sessions when after follows before, among the nodes
// that both have.
func Compare(before, after *Configuration) Change {
	// Nodes that neither tells apart.
	type both struct{ before, after int }
	index := map[both]int{}
	var kinds []both
	var sizes []int
	for _, name := range before.names {
		m, known := after.Members[name]
		if !known {
			continue
		}
		k := both{before.Members[name].kind, m.kind}
		i, seen := index[k]
		if !seen {
			i = len(kinds)
			index[k], kinds, sizes = i, append(kinds, k), append(sizes, 0)
		}
		sizes[i]++
	}
	var out Change
	for i, a := range kinds {
		for j, b := range kinds[:i+1] {
			pairs := sizes[i] * sizes[j]
			if i == j {
				pairs = sizes[i] * (sizes[i] - 1) / 2
			}
			if pairs == 0 {
				continue
			}
			m, y, was := before.sides(a.before, b.before)
			n, z, is := after.sides(a.after, b.after)
			switch {
			case is && !was:
				out.Added += pairs
			case was && !is:
				out.Removed += pairs
			case is && (m != n || y != z):
				out.Restarted += pairs
			}
		}
	}
	return out
}
