package calico

import (
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/controllers/untrusted"
	"github.com/rrpool/rrpool/test/controlplane"
)

// remoteBench is a cluster that has Calico's objects in the group only, as a cluster that is followed has.
func remoteBench(t *testing.T) *bench {
	t.Helper()
	if group == GroupV1 {
		return newBench(t)
	}
	dir := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), dir))
	own, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{dir, controlplane.OwnCRDs()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	b := &bench{t: t, plane: own, clock: newClock(), user: "native", groups: []string{"system:masters"}, other: othersOf(t, own)}
	b.kube, err = client.New(own.AdminConfig(), client.Options{})
	require.NoError(t, err)
	b.Adapter = b.adapter()
	return b
}

// reflector makes a node that is in the role, or not, and Ready, or not.
func (b *bench) reflector(name string, role, ready bool) {
	b.t.Helper()
	n := b.node(name, func(n *corev1.Node) {
		n.Annotations[clusterIDAnnotation] = "244.0.0.1"
		if role {
			n.Labels = map[string]string{scope.RoleLabel: ""}
		}
	})
	b.setReady(n, ready)
}

func (b *bench) setReady(n *corev1.Node, ready bool) {
	b.t.Helper()
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[ready]
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	require.NoError(b.t, b.kube.Status().Update(b.t.Context(), n))
}

// ClusterRole rrpool-remote is all that another cluster needs to be followed, and each of its rights is needed.
func TestAnotherClusterIsReadWithTheRightsOfRrpoolRemote(t *testing.T) {
	notInEtcd(t, "its objects are not in its apiserver")
	b := remoteBench(t)
	scheme := b.kube.Scheme()
	require.NoError(t, rbacv1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	text, err := os.ReadFile("../../config/rbac/remote.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(text, role))
	require.Equal(t, "rrpool-remote", role.Name)
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "neighbour"}},
	}
	for _, o := range []client.Object{role, binding, pool} {
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(b.kube.Delete(context.Background(), o))) })
	}
	b.giveConfig(withPassword)
	for name, spec := range map[string]map[string]any{
		"used": {"cidr": "10.5.0.0/16"}, "six": {"cidr": "fd00:5::/64"},
		"disabled": {"cidr": "10.6.0.0/16", "disabled": true}, "secret": {"cidr": "10.7.0.0/16", "disableBGPExport": true},
	} {
		o := b.custom(apiv3.KindIPPool, name)
		o.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), o))
	}
	b.reflector("10.0.0.2", true, true)
	b.reflector("10.0.0.1", true, true)
	b.reflector("10.0.0.3", true, false)
	b.reflector("10.0.0.4", false, true)
	b.node("10.0.0.5", func(n *corev1.Node) { n.Labels = map[string]string{scope.RoleLabel: ""} }) // without a cluster ID

	cfg := b.plane.UserConfig("neighbour", "system:authenticated")
	want := peering.Side{
		ASN: 64999, Reflectors: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
		Pods: cidrs("fd00:5::/64", "10.5.0.0/16"), Services: cidrs("172.21.0.0/16"),
	}
	read := func(ok func(peering.Side, error) bool, what string) {
		t.Helper()
		var last string
		require.Eventually(t, func() bool {
			side, err := ReadSide(t.Context(), cfg)
			slices.SortFunc(side.Pods, func(a, b netip.Prefix) int { return b.Addr().Compare(a.Addr()) })
			last = fmt.Sprint(side, err)
			return ok(side, err)
		}, time.Minute, 20*time.Millisecond, "%s: %s", what, &last)
	}
	all := func(side peering.Side, err error) bool {
		return err == nil && fmt.Sprint(side) == fmt.Sprint(want)
	}
	read(all, "with all rights")
	rules := role.Rules
	for i, rule := range rules {
		if group == GroupV1 && (rule.APIGroups[0] == "migration.projectcalico.org" || rule.APIGroups[0] == "apiextensions.k8s.io") {
			continue // where the first group is, there is nothing to ask
		}
		role.Rules = slices.Delete(slices.Clone(rules), i, i+1)
		require.NoError(t, b.kube.Update(t.Context(), role))
		lacks := fmt.Sprintf("cannot %s resource %q", rule.Verbs[0], rule.Resources[0])
		read(func(_ peering.Side, err error) bool { return err != nil && strings.Contains(err.Error(), lacks) }, "without "+rule.Resources[0])
	}
	role.Rules = rules
	require.NoError(t, b.kube.Update(t.Context(), role))
	read(all, "with all rights again")

	for _, name := range []string{"10.0.0.1", "10.0.0.2"} {
		b.setReady(b.liveNode(name), false)
	}
	want.Reflectors = append(want.Reflectors, netip.MustParseAddr("10.0.0.3"))
	read(all, "where none is Ready, all count")
	require.NoError(t, b.kube.Delete(t.Context(), b.custom(apiv3.KindBGPConfiguration, defaultConfig)))
	require.NoError(t, b.kube.Delete(t.Context(), pool))
	want.Reflectors, want.Services, want.ASN = nil, nil, defaultASN
	read(all, "without a RouteReflectorPool it has no reflectors, which is a problem that the plan names")
}

