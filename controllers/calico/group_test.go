package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestTheGroupIsChosenAsCalicosOperatorDoes(t *testing.T) {
	notInEtcd(t, "there are no CRDs")
	const (
		v1, v3   = "/apis/crd.projectcalico.org/v1", "/apis/projectcalico.org/v3"
		crd      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bgppeers.projectcalico.org"
		group    = "/apis/migration.projectcalico.org"
		list     = group + "/v1beta1/datastoremigrations"
		there    = `{"resources":[{"name":"bgppeers","verbs":["create","get"]}]}`
		deleting = `{"resources":[{"name":"bgppeers","verbs":["delete","get"]},{"name":"ippools","verbs":["create"]}]}`
		version  = `{"preferredVersion":{"groupVersion":"migration.projectcalico.org/v1beta1"}}`
	)
	phase := func(p string) string {
		return `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"a/v1","kind":"DatastoreMigration","metadata":{"name":"v1-to-v3"},"status":{"phase":"` + p + `"}}]}`
	}
	for name, c := range map[string]struct {
		has        map[string]string
		want       schema.GroupVersion
		unfinished string
		err        string
	}{
		"no Calico":                         {nil, GroupV1, "", ""},
		"the first":                         {map[string]string{v1: there}, GroupV1, "", ""},
		"the first and Calico's API server": {map[string]string{v1: there, v3: there}, GroupV1, "", ""},
		"both, before a migration":          {map[string]string{v1: there, v3: there, crd: "{}", group: version, list: `{"apiVersion":"v1","kind":"List","items":[]}`}, GroupV1, "", ""},
		"the second":                        {map[string]string{v3: there, crd: "{}"}, GroupV3, "", ""},
		"an API server over etcd":           {map[string]string{v3: there}, GroupV1, "", ""},
		"the first is being deleted":        {map[string]string{v1: deleting, v3: there, crd: "{}"}, GroupV3, "", ""},
		"a migration that has not begun":    {map[string]string{v1: there, v3: there, crd: "{}", group: version, list: phase("")}, GroupV1, "v1-to-v3 is Pending", ""},
		"while it migrates":                 {map[string]string{v1: there, v3: there, crd: "{}", group: version, list: phase("Migrating")}, GroupV1, "v1-to-v3 is Migrating", ""},
		"with conflicts":                    {map[string]string{v1: there, group: version, list: phase("WaitingForConflictResolution")}, GroupV1, "is WaitingForConflictResolution", ""},
		"failed":                            {map[string]string{v1: there, group: version, list: phase("Failed")}, GroupV1, "is Failed: delete it", ""},
		"converged":                         {map[string]string{v1: there, group: version, list: phase("Converged")}, GroupV3, "is Converged", ""},
		"complete":                          {map[string]string{v1: there, group: version, list: phase("Complete")}, GroupV3, "", ""},
		"a migration that cannot be read":   {map[string]string{v1: there, group: version, list: "403"}, GroupV1, "", "datastoremigrations"},
		"the first cannot be read":          {map[string]string{v1: "503", v3: there, crd: "{}"}, GroupV1, "", v1},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var code int
				body, ok := c.has[r.URL.Path]
				if _, err := fmt.Sscanf(body, "%d", &code); err == nil {
					w.WriteHeader(code)
				} else if !ok {
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = fmt.Fprint(w, body)
			}))
			defer server.Close()
			got, err := ChooseGroup(t.Context(), &rest.Config{Host: server.URL})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Group)
			require.Contains(t, got.Unfinished, c.unfinished)
			require.Equal(t, c.unfinished == "", got.Unfinished == "")
		})
	}
}

