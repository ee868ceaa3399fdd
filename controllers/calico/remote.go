package calico

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// ReadSide reads what another cluster is to this one. It needs the rights of ClusterRole rrpool-remote there, and no more.
func ReadSide(ctx context.Context, cfg *rest.Config) (peering.Side, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	group, err := ChooseGroup(ctx, cfg)
	if err != nil {
		return peering.Side{}, err
	}
	s := servedBy(ctx, cfg)
	calico := func(resource string) string { return "/apis/" + group.Group.String() + "/" + resource }
	var pool v1alpha1.RouteReflectorPool
	var nodes corev1.NodeList
	var config apiv3.BGPConfiguration
	out := peering.Side{ASN: defaultASN}
	if s.get(&pool, "/apis", v1alpha1.GroupVersion.String(), "routereflectorpools", v1alpha1.SingletonName) {
		scope := plan.Scope{RoleLabel: pool.Spec.BGP.NodeLabel}
		s.ask(&nodes, "its route reflectors", s.api.Get().AbsPath("/api/v1/nodes").Param("labelSelector", scope.RoleLabel))
		out.Reflectors = reflectorsIn(nodes.Items, scope)
	}
	if s.get(&config, calico("bgpconfigurations"), defaultConfig) {
		out.ASN, out.Services = uint32(ptr.Deref(config.Spec.ASNumber, defaultASN)), clusterIPs(config.Spec)
	}
	out.Pods = podsIn(s, group.Group.Group, calico("ippools"))
	if most := max(len(out.Reflectors), len(out.Pods), len(out.Services)); s.err == nil && most > mostOfRemote {
		s.err = fmt.Errorf("it has %d reflectors, ranges of pods, or ranges of services: more than %d are not taken", most, mostOfRemote)
	}
	if s.err != nil {
		return peering.Side{}, fmt.Errorf("reading the remote cluster: %w", s.err)
	}
	return out, nil
}

// mostOfRemote is how much is taken of a remote cluster: for each range an IPPool is written. largestAnswer is in bytes.
const (
	mostOfRemote  = 100
	largestAnswer = 16 << 20
)

// bounded makes requests to a server that is not trusted: where it sends them on, the token would go along.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the request
	}
	if response.StatusCode/100 == 3 {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers with a redirection (%s), which is not followed", request.URL.Host, response.Status)
	}
	response.Body = http.MaxBytesReader(nil, response.Body, largestAnswer)
	return response, nil
}

// podsIn are the ranges of pods at a path. A cluster without the kind is not one without pods.
func podsIn(s *served, group, ippools string) (out []netip.Prefix) {
	var found apiv3.IPPoolList
	if !s.get(&found, ippools) && s.err == nil {
		s.err = fmt.Errorf("it has no IPPools of group %s: is its network Calico? What Calico keeps in an etcd of its own "+
			"cannot be read through the apiserver: say in spec.remote.static what that cluster is", group)
	}
	for _, p := range found.Items {
		if cidr, err := netip.ParsePrefix(p.Spec.CIDR); err == nil && announces(p.Spec) {
			out = append(out, cidr.Masked())
		}
	}
	return out
}

// reflectorsIn are the addresses of the nodes that reflect.
func reflectorsIn(items []corev1.Node, scope plan.Scope) (out []netip.Addr) {
	var nodes []plan.Node
	for i := range items {
		nodes = append(nodes, nodeOf(&items[i], scope))
	}
	for _, n := range peering.Reflectors(nodes) {
		out = append(out, n.Addresses...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
