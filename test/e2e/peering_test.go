//go:build linux

package e2e_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// Two clusters in one network, with both address families and each with its manager, move onto reflectors, peer, and part. In between
// reflectors are replaced, one while the other cluster's manager is dead, an apiserver is away, a reflector crashes, and the next hop
// changes. But for the crash no pair of pods, and no pod and service, of the two clusters or of one of them loses two probes in a row.
func TestTwoClustersPeerByTheirManagers(t *testing.T) {
	lab.SkipLong(t)
	ctx, a := site.ForTest(t, site.Options{Nodes: withControlPlane(4), Lab: lab.Options{Name: "a", Service: true, DualStack: true}})
	_, b := site.ForTest(t, site.Options{Nodes: withControlPlane(6), Lab: lab.Options{Name: "b", ASNumber: 64513, Service: true, DualStack: true, Beside: a.Lab}})
	p := &peered{ctx: ctx, a: a, b: b}

	p.phase(t, "migrate", func() {
		for _, s := range p.sites() {
			p.migrate(t, s)
		}
	})
	before := map[*site.Site]*apiv3.BGPConfiguration{a: expect.BGPConfiguration(t, a), b: expect.BGPConfiguration(t, b)}

	p.phase(t, "peer", func() {
		p.create(t, func(*site.Site, *v1alpha1.ClusterPeeringSpec) {})
		p.awaitRoutes(t)
		p.await(t)
		// Felix has a route to each pod of a reflector, which is part of its block.
		pods := b.Lab.Families(netip.PrefixFrom(lab.Nth(b.Lab.Block("worker-2").Addr(), 9), 32))
		for _, pod := range pods {
			require.NoError(t, b.Lab.Enter("worker-2", func() error {
				return exec.CommandContext(ctx, "ip", "route", "add", pod.String(), "dev", "cali0", "proto", "80").Run()
			}))
		}
		time.Sleep(2 * time.Second)
		require.Empty(t, p.arrived(t, pods))
	})
	p.phase(t, "nothing undeclared passes", func() { p.undeclared(t) })
	p.phase(t, "replace a reflector", func() {
		p.replace(t, "worker-2")
		p.await(t)
		p.awaitRoutes(t)
		require.NoError(t, b.Lab.RemoveNode(ctx, "worker-2"))
	})
	p.phase(t, "replace a reflector while the other manager is dead", func() {
		a.KillManager()
		p.replace(t, "worker-1")
		p.startManager(t, a)
		p.await(t)
	})
	p.phase(t, "an apiserver is away", func() {
		written := p.peers(t, a)
		b.Lab.ControlPlane().KillAPIServer()
		soon(t, func(c *assert.CollectT) {
			require.True(c, meta.IsStatusConditionFalse(p.peering(c, a).Status.Conditions, v1alpha1.ConditionRemoteKnown))
		})
		require.Equal(t, written, p.peers(t, a))
		require.NoError(t, b.Lab.ControlPlane().StartAPIServer(ctx))
		if b.ManagerEnded() {
			p.startManager(t, b)
		}
		p.await(t)
		require.Equal(t, written, p.peers(t, a))
	})
	p.phase(t, "straight to the nodes", func() {
		o := p.peering(t, a)
		was := o.DeepCopy()
		o.Spec.NextHop = v1alpha1.NextHopNodes
		require.NoError(t, a.Client.Patch(ctx, o, client.MergeFrom(was)))
		p.await(t)
		p.awaitRoutes(t)
	})
	p.crash(t)
	p.part(t, before)
}

