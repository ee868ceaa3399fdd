package calico

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
)

// advertisements are what a BGPConfiguration says of the communities that a node gives to the routes it announces.
type advertisements struct {
	PrefixAdvertisements []struct {
		CIDR        string
		Communities []string
	}
	Communities []struct{ Name, Value string }
}

// noAdvertise is 65535:65282. NO_EXPORT, which BIRD obeys too, stops nothing in one AS.
const noAdvertise = 0xFFFFFF02

// marksIn are the marks by node, those of the default object under "". One that has any of its own has none of the default object's.
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
			cidr, _ := ownRange(p.CIDR) // the zero one is any
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

// stops reports whether BIRD passes on nothing with a community, by its value or name. One that cannot be read may be such.
func (a advertisements) stops(community string) bool {
	for _, c := range a.Communities {
		if c.Name == community {
			community = c.Value
			break
		}
	}
	parts := strings.Split(community, ":")
	var value uint64
	bits := map[int]int{2: 16, 3: 32}[len(parts)] // of three large ones none means anything to BIRD
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil || n>>bits > 0 {
			return true
		}
		value = value<<bits | n
	}
	return bits == 16 && value == noAdvertise || bits == 0
}

// marksOf are they by the names that Kubernetes has for nodes, nil for none.
func (r routesRead) marksOf(j *join) (out map[string][]plan.Mark) {
	for node, marks := range r.marks {
		if out == nil {
			out = map[string][]plan.Mark{}
		}
		out[j.kubeName(node)] = marks
	}
	return out
}
