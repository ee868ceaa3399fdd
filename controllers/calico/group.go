package calico

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/controllers/plan"
)

// The groups of CRDs in which Calico keeps its objects. New installations of Calico 3.33 have the second, and others can
// be migrated to it. The second is also the group that Calico's API server translates into the first.
var (
	GroupV1 = schema.GroupVersion{Group: "crd.projectcalico.org", Version: "v1"}
	GroupV3 = apiv3.SchemeGroupVersion
)

// GroupChoice is in which group Calico keeps its objects now.
type GroupChoice struct {
	Group schema.GroupVersion
	// Unfinished is why nothing may be written in either group, "" for nothing.
	Unfinished string
}

// served asks an apiserver what it has, until the first error.
type served struct {
	ctx context.Context //nolint:containedctx // of one choice
	api rest.Interface
	err error
}

// servedBy asks an apiserver. That there is no client for it is the first error.
func servedBy(ctx context.Context, cfg *rest.Config) *served {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	return &served{ctx: ctx, api: d.RESTClient(), err: err}
}

// ChooseGroup chooses as Calico's operator does: a migration that has converged means the second group, else the first
// where it is there, else the second. A first group that is being deleted is not there. Where neither is, it is the
// first, without its kinds.
func ChooseGroup(ctx context.Context, cfg *rest.Config) (GroupChoice, error) {
	return servedBy(ctx, cfg).chooseGroup()
}

func (s *served) chooseGroup() (GroupChoice, error) {
	out := s.migration()
	// The second group is Calico's API server's as well: only a CRD proves that it is the datastore.
	if out.Group == GroupV1 && !s.writable(GroupV1) && s.writable(GroupV3) &&
		s.get(&struct{}{}, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "bgppeers."+GroupV3.Group) {
		out.Group = GroupV3
	}
	if s.err != nil {
		return GroupChoice{}, fmt.Errorf("choosing Calico's API group: %w", s.err)
	}
	return out, nil
}

// migrations is the group of Calico's DatastoreMigration.
const migrations = "migration.projectcalico.org"

// migration is the choice by what a DatastoreMigration says. While it is only converged, calico-node is replaced node by
// node: one half of the nodes reads the first group, which stays locked, and reports there.
func (s *served) migration() GroupChoice {
	out := GroupChoice{Group: GroupV1}
	var group struct{ PreferredVersion struct{ GroupVersion string } }
	var found struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
		}
	}
	if !s.get(&group, "/apis", migrations) || !s.get(&found, "/apis", group.PreferredVersion.GroupVersion, "datastoremigrations") {
		return out
	}
	for _, m := range found.Items {
		phase := m.Status.Phase
		switch phase {
		case "Complete":
			out.Group = GroupV3
			continue
		case "Converged":
			out.Group = GroupV3
		case "Failed":
			phase += ": delete it, which takes it back"
		}
		out.Unfinished = fmt.Sprintf("a migration of Calico's datastore from %s to %s is not finished (DatastoreMigration %s is %s)",
			GroupV1, GroupV3, m.Metadata.Name, cmp.Or(phase, "Pending"))
	}
	return out
}

// get reads what is at a path, and says whether there is something.
func (s *served) get(into any, elements ...string) bool {
	return s.err == nil && s.ask(into, path.Join(elements...), s.api.Get().AbsPath(elements...))
}

func (s *served) ask(into any, what string, request *rest.Request) bool {
	result := request.Do(s.ctx)
	body, err := result.Raw()
	if err != nil {
		err = result.Error() // in the apiserver's own words
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	if err == nil && string(bytes.TrimSpace(body[:min(len(body), 16)])) == "null" {
		err = errors.New("the answer is null")
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		s.err = fmt.Errorf("reading %s: %w", what, err)
	}
	return err == nil
}

// writable: BGPPeers of the group can be made. Of a CRD that is being deleted they cannot.
func (s *served) writable(group schema.GroupVersion) bool {
	type resource struct {
		Name  string
		Verbs []string
	}
	var found struct{ Resources []resource }
	return s.get(&found, "/apis", group.Group, group.Version) && slices.ContainsFunc(found.Resources, func(r resource) bool {
		return r.Name == "bgppeers" && slices.Contains(r.Verbs, "create")
	})
}

// groupCheckEvery is how often it is looked whether Calico's objects are being moved. Calico waits for 10 s between its
// lock, which is watched, and the first object that it copies.
const groupCheckEvery = 15 * time.Second

// choose waits for a choice and takes it.
func (a *Adapter) choose(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // for Start only
		choice, err := a.look(ctx)
		if err == nil {
			err = a.use(choice.Group)
		}
		if err == nil {
			a.cfg.Log.Info("Calico's objects are in " + a.calicoAPI())
			a.store.freeze(choice.Unfinished)
		}
		a.store.fail(err)
		if errors.Is(err, etcd.ErrNewCA) {
			return false, err
		}
		return err == nil, nil
	})
}

