package calico

import (
	"net/netip"
	"strconv"

	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
)

// block is an address block that a node announces.
type block struct {
	node   string
	prefix netip.Prefix
}

// blockOf gives the block of an affinity, and false for one that is not, or no
// longer, announced by a node.
func blockOf(o *libapiv3.BlockAffinity) (block, bool) {
	deleted, err := strconv.ParseBool(o.Spec.Deleted)
	if err == nil && deleted {
		return block{}, false
	}
	// Affinities of old Calico versions have no type; they are all of hosts.
	if o.Spec.Type != "" && o.Spec.Type != "host" || o.Spec.State != string(model.StateConfirmed) {
		return block{}, false
	}
	prefix, err := netip.ParsePrefix(o.Spec.CIDR)
	if err != nil {
		return block{}, false
	}
	return block{node: o.Spec.Node, prefix: prefix.Masked()}, true
}