func TestAClusterWithoutCalicoIsAnErrorAndNotAClusterWithoutPods(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
	require.ErrorContains(t, err, "reading the remote cluster: it has no IPPools of group crd.projectcalico.org: is its network Calico")
}

// answers is a remote cluster that gives these answers, by the end of the path, and else as one with nothing in it does.
func answers(t *testing.T, replaced map[string]string) *httptest.Server {
	t.Helper()
	given := map[string]string{
		"/routereflectorpools/default": `{"spec":{"mode":"RouteReflector","bgp":{"nodeLabel":"rrpool.io/route-reflector"}}}`,
		"/nodes":                       `{"items":[]}`, "/ippools": `{"items":[]}`,
		"/bgpconfigurations/default": `{"spec":{"asNumber":64999}}`,
	}
	maps.Copy(given, replaced)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "look here"`)
		for end, body := range given {
			if strings.HasSuffix(r.URL.Path, end) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(body))
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// remoteNodes are reflectors with an annotation.
func remoteNodes(key string, values ...string) string {
	var out []string
	for i, v := range values {
		out = append(out, fmt.Sprintf(`{"metadata":{"name":"n%d","labels":{"rrpool.io/route-reflector":"x"},"annotations":{"projectcalico.org/RouteReflectorClusterID":"244.0.0.1",`+
			`"projectcalico.org/%s":%q}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, i, key, v))
	}
	return `{"items":[` + strings.Join(out, ",") + `]}`
}

func pool(cidr string) string {
	return fmt.Sprintf(`{"items":[{"metadata":{"name":"p"},"spec":{"cidr":%q}}]}`, cidr)
}

