package simulate

import (
	"encoding/binary"
	"slices"
)

// clusterLists are cluster lists as sets of cluster IDs. Equal ones have the same index,
// and the empty one is the first.
type clusterLists struct {
	lists [][]int32 // sorted
	known map[string]int32
	added map[[2]int32]int32
	key   []byte
}

func newClusterLists() *clusterLists {
	return &clusterLists{lists: [][]int32{nil}, known: map[string]int32{"": 0}, added: map[[2]int32]int32{}}
}

// add gives the list with id in it.
func (c *clusterLists) add(list, id int32) int32 {
	if out, ok := c.added[[2]int32{list, id}]; ok {
		return out
	}
	out := list
	if at, has := slices.BinarySearch(c.lists[list], id); !has {
		out = c.index(slices.Insert(slices.Clone(c.lists[list]), at, id))
	}
	c.added[[2]int32{list, id}] = out
	return out
}

func (c *clusterLists) index(list []int32) int32 {
	c.key = c.key[:0]
	for _, id := range list {
		c.key = binary.AppendUvarint(c.key, uint64(id)) //nolint:gosec // G115: an index
	}
	i, ok := c.known[string(c.key)]
	if !ok {
		i = int32(len(c.lists)) //nolint:gosec // G115: far fewer
		c.known[string(c.key)] = i
		c.lists = append(c.lists, list)
	}
	return i
}

func (c *clusterLists) has(list, id int32) bool {
	_, has := slices.BinarySearch(c.lists[list], id)
	return has
}

// within reports whether all of a is in b.
func (c *clusterLists) within(a, b int32) bool {
	if len(c.lists[a]) > len(c.lists[b]) {
		return false
	}
	for _, id := range c.lists[a] {
		if !c.has(b, id) {
			return false
		}
	}
	return true
}
