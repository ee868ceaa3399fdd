package calico

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubediscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/controllers/untrusted"
)

// remoteMax limits how many reflectors or ranges a remote cluster may have: for each range an IPPool is written.
const remoteMax = 100

// remoteLimits limits each answer. A list of 100 nodes has some 100,000 values.
var remoteLimits = untrusted.Limits{Bytes: 16 << 20, Values: 200_000, Items: 2000}

// ReadSide reads the reflectors and ranges of another cluster, with the rights of ClusterRole rrpool-remote there. That cluster is not trusted:
// its answers are limited, and only the fields that are used are decoded. If Calico or BIRD could not use one of the values, ReadSide fails.
func ReadSide(ctx context.Context, cfg *rest.Config) (peering.Side, error) {
	s, disconnect := newRemote(ctx, cfg)
	defer disconnect()
	group, err := s.chooseGroup()
	if err != nil {
		return peering.Side{}, err
	}
	calico := func(resource string) string { return "/apis/" + group.Group.String() + "/" + resource }
	out := peering.Side{ASN: defaultASN}
	out.Reflectors = s.reflectors()
	var config apiv3.BGPConfiguration
	if s.getPath(&config, calico("bgpconfigurations"), defaultConfig) {
		if config.Name == "" && config.Spec.ASNumber == nil && config.Spec.ServiceClusterIPs == nil {
			s.err = errors.New("reading its BGPConfiguration: the answer is none")
		}
		out.ASN = parseValue(s, "asNumber of its BGPConfiguration", int64(ptr.Deref(config.Spec.ASNumber, defaultASN)), peering.ParseASN)
		for _, r := range config.Spec.ServiceClusterIPs {
			out.Services = append(out.Services, parseValue(s, "serviceClusterIPs of its BGPConfiguration", r.CIDR, peering.ParseRange))
		}
	}
	out.Pods = s.pods(group.Group.Group, calico("ippools"))
	if most := max(len(out.Reflectors), len(out.Pods), len(out.Services)); s.err == nil && most > remoteMax {
		s.err = fmt.Errorf("it has %d reflectors, ranges of pods, or ranges of services: more than %d are not taken", most, remoteMax)
	}
	if s.err != nil {
		return peering.Side{}, fmt.Errorf("reading the remote cluster: %w", s.err)
	}
	return out, nil
}

// newRemote returns a reader of an apiserver that is not trusted, and a function that
// disconnects. The reader has its own transport: that of client-go limits no headers.
func newRemote(ctx context.Context, cfg *rest.Config) (s *discovery, disconnect func()) {
	s = &discovery{ctx: ctx}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{} // warnings of the remote apiserver would go to the log
	tls, err := rest.TLSConfigFor(cfg)
	base := untrusted.HeadersOf(&http.Transport{TLSClientConfig: tls, Proxy: http.ProxyFromEnvironment})
	if cfg.Proxy != nil {
		base.Proxy = cfg.Proxy
	}
	var wrapped http.RoundTripper
	if err == nil {
		wrapped, err = rest.HTTPWrappersForConfig(cfg, noRedirects{remoteLimits.Transport(base)})
	}
	if err == nil {
		var d *kubediscovery.DiscoveryClient
		d, err = kubediscovery.NewDiscoveryClientForConfigAndClient(cfg, &http.Client{Transport: wrapped})
		s.api = d.RESTClient()
	}
	if err != nil {
		s.err = fmt.Errorf("creating the client: %w", err)
	}
	return s, base.CloseIdleConnections
}

// noRedirects refuses redirections: the token would be sent along.
type noRedirects struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u noRedirects) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := u.next.RoundTrip(request)
	if err == nil && response.StatusCode/100 == 3 {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers with a redirection (%s), which is not followed", request.URL.Host, response.Status)
	}
	return response, err //nolint:wrapcheck // it names the request
}

// parseValue parses a value, unless s has failed before. An error makes s fail.
func parseValue[T, V any](s *discovery, what string, value T, parse func(T) (V, error)) (out V) {
	if s.err == nil {
		if out, s.err = parse(value); s.err != nil {
			s.err = fmt.Errorf("%s: %w", what, s.err)
		}
	}
	return out
}

// remoteNode has the fields of a Node that are used. Quantities are left out,
// because parsing one such as 1e-100000000 takes minutes, whatever the deadline.
type remoteNode struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

// reflectors returns the addresses of the remote cluster's route reflectors, none without a RouteReflectorPool.
func (s *discovery) reflectors() (out []netip.Addr) {
	var pool struct {
		Spec struct{ BGP struct{ NodeLabel string } }
	}
	if !s.getPath(&pool, "/apis", v1alpha1.GroupVersion.String(), "routereflectorpools", v1alpha1.SingletonName) {
		return nil
	}
	scope := plan.DatastoreOptions{RoleLabel: pool.Spec.BGP.NodeLabel}
	if wrong := validation.IsQualifiedName(scope.RoleLabel); len(wrong) > 0 {
		s.err = fmt.Errorf("spec.bgp.nodeLabel of its RouteReflectorPool: %q is no key of a label: %s", plan.Plain(scope.RoleLabel, 128), wrong[0])
		return nil
	}
	var found struct{ Items []remoteNode }
	var nodes []plan.Node
	if s.get(&found, "its route reflectors", s.api.Get().AbsPath("/api/v1/nodes").Param("labelSelector", scope.RoleLabel)) && found.Items == nil {
		s.err = errors.New("reading its route reflectors: the answer holds no list")
	}
	for _, item := range found.Items {
		nodes = append(nodes, item.node(s, scope))
	}
	for _, n := range peering.Reflectors(nodes) {
		out = append(out, n.Addresses...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func (r remoteNode) node(s *discovery, scope plan.DatastoreOptions) plan.Node {
	out := plan.Node{Name: r.Metadata.Name, ClusterID: r.Metadata.Annotations[clusterIDAnnotation]}
	_, out.HasRoleLabel = r.Metadata.Labels[scope.RoleLabel]
	for _, c := range r.Status.Conditions {
		out.Ready = out.Ready || c.Type == string(corev1.NodeReady) && c.Status == string(corev1.ConditionTrue)
	}
	for _, key := range []string{ipv4Annotation, ipv6Annotation} {
		if text := r.Metadata.Annotations[key]; text != "" {
			if p, err := netip.ParsePrefix(text); err == nil { // Calico writes it with or without a prefix length
				text = p.Addr().String()
			}
			out.Addresses = append(out.Addresses, parseValue(s, fmt.Sprintf("%s of its node %q", key, plan.Plain(r.Metadata.Name, 128)), text, peering.ParseAddr))
		}
	}
	return out
}

// pods returns the ranges of the IPPools that the remote cluster announces. If that cluster's API has no IPPools, it is an error.
func (s *discovery) pods(group, ippools string) (out []netip.Prefix) {
	var found apiv3.IPPoolList
	switch there := s.getPath(&found, ippools); {
	case s.err != nil:
	case !there:
		s.err = fmt.Errorf("it has no IPPools of group %s: is its network Calico? What Calico keeps in an etcd of its own "+
			"cannot be read through the apiserver: say in spec.remote.static what that cluster is", group)
	case found.Items == nil:
		s.err = fmt.Errorf("reading %s: the answer holds no list", ippools)
	}
	for _, p := range found.Items {
		if announces(p.Spec) {
			out = append(out, parseValue(s, fmt.Sprintf("its IPPool %q", plan.Plain(p.Name, 128)), p.Spec.CIDR, peering.ParseRange))
		}
	}
	return out
}