func named(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

func TestAMigrationStopsEverythingAndThenItBeginsAnewInTheOtherGroup(t *testing.T) {
	notInEtcd(t, "there are no CRDs")
	onlyV1(t) // it passes through both
	v1, err := controlplane.CalicoCRDs(t.Context())
	require.NoError(t, err)
	v3 := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), v3))
	own, err := controlplane.Start(t.Context(), controlplane.Options{AuditReads: true, CRDs: []string{v1, v3}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	b := &bench{t: t, plane: own, clock: newClock(), user: "migrated", groups: []string{"system:masters"}}
	b.kube, err = client.New(own.AdminConfig(), client.Options{})
	require.NoError(t, err)
	b.node(five, nil)

	begin := func() <-chan error {
		a := b.choosing()
		a.checkPeriod, b.Adapter = 20*time.Millisecond, a
		_, err := a.Apply(t.Context(), scope, plan.RestoreMesh{})
		require.ErrorContains(t, err, "not done yet", "nothing is written before the choice")
		ended, ctx := make(chan error, 1), t.Context()
		go func() { ended <- a.Start(ctx) }()
		require.NoError(t, a.WaitSynced(t.Context()))
		return ended
	}
	migration := func() *unstructured.Unstructured {
		return named("migration.projectcalico.org/v1", "DatastoreMigration", "v1-to-v3")
	}
	phase := func(p string) {
		o := migration()
		require.NoError(t, client.IgnoreAlreadyExists(b.kube.Create(t.Context(), o)))
		b.patch(o, `{"status":{"phase":"`+p+`"}}`)
	}
	refused := func() {
		for _, err := range b.tryAll() {
			require.ErrorContains(t, err, "nothing is written")
		}
	}
	ended := begin()
	require.Equal(t, GroupV1.String(), b.observe().CalicoAPI)
	b.apply(plan.PutPeer{Peer: clients}, true)
	since := time.Now()
	for _, p := range []string{"", "Migrating", "WaitingForConflictResolution", "Failed"} {
		phase(p)
		b.await("the migration, "+p, func(c plan.Cluster) bool { return c.Locked != nil })
		refused()
	}
	phase("Converged")
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "have moved from API group crd.projectcalico.org/v1 to projectcalico.org/v3")
	case <-time.After(time.Minute):
		t.Fatal("it goes on in the dead group")
	}
	refused()
	_, err = b.Observe(t.Context(), scope)
	require.ErrorContains(t, err, "stopped", "nothing is decided from what was known")

	begin()
	seen := b.observe()
	require.Equal(t, GroupV3.String(), seen.CalicoAPI)
	require.Empty(t, seen.Peers, "those of the other group are not looked at")
	require.Contains(t, seen.Locked.Message, "Converged")
	refused()
	events, err := own.Writes(b.user, since)
	require.NoError(t, err)
	require.Empty(t, events, "by neither manager")
	phase("Complete")
	b.await("the end", func(c plan.Cluster) bool { return c.Locked == nil })
	b.apply(plan.PutPeer{Peer: clients}, true)
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	moved, err := connect(own.AdminConfig(), GroupV3)
	require.NoError(t, err)
	_, err = moved.peers.get(t.Context(), clients.Name)
	require.NoError(t, err)
	old, err := connect(own.AdminConfig(), GroupV1)
	require.NoError(t, err)
	_, err = configsOf(old, GroupV1).get(t.Context(), defaultConfig)
	require.True(t, apierrors.IsNotFound(err), "the mesh of the dead group is left alone")

	// The negative control: a manager that does not look writes where nobody reads.
	b.Adapter = b.adapter()
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	_, err = configsOf(old, GroupV1).get(t.Context(), defaultConfig)
	require.NoError(t, err)

	// Deleting the DatastoreMigration deletes the first group. While it is being deleted it does not count any more.
	hold := b.custom(apiv3.KindBGPPeer, clients.Name)
	b.patch(hold, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	require.NoError(t, b.kube.Delete(t.Context(), named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "bgppeers.crd.projectcalico.org")))
	require.NoError(t, b.kube.Delete(t.Context(), migration()))
	require.Eventually(t, func() bool {
		choice, err := ChooseGroup(t.Context(), own.AdminConfig())
		return err == nil && choice == GroupChoice{Group: GroupV3}
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKeyFromObject(hold), hold), "it is still there")
}