// Cluster b gets another AS number, in the mesh and again on reflectors. Then a, which does not follow b, moves onto reflectors with its
// ClusterPeering there already. The password changes on one side, and back. At last a goes back to the mesh and onto reflectors again.
func TestAClusterIsPeeredWithAPasswordWhileItMigrates(t *testing.T) {
	lab.SkipLong(t)
	ctx, a := site.ForTest(t, site.Options{Nodes: withControlPlane(4), Lab: lab.Options{Name: "a", Service: true, DualStack: true}})
	_, b := site.ForTest(t, site.Options{Nodes: withControlPlane(4), Lab: lab.Options{Name: "b", Service: true, DualStack: true, Beside: a.Lab}})
	p := &peered{ctx: ctx, a: a, b: b}

	require.Nil(t, expect.BGPConfiguration(t, b))
	_, err := b.Lab.Calico().BGPConfigurations().Create(ctx, &apiv3.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, options.SetOptions{})
	require.NoError(t, err)
	p.renumber(t, "in the mesh", 64513)
	p.phase(t, "migrate", func() { p.migrate(t, b) })
	p.renumber(t, "on reflectors", 64514)
	before := map[*site.Site]*apiv3.BGPConfiguration{b: expect.BGPConfiguration(t, b)}

	ref := v1alpha1.SecretKeyRef{Name: "peering-password", Key: "password"}
	secret := func(password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: lab.SecretNamespace}, StringData: map[string]string{ref.Key: password},
		}
	}
	for _, s := range p.sites() {
		require.NoError(t, s.Client.Create(ctx, secret("right")))
	}
	p.phase(t, "migrate, peered", func() {
		p.create(t, func(s *site.Site, spec *v1alpha1.ClusterPeeringSpec) {
			if spec.PasswordSecretRef = ref; s == a {
				static := &v1alpha1.StaticRemote{ASNumber: 64514}
				for _, r := range p.reflectors(t, b) {
					static.Reflectors = append(static.Reflectors, r.String())
				}
				for i, pods := range b.Lab.Families(b.Lab.PodNetwork()) {
					static.PodCIDRs = append(static.PodCIDRs, pods.String())
					static.ServiceCIDRs = append(static.ServiceCIDRs, b.Lab.Families(b.Lab.ServiceNetwork())[i].String())
				}
				spec.Remote = v1alpha1.RemoteCluster{Static: static}
			}
		})
		p.migrate(t, a)
		p.awaitRoutes(t)
		p.await(t)
	})
	p.costly(t, "another password", func() {
		require.NoError(t, b.Client.Update(ctx, secret("wrong")))
		soon(t, func(c *assert.CollectT) {
			for _, s := range p.sites() {
				ready := meta.FindStatusCondition(p.peering(c, s).Status.Conditions, v1alpha1.ConditionReady)
				require.True(c, ready != nil && ready.Reason == "SessionsMissing", "%+v", ready)
				require.Contains(c, ready.Message, "with the same password")
				require.Len(c, p.peers(c, s), peerings)
			}
		})
		require.NoError(t, b.Client.Update(ctx, secret("right")))
		p.awaitRoutes(t)
		p.await(t)
	})
	p.costly(t, "back to the mesh, peered", func() {
		require.NoError(t, a.SetMode(ctx, v1alpha1.ModeFullMesh))
		require.NoError(t, a.WaitReady(within(t, ctx)))
	})
	p.costly(t, "and to reflectors, peered", func() {
		require.NoError(t, a.SetMode(ctx, v1alpha1.ModeRouteReflector))
		require.NoError(t, a.WaitReady(within(t, ctx)))
		p.await(t)
		p.awaitRoutes(t)
	})
	p.part(t, before)
}

// peered are two clusters, of which each has the ClusterPeering "other".
type peered struct {
	ctx  context.Context
	a, b *site.Site
	// joined: there were routes between the clusters.
	joined bool
}

const (
	peeringName = "other"
	// peerings are how many sessions two clusters have, three in each address family.
	peerings = 6
)

func (p *peered) sites() []*site.Site { return []*site.Site{p.a, p.b} }

func (p *peered) other(s *site.Site) *site.Site {
	if s == p.a {
		return p.b
	}
	return p.a
}

// phase judges what is lost while do is under way: inside of the clusters always, and between them once they are peered.
func (p *peered) phase(t *testing.T, name string, do func()) {
	t.Helper()
	p.a.Lab.Checkpoint(name)
	began := time.Now()
	do()
	took := time.Since(began)
	time.Sleep(time.Second)
	report := p.a.Lab.Report().Phase(name)
	for _, pair := range [][2]string{{"a/", "a/"}, {"b/", "b/"}, {"a/", "b/"}, {"b/", "a/"}} {
		part := report.Between(pair[0], pair[1])
		sent, lost := part.Totals()
		t.Logf("%s: %s, %s → %s lost %d of %d, longest outage %s", name, took.Round(100*time.Millisecond), pair[0], pair[1], lost, sent, part.LongestOutage())
		if pair[0] != pair[1] && !p.joined {
			continue
		}
		require.NotEmpty(t, part.Pairs)
		for _, one := range part.Pairs {
			require.True(t, one.LongestRun < 2 && !one.Unconnected, "%s: %s", name, one)
		}
	}
}

// migrate starts a cluster's manager and moves the cluster onto reflectors.
func (p *peered) migrate(t *testing.T, s *site.Site) {
	t.Helper()
	p.startManager(t, s)
	require.NoError(t, s.CreatePool(p.ctx, func(o *v1alpha1.RouteReflectorPool) {
		cordoning(o)
		o.Spec.Rollout.RemovalDelay.Duration = 3 * time.Second
	}))
	require.NoError(t, s.WaitReady(within(t, p.ctx)))
}