// Each value is one that Calico and BIRD can use, or it is said which is not: what is not understood is no absence.
func TestWhatARemoteClusterDeclaresIsCheckedBeforeItIsBelieved(t *testing.T) {
	config := func(spec string) map[string]string {
		return map[string]string{"/bgpconfigurations/default": `{"spec":` + spec + `}`}
	}
	four, six := "IPv4Address", "IPv6Address"
	nodes := func(key string, values ...string) map[string]string {
		return map[string]string{"/nodes": remoteNodes(key, values...)}
	}
	pools := func(cidr string) map[string]string { return map[string]string{"/ippools": pool(cidr)} }
	for _, c := range []struct {
		replaced map[string]string
		says     string // or what is read
	}{
		{nil, "{64999 [] [] []}"},
		{map[string]string{"/bgpconfigurations/default": `{"metadata":{"name":"default"}}`}, "{64512 [] [] []}"},
		{map[string]string{"/bgpconfigurations/default": "{}"}, "reading its BGPConfiguration: the answer is none"},
		{config(`{"asNumber":"1.10"}`), "{65546 [] [] []}"},
		{config(`{"asNumber":4200000000}`), "{4200000000 [] [] []}"},
		{config(`{"asNumber":0}`), "asNumber of its BGPConfiguration: 0 is no AS number that a cluster can have"},
		{config(`{"asNumber":23456}`), "23456 is no AS number"},
		{config(`{"asNumber":65535}`), "65535 is no AS number"},
		{config(`{"asNumber":4294967295}`), "4294967295 is no AS number"},
		{config(`{"asNumber":-1}`), "cannot unmarshal number"},
		{config(`{"serviceClusterIPs":[{"cidr":"10.0.0.0/8"},{"cidr":"fd00::/16"}]}`), "{64512 [] [] [10.0.0.0/8 fd00::/16]}"},
		{config(`{"serviceClusterIPs":[{"cidr":"::ffff:10.0.0.0/104"}]}`), `serviceClusterIPs of its BGPConfiguration: "::ffff:10.0.0.0/104" is no CIDR such as 10.210.0.0/16: it is IPv4 in the form of IPv6`},
		{config(`{"serviceClusterIPs":[{}]}`), `"" is no CIDR`},
		{map[string]string{"/bgpconfigurations/default": "null"}, "the answer is null"},
		{nodes(four, "10.0.0.1/24", "223.255.255.255", "10.0.0.1"), "{64999 [10.0.0.1 223.255.255.255] [] []}"},
		{nodes(six, "2000::/64", "fdff::1"), "{64999 [2000:: fdff::1] [] []}"},
		{nodes(four, "0.0.0.0"), `projectcalico.org/IPv4Address of its node "n0": 0.0.0.0 cannot be the address of a node: 0.0.0.0/8 is reserved`},
		{nodes(four, "10.0.0.1", "127.0.0.1/8"), "127.0.0.0/8 is reserved"},
		{nodes(four, "224.0.0.1"), "reserved"},
		{nodes(four, "255.255.255.255"), "reserved"},
		{nodes(four, "169.254.169.254/32"), "reserved"},
		{nodes(four, "::ffff:10.0.0.9"), `"::ffff:10.0.0.9" is no IP address`},
		{nodes(four, "010.0.0.1"), `"010.0.0.1" is no IP address`},
		{nodes(four, "10.0.0.1/33"), `"10.0.0.1/33" is no IP address`},
		{nodes(four, "10.0.0.1 as 1;\nneighbor 10.0.0.2"), "is no IP address"},
		{nodes(six, "::"), "only 2000::/3 and fc00::/7 of IPv6"},
		{nodes(six, "::1/128"), "only 2000::/3"},
		{nodes(six, "fe80::1"), "only 2000::/3"},
		{nodes(six, "fe80::1%eth0"), "is no IP address"},
		{nodes(six, "ff02::1"), "only 2000::/3"},
		{pools("10.0.0.0/8"), "{64999 [] [10.0.0.0/8] []}"},
		{pools("128.0.0.0/8"), "{64999 [] [128.0.0.0/8] []}"},
		{pools("0.0.0.0/0"), `its IPPool "p": 0.0.0.0/0 is too large a range`},
		{pools("128.0.0.0/1"), "too large"},
		{pools("10.0.0.0/7"), "too large"},
		{pools("::/0"), "too large"},
		{pools("fc00::/7"), "too large"},
		{pools("::ffff:0:0/96"), "IPv4 in the form of IPv6"},
		{pools("0.0.0.0/8"), "reserved"},
		{pools("127.0.0.0/8"), "127.0.0.0/8 is reserved"},
		{pools("224.0.0.0/8"), "reserved"},
		{pools("240.0.0.0/30"), "reserved"},
		{pools("169.254.169.254/32"), "169.254.0.0/16 is reserved"},
		{pools("169.0.0.0/8"), "169.254.0.0/16 is reserved"},
		{pools("fe80::/64"), "only 2000::/3"},
		{pools("fec0::/64"), "only 2000::/3"},
		{pools("64:ff9b::/96"), "only 2000::/3"},
		{pools("10.0.0.1/8"), "did you mean 10.0.0.0/8?"},
		{pools("10.0.0.1\n/8"), "is no CIDR"},
		{pools(""), `"" is no CIDR`},
		{map[string]string{"/ippools": `{"items":[{"spec":{"cidr":"x","disabled":true}}]}`}, "{64999 [] [] []}"},
		{map[string]string{"/ippools": "null"}, "the answer is null"},
		{map[string]string{"/ippools": `{"kind":"IPPoolList"}`}, "the answer holds no list"},
		{map[string]string{"/nodes": `{"items":null}`}, "reading its route reflectors: the answer holds no list"},
		{map[string]string{"/routereflectorpools/default": "{}"}, "spec.bgp.nodeLabel"},
		{map[string]string{"/routereflectorpools/default": `{"spec":{}}`}, "spec.bgp.nodeLabel of its RouteReflectorPool"},
		{map[string]string{"/routereflectorpools/default": `{"spec":{"bgp":{"nodeLabel":"a=b,c!=d"}}}`}, `"a=b,c!=d" is no key of a label`},
		{map[string]string{"/nodes": "<html>\x1b[2Jhello"}, "invalid character"},
	} {
		side, err := ReadSide(t.Context(), &rest.Config{Host: answers(t, c.replaced).URL})
		if strings.HasPrefix(c.says, "{") {
			require.NoError(t, err)
			require.Equal(t, c.says, fmt.Sprint(side))
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}
}

// A remote cluster is not trusted: what it answers costs little, whatever it is.
func TestWhatARemoteClusterAnswersBecomesLittle(t *testing.T) {
	many := func(item string, times int) string { return "[" + strings.Repeat(item+",", times-1) + item + "]" }
	full := remoteLimits.Bytes - 128
	for name, c := range map[string]struct{ path, body, says string }{
		"nodes":                  {"/nodes", `{"items":` + many("{}", full/3) + `}`, "a list of more than 2000 items"},
		"IPPools":                {"/ippools", `{"items":` + many("null", full/5) + `}`, "a list of more than 2000 items"},
		"members":                {"/bgpconfigurations/default", `{` + strings.Repeat(`"a":{},`, full/8) + `"a":1}`, "a list of more than 2000 items"},
		"a quantity without end": {"/nodes", `{"items":[{"status":{"capacity":{"cpu":"1e-100000000"}}}]}`, ""},
		"groups":                 {"/migration.projectcalico.org", `{"versions":` + many("{}", full/3) + `}`, "a list of more than 2000 items"},
		"an honest list of 100":  {"/nodes", `{"items":` + many(honestNode, 100) + `}`, ""},
	} {
		server := answers(t, map[string]string{c.path: c.body})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		mib := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d bytes become %d MiB in %s: %.120v", name, len(c.body), mib, took, err)
		require.Less(t, mib, uint64(150), name)
		require.Less(t, took, time.Minute, name)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
}

// honestNode has 50 images and the fields that managers wrote, as a Node of a cluster that is in use has.
var honestNode = `{"metadata":{"name":"n","labels":{"rrpool.io/route-reflector":""},"annotations":{"projectcalico.org/IPv4Address":"10.0.0.1/24"},"managedFields":[{"fieldsV1":{` +
	strings.Repeat(`"f:metadata":{},`, 300) + `"a":1}}]},"status":{"capacity":{"cpu":"4","memory":"16Gi"},"images":[` +
	strings.Repeat(`{"names":["registry/image@sha256:0123456789","registry/image:v1"],"sizeBytes":123456},`, 50) + `{}],"conditions":[{"type":"Ready","status":"True"}]}}`

// The negative control: what the limits hold back would be taken, and become a hundred times as much.
func TestWithoutLimitsARemoteClusterTakesWhatItLikes(t *testing.T) {
	defer func(before untrusted.Limits) { remoteLimits = before }(remoteLimits)
	remoteLimits = untrusted.Limits{Bytes: 1 << 30, Values: 1 << 30, Items: 1 << 30}
	body := `{"items":[` + strings.Repeat(`{"spec":{"disabled":true}},`, 50_000) + `{}]}`
	server := answers(t, map[string]string{"/ippools": body})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, `"" is no CIDR`)
	require.Greater(t, after.TotalAlloc-before.TotalAlloc, uint64(30*len(body)))
}

// Its answers take no longer than is waited for, and go nowhere else.
func TestARemoteClusterThatHoldsOnOrSendsOn(t *testing.T) {
	var elsewhere atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer thief.Close()
	for says, handler := range map[string]http.HandlerFunc{
		"answers with a redirection (307 Temporary Redirect), which is not followed": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		},
		"response headers exceeded 65536 bytes": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20_000 {
				w.Header().Set(fmt.Sprint("A", i), "")
			}
		},
		"context deadline exceeded": func(w http.ResponseWriter, r *http.Request) { // a byte at a time, without end
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
		"larger than 16777216 bytes": func(w http.ResponseWriter, _ *http.Request) { // 2 GiB in 2 MiB
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 2000 {
				if _, err := z.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"invalid character": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			w.WriteHeader(http.StatusForbidden) // a refusal is decoded by its content type
			_, _ = w.Write([]byte("k8s\x00" + strings.Repeat("\x0a\x00", 1000)))
		},
		"the server is currently unable to handle the request": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		server := httptest.NewServer(handler)
		limit := time.Minute
		if says == "context deadline exceeded" {
			limit = 2 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := ReadSide(ctx, &rest.Config{Host: server.URL})
		cancel()
		server.CloseClientConnections()
		server.Close()
		if says == "the server is currently unable to handle the request" || says == "invalid character" {
			require.Error(t, err)
			t.Log(err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	require.Zero(t, elsewhere.Load())
}

func TestMoreThanAHundredRangesAreNotTaken(t *testing.T) {
	for n, says := range map[int]string{100: "", 101: "it has 101 reflectors, ranges of pods, or ranges of services: more than 100 are not taken"} {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(`{"spec":{"cidr":"10.%d.0.0/16"}}`, i))
		}
		server := answers(t, map[string]string{"/ippools": `{"items":[` + strings.Join(items, ",") + `]}`})
		_, err := ReadSide(t.Context(), &rest.Config{Host: server.URL})
		if says == "" {
			require.NoError(t, err, "the negative control")
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