// Calico 3.33 gives the CRD of the first group a subresource as well, while rrpool runs.
func TestAReportIsClearedThroughItsSubresourceOnceTheCRDHasOne(t *testing.T) {
	notInEtcd(t, "there are no CRDs")
	onlyV1(t)
	b := newBench(t).run()
	status := func(subresources, path string, served bool) {
		crd := named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "caliconodestatuses.crd.projectcalico.org")
		body := `[{"op":"` + subresources + `","path":"/spec/versions/0/subresources","value":{"status":{}}}]`
		require.NoError(t, b.kube.Patch(context.Background(), crd, client.RawPatch(types.JSONPatchType, []byte(body))))
		require.Eventually(t, func() bool {
			raw := b.custom(apiv3.KindCalicoNodeStatus, path)
			err := b.kube.Status().Patch(context.Background(), raw, client.RawPatch(types.MergePatchType, []byte(`{}`)))
			return (err == nil) == served
		}, time.Minute, 20*time.Millisecond)
	}
	request := plan.StatusRequest{Node: five, Period: time.Second}
	b.watch(request)
	report := statusName(request.Node)
	b.fill(request.Node, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.NumberEstablishedV4 = 1 })
	b.await("the report", func(c plan.Cluster) bool { return !c.Statuses[request.Node].Updated.IsZero() })
	status("add", report, true)
	t.Cleanup(func() { status("remove", report, false) })

	generation := b.report(request.Node).Generation
	b.apply(plan.RefreshStatus{Node: request.Node}, true)
	live := b.report(request.Node)
	require.True(t, isCleared(live))
	require.Greater(t, live.Generation, generation, "else the reporter would not look at it")
	b.fill(request.Node, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.NumberEstablishedV4 = 2 })
	require.True(t, isCleared(b.report(request.Node)), "a reporter of an older Calico is not heard any more: calico-node has to be replaced")
}

// The reporter of Calico before 3.28 writes an object back without the labels that our version of the library keeps in an annotation.
func TestAReportIsOursWithoutTheLabelThatAnOldReporterDrops(t *testing.T) {
	onlyV1(t)
	b := newBench(t).run()
	b.watch(plan.StatusRequest{Node: five})
	b.patch(b.custom(apiv3.KindCalicoNodeStatus, statusName(five)), `{"metadata":{"annotations":{"projectcalico.org/metadata":"{}"}}}`)
	require.NotContains(t, b.report(five).Labels, v1alpha1.ManagedByLabel)
	_, err := b.Apply(t.Context(), scope, plan.RefreshStatus{Node: five})
	require.NoError(t, err)
}

func TestWhoProgramsRoutesIsReadOnTheMeshAndOnReflectors(t *testing.T) {
	b := newBench(t)
	create := func(kind, name string, spec map[string]any) {
		o := b.custom(kind, name)
		o.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { require.NoError(t, b.kube.Delete(context.Background(), o)) })
	}
	create(apiv3.KindIPPool, "used", map[string]any{"cidr": "10.5.0.0/16", "ipipMode": "CrossSubnet"})
	create(apiv3.KindIPPool, "disabled", map[string]any{"cidr": "10.6.0.0/16", "disabled": true, "disableBGPExport": true})
	create(apiv3.KindIPPool, "tunnels", map[string]any{"cidr": "10.7.0.0/16", "allowedUses": []any{"Tunnel"}})
	if inEtcd { // where there is one
		b.patch(b.custom(apiv3.KindClusterInformation, "default"), `{"spec":{"calicoVersion":"v3.31.0"}}`)
	} else {
		create(apiv3.KindClusterInformation, "default", map[string]any{"calicoVersion": "v3.31.0"})
	}
	b.checkPeriod = time.Millisecond
	b.run()
	want := plan.PoolRoutes{CIDR: "10.5.0.0/16", Encapsulation: "IP-in-IP CrossSubnet", BIRD: true}
	plain := plan.PoolRoutes{Encapsulation: "not encapsulated", BIRD: true}
	ranges := []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("10.6.0.0/16"), netip.MustParsePrefix("10.7.0.0/16")}
	require.Equal(t, plan.Routes{Pools: []plan.PoolRoutes{want}, Plain: plain, Ranges: ranges, NotExported: ranges[1:2]}, b.observe().Routes)

	create(apiv3.KindFelixConfiguration, "default", map[string]any{"programClusterRoutes": "Enabled"})
	time.Sleep(20 * time.Millisecond)
	require.False(t, b.observe().Routes.Pools[0].Felix, "it is looked once a minute")
	b.clock.Move(routesKept)
	b.await("the new setting", func(c plan.Cluster) bool { return c.Routes.Pools[0].Felix && c.Routes.Pools[0].BIRD })
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	b.await("the mesh off", func(c plan.Cluster) bool { return !c.BGP.MeshOn() })
	create(apiv3.KindIPPool, "later", map[string]any{"cidr": "10.8.0.0/16"})
	b.clock.Move(routesKept)
	b.await("the new pool", func(c plan.Cluster) bool { return len(c.Routes.Pools) == 2 })
}

