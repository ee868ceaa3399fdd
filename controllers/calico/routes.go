package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// routeSettings are the settings that decide whether Felix or BIRD programs routes. From Calico 3.33 on, unset fields have other defaults. The
// Calico that we are built with has no programClusterRoutes in BGPConfigurations. Source: design/cluster-route-programming/DESIGN.md of Calico.
type routeSettings struct {
	version    string
	felix, bgp string
	// felixUnknown and bgpUnknown are why the fields of FelixConfigurations and of BGPConfigurations cannot be interpreted, "" where they can.
	felixUnknown, bgpUnknown string
	// wireguard names the setting that enables or may enable WireGuard, for IPv4 (true) and IPv6. Felix then keeps the routes to nodes with
	// WireGuard in a separate routing table. BIRD does not learn from that table, because it reads the main one.
	wireguard map[bool]string
}

// The values of programClusterRoutes in FelixConfigurations and BGPConfigurations.
const (
	programsNone    = "Disabled"
	programsAll     = "Enabled"
	programsIPIP    = "EnabledIPIPOnly"
	programsNoEncap = "EnabledNoEncapOnly"
)

var programValues = []string{programsNone, programsAll, programsIPIP, programsNoEncap}

// of returns whether Felix or BIRD programs the routes to the pods of an IPPool.
func (s routeSettings) of(p apiv3.IPPoolSpec) plan.PoolRoutes {
	newer, known := s.newer()
	out := s.by(p, newer)
	direct := !strings.HasSuffix(out.Encapsulation, " Always")
	if out.Unknown = s.unreadable(p); out.Unknown == "" {
		direct = out.Direct || !known && s.by(p, !newer).Direct
		out.Unknown = s.undecided(p, known)
	}
	if out.Unknown != "" {
		out.Unknown, out.BIRD, out.Felix, out.Direct = plan.Plain(out.Unknown, 512), false, false, direct
	}
	return out
}

// unreadable returns which value of the pool or of the settings cannot be parsed, "" for none.
func (s routeSettings) unreadable(p apiv3.IPPoolSpec) string {
	_, err := netip.ParsePrefix(p.CIDR)
	switch {
	case p.CIDR != "" && err != nil:
		return fmt.Sprintf("%q is no range", p.CIDR)
	case !isMode(p.IPIPMode) || !isMode(p.VXLANMode):
		return fmt.Sprintf("ipipMode is %q, vxlanMode %q", p.IPIPMode, p.VXLANMode)
	case encapsulates(p.VXLANMode): // Felix programs these routes, whatever the settings
		return ""
	}
	return cmp.Or(s.felixUnknown, s.bgpUnknown)
}

// undecided returns why it is not decided who programs the routes, although all values can be parsed, "" if it is decided.
func (s routeSettings) undecided(p apiv3.IPPoolSpec, releaseKnown bool) string {
	cidr, err := netip.ParsePrefix(p.CIDR)
	wireguard := s.wireguard[cidr.Addr().Is4()]
	switch {
	case encapsulates(p.VXLANMode):
	case err == nil && wireguard != "":
		return wireguard + ", and Felix has the routes to all nodes that use WireGuard"
	case !releaseKnown && s.by(p, true) != s.by(p, false):
		return fmt.Sprintf("calicoVersion of ClusterInformation %s is %q, and they are Felix's from Calico %s on unless programClusterRoutes of "+
			"FelixConfiguration and of BGPConfiguration say otherwise", defaultConfig, s.version, felixHasIPIP)
	}
	return ""
}

// felixHasIPIP is the first Calico whose defaults let Felix program IP-in-IP routes.
var felixHasIPIP = version.MustParseGeneric("3.33.0")

// newer reports whether Calico has the defaults of 3.33, and whether that is known.
// For a build without a version number, or a pre-release of 3.33.0, it is not known.
func (s routeSettings) newer() (is, known bool) {
	v, err := version.ParseGeneric(s.version)
	if err != nil || v.Major() < 3 {
		return false, false
	}
	return v.AtLeast(felixHasIPIP), !v.EqualTo(felixHasIPIP) || strings.TrimPrefix(s.version, "v") == felixHasIPIP.String()
}