func (p *peered) renumber(t *testing.T, where string, number numorstring.ASNumber) {
	t.Helper()
	p.b.Lab.Checkpoint(where)
	config := expect.BGPConfiguration(t, p.b)
	config.Spec.ASNumber = &number
	_, err := p.b.Lab.Calico().BGPConfigurations().Update(p.ctx, config, options.SetOptions{})
	require.NoError(t, err)
	time.Sleep(time.Minute) // the longest that BIRD waits before it connects again is 35 s
	p.phase(t, "after "+where, func() { time.Sleep(2 * time.Second) })
	report := p.b.Lab.Report().Phase(where)
	t.Logf("AS %s %s: inside b up to %s were lost", number.String(), where, report.Between("b/", "b/").LongestOutage())
	require.NoError(t, report.Between("a/", "a/").ZeroLoss())
}

// costly says what is lost between the clusters. Inside of them nothing is.
func (p *peered) costly(t *testing.T, name string, do func()) {
	t.Helper()
	p.phase(t, name, func() {
		do()
		p.joined = false
	})
	report := p.a.Lab.Report().Phase(name)
	t.Logf("%s: between the clusters up to %s were lost", name, max(report.Between("a/", "b/").LongestOutage(), report.Between("b/", "a/").LongestOutage()))
}

func (p *peered) startManager(t *testing.T, s *site.Site) {
	t.Helper()
	require.NoError(t, s.StartManager("--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"))
}

// create makes both ClusterPeerings, as edit leaves them. The kubeconfigs have the rights that rrpool-remote has, and no more.
func (p *peered) create(t *testing.T, edit func(*site.Site, *v1alpha1.ClusterPeeringSpec)) {
	t.Helper()
	const remote = "rrpool-remote" // the role, and whom it is bound to
	for _, s := range p.sites() {
		there := p.other(s)
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: remote}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: remote},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: site.Namespace, Name: remote}},
		}
		require.NoError(t, there.Client.Create(p.ctx, binding))
		require.NoError(t, there.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: remote}}))
		token, err := there.Lab.Kube().CoreV1().ServiceAccounts(site.Namespace).CreateToken(p.ctx, remote, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(t, err)
		config := rest.AnonymousClientConfig(there.Lab.AdminConfig())
		config.BearerToken = token.Status.Token
		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, controlplane.WriteKubeconfig(path, config))
		kubeconfig, err := os.ReadFile(path)
		require.NoError(t, err)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: peeringName, Namespace: site.Namespace}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
		require.NoError(t, s.Client.Create(p.ctx, secret))
		o := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: peeringName}}
		o.Spec.Remote.KubeconfigSecretRef = v1alpha1.SecretKeyRef{Name: peeringName, Key: "kubeconfig"}
		edit(s, &o.Spec)
		require.NoError(t, s.Client.Create(p.ctx, o))
	}
}

func (p *peered) peering(t require.TestingT, s *site.Site) *v1alpha1.ClusterPeering {
	o := &v1alpha1.ClusterPeering{}
	require.NoError(t, s.Client.Get(p.ctx, client.ObjectKey{Name: peeringName}, o))
	return o
}

