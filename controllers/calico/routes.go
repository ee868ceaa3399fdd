package calico

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"github.com/rrpool/rrpool/controllers/plan"
)

// routeSettings are what decides who programs routes. Unset fields have other defaults from Calico 3.33 on; the one of
// BGPConfigurations is not known to the Calico that we are built with.
// Source: design/cluster-route-programming/DESIGN.md of Calico.
type routeSettings struct {
	version    string
	felix, bgp string
}

// The values of programClusterRoutes, of FelixConfiguration and BGPConfiguration. A fourth is Disabled.
const (
	programsAll     = "Enabled"
	programsIPIP    = "EnabledIPIPOnly"
	programsNoEncap = "EnabledNoEncapOnly"
)

// of says who programs the routes to a pool's pods.
func (s routeSettings) of(p apiv3.IPPoolSpec) plan.PoolRoutes {
	out := plan.PoolRoutes{CIDR: p.CIDR}
	felix, bgp := s.felix, s.bgp
	if v, err := version.ParseGeneric(s.version); err == nil && v.AtLeast(version.MustParseGeneric("3.33.0")) {
		felix, bgp = cmp.Or(felix, programsIPIP), cmp.Or(bgp, programsNoEncap)
	}
	switch {
	case encapsulates(string(p.VXLANMode)):
		out.Encapsulation, out.Felix = "VXLAN "+string(p.VXLANMode), true
	case encapsulates(string(p.IPIPMode)):
		out.Encapsulation, out.Felix = "IP-in-IP "+string(p.IPIPMode), programs(felix, programsIPIP)
		out.BIRD = programs(bgp, programsIPIP) || bgp == "" && !out.Felix
	default:
		// Before 3.33 Felix could have the routes of IP-in-IP only.
		out.Encapsulation, out.Felix = "not encapsulated", felix == programsNoEncap || felix == programsAll && bgp != ""
		out.BIRD = programs(bgp, programsNoEncap) || bgp == ""
	}
	out.Direct = out.Felix && !strings.HasSuffix(out.Encapsulation, " Always")
	return out
}

func programs(value, only string) bool { return value == programsAll || value == only }

func encapsulates(mode string) bool { return mode != "" && mode != "Never" }

// routesKept is for how long it is not looked again who programs routes.
const routesKept = time.Minute

// readRoutes looks who programs routes.
func (a *Adapter) readRoutes(ctx context.Context) {
	if now := a.store.now(); now.Sub(a.routesRead) < routesKept {
		return
	}
	var routes plan.Routes
	d, err := discovery.NewDiscoveryClientForConfig(a.cfg.RestConfig)
	if err == nil {
		routes, err = routesIn(&served{ctx: ctx, api: d.RESTClient()}, a.group.Group, a.group.Version)
	}
	if err == nil {
		a.routesRead = a.store.now()
	} else {
		routes.Unknown = err.Error()
	}
	a.store.setRoutes(routes)
}

func routesIn(s *served, group, version string) (plan.Routes, error) {
	var pools apiv3.IPPoolList
	var configs struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ ProgramClusterRoutes, CalicoVersion string }
		}
	}
	list := func(resource string, into any) { s.get(into, "/apis", group, version, resource) }
	list("ippools", &pools)
	setting := func(resource string) (programs, calico string) {
		configs.Items = nil
		list(resource, &configs)
		for _, c := range configs.Items {
			if c.Metadata.Name == defaultConfig {
				return c.Spec.ProgramClusterRoutes, c.Spec.CalicoVersion
			}
		}
		return "", ""
	}
	var settings routeSettings
	settings.felix, _ = setting("felixconfigurations")
	settings.bgp, _ = setting("bgpconfigurations")
	_, settings.version = setting("clusterinformations")
	var out plan.Routes
	for _, p := range pools.Items {
		if !p.Spec.Disabled && (p.Spec.AllowedUses == nil || slices.Contains(p.Spec.AllowedUses, apiv3.IPPoolAllowedUseWorkload)) {
			out.Pools = append(out.Pools, settings.of(p.Spec))
		}
	}
	slices.SortFunc(out.Pools, func(x, y plan.PoolRoutes) int { return strings.Compare(x.CIDR, y.CIDR) })
	return out, s.err
}
