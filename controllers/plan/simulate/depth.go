package simulate

// Depth is the smallest number of reflectors whose loss cuts some of the nodes that want
// accepts off from each other, but at most most: 0 if some are cut off already.
// Only nodes with a cluster ID that want does not accept are lost.
func (n *Network) Depth(most int, want func(node string) bool) int {
	d := depth{graph: n.graph.resized(sizes(n.classes)), wanted: make([]int, len(n.classes))}
	for i, c := range n.classes {
		for _, name := range c.Nodes {
			if want(name) {
				d.wanted[i]++
			}
		}
	}
	for origin, x := range d.wanted {
		for to, y := range d.wanted {
			if x == 0 || y == 0 || origin == to && x < 2 {
				continue
			}
			most = d.cut(origin, to, most)
		}
	}
	return most
}

// depth looks for reflectors to lose. Losing some of a class does nothing while others
// of it pass routes on, so it loses all that it may, or none.
type depth struct {
	graph  *graph
	wanted []int // how many of each class must stay
}

// cut is how many reflectors must be lost until to has no route to origin, at most most:
// on each way that there is, all of some class.
func (d *depth) cut(origin, to, most int) int {
	way, ok := d.graph.way(origin, to)
	if !ok {
		return 0
	}
	for _, class := range way {
		cost := d.graph.size[class] - d.wanted[class]
		if d.staying(class, origin, to) > 0 || cost >= most {
			continue
		}
		d.graph.size[class] -= cost
		most = min(most, cost+d.cut(origin, to, most-cost))
		d.graph.size[class] += cost
	}
	return most
}

// staying counts the nodes of a class that pass on routes between two others and must
// not be lost.
func (d *depth) staying(class, origin, to int) int {
	return d.graph.resized(d.wanted).others(class, origin, to)
}