// EtcdAPI is what status.calicoAPI says where Calico keeps its objects in an etcd of its own. They have the shape of GroupV3 there.
const EtcdAPI = string(apiconfig.EtcdV3)

// calicoAPI is where Calico's objects are.
func (a *Adapter) calicoAPI() string {
	if a.etcd != nil {
		return EtcdAPI
	}
	return a.group.String()
}

// followGroup looks until the objects have moved, and then gives that as an error: what was observed in the former group
// says nothing about the other. Two looks have to agree.
func (a *Adapter) followGroup(ctx context.Context) error {
	for moved := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.groupCheck):
		}
		choice, err := a.look(ctx)
		if err == nil || a.etcd == nil {
			a.readRoutes(ctx)
		}
		switch {
		case errors.Is(err, etcd.ErrNewCA):
			return err
		case err != nil:
			if a.etcd != nil {
				a.store.fail(err) // nothing is known any more
			} else { // the lock of the former group, which stays, is watched
				a.cfg.Log.V(1).Info("whether Calico's objects are being moved is not known", "error", err.Error())
			}
			continue
		case choice.Group == a.group:
			a.store.fail(nil)
			a.store.freeze(choice.Unfinished)
		case moved:
			return fmt.Errorf("the objects of Calico have moved from API group %s to %s: the process ends, to begin anew there", a.group, choice.Group)
		default:
			a.store.freeze(fmt.Sprintf("Calico's objects have moved from API group %s to %s", a.group, choice.Group))
		}
		moved = choice.Group != a.group
	}
}

// routeSettings are what decides who programs routes. Unset fields have other defaults from Calico 3.33 on; the one of
// BGPConfigurations is not known to the Calico that we are built with.
// Source: design/cluster-route-programming/DESIGN.md of Calico.
type routeSettings struct {
	version    string
	felix, bgp string
	// felixDoubt and doubt are why what the fields of Felix and of BGP say is not known, "" for nothing.
	felixDoubt, doubt string
	// wireguard says, for IPv4 (true) and IPv6, what switches it on, or may: Felix then has the routes to the nodes with it, in
	// a routing table of its own. BIRD does not learn those: it reads the main one.
	wireguard map[bool]string
}

// The values of programClusterRoutes, of FelixConfiguration and BGPConfiguration.
const (
	programsNone    = "Disabled"
	programsAll     = "Enabled"
	programsIPIP    = "EnabledIPIPOnly"
	programsNoEncap = "EnabledNoEncapOnly"
)

var programValues = []string{programsNone, programsAll, programsIPIP, programsNoEncap}

// of says who programs the routes to a pool's pods.
func (s routeSettings) of(p apiv3.IPPoolSpec) plan.PoolRoutes {
	newer, known := s.newer()
	out := s.by(p, newer)
	direct := !strings.HasSuffix(out.Encapsulation, " Always")
	either := out.Direct || !known && s.by(p, !newer).Direct
	cidr, err := netip.ParsePrefix(p.CIDR)
	switch {
	case p.CIDR != "" && err != nil:
		out.Unknown = fmt.Sprintf("%q is no range", p.CIDR)
	case !isMode(string(p.IPIPMode)) || !isMode(string(p.VXLANMode)):
		out.Unknown = fmt.Sprintf("ipipMode is %q, vxlanMode %q", p.IPIPMode, p.VXLANMode)
	case encapsulates(string(p.VXLANMode)):
	case s.felixDoubt+s.doubt != "":
		out.Unknown = cmp.Or(s.felixDoubt, s.doubt)
	case p.CIDR != "" && s.wireguard[cidr.Addr().Is4()] != "":
		direct = either
		out.Unknown = s.wireguard[cidr.Addr().Is4()] + ", and Felix has the routes to all nodes that use WireGuard"
	case !known && s.by(p, !newer) != out:
		direct = either
		out.Unknown = fmt.Sprintf("calicoVersion of ClusterInformation %s is %q, and they are Felix's from Calico %s on unless programClusterRoutes of "+
			"FelixConfiguration and of BGPConfiguration say otherwise", defaultConfig, s.version, felixHasIPIP)
	}
	if out.Unknown != "" {
		out.Unknown, out.BIRD, out.Felix, out.Direct = plan.Plain(out.Unknown, 512), false, false, direct
	}
	return out
}

// felixHasIPIP is the Calico with the new defaults.
var felixHasIPIP = version.MustParseGeneric("3.33.0")

// newer says whether Calico has the defaults of 3.33, and whether that is known: not of a build without a number, or before that release.
func (s routeSettings) newer() (is, known bool) {
	v, err := version.ParseGeneric(s.version)
	if err != nil || v.Major() < 3 {
		return false, false
	}
	return v.AtLeast(felixHasIPIP), !v.EqualTo(felixHasIPIP) || strings.TrimPrefix(s.version, "v") == felixHasIPIP.String()
}

