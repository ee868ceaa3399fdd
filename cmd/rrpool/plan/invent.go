package plan

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Invent makes a cluster in full mesh of so many nodes, evenly in so many zones, which the
// label of that key names.
func Invent(nodes, zones int, provider v1alpha1.ProviderType, zoneLabel string) plan.Cluster {
	out := plan.Cluster{BGP: plan.BGPConfig{ASN: 64512}, Statuses: map[string]plan.Status{}}
	for i := range nodes {
		zone := fmt.Sprintf("zone-%d", i%zones+1)
		n := plan.Node{
			Name: fmt.Sprintf("node-%04d", i+1), UID: fmt.Sprint(i + 1), Zone: zone, Ready: true,
			Labels:  map[string]string{zoneLabel: zone},
			Created: time.Unix(0, 0), ReadyChanged: time.Unix(0, 0),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
			Blocks:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(i >> 10), byte(i >> 2), byte(i << 6)}), 26)}, //nolint:gosec // G115: the bytes of a number
		}
		if provider == v1alpha1.ProviderIKS {
			n.ProviderID = fmt.Sprintf("ibm://model///model/invented-%d", i+1)
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}