// TestWhoProgramsRoutes by release and by both fields, as design/cluster-route-programming/DESIGN.md of Calico has it.
func TestWhoProgramsRoutes(t *testing.T) {
	plain, ipip, vxlan := apiv3.IPPoolSpec{IPIPMode: "Never", VXLANMode: "Never"}, apiv3.IPPoolSpec{IPIPMode: "CrossSubnet"}, apiv3.IPPoolSpec{VXLANMode: "CrossSubnet"}
	const bird, felix, both, nobody, unknown = "BIRD", "Felix", "both", "nobody", "not known"
	who := func(s routeSettings, p apiv3.IPPoolSpec) string {
		r := s.of(p)
		if r.Unknown != "" {
			require.True(t, !r.BIRD && !r.Felix)
			return unknown
		}
		return map[[2]bool]string{{true, false}: bird, {false, true}: felix, {true, true}: both, {false, false}: nobody}[[2]bool{r.BIRD, r.Felix}]
	}
	for name, c := range map[string]struct {
		settings    routeSettings
		plain, ipip string
	}{
		"by default":                             {routeSettings{version: "v3.31.5"}, bird, bird},
		"of an unknown release":                  {routeSettings{}, bird, unknown},
		"of a build without a number":            {routeSettings{version: "master"}, bird, unknown},
		"of a build with another's numbers":      {routeSettings{version: "1.2.0-abcdef"}, bird, unknown},
		"of an unknown release, by both fields":  {routeSettings{version: "master", felix: "Disabled", bgp: "Enabled"}, bird, bird},
		"of an unknown release, by Felix":        {routeSettings{version: "master", felix: "EnabledIPIPOnly"}, bird, unknown},
		"on the way to 3.33":                     {routeSettings{version: "v3.33.0-0.dev-512-g1a2b3c"}, bird, unknown},
		"on the way to 3.34":                     {routeSettings{version: "v3.34.0-0.dev-7-g1a2b3c"}, bird, felix},
		"on the way to 3.32":                     {routeSettings{version: "v3.32.0-0.dev-7-g1a2b3c"}, bird, bird},
		"of a release that a vendor has named":   {routeSettings{version: "3.29.3-ibm1"}, bird, bird},
		"of fields with other values":            {routeSettings{version: "v3.33.0", bgpUnknown: "x"}, unknown, unknown},
		"given to Felix before 3.33: twice":      {routeSettings{version: "v3.31.5", felix: "Enabled"}, both, both},
		"and taken from BIRD":                    {routeSettings{version: "v3.32.1", felix: "Enabled", bgp: "Disabled"}, felix, felix},
		"taken from BIRD only":                   {routeSettings{version: "v3.32.1", bgp: "Disabled"}, nobody, nobody},
		"by default from 3.33 on":                {routeSettings{version: "v3.33.0"}, bird, felix},
		"and later":                              {routeSettings{version: "v4.0.0"}, bird, felix},
		"as before, pinned":                      {routeSettings{version: "v3.33.1", felix: "Disabled", bgp: "Enabled"}, bird, bird},
		"all by Felix":                           {routeSettings{version: "v3.33.1", felix: "Enabled", bgp: "Disabled"}, felix, felix},
		"the other way round":                    {routeSettings{version: "v3.33.1", felix: "EnabledNoEncapOnly", bgp: "EnabledIPIPOnly"}, felix, bird},
		"one field forgotten: twice":             {routeSettings{version: "v3.33.1", felix: "Enabled"}, both, felix},
		"one field forgotten: not at all":        {routeSettings{version: "v3.33.1", felix: "Disabled"}, bird, nobody},
		"both fields, before they had a default": {routeSettings{version: "v3.32.4", felix: "EnabledIPIPOnly", bgp: "EnabledNoEncapOnly"}, bird, bird},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.plain, who(c.settings, plain))
			require.Equal(t, c.ipip, who(c.settings, ipip))
			require.Equal(t, felix, who(c.settings, vxlan))
			require.True(t, c.settings.of(vxlan).Direct)
			require.False(t, c.settings.of(apiv3.IPPoolSpec{VXLANMode: "Always"}).Direct, "its routes are on the tunnel's interface")
			require.Equal(t, c.ipip == felix || c.ipip == both || c.ipip == unknown, c.settings.of(ipip).Direct)
		})
	}
}

