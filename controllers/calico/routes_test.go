package calico

import (
	"context"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
)

func TestWhoProgramsRoutesIsReadOnTheMeshAndOnReflectors(t *testing.T) {
	b := newBench(t)
	create := func(kind, name string, spec map[string]any) {
		o := b.custom(kind, name)
		o.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { require.NoError(t, b.kube.Delete(context.Background(), o)) })
	}
	create(apiv3.KindIPPool, "used", map[string]any{"cidr": "10.5.0.0/16", "ipipMode": "CrossSubnet"})
	create(apiv3.KindIPPool, "disabled", map[string]any{"cidr": "10.6.0.0/16", "disabled": true})
	create(apiv3.KindIPPool, "tunnels", map[string]any{"cidr": "10.7.0.0/16", "allowedUses": []any{"Tunnel"}})
	b.groupCheck = time.Millisecond
	b.run()
	want := plan.PoolRoutes{CIDR: "10.5.0.0/16", Encapsulation: "IP-in-IP CrossSubnet", BIRD: true}
	require.Equal(t, plan.Routes{Pools: []plan.PoolRoutes{want}}, b.observe().Routes)

	create(apiv3.KindFelixConfiguration, "default", map[string]any{"programClusterRoutes": "Enabled"})
	time.Sleep(20 * time.Millisecond)
	require.False(t, b.observe().Routes.Useless(), "it is looked once a minute")
	b.clock.Move(routesKept)
	b.await("the new setting", func(c plan.Cluster) bool { return c.Routes.Useless() })
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	b.await("the mesh off", func(c plan.Cluster) bool { return !c.BGP.MeshOn() })
	create(apiv3.KindIPPool, "later", map[string]any{"cidr": "10.8.0.0/16"})
	b.clock.Move(routesKept)
	b.await("the new pool", func(c plan.Cluster) bool { return len(c.Routes.Pools) == 2 })
}

// TestWhoProgramsRoutes by release and by both fields, as design/cluster-route-programming/DESIGN.md of Calico has it.
func TestWhoProgramsRoutes(t *testing.T) {
	plain, ipip, vxlan := apiv3.IPPoolSpec{IPIPMode: "Never", VXLANMode: "Never"}, apiv3.IPPoolSpec{IPIPMode: "CrossSubnet"}, apiv3.IPPoolSpec{VXLANMode: "CrossSubnet"}
	const bird, felix, both, nobody = "BIRD", "Felix", "both", "nobody"
	who := func(s routeSettings, p apiv3.IPPoolSpec) string {
		r := s.of(p)
		return map[[2]bool]string{{true, false}: bird, {false, true}: felix, {true, true}: both, {false, false}: nobody}[[2]bool{r.BIRD, r.Felix}]
	}
	for name, c := range map[string]struct {
		settings    routeSettings
		plain, ipip string
	}{
		"by default":                             {routeSettings{version: "v3.31.5"}, bird, bird},
		"of an unknown release":                  {routeSettings{}, bird, bird},
		"IP-in-IP given to Felix":                {routeSettings{version: "v3.31.5", felix: "Enabled"}, bird, felix},
		"by default from 3.33 on":                {routeSettings{version: "v3.33.0"}, bird, felix},
		"and later":                              {routeSettings{version: "v4.0.0"}, bird, felix},
		"as before, pinned":                      {routeSettings{version: "v3.33.1", felix: "Disabled", bgp: "Enabled"}, bird, bird},
		"all by Felix":                           {routeSettings{version: "v3.33.1", felix: "Enabled", bgp: "Disabled"}, felix, felix},
		"the other way round":                    {routeSettings{version: "v3.33.1", felix: "EnabledNoEncapOnly", bgp: "EnabledIPIPOnly"}, felix, bird},
		"one field forgotten: twice":             {routeSettings{version: "v3.33.1", felix: "Enabled"}, both, felix},
		"one field forgotten: not at all":        {routeSettings{version: "v3.33.1", felix: "Disabled"}, bird, nobody},
		"both fields, before they had a default": {routeSettings{version: "v3.32.4", felix: "EnabledIPIPOnly", bgp: "EnabledNoEncapOnly"}, bird, felix},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.plain, who(c.settings, plain))
			require.Equal(t, c.ipip, who(c.settings, ipip))
			require.Equal(t, felix, who(c.settings, vxlan))
			require.True(t, c.settings.of(vxlan).Direct)
			require.False(t, c.settings.of(apiv3.IPPoolSpec{VXLANMode: "Always"}).Direct, "its routes are on the tunnel's interface")
			require.Equal(t, c.ipip == felix || c.ipip == both, c.settings.of(ipip).Direct)
		})
	}
}
