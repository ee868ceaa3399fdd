package importenv

import (
	"fmt"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// sizing: with zones and topology simple the operator computes everything for each zone
// apart, else for the cluster.
func (t *translation) sizing() {
	perZone := !t.s.multi && t.s.zoneKey != ""
	low, high, each := t.s.min, t.s.max, 1
	if perZone {
		each, high = t.s.min, t.s.max*t.zones
	}
	wanted := high
	if rest := low % t.zones; !perZone && rest > 0 {
		high = max(high, low+t.zones-rest)
	}
	t.add(1, "sizing", "")
	t.add(2, "method", string(v1alpha1.SizingLinear), note{Field: "spec.sizing.method", Kind: same, Text: "nodes times ratio, rounded up: the only rule that the operator has"})
	rule := t.about(ratio, "spec.sizing.ratio", same, "of all nodes that are Ready and speak BGP")
	if perZone {
		rule.Kind, rule.Text = differs, "of all nodes; the operator rounds up in each zone, rrpool once, and then gives each zone the same"
	}
	t.add(2, "ratio", strconv.Quote(t.s.ratio), rule)
	t.bounds(perZone, low, high, each, wanted)
}

func (t *translation) bounds(perZone bool, low, high, each, wanted int) {
	zones := fmt.Sprintf("%d zones", t.zones)
	if t.zones == 1 {
		zones = "1 zone"
	}
	most := t.about(most, "spec.sizing.max", same, "for the whole cluster")
	if _, set := t.from.set[most.Variable]; !set {
		most.Text += "; the operator's own default is 10, and not 25 as its README says"
	}
	switch {
	case perZone && t.counted:
		most = t.about(most.Variable, most.Field, differs, "for the whole cluster: the operator's %d for each of %s", t.s.max, zones)
	case perZone:
		most = t.about(most.Variable, most.Field, act, "for the whole cluster: the operator's %d for each zone, if there are %s: give --zones if there are not", t.s.max, zones)
	case high > wanted:
		most = t.about(most.Variable, most.Field, differs, "for the whole cluster, and not the operator's %d: %d reflectors cannot be the same number in each of %s", wanted, low, zones)
	}
	if perZone {
		t.add(2, "min", strconv.Itoa(low), t.about(least, "spec.sizing.min", same, "for the whole cluster; minPerZone asks for as many in each zone"))
		t.add(2, "max", strconv.Itoa(high), most)
		t.add(2, "minPerZone", strconv.Itoa(each), t.about(least, "spec.sizing.minPerZone", same, "for each zone, as the operator has it. %s need %d reflectors; rrpool's own default is 1 for each zone and 3 in all", zones, each*t.zones))
		return
	}
	t.add(2, "min", strconv.Itoa(low), t.about(least, "spec.sizing.min", same, "for the whole cluster"))
	t.add(2, "max", strconv.Itoa(high), most)
	t.add(2, "minPerZone", strconv.Itoa(each), note{Field: "spec.sizing.minPerZone", Kind: differs, Text: "rrpool has at least one reflector in each zone"})
}