// Machines are ordered for the routes of pools that nodes of the cluster have pods of, and that BGP exports.
func TestPoolsThatBGPDoesNotCarry(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	nodes := []plan.Node{{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Labels: map[string]string{"egress": "yes"}}}
	block := []plan.Node{{Addresses: nodes[0].Addresses, Blocks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/26")}}}
	for name, c := range map[string]struct {
		spec          apiv3.IPPoolSpec
		nodes         []plan.Node
		pools         int
		bird, unknown bool
	}{
		"of all nodes":                          {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16"}, nodes, 1, true, false},
		"of some":                               {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16", NodeSelector: "has(egress)"}, nodes, 1, true, false},
		"of none":                               {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16", NodeSelector: "!all()"}, nodes, 1, false, true},
		"of none that can be read":              {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16", NodeSelector: "has("}, nodes, 1, false, true},
		"of none now":                           {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16", NodeSelector: "!all()"}, block, 1, true, false},
		"not exported":                          {apiv3.IPPoolSpec{CIDR: "10.5.0.0/16", NodeSelector: "!all()", DisableBGPExport: true}, block, 1, false, false},
		"of a family that no node has":          {apiv3.IPPoolSpec{CIDR: "fd00:10::/64"}, nodes, 0, false, false},
		"of a family that one has":              {apiv3.IPPoolSpec{CIDR: "fd00:10::/64"}, append([]plan.Node{{Addresses: []netip.Addr{six}}}, nodes...), 1, true, false},
		"of no range, which is said":            {apiv3.IPPoolSpec{CIDR: "many"}, nodes, 1, false, true},
		"of a family, where no node speaks BGP": {apiv3.IPPoolSpec{CIDR: "fd00:10::/64"}, []plan.Node{{}}, 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := relevantTo(c.nodes, []plan.PoolRoutes{routeSettings{version: "v3.31.0"}.of(c.spec)})
			require.Len(t, got, c.pools)
			for _, p := range got {
				require.Equal(t, c.bird, p.BIRD)
				require.Equal(t, c.unknown, p.Unknown != "", p.Unknown)
				require.Equal(t, !c.bird && !c.unknown, plan.Routes{Pools: got}.BGPUnused())
			}
		})
	}
}

// The communities that BGPConfigurations give to what nodes announce. BIRD obeys some; what cannot be read may be one of them.
func TestCommunitiesThatBIRDObeys(t *testing.T) {
	const all = `{"prefixAdvertisements":[{"cidr":"10.5.0.0/16","communities":["%s"]}]}`
	named := func(value string) string {
		return `{"communities":[{"name":"other","value":"1:1"},{"name":"mine","value":"` + value + `"}],` + fmt.Sprintf(all, "mine")[1:]
	}
	cidr := netip.MustParsePrefix("10.5.0.0/16")
	for name, c := range map[string]struct{ object, spec, says, of string }{
		"NO_ADVERTISE":                   {"default", fmt.Sprintf(all, "65535:65282"), "10.5.0.0/16: 65535:65282 in BGPConfiguration default", ""},
		"with zeros before it":           {"default", fmt.Sprintf(all, "065535:065282"), "065535", ""},
		"NO_ADVERTISE by its name":       {"default", named("65535:65282"), "10.5.0.0/16: mine in BGPConfiguration default", ""},
		"of a node":                      {"node.n", named("65535:65282"), "mine in BGPConfiguration node.n", "n"},
		"of a node with dots":            {"node.n.example.com", fmt.Sprintf(all, "65535:65282"), "node.n.example.com", "n.example.com"},
		"NO_EXPORT":                      {"default", fmt.Sprintf(all, "65535:65281"), "", ""},
		"NO_EXPORT_SUBCONFED":            {"default", named("65535:65283"), "", ""},
		"one that means nothing to BIRD": {"default", named("64512:100"), "", ""},
		"GRACEFUL_SHUTDOWN":              {"default", fmt.Sprintf(all, "65535:0"), "", ""},
		"a large one":                    {"default", named("65535:65282:0"), "", ""},
		"one that is not used":           {"default", `{"communities":[{"name":"mine","value":"65535:65282"}]}`, "", ""},
		"of an object that nobody reads": {"nodes", fmt.Sprintf(all, "65535:65282"), "", ""},
		"a name that is not defined":     {"default", fmt.Sprintf(all, "mine"), "mine", ""},
		"a name of no value":             {"default", named("no-advertise"), "mine", ""},
		"a number of 32 bits":            {"default", fmt.Sprintf(all, "4294967295:1"), "4294967295:1", ""},
		"four numbers":                   {"default", fmt.Sprintf(all, "1:2:3:4"), "1:2:3:4", ""},
		"of no range":                    {"default", `{"prefixAdvertisements":[{"cidr":"10.5","communities":["65535:65282"]}]}`, "10.5: 65535:65282", ""},
	} {
		t.Run(name, func(t *testing.T) {
			read := routesIn(func(kind string, into any) {
				if kind == apiv3.KindBGPConfiguration {
					require.NoError(t, json.Unmarshal([]byte(`{"items":[{"metadata":{"name":"`+c.object+`"},"spec":`+c.spec+`}]}`), into))
				}
			})
			got := read.marksOf(nil)[c.of]
			if c.says == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, name != "of no range", got[0].Range == cidr)
			require.Contains(t, got[0].Text, c.says)
		})
	}
	read := routesRead{marks: map[string][]plan.Mark{"calico-1": {}}}
	require.Contains(t, read.marksOf(&join{kube: map[string]string{"calico-1": "kube-1"}}), "kube-1", "in an etcd Calico has names of its own")
	require.Nil(t, routesRead{}.marksOf(nil))
}

// What Calico's objects say in words that we do not know, or for some nodes only, leaves it unknown who programs routes, and is named.
func TestWhoProgramsRoutesIsNotGuessed(t *testing.T) {
	const version, pool = `{"calicoVersion":"v3.31.0"}`, `{"cidr":"10.5.0.0/16"}`
	set := func(name, value string) []corev1.EnvVar { return []corev1.EnvVar{{Name: name, Value: value}} }
	for name, c := range map[string]struct {
		pool, felix, bgp, node, version, says string
		direct                                bool
		variables                             []corev1.EnvVar
	}{
		"as we know it":                {pool: pool, felix: `{"wireguardEnabledV6":true}`, says: ""},
		"an unknown mode of IP-in-IP":  {pool: `{"cidr":"10.5.0.0/16","ipipMode":"Sometimes"}`, says: `ipipMode is "Sometimes", vxlanMode ""`, direct: true},
		"an unknown mode of VXLAN":     {pool: `{"cidr":"10.5.0.0/16","vxlanMode":"always"}`, says: `vxlanMode "always"`, direct: true},
		"no range":                     {pool: `{"cidr":"10.5.0.0"}`, says: `"10.5.0.0" is no range`, direct: true},
		"a value of Felix's":           {pool: pool, felix: `{"programClusterRoutes":"EnabledForPods"}`, says: `programClusterRoutes of FelixConfiguration default is "EnabledForPods"`, direct: true},
		"a value of BIRD's":            {pool: pool, bgp: `{"programClusterRoutes":"enabled"}`, says: `programClusterRoutes of BGPConfiguration default is "enabled"`, direct: true},
		"another one of a node":        {pool: pool, node: `{"programClusterRoutes":"Enabled"}`, says: `programClusterRoutes of FelixConfiguration node.n is "Enabled"`, direct: true},
		"WireGuard":                    {pool: pool, felix: `{"wireguardEnabled":true}`, says: "FelixConfiguration default enables WireGuard, and Felix has the routes"},
		"WireGuard on a node":          {pool: pool, node: `{"wireguardEnabled":true}`, says: "FelixConfiguration node.n enables WireGuard"},
		"WireGuard for IPv6":           {pool: `{"cidr":"fd00::/64"}`, felix: `{"wireguardEnabledV6":true}`, says: "FelixConfiguration default enables WireGuard"},
		"WireGuard for IPv4 only":      {pool: `{"cidr":"fd00::/64"}`, felix: `{"wireguardEnabled":true}`, says: ""},
		"WireGuard, and VXLAN anyway":  {pool: `{"cidr":"10.5.0.0/16","vxlanMode":"Always"}`, felix: `{"wireguardEnabled":true}`, says: ""},
		"IP-in-IP of no known release": {pool: `{"cidr":"10.5.0.0/16","ipipMode":"Always"}`, version: `{"calicoVersion":""}`, says: `calicoVersion of ClusterInformation default is ""`},
		"the same for other subnets":   {pool: `{"cidr":"10.5.0.0/16","ipipMode":"CrossSubnet"}`, version: `{"calicoVersion":"master"}`, says: `is "master"`, direct: true},
		"and WireGuard":                {pool: `{"cidr":"10.5.0.0/16","ipipMode":"CrossSubnet"}`, version: `{"calicoVersion":"master"}`, felix: `{"wireguardEnabled":true}`, says: "WireGuard", direct: true},
		"WireGuard, and Felix's":       {pool: pool, felix: `{"wireguardEnabled":true,"programClusterRoutes":"Enabled"}`, says: "WireGuard", direct: true},
		"WireGuard over tunnels":       {pool: `{"cidr":"10.5.0.0/16","ipipMode":"Always"}`, felix: `{"wireguardEnabled":true,"programClusterRoutes":"Enabled"}`, says: "WireGuard", direct: true},
		"WireGuard by a variable":      {pool: pool, variables: set("FELIX_WIREGUARDENABLED", "T"), says: "FELIX_WIREGUARDENABLED of calico-node's pods enables WireGuard, and Felix has"},
		"in lower case":                {pool: pool, variables: set("felix_wireguardEnabled", "yes"), says: "enables WireGuard"},
		"WireGuard off by a variable":  {pool: pool, felix: `{"wireguardEnabled":true}`, node: `{"wireguardEnabled":true}`, variables: set("FELIX_WIREGUARDENABLED", "None"), says: ""},
		"WireGuard for IPv6, likewise": {pool: `{"cidr":"fd00::/64"}`, variables: set("FELIX_WIREGUARDENABLEDV6", "1"), says: "FELIX_WIREGUARDENABLEDV6"},
		"a variable for IPv6 only":     {pool: pool, variables: set("FELIX_WIREGUARDENABLEDV6", "1"), says: ""},
		"an unreadable variable":       {pool: pool, variables: set("FELIX_WIREGUARDENABLED", "maybe"), says: "FELIX_WIREGUARDENABLED of calico-node's pods cannot be read: maybe, and Felix has"},
		"the last of two variables":    {pool: pool, variables: append(set("FELIX_WIREGUARDENABLED", "1"), set("FELIX_WIREGUARDENABLED", "0")...), says: ""},
		"a variable from elsewhere":    {pool: pool, variables: []corev1.EnvVar{{Name: programsVariable, ValueFrom: &corev1.EnvVarSource{}}}, says: "what sets it is not read", direct: true},
		"the programmer by a variable": {pool: pool, felix: `{"programClusterRoutes":"x"}`, node: `{"programClusterRoutes":"y"}`, variables: set("FELIX_PROGRAMCLUSTERROUTES", "disabled"), says: ""},
		"none that we know":            {pool: pool, variables: set("FELIX_PROGRAMCLUSTERROUTES", "some"), says: "FELIX_PROGRAMCLUSTERROUTES of calico-node's pods cannot be read: some", direct: true},
		"a variable, and BIRD's field": {pool: pool, bgp: `{"programClusterRoutes":"z"}`, variables: set("FELIX_PROGRAMCLUSTERROUTES", "Disabled"), says: `BGPConfiguration default is "z"`, direct: true},
		"another variable":             {pool: pool, variables: set("FELIX_LOGSEVERITYSCREEN", "warning"), says: ""},
		"a value, and only tunnels":    {pool: `{"cidr":"10.5.0.0/16","ipipMode":"Always"}`, felix: `{"programClusterRoutes":"x"}`, says: `is "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			read := routesIn(func(kind string, into any) {
				object := func(name, spec string) string {
					return `{"metadata":{"name":"` + name + `"},"spec":` + cmp.Or(spec, "{}") + `}`
				}
				items := map[string]string{
					apiv3.KindIPPool: object("p", c.pool), apiv3.KindBGPConfiguration: object("default", c.bgp), apiv3.KindClusterInformation: object("default", cmp.Or(c.version, version)),
					apiv3.KindFelixConfiguration: object("default", c.felix) + "," + object("node.n", c.node),
				}
				require.NoError(t, json.Unmarshal([]byte(`{"items":[`+items[kind]+`]}`), into))
			})
			before := read.with(nil)
			routes := read.with(variablesOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: c.variables}}}}))
			require.Equal(t, before, read.with(nil), "pods that change their variables again leave nothing")
			require.Len(t, routes.Pools, 1)
			got := routes.Pools[0]
			require.Contains(t, got.Unknown, c.says)
			require.Equal(t, c.says == "", got.Unknown == "")
			require.Equal(t, c.direct, got.Direct, "whether each node announces the blocks of others too")
			require.False(t, got.Unknown != "" && (routes.BGPUnused() || got.BIRD || got.Felix))
		})
	}
}

// Under the IPAM host-local nodes announce their own ranges. Where it is not known whether it is that, BlockAffinities show that it is not.
func TestPodCIDRsAreBlocksUnderHostLocal(t *testing.T) {
	own, given := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/26")}
	for name, tc := range map[string]struct {
		variable   string
		affinities bool
		want       []netip.Prefix
		unknown    string
	}{
		"not set":                      {"", false, given, ""},
		"off":                          {"false", false, given, ""},
		"on":                           {"true", false, own, ""},
		"on, and affinities are left":  {"1", true, own, ""},
		"not read, and there are some": {"it is not the same in all pods", true, given, ""},
		"not read, and there are none": {"it is not the same in all pods", false, given, "USE_POD_CIDR of calico-node's pods cannot be read, and there are no BlockAffinities: it is not the same in all pods"},
	} {
		nodes := []plan.Node{{Name: "n", Blocks: given, PodCIDRs: own}}
		require.Equal(t, tc.unknown, addPodCIDRs(nodes, tc.variable, tc.affinities), name)
		require.Equal(t, tc.want, nodes[0].Blocks, name)
	}
	n := nodeOf(&corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "fd00:1::/64", "x"}}}, scope)
	require.Equal(t, []netip.Prefix{own[0], netip.MustParsePrefix("fd00:1::/64")}, n.PodCIDRs)
}
