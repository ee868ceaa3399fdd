package plan

import (
	"net/netip"
	"slices"
)

// Routes are who writes the routes to pods into the kernels of nodes. The zero value knows nothing.
type Routes struct {
	// Pools are the IPPools that are enabled for workloads.
	Pools []PoolRoutes
	// Plain is the same for an IPPool without encapsulation, such as those of ClusterPeerings.
	Plain PoolRoutes
	// Ranges are those of all IPPools, whatever they are for. A route reflector passes on no block outside of them, while its own node announces
	// it to the mesh. What a pool keeps from BGP (disableBGPExport) the mesh does not have either. Nil: not known.
	// NotExported are those of them that are kept from it.
	Ranges, NotExported []netip.Prefix
	// Marks are the ranges that a node marks for BGP, by node; those under "" are of all nodes that have none of their own.
	Marks map[string][]Mark
	// Unknown is why the last attempt to read it failed, "" where it did not.
	Unknown string
}

// Mark is a range whose routes a node announces with the community NO_ADVERTISE, or one that cannot be read.
type Mark struct {
	// Range is the zero one where it cannot be read: it may be any.
	Range netip.Prefix
	// Text is where it was found, with the community as it stands there.
	Text string
}

// PoolRoutes is who programs the routes to the pods of one IPPool. With neither the pods of two nodes cannot reach each other.
type PoolRoutes struct {
	CIDR string
	// Encapsulation in words, as "IP-in-IP CrossSubnet".
	Encapsulation string
	// BIRD learns them by BGP, Felix computes them.
	BIRD, Felix bool
	// Direct: Felix's are on the node's own interface, some at least. BIRD learns those, and each node announces the
	// blocks of others too (Calico issue 13533).
	Direct bool
	// NotExported: nothing of the pool is exported by BGP (disableBGPExport). Selector is its nodeSelector.
	NotExported bool
	Selector    string
	// Unknown is why it is not known who programs them, "" where it is: neither BIRD nor Felix are set then, and some may be Direct.
	Unknown string
}

// Direct reports whether every node may announce a block: a path to it does not prove that its own node does.
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

// Withheld reports whether no node announces a block.
func (r Routes) Withheld(block netip.Prefix) bool { return within(r.NotExported, block) }

func within(ranges []netip.Prefix, block netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(c netip.Prefix) bool { return c.Bits() <= block.Bits() && c.Contains(block.Addr()) })
}

// marked gives the mark by which no route reflector passes on a block of a node, nil for none.
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

// BGPUnused is where BGP is known to carry none of them: what route reflectors pass on is of no use to pods.
func (r Routes) BGPUnused() bool {
	return len(r.Pools) > 0 && !slices.ContainsFunc(r.Pools, func(p PoolRoutes) bool { return p.BIRD || p.Unknown != "" })
}

// BGPUnusedReason says who programs the routes then.
func (r Routes) BGPUnusedReason() string {
	if slices.ContainsFunc(r.Pools, func(p PoolRoutes) bool { return !p.Felix }) {
		return "BGP carries the routes to no pods"
	}
	return "Felix programs the routes to all pods, not BGP"
}
