package plan

import (
	"net/netip"
	"slices"
)

// Usable reports whether a node speaks BGP and is expected to have sessions.
func Usable(n Node) bool { return n.Ready && !n.Deleting && n.SpeaksBGP() }

// SharedAddresses returns the BGP addresses that several nodes have, with the names of these nodes. Nodes for which the function
// of returns false are left out. A session with such an address reaches at most one of the nodes, and it is not known which.
func SharedAddresses(nodes []Node, of func(Node) bool) map[netip.Addr][]string {
	out := map[netip.Addr][]string{}
	for i := range nodes {
		if of(nodes[i]) {
			for _, a := range nodes[i].Addresses {
				out[a] = append(out[a], nodes[i].Name)
			}
		}
	}
	for a, names := range out {
		if len(names) < 2 {
			delete(out, a)
		}
	}
	return out
}

// IsMachineAddress reports whether a is the BGP address of a node, or another address of exactly one
// node's machine. If several machines have the address, it is taken for that of a router in front of them.
func IsMachineAddress(a netip.Addr, nodes []Node) bool {
	own := 0
	for i := range nodes {
		if slices.Contains(nodes[i].Addresses, a) {
			return true
		}
		if slices.Contains(nodes[i].MachineAddresses, a) {
			own++
		}
	}
	return own == 1
}

// Unreachable returns a function that says why no other node can have a session with a BGP address, "" if one can.
func Unreachable(nodes []Node) func(netip.Addr) string {
	blocks, lengths := map[netip.Prefix]bool{}, []int{} // most blocks have the same prefix length
	for i := range nodes {
		for _, b := range nodes[i].Blocks {
			blocks[b.Masked()] = true
			if !slices.Contains(lengths, b.Bits()) {
				lengths = append(lengths, b.Bits())
			}
		}
	}
	return func(a netip.Addr) string {
		switch {
		case a.IsLoopback(), a.IsUnspecified():
			return "is the node's own"
		case a.IsLinkLocalUnicast():
			return "is link-local"
		case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return "is of no single host"
		}
		for _, bits := range lengths {
			if b, err := a.Prefix(bits); err == nil && blocks[b] {
				return "is in the range of pods " + b.String()
			}
		}
		return ""
	}
}

// WithUnexpectedAddress returns the Ready nodes whose BGP addresses are not among the machine's addresses in Kubernetes: Calico
// has detected another interface, such as a container bridge. It returns none unless most nodes have a BGP address among them.
func WithUnexpectedAddress(nodes []Node) []Node {
	var unexpected []Node
	expected := 0
	for _, n := range nodes {
		switch own := func(a netip.Addr) bool { return slices.Contains(n.MachineAddresses, a) }; {
		case !Usable(n) || len(n.MachineAddresses) == 0:
		case slices.ContainsFunc(n.Addresses, own):
			expected++
		default:
			unexpected = append(unexpected, n)
		}
	}
	if expected <= len(unexpected) {
		return nil
	}
	return unexpected
}
