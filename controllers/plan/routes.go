package plan

import (
	"net/netip"
	"slices"
)

// Routes say, for each IPPool, whether BIRD or Felix writes the routes to pods into the kernels of nodes. In the zero value nothing is known.
type Routes struct {
	// Pools are the IPPools that are enabled for workloads.
	Pools []PoolRoutes
	// Plain is the entry for any IPPool without encapsulation, such as those of ClusterPeerings.
	Plain PoolRoutes
	// Ranges are the CIDRs of all IPPools, nil if not known. A route reflector passes on no block outside of them; in the mesh
	// such a block is announced by its own node. NotExported are the CIDRs with disableBGPExport, which no node announces.
	Ranges, NotExported []netip.Prefix
	// Marks are, by node, the ranges that it announces with such a community. Those under "" apply to all nodes without an entry.
	Marks map[string][]Mark
	// Unknown is why reading these settings failed, "" if it did not.
	Unknown string
}

// Mark is a range whose routes a node announces with the community NO_ADVERTISE, or with one that cannot be parsed.
type Mark struct {
	// Range is the zero Prefix if it cannot be parsed: it may then be any range.
	Range netip.Prefix
	// Text says where the mark was found, and quotes the community.
	Text string
}

// PoolRoutes says which program writes the routes to the pods of one IPPool. If neither does, pods of two nodes cannot reach each other.
type PoolRoutes struct {
	CIDR string
	// Encapsulation in words, as "IP-in-IP CrossSubnet".
	Encapsulation string
	// BIRD writes routes that it learns by BGP, Felix routes that it computes.
	BIRD, Felix bool
	// Direct: some of Felix's routes are on the node's main interface. BIRD learns these, so each node announces the blocks of other nodes too
	// (Calico issue 13533).
	Direct bool
	// NotExported is disableBGPExport, Selector the nodeSelector.
	NotExported bool
	Selector    string
	// Unknown is why it is not known which program writes the routes, "" if it is known. While it is set, BIRD and Felix are false.
	Unknown string
}

// Direct reports whether every node may announce a block, so that a path to the block does not prove that the block's own node announces it.
func (r Routes) Direct(block netip.Prefix) bool {
	return slices.ContainsFunc(r.Pools, func(p PoolRoutes) bool {
		if !p.Direct {
			return false
		}
		cidr, err := netip.ParsePrefix(p.CIDR)
		return err != nil || cidr.Contains(block.Addr())
	})
}

// Passed reports whether route reflectors pass on a block of a node.
func (r Routes) Passed(node string, block netip.Prefix) bool {
	return r.inPool(block) && r.marked(node, block) == nil
}

func (r Routes) inPool(block netip.Prefix) bool { return r.Ranges == nil || within(r.Ranges, block) }

// Withheld reports whether a block is in an IPPool with disableBGPExport, so that no node announces it.
func (r Routes) Withheld(block netip.Prefix) bool { return within(r.NotExported, block) }

func within(ranges []netip.Prefix, block netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(c netip.Prefix) bool { return c.Bits() <= block.Bits() && c.Contains(block.Addr()) })
}

// marked returns the mark that keeps route reflectors from passing on a block of a node, nil if there is none.
func (r Routes) marked(node string, block netip.Prefix) *Mark {
	marks, own := r.Marks[node]
	if !own {
		marks = r.Marks[""]
	}
	for _, m := range marks {
		if !m.Range.IsValid() || within([]netip.Prefix{m.Range}, block) {
			return &m
		}
	}
	return nil
}

func (p PoolRoutes) String() string {
	out := p.CIDR + ": " + p.Encapsulation
	if p.NotExported {
		out += ", not exported by BGP"
	}
	if p.Unknown != "" {
		out += "; not known: " + p.Unknown
	}
	return out
}

// BGPUnused reports whether no node uses routes from BGP to reach pods, so that route reflectors have no effect on them.
func (r Routes) BGPUnused() bool {
	return len(r.Pools) > 0 && !slices.ContainsFunc(r.Pools, func(p PoolRoutes) bool { return p.BIRD || p.Unknown != "" })
}

// BGPUnusedReason says what writes the routes to pods if BGPUnused.
func (r Routes) BGPUnusedReason() string {
	if slices.ContainsFunc(r.Pools, func(p PoolRoutes) bool { return !p.Felix }) {
		return "BGP carries the routes to no pods"
	}
	return "Felix programs the routes to all pods, not BGP"
}
