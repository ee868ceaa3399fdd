//go:build linux

package lab

import (
	"net/netip"
	"strings"
)

// Paths counts the paths that a node's BIRD has to each address block by BGP, by the neighbour that it has them from: with add-path one
// neighbour can send several. Paths that BIRD holds but cannot resolve, or does not use, count as well.
func (l *Lab) Paths(node string) (map[netip.Prefix]map[netip.Addr]int, error) {
	answer, err := l.Birdc(node, "show route")
	if err != nil {
		return nil, err
	}
	return parsePaths(answer), nil
}

// Reaches tells whether a node's kernel has a route to another's pods.
func (l *Lab) Reaches(from, to string) (bool, error) {
	on, err := l.node(from)
	if err != nil {
		return false, err
	}
	with, err := l.node(to)
	if err != nil {
		return false, err
	}
	return on.hasRoute(with.podAddress()) == nil, nil
}

// parsePaths reads lines such as "10.244.0.64/26 via 172.20.0.11 on eth0 [Node_172_20_0_20 07:22:33 from 172.20.0.20] * (100/0) [i]". Only
// the first line of a prefix names it.
func parsePaths(answer string) map[netip.Prefix]map[netip.Addr]int {
	paths := map[netip.Prefix]map[netip.Addr]int{}
	var prefix netip.Prefix
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if p, err := netip.ParsePrefix(fields[0]); err == nil {
			prefix = p
		}
		_, source, found := strings.Cut(line, "[")
		protocol, _, _ := strings.Cut(source, " ")
		kind, address, _ := strings.Cut(protocol, "_")
		peer, err := netip.ParseAddr(strings.ReplaceAll(address, "_", "."))
		if !found || err != nil || kind != "Node" && kind != "Mesh" && kind != "Global" {
			continue
		}
		if paths[prefix] == nil {
			paths[prefix] = map[netip.Addr]int{}
		}
		paths[prefix][peer]++
	}
	return paths
}
