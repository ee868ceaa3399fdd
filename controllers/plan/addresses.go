package plan

import (
	"net/netip"
	"slices"
)

// Usable nodes speak BGP and are expected to have sessions.
func Usable(n Node) bool { return n.Ready && !n.Deleting && n.SpeaksBGP() }

// SharedAddresses gives, by BGP address, the names of those of the nodes that have it, where that is more than one: a session
// with it reaches one of them at most, and nothing tells whose it is.
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

// IsMachineAddress reports whether an address is that of one of the nodes: its BGP address, or another of its machine. One that
// several machines have is that of the router before them.
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

// Unreachable gives what says why no other node can have a session with a BGP address, "" where nothing speaks against it.
func Unreachable(nodes []Node) func(netip.Addr) string {
	blocks, lengths := map[netip.Prefix]bool{}, []int{} // mostly of one length
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

// WithUnexpectedAddress are the Ready nodes with a BGP address that is none of the machine's own as Kubernetes knows them, where most others
// have one of theirs: Calico has taken that of another interface, such as a bridge of containers.
func WithUnexpectedAddress(nodes []Node) []Node {
	var apart []Node
	usual := 0
	for _, n := range nodes {
		switch own := func(a netip.Addr) bool { return slices.Contains(n.MachineAddresses, a) }; {
		case !Usable(n) || len(n.MachineAddresses) == 0:
		case slices.ContainsFunc(n.Addresses, own):
			usual++
		default:
			apart = append(apart, n)
		}
	}
	if usual <= len(apart) {
		return nil
	}
	return apart
}