// by returns who programs the routes. If newer, unset fields have the defaults of 3.33, else those of earlier releases.
func (s routeSettings) by(p apiv3.IPPoolSpec, newer bool) plan.PoolRoutes {
	out := plan.PoolRoutes{CIDR: plan.Plain(p.CIDR, longestID), NotExported: p.DisableBGPExport, Selector: p.NodeSelector}
	felix, bgp := cmp.Or(s.felix, programsIPIP), cmp.Or(s.bgp, programsNoEncap)
	if !newer { // Felix and BIRD each program all routes or none, and BIRD does so independently of Felix
		felix, bgp = s.felix, programsAll
		if s.bgp == programsNone {
			bgp = programsNone
		}
	}
	has := func(value, only string) bool { return value == programsAll || newer && value == only }
	switch {
	case encapsulates(p.VXLANMode):
		out.Encapsulation, out.Felix = "VXLAN "+string(p.VXLANMode), true
		out.Direct = p.VXLANMode != apiv3.VXLANModeAlways
	case encapsulates(p.IPIPMode):
		out.Encapsulation, out.Felix, out.BIRD = "IP-in-IP "+string(p.IPIPMode), has(felix, programsIPIP), has(bgp, programsIPIP)
		out.Direct = out.Felix && (p.IPIPMode != apiv3.IPIPModeAlways || !newer) // BIRD learned routes on the tunnel's interface before 3.33
	default:
		out.Encapsulation, out.Felix, out.BIRD = "not encapsulated", has(felix, programsNoEncap), has(bgp, programsNoEncap)
		out.Direct = out.Felix
	}
	out.BIRD = out.BIRD && !out.NotExported
	return out
}

func encapsulates[M ~string](mode M) bool { return mode != "" && mode != "Never" }

func isMode[M ~string](mode M) bool {
	return slices.Contains([]M{"", "Never", "Always", "CrossSubnet"}, mode)
}

// routesKept is how long the settings for routes are used before they are read again.
const routesKept = time.Minute

// readRoutes reads what decides who programs routes, at most every routesKept.
func (a *Adapter) readRoutes(ctx context.Context) {
	now := a.store.now()
	if now.Sub(a.routesRead) < routesKept {
		return
	}
	var failed error
	routes := routesIn(func(kind string, into any) {
		if failed == nil {
			failed = a.listInto(ctx, kind, into)
		}
	})
	if failed == nil {
		a.routesRead = now
	} else {
		routes.unknown = failed.Error()
	}
	a.store.setRoutes(routes)
}

// listInto reads all objects of a kind, none where the API does not have it.
func (a *Adapter) listInto(ctx context.Context, kind string, into any) error {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(a.group.WithKind(kind + "List"))
	err := a.calico.client.List(ctx, found)
	var text []byte
	if client.IgnoreNotFound(err) == nil {
		text, err = found.MarshalJSON()
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("listing %ss: %w", kind, err)
	}
	return nil
}

// settingsList is a list of FelixConfigurations, BGPConfigurations or ClusterInformations.
type settingsList struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct {
			ProgramClusterRoutes, CalicoVersion  string
			WireguardEnabled, WireguardEnabledV6 bool
			advertisements
		}
	}
}

// routesRead is what was read about routes from the datastore. pools are nil until
// a read has succeeded. unknown is why the last read failed, "" if it succeeded.
type routesRead struct {
	pools    []apiv3.IPPool
	settings routeSettings
	marks    map[string][]plan.Mark
	unknown  string
}

func routesIn(list func(kind string, into any)) routesRead {
	pools := apiv3.IPPoolList{Items: []apiv3.IPPool{}}
	list(apiv3.KindIPPool, &pools)
	settings, marks := routeSettings{wireguard: map[bool]string{}}, map[string][]plan.Mark{}
	for _, kind := range []string{apiv3.KindFelixConfiguration, apiv3.KindBGPConfiguration, apiv3.KindClusterInformation} {
		var found settingsList
		list(kind, &found)
		settings.read(kind, found)
		if kind == apiv3.KindBGPConfiguration {
			marks = marksIn(found)
		}
	}
	return routesRead{pools: pools.Items, settings: settings, marks: marks}
}

// with combines the settings with the variables of calico-node's pods, and returns who programs the routes.
func (r routesRead) with(variables map[string]string) plan.Routes {
	settings := r.settings
	settings.wireguard = maps.Clone(settings.wireguard)
	for name, value := range variables {
		if name != podCIDRVariable {
			settings.override(name, value)
		}
	}
	out := plan.Routes{Plain: settings.of(apiv3.IPPoolSpec{}), Unknown: r.unknown}
	if r.pools != nil {
		out.Ranges = []netip.Prefix{}
	}
	for _, p := range r.pools {
		if cidr, err := netip.ParsePrefix(p.Spec.CIDR); err == nil {
			out.Ranges = append(out.Ranges, cidr.Masked())
			if p.Spec.DisableBGPExport {
				out.NotExported = append(out.NotExported, cidr.Masked())
			}
		}
		if forPods(p.Spec) {
			out.Pools = append(out.Pools, settings.of(p.Spec))
		}
	}
	slices.SortFunc(out.Ranges, netip.Prefix.Compare)
	slices.SortFunc(out.Pools, func(x, y plan.PoolRoutes) int { return strings.Compare(x.CIDR, y.CIDR) })
	return out
}