// by says who programs them by the defaults of 3.33, or those before.
func (s routeSettings) by(p apiv3.IPPoolSpec, newer bool) plan.PoolRoutes {
	out := plan.PoolRoutes{CIDR: plan.Plain(p.CIDR, longestID), NotExported: p.DisableBGPExport, Selector: p.NodeSelector}
	felix, bgp := cmp.Or(s.felix, programsIPIP), cmp.Or(s.bgp, programsNoEncap)
	if !newer { // either has all or none, and BIRD has them whatever Felix does
		felix, bgp = s.felix, programsAll
		if s.bgp == programsNone {
			bgp = programsNone
		}
	}
	has := func(value, only string) bool { return value == programsAll || newer && value == only }
	switch {
	case encapsulates(string(p.VXLANMode)):
		out.Encapsulation, out.Felix = "VXLAN "+string(p.VXLANMode), true
	case encapsulates(string(p.IPIPMode)):
		out.Encapsulation, out.Felix, out.BIRD = "IP-in-IP "+string(p.IPIPMode), has(felix, programsIPIP), has(bgp, programsIPIP)
	default:
		out.Encapsulation, out.Felix, out.BIRD = "not encapsulated", has(felix, programsNoEncap), has(bgp, programsNoEncap)
	}
	out.BIRD = out.BIRD && !out.NotExported
	// BIRD learns routes on the tunnel's interface as well before 3.33.
	out.Direct = out.Felix && (!strings.HasSuffix(out.Encapsulation, " Always") || !newer && encapsulates(string(p.IPIPMode)) && !encapsulates(string(p.VXLANMode)))
	return out
}

func encapsulates(mode string) bool { return mode != "" && mode != "Never" }

func isMode(mode string) bool {
	return slices.Contains([]string{"", "Never", "Always", "CrossSubnet"}, mode)
}

// routesKept is for how long it is not looked again who programs routes.
const routesKept = time.Minute

// readRoutes reads who programs routes, at most every routesKept.
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

// settingsList are FelixConfigurations, BGPConfigurations or ClusterInformations.
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

// routesRead is what the datastore says of who programs routes. Pools are nil until it was read once, unknown is why that failed last.
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

// with says who programs routes where calico-node's pods have these variables.
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

// override puts what a variable of calico-node says in the place of what FelixConfigurations do, as Felix does.
func (s *routeSettings) override(name, value string) {
	doubt := fmt.Sprintf("%s of calico-node's pods cannot be read: %s", name, value)
	is := slices.IndexFunc(programValues, func(known string) bool { return strings.EqualFold(known, value) })
	switch on := strings.ToLower(value); {
	case name == programsVariable && is >= 0:
		s.felix, s.felixDoubt = programValues[is], ""
	case name == programsVariable:
		s.felixDoubt = doubt
	case slices.Contains([]string{"false", "0", "no", "n", "f", "none"}, on):
		delete(s.wireguard, name == wireguardVariable)
	case slices.Contains([]string{"true", "1", "yes", "y", "t"}, on):
		s.wireguard[name == wireguardVariable] = name + " of calico-node's pods enables WireGuard"
	default:
		s.wireguard[name == wireguardVariable] = doubt
	}
}

// read takes what the default object of a kind says. What another one says of some nodes is not known of all.
func (s *routeSettings) read(kind string, found settingsList) {
	programs, doubt := "", &s.doubt
	if kind == apiv3.KindFelixConfiguration {
		doubt = &s.felixDoubt
	}
	for _, c := range found.Items {
		if c.Metadata.Name == defaultConfig {
			programs, s.version = c.Spec.ProgramClusterRoutes, cmp.Or(s.version, c.Spec.CalicoVersion)
		}
	}
	for _, c := range found.Items {
		name, value := plan.Plain(c.Metadata.Name, longestID), c.Spec.ProgramClusterRoutes
		if value != "" && (!slices.Contains(programValues, value) || value != programs) {
			*doubt = cmp.Or(*doubt, fmt.Sprintf("programClusterRoutes of %s %s is %q", kind, name, value))
		}
		for isIPv4, on := range map[bool]bool{true: c.Spec.WireguardEnabled, false: c.Spec.WireguardEnabledV6} {
			if on {
				s.wireguard[isIPv4] = cmp.Or(s.wireguard[isIPv4], fmt.Sprintf("FelixConfiguration %s enables WireGuard", name))
			}
		}
	}
	switch kind {
	case apiv3.KindFelixConfiguration:
		s.felix = programs
	case apiv3.KindBGPConfiguration:
		s.bgp = programs
	}
}

// relevantTo leaves out pools of an address family that no node has. One that selects no node, and of which none has a block, may have no pods:
// who orders machines for its routes is told that this is not known.
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

// forPods: pods get addresses of the IPPool.
func forPods(spec apiv3.IPPoolSpec) bool {
	return !spec.Disabled && (len(spec.AllowedUses) == 0 || slices.Contains(spec.AllowedUses, apiv3.IPPoolAllowedUseWorkload))
}