// peers are the BGPPeers of a ClusterPeering, by name, with their versions.
func (p *peered) peers(t require.TestingT, s *site.Site) map[string]string {
	list, err := s.Lab.Calico().BGPPeers().List(p.ctx, options.ListOptions{})
	require.NoError(t, err)
	out := map[string]string{}
	for i := range list.Items {
		if list.Items[i].Labels[v1alpha1.PeeringLabel] != "" {
			out[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
	}
	return out
}

func (p *peered) reflectors(t require.TestingT, s *site.Site) []netip.Addr {
	names, err := s.CurrentReflectors(p.ctx)
	require.NoError(t, err)
	out := []netip.Addr{}
	for _, name := range names {
		out = append(out, p.addresses(s, name)...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func (p *peered) addresses(s *site.Site, node string) (out []netip.Addr) {
	for _, address := range s.Lab.Families(netip.PrefixFrom(s.Lab.Address(node), 32)) {
		out = append(out, address.Addr())
	}
	return out
}

// await waits until both managers know the other cluster as it is now, and all sessions that there are to be are Established, and no others.
func (p *peered) await(t *testing.T) {
	t.Helper()
	began := time.Now()
	soon(t, func(c *assert.CollectT) {
		for _, s := range p.sites() {
			o := p.peering(c, s)
			require.NotNil(c, o.Status.Remote)
			var remote []string
			for _, addr := range p.reflectors(c, p.other(s)) {
				remote = append(remote, addr.String())
			}
			require.ElementsMatch(c, remote, o.Status.Remote.Reflectors)
			ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
			require.True(c, ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == o.Generation, "%+v", ready)
			require.Len(c, o.Status.Sessions, peerings)
			require.Len(c, p.peers(c, s), peerings)
		}
	})
	t.Logf("both ClusterPeerings are as they should be after %s", time.Since(began).Round(100*time.Millisecond))
}

// awaitRoutes waits until all nodes have routes to the other cluster's pods and services by its reflectors, or to its pods by their own nodes.
// A client has them by all of its reflectors, a reflector by those that it has sessions with.
func (p *peered) awaitRoutes(t *testing.T) {
	t.Helper()
	began := time.Now()
	soon(t, func(c *assert.CollectT) {
		for _, s := range p.sites() {
			there := p.other(s)
			here, err := s.CurrentReflectors(p.ctx)
			require.NoError(c, err)
			through := p.reflectors(c, there)
			straight := p.peering(c, there).Spec.NextHop == v1alpha1.NextHopNodes
			for _, on := range s.Lab.Nodes() {
				for _, to := range append(there.Lab.Nodes(), "") {
					prefix, by := there.Lab.ServiceNetwork(), through
					if to != "" {
						prefix = there.Lab.Block(to)
					}
					if !prefix.IsValid() {
						continue
					}
					if to != "" && straight {
						by = p.addresses(there, to)
					}
					for _, prefix := range s.Lab.Families(prefix) {
						otherFamily := func(a netip.Addr) bool { return a.Is4() != prefix.Addr().Is4() }
						want := slices.DeleteFunc(slices.Clone(by), otherFamily)
						hops, err := s.Lab.NextHops(on, prefix)
						require.NoError(c, err)
						require.NotEmpty(c, hops, "%s to %s", on, prefix)
						require.Subset(c, want, hops, "%s to %s", on, prefix)
						if !slices.Contains(here, on) {
							require.Equal(c, want, hops, "%s to %s", on, prefix)
						}
					}
				}
			}
		}
	})
	p.joined = true
	t.Logf("all nodes have their routes after %s more", time.Since(began).Round(100*time.Millisecond))
}

func (p *peered) arrived(t require.TestingT, ranges []netip.Prefix) (out []netip.Prefix) {
	for _, r := range ranges {
		for _, on := range p.a.Lab.Nodes() {
			hops, err := p.a.Lab.NextHops(on, r)
			require.NoError(t, err)
			if len(hops) > 0 && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// undeclared has b's nodes announce ranges that are not advertised. They come no further than a filter allows: emptied ones let them into a.
func (p *peered) undeclared(t *testing.T) {
	t.Helper()
	balancers := p.a.Lab.Families(netip.MustParsePrefix("198.51.100.0/24"))
	announce := func(ranges ...netip.Prefix) {
		config := expect.BGPConfiguration(t, p.b)
		config.Spec.ServiceLoadBalancerIPs = nil
		for _, r := range ranges {
			config.Spec.ServiceLoadBalancerIPs = append(config.Spec.ServiceLoadBalancerIPs, apiv3.ServiceLoadBalancerIPBlock{CIDR: r.String()})
		}
		_, err := p.b.Lab.Calico().BGPConfigurations().Update(p.ctx, config, options.SetOptions{})
		require.NoError(t, err)
	}
	announce(balancers...)
	time.Sleep(2 * time.Second)
	require.Empty(t, p.arrived(t, balancers))
	for _, s := range p.sites() {
		s.KillManager()
		filters := s.Lab.Calico().BGPFilter()
		f, err := filters.Get(p.ctx, "rrpool-peering-"+peeringName, options.GetOptions{})
		require.NoError(t, err)
		f.Spec = apiv3.BGPFilterSpec{}
		_, err = filters.Update(p.ctx, f, options.SetOptions{})
		require.NoError(t, err)
	}
	soon(t, func(c *assert.CollectT) { require.Equal(c, balancers, p.arrived(c, balancers), "the negative control") })
	for _, s := range p.sites() {
		p.startManager(t, s)
	}
	soon(t, func(c *assert.CollectT) { require.Empty(c, p.arrived(c, balancers)) })
	announce()
	p.await(t)
}

func (p *peered) replace(t *testing.T, old string) {
	t.Helper()
	began := time.Now()
	require.NoError(t, p.b.Lab.Cordon(p.ctx, old))
	soon(t, func(c *assert.CollectT) {
		now, err := p.b.CurrentReflectors(p.ctx)
		require.NoError(c, err)
		require.Len(c, now, 3)
		require.NotContains(c, now, old)
	})
	t.Logf("the role of %s went after %s", old, time.Since(began).Round(100*time.Millisecond))
}

// healTime is how soon packets take other ways than a dead reflector, once its node is not Ready: the other cluster is looked at every 10 s.
const healTime = 20 * time.Second

// crash: a reflector without power takes packets along until it is no peer any more. BIRD itself would see that after its hold time of 240 s.
func (p *peered) crash(t *testing.T) {
	t.Helper()
	names, err := p.b.CurrentReflectors(p.ctx)
	require.NoError(t, err)
	require.Equal(t, "control-plane", names[0])
	const phase = "a reflector crashes"
	p.a.Lab.Checkpoint(phase)
	require.NoError(t, p.b.Lab.Crash(names[0]))
	require.NoError(t, p.b.Lab.SetReady(p.ctx, names[0], corev1.ConditionUnknown))
	gone := time.Now()
	dead := p.addresses(p.b, names[0])
	soon(t, func(c *assert.CollectT) {
		for _, on := range p.a.Lab.Nodes() {
			for _, to := range p.b.Lab.Families(p.b.Lab.ServiceNetwork()) {
				hops, err := p.a.Lab.NextHops(on, to)
				require.NoError(c, err)
				require.NotEmpty(c, hops)
				require.False(c, slices.ContainsFunc(hops, func(hop netip.Addr) bool { return slices.Contains(dead, hop) }), hops)
			}
		}
	})
	t.Logf("no node of a sends anything to the dead reflector after %s", time.Since(gone).Round(100*time.Millisecond))
	time.Sleep(500 * time.Millisecond) // an outage belongs to the phase in which it began
	p.phase(t, "healed", func() { time.Sleep(3 * time.Second) })
	outage := p.a.Lab.Report().Phase(phase)
	lost := max(outage.Between("a/", "b/").LongestOutage(), outage.Between("b/", "a/").LongestOutage())
	t.Logf("between the clusters up to %s were lost", lost)
	require.Greater(t, lost, time.Second, "else nothing is measured")
	require.Less(t, lost, healTime)
	require.NoError(t, outage.Between("a/", "a/").ZeroLoss())
	require.NoError(t, outage.Between("b/", "b/").ZeroLoss())
	require.NoError(t, p.b.Lab.PowerOn(p.ctx, names[0]))
}

// part deletes both ClusterPeerings: everything is as it was.
func (p *peered) part(t *testing.T, before map[*site.Site]*apiv3.BGPConfiguration) {
	t.Helper()
	const phase = "part"
	p.a.Lab.Checkpoint(phase)
	began := time.Now()
	for _, s := range p.sites() {
		require.NoError(t, s.Client.Delete(p.ctx, p.peering(t, s)))
	}
	soon(t, func(c *assert.CollectT) {
		for _, s := range p.sites() {
			err := s.Client.Get(p.ctx, client.ObjectKey{Name: peeringName}, &v1alpha1.ClusterPeering{})
			require.True(c, apierrors.IsNotFound(err), err)
			for _, on := range s.Lab.Nodes() {
				for _, to := range append(s.Lab.Families(p.other(s).Lab.ServiceNetwork()), s.Lab.Families(p.other(s).Lab.Block("worker-0"))...) {
					hops, err := s.Lab.NextHops(on, to)
					require.NoError(c, err)
					require.Empty(c, hops, "%s to %s", on, to)
				}
			}
		}
	})
	t.Logf("all is gone after %s", time.Since(began).Round(100*time.Millisecond))
	for _, s := range p.sites() {
		require.Empty(t, p.peers(t, s))
		filters, err := s.Lab.Calico().BGPFilter().List(p.ctx, options.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, filters.Items)
		pools, err := s.Lab.Calico().IPPools().List(p.ctx, options.ListOptions{})
		require.NoError(t, err)
		require.Len(t, pools.Items, 2)
		if after := expect.BGPConfiguration(t, s); before[s] != nil {
			require.Equal(t, before[s].Spec, after.Spec)
			require.Equal(t, before[s].Annotations, after.Annotations)
		}
	}
	for _, name := range []string{"a/", "b/"} {
		require.NoError(t, p.a.Lab.Report().Phase(phase).Between(name, name).ZeroLoss())
	}
}