// override replaces a setting of FelixConfigurations by the value of a variable of calico-node, as Felix does.
func (s *routeSettings) override(name, value string) {
	unreadable := fmt.Sprintf("%s of calico-node's pods cannot be read: %s", name, value)
	is := slices.IndexFunc(programValues, func(known string) bool { return strings.EqualFold(known, value) })
	switch on := strings.ToLower(value); {
	case name == programsVariable && is >= 0:
		s.felix, s.felixUnknown = programValues[is], ""
	case name == programsVariable:
		s.felixUnknown = unreadable
	case slices.Contains([]string{"false", "0", "no", "n", "f", "none"}, on):
		delete(s.wireguard, name == wireguardVariable)
	case slices.Contains([]string{"true", "1", "yes", "y", "t"}, on):
		s.wireguard[name == wireguardVariable] = name + " of calico-node's pods enables WireGuard"
	default:
		s.wireguard[name == wireguardVariable] = unreadable
	}
}

// read takes over the settings of the default object of a kind. If an object for some nodes sets another value, the settings count as unknown.
func (s *routeSettings) read(kind string, found settingsList) {
	programs, unknown := "", &s.bgpUnknown
	if kind == apiv3.KindFelixConfiguration {
		unknown = &s.felixUnknown
	}
	for _, c := range found.Items {
		if c.Metadata.Name == defaultConfig {
			programs, s.version = c.Spec.ProgramClusterRoutes, cmp.Or(s.version, c.Spec.CalicoVersion)
		}
	}
	for _, c := range found.Items {
		name, value := plan.Plain(c.Metadata.Name, longestID), c.Spec.ProgramClusterRoutes
		if value != "" && (!slices.Contains(programValues, value) || value != programs) {
			*unknown = cmp.Or(*unknown, fmt.Sprintf("programClusterRoutes of %s %s is %q", kind, name, value))
		}
		s.readWireguard(name, map[bool]bool{true: c.Spec.WireguardEnabled, false: c.Spec.WireguardEnabledV6})
	}
	switch kind {
	case apiv3.KindFelixConfiguration:
		s.felix = programs
	case apiv3.KindBGPConfiguration:
		s.bgp = programs
	}
}

// readWireguard notes whether a FelixConfiguration enables WireGuard, for IPv4 (true) and IPv6.
func (s *routeSettings) readWireguard(name string, enabled map[bool]bool) {
	for isIPv4, on := range enabled {
		if on {
			s.wireguard[isIPv4] = cmp.Or(s.wireguard[isIPv4], fmt.Sprintf("FelixConfiguration %s enables WireGuard", name))
		}
	}
}

// relevantTo leaves out pools of an address family that no node has. A pool that selects no node, and of which no node has a block, may have no
// pods. Such a pool becomes unknown, because it does not prove that BIRD carries routes to pods.
func relevantTo(nodes []plan.Node, pools []plan.PoolRoutes) (out []plan.PoolRoutes) {
	for _, p := range pools {
		cidr, err := netip.ParsePrefix(p.CIDR)
		of := func(n plan.Node) bool {
			return slices.ContainsFunc(n.Blocks, cidr.Overlaps)
		}
		if err == nil && slices.ContainsFunc(nodes, plan.Node.SpeaksBGP) && !slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.HasFamily(cidr.Addr()) }) {
			continue
		}
		if p.BIRD && p.Selector != "" && !slices.ContainsFunc(nodes, of) {
			by, err := selector.Parse(p.Selector)
			if err != nil || !slices.ContainsFunc(nodes, func(n plan.Node) bool { return by.Evaluate(n.Labels) }) {
				p.BIRD, p.Unknown = false, plan.Plain(fmt.Sprintf("its nodeSelector %s selects no node, and no node has a block of it", p.Selector), 512)
			}
		}
		out = append(out, p)
	}
	return out
}

// forPods reports whether pods get addresses from the IPPool.
func forPods(spec apiv3.IPPoolSpec) bool {
	return !spec.Disabled && (len(spec.AllowedUses) == 0 || slices.Contains(spec.AllowedUses, apiv3.IPPoolAllowedUseWorkload))
}
