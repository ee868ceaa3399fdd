package peering

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Only these functions parse the values of a Side, which come as text from a remote apiserver or
// from a spec. A value that Calico or BIRD would refuse or interpret differently is an error:
// with one invalid neighbor in bird.cfg, BIRD keeps its old configuration, or does not start.

// unicast without reserved are the addresses that nodes and pods can have.
var (
	unicast  = prefixesOf("0.0.0.0/0", "2000::/3", "fc00::/7")
	reserved = prefixesOf("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)

// prefixesOf parses constants.
func prefixesOf(cidrs ...string) (out []netip.Prefix) {
	for _, c := range cidrs {
		out = append(out, netip.MustParsePrefix(c))
	}
	return out
}

// The shortest prefix lengths of ranges of pods or services. A shorter one is taken for a mistake.
const (
	shortest4 = 8
	shortest6 = 16
)

// ParseAddr parses the address of a route reflector.
func ParseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return netip.Addr{}, fmt.Errorf("%q is no IP address such as 10.0.0.7", plan.Plain(text, 128))
	}
	if why := notUnicast(netip.PrefixFrom(addr, addr.BitLen())); why != "" {
		return netip.Addr{}, fmt.Errorf("%s cannot be the address of a node: %s", addr, why)
	}
	return addr, nil
}

// ParseCIDR parses a range of any size.
func ParseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is no CIDR such as 10.210.0.0/16", plan.Plain(text, 128))
	case p.Addr().Is4In6(): // Calico takes it for IPv4
		return netip.Prefix{}, fmt.Errorf("%q is no CIDR such as 10.210.0.0/16: it is IPv4 in the form of IPv6", text)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q is no CIDR such as 10.210.0.0/16: did you mean %s?", text, p.Masked())
	}
	return p, nil
}

// ParseRange parses a range of pods or services.
func ParseRange(text string) (netip.Prefix, error) {
	p, err := ParseCIDR(text)
	switch {
	case err != nil:
		return netip.Prefix{}, err
	case p.Addr().Is4() && p.Bits() < shortest4 || p.Addr().Is6() && p.Bits() < shortest6:
		return netip.Prefix{}, fmt.Errorf("%s is too large a range for pods or services: at most a /%d of IPv4 and a /%d of IPv6 is taken", p, shortest4, shortest6)
	}
	if why := notUnicast(p); why != "" {
		return netip.Prefix{}, fmt.Errorf("%s cannot be a range of pods or services: %s", p, why)
	}
	return p, nil
}

// notUnicast returns why a range is not of unicast addresses, "" if it is.
func notUnicast(p netip.Prefix) string {
	if i := slices.IndexFunc(reserved, p.Overlaps); i >= 0 {
		return fmt.Sprintf("%s is reserved", reserved[i])
	}
	if !slices.ContainsFunc(unicast, func(u netip.Prefix) bool { return u.Bits() <= p.Bits() && u.Overlaps(p) }) {
		return "only 2000::/3 and fc00::/7 of IPv6 are for nodes and pods"
	}
	return ""
}

// ParseASN checks an AS number. Source: RFC 7607 (0), RFC 4893 (23456), RFC 7300 (the last ones).
func ParseASN(asn int64) (uint32, error) {
	if asn < 1 || asn >= 4294967295 || asn == 23456 || asn == 65535 {
		return 0, fmt.Errorf("%d is no AS number that a cluster can have: 1 to 4294967294 without 23456 and 65535", asn)
	}
	return uint32(asn), nil
}
