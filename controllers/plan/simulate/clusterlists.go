package simulate

import "encoding/binary"

// clusterLists are cluster lists as sets of cluster IDs. Equal ones have the same index,
// and the empty one is the first.
type clusterLists struct {
	lists []bitset
	known map[string]int32
	// added is the index of a list with one more ID in it, by ID; 0 for not yet known.
	added [][]int32
	words int
	ids   int
}

func newClusterLists(ids int) *clusterLists {
	c := &clusterLists{known: map[string]int32{}, words: (ids + 63) / 64, ids: ids}
	c.index(make(bitset, c.words))
	return c
}

// add gives the list with id in it.
func (c *clusterLists) add(list, id int32) int32 {
	if c.added[list] == nil {
		c.added[list] = make([]int32, c.ids)
	}
	if out := c.added[list][id]; out != 0 {
		return out
	}
	longer := append(make(bitset, 0, c.words), c.lists[list]...)
	longer.add(int(id))
	out := c.index(longer)
	c.added[list][id] = out
	return out
}

func (c *clusterLists) index(list bitset) int32 {
	key := make([]byte, 0, 8*c.words)
	for _, word := range list {
		key = binary.LittleEndian.AppendUint64(key, word)
	}
	i, ok := c.known[string(key)]
	if !ok {
		i = int32(len(c.lists)) //nolint:gosec // G115: far fewer
		c.known[string(key)] = i
		c.lists, c.added = append(c.lists, list), append(c.added, nil)
	}
	return i
}

func (c *clusterLists) has(list, id int32) bool { return c.lists[list].has(int(id)) }

// within reports whether all of a is in b.
func (c *clusterLists) within(a, b int32) bool {
	for i, word := range c.lists[a] {
		if word&^c.lists[b][i] != 0 {
			return false
		}
	}
	return true
}
