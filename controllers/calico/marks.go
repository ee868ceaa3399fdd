package calico

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
)

// advertisements are the fields of a BGPConfiguration that add communities to the routes which a node announces.
type advertisements struct {
	PrefixAdvertisements []struct {
		CIDR        string
		Communities []string
	}
	Communities []struct{ Name, Value string }
}

// noAdvertise is the well-known community NO_ADVERTISE, 65535:65282. NO_EXPORT does not matter within one AS.
const noAdvertise = 0xFFFFFF02

// marksIn returns the marks by node, and those of BGPConfiguration default under "".
// A node with prefixAdvertisements of its own does not use those of the default.
func marksIn(found settingsList) map[string][]plan.Mark {
	out := map[string][]plan.Mark{}
	for _, c := range found.Items {
		node, is := strings.CutPrefix(c.Metadata.Name, "node.")
		if c.Metadata.Name == defaultConfig {
			node, is = "", true
		}
		if !is || len(c.Spec.PrefixAdvertisements) == 0 {
			continue
		}
		out[node] = []plan.Mark{}
		for _, p := range c.Spec.PrefixAdvertisements {
			cidr, _ := ownRange(p.CIDR) // a range that cannot be parsed is zero, which stands for any range
			for _, community := range p.Communities {
				if c.Spec.stops(community) {
					text := fmt.Sprintf("%s: %s in BGPConfiguration %s", p.CIDR, community, c.Metadata.Name)
					out[node] = append(out[node], plan.Mark{Range: cidr, Text: plan.Plain(text, 256)})
				}
			}
		}
	}
	return out
}

// stops reports whether a community, given by value or name, keeps BIRD from
// passing on a route. A community that cannot be parsed counts as one that does.
func (a advertisements) stops(community string) bool {
	for _, c := range a.Communities {
		if c.Name == community {
			community = c.Value
			break
		}
	}
	parts := strings.Split(community, ":")
	var value uint64
	bits := map[int]int{2: 16, 3: 32}[len(parts)] // large communities, with three parts, have no meaning for BIRD
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil || n>>bits > 0 {
			return true
		}
		value = value<<bits | n
	}
	return bits == 16 && value == noAdvertise || bits == 0
}

// marksOf returns the marks by the names of Kubernetes Nodes, nil if there are none.
func (r routesRead) marksOf(j *join) (out map[string][]plan.Mark) {
	for node, marks := range r.marks {
		if out == nil {
			out = map[string][]plan.Mark{}
		}
		out[j.kubeName(node)] = marks
	}
	return out
}
