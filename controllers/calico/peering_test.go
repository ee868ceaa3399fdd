package calico

import (
	"net/netip"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	validator "github.com/projectcalico/calico/libcalico-go/lib/validator/v3"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

func cidrs(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// The objects of ClusterPeering b.
var (
	putFilter = plan.PutFilter{Name: "rrpool-peering-b", Peering: "b", Filter: plan.PeeringFilter{
		Import: cidrs("10.210.0.0/16", "fd00:210::/64"), Pods: cidrs("10.245.0.0/16", "fd00:245::/64"),
		Services: cidrs("10.96.0.0/16"), Withhold: cidrs("203.0.113.0/25", "fd00:96::/112"),
	}}
	putPools = []plan.PutIPPool{
		{Name: "rrpool-peering-b-10-210-0-0-16", Peering: "b", CIDR: cidrs("10.210.0.0/16")[0]},
		{Name: "rrpool-peering-b-10-211-0-0-28", Peering: "b", CIDR: cidrs("10.211.0.0/28")[0]},
		{Name: "rrpool-peering-b-fd00-210-64", Peering: "b", CIDR: cidrs("fd00:210::/64")[0]},
		{Name: "rrpool-peering-b-fd00-211-126", Peering: "b", CIDR: cidrs("fd00:211::/126")[0]},
	}
	putPeered = plan.PutPeer{Peer: plan.Peer{
		Name: "rrpool-peering-b-10-0-0-1-10-9-0-1", Peering: "b", Node: five, PeerIP: "10.9.0.1", ASN: 64513,
		Password: &plan.SecretRef{Name: "bgp", Key: "password"}, Filters: []string{putFilter.Name}, KeepNextHop: true,
	}}
)

func (b *bench) peerings() peering.Observed {
	b.t.Helper()
	out, err := b.ObservePeering(b.t.Context(), scope)
	require.NoError(b.t, err)
	return out
}

// written are the objects of ClusterPeering b as they are observed where nobody has edited them.
func written() ([]peering.Filter, []peering.IPPool) {
	var pools []peering.IPPool
	for _, p := range putPools {
		pools = append(pools, peering.IPPool{Name: p.Name, CIDR: p.CIDR, Peering: "b"})
	}
	return []peering.Filter{{Name: putFilter.Name, Peering: "b", Rules: &putFilter.Filter}}, pools
}

func TestTheObjectsOfAClusterPeeringAreWrittenPutRightAndDeleted(t *testing.T) {
	b := newBench(t).run()
	put := func(wantChange bool) {
		t.Helper()
		b.apply(putFilter, wantChange)
		for _, p := range putPools {
			b.apply(p, wantChange)
		}
		filters, pools := written()
		seen := b.peerings()
		require.Equal(t, filters, seen.Filters)
		require.Equal(t, pools, seen.Pools)
	}
	put(true)
	put(false)
	for what, edit := range map[string]struct{ kind, patch string }{
		"a filter without its last rule": {peering.KindBGPFilter, `{"spec":{"importV4":[{"action":"Accept"}]}}`},
		"a note that says another thing": {peering.KindBGPFilter, `{"metadata":{"annotations":{"rrpool.io/filter":"{}"}}}`},
		"an enabled pool":                {peering.KindIPPool, `{"spec":{"disabled":null}}`},
		"a pool with VXLAN":              {peering.KindIPPool, `{"spec":{"vxlanMode":"Always"}}`},
		"a pool that is not exported":    {peering.KindIPPool, `{"spec":{"disableBGPExport":true}}`},
		"a pool with NAT":                {peering.KindIPPool, `{"spec":{"natOutgoing":true}}`},
	} {
		t.Run(what, func(t *testing.T) {
			action, name := plan.Action(putFilter), putFilter.Name
			if edit.kind == peering.KindIPPool {
				action, name = putPools[0], putPools[0].Name
			}
			before := b.raw(edit.kind, name)
			b.patch(b.custom(edit.kind, name), edit.patch)
			filters, pools := written()
			seen := b.peerings()
			require.False(t, seen.Filters[0].Rules != nil && seen.Filters[0].Rules.Equal(*filters[0].Rules) && seen.Pools[0] == pools[0], "it is not noticed")
			b.apply(action, true)
			require.Equal(t, before.Object["spec"], b.raw(edit.kind, name).Object["spec"])
			put(false)
		})
	}

	if group == GroupV1 { // calicoctl keeps labels and annotations elsewhere, and fills in what is not set
		c := calicoctl(t, b.plane)
		filter, err := c.BGPFilter().Get(t.Context(), putFilter.Name, options.GetOptions{})
		require.NoError(t, err)
		filter.Labels["team"] = "network"
		_, err = c.BGPFilter().Update(t.Context(), filter, options.SetOptions{})
		require.NoError(t, err)
		pool, err := c.IPPools().Get(t.Context(), putPools[0].Name, options.GetOptions{})
		require.NoError(t, err)
		_, err = c.IPPools().Update(t.Context(), pool, options.SetOptions{})
		require.NoError(t, err)
		require.Empty(t, b.raw(peering.KindBGPFilter, putFilter.Name).GetLabels())
		filters, pools := written()
		require.Equal(t, filters, b.peerings().Filters)
		require.Equal(t, pools, b.peerings().Pools)
	}

	b.apply(plan.DeletePeeringObject{Kind: peering.KindBGPFilter, Name: putFilter.Name, Peering: "another"}, false)
	for _, want := range []bool{true, false} {
		b.apply(plan.DeletePeeringObject{Kind: peering.KindBGPFilter, Name: putFilter.Name, Peering: "b"}, want)
		for _, p := range putPools {
			b.apply(plan.DeletePeeringObject{Kind: peering.KindIPPool, Name: p.Name, Peering: "b"}, want)
		}
	}
	require.Empty(t, b.peerings().Filters)
	require.Empty(t, b.peerings().Pools)
}

func TestObjectsOfOthersWithOurNamesAreNeverTouched(t *testing.T) {
	b := newBench(t).run()
	for kind, action := range map[string]plan.Action{peering.KindBGPFilter: putFilter, peering.KindIPPool: putPools[0]} {
		name := map[string]string{peering.KindBGPFilter: putFilter.Name, peering.KindIPPool: putPools[0].Name}[kind]
		for whose, labels := range map[string]map[string]string{
			"a person's": nil, "another peering's": labelsFor("another"), "of ours, for no peering": labelsFor(""),
			"of another tool": {v1alpha1.PeeringLabel: "b"},
		} {
			o := b.custom(kind, name)
			o.SetLabels(labels)
			o.Object["spec"] = map[string]any{}
			if kind == peering.KindIPPool {
				o.Object["spec"] = map[string]any{"cidr": "10.5.0.0/16"}
			}
			require.NoError(t, b.kube.Create(t.Context(), o))
			require.Empty(t, b.writes(func() {
				_, err := b.Apply(t.Context(), scope, action)
				var taken *NameTakenError
				require.ErrorAs(t, err, &taken, whose)
				b.apply(plan.DeletePeeringObject{Kind: kind, Name: name, Peering: "b"}, false)
			}))
			require.Equal(t, o, b.raw(kind, name), whose)
			require.NoError(t, b.kube.Delete(t.Context(), o))
		}
	}
}

func TestAPeerOfAClusterPeeringIsNotOneOfTheRollouts(t *testing.T) {
	b := newBench(t).run()
	b.apply(putPeered, true)
	b.apply(putPeered, false)
	want := putPeered.Peer
	want.Written = b.clock.Now()
	require.Equal(t, []plan.Peer{want}, b.observe().Peers)
	require.False(t, b.observe().Peers[0].Owned)

	o, err := b.other.peers.get(t.Context(), want.Name)
	require.NoError(t, err)
	o.Spec.Filters, o.Spec.KeepOriginalNextHop, o.Spec.NextHopMode = nil, false, ptr.To(apiv3.NextHopMode("Keep"))
	_, err = b.other.peers.write(t.Context(), o)
	require.NoError(t, err)
	b.await("the edit", func(c plan.Cluster) bool { return !plan.SamePeer(c.Peers[0], want) })
	b.apply(putPeered, true)
	require.Equal(t, []plan.Peer{want}, b.observe().Peers)

	taken := putPeered
	taken.Peer.Peering = "another"
	_, err = b.Apply(t.Context(), scope, taken)
	require.ErrorContains(t, err, "rename or delete it")
	b.apply(plan.DeletePeer{Name: want.Name}, true)
	require.Empty(t, b.observe().Peers)
}

// Calico's own client, which is what calicoctl and Calico's API server are, takes exactly what we write past it.
func TestCalicoItselfWouldTakeWhatIsWritten(t *testing.T) {
	filter, peer := apiv3.NewBGPFilter(), apiv3.NewBGPPeer()
	filter.Name, filter.Spec = putFilter.Name, filterSpec(putFilter.Filter)
	peer.Name, peer.Spec = putPeered.Peer.Name, peerSpec(putPeered.Peer)
	require.NoError(t, validator.Validate(filter))
	require.NoError(t, validator.Validate(peer))
	var pools []*apiv3.IPPool
	for _, put := range putPools {
		pool := apiv3.NewIPPool()
		pool.Name, pool.Spec = put.Name, poolSpec(put.CIDR)
		require.NoError(t, validator.Validate(pool), put.CIDR)
		pools = append(pools, pool)
	}
	small := pools[1].DeepCopy()
	small.Spec.BlockSize, small.Spec.Disabled = 0, false // of a disabled one the size of blocks is not looked at
	require.Error(t, validator.Validate(small), "the check finds a block that does not fit")
	broken := filter.DeepCopy()
	broken.Spec.ImportV4[0].MatchOperator = ""
	require.Error(t, validator.Validate(broken), "and a rule that is none")

	onlyV1(t) // the other group has no client of Calico's
	b := newBench(t)
	b.node(five, nil)
	c := calicoctl(t, b.plane)
	made, err := c.BGPFilter().Create(t.Context(), filter, options.SetOptions{})
	require.NoError(t, err)
	require.Equal(t, filter.Spec, made.Spec)
	for _, pool := range pools {
		_, err := c.IPPools().Create(t.Context(), pool, options.SetOptions{})
		require.NoError(t, err)
	}
	_, err = c.BGPPeers().Create(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err)
}

// TestWhatTheFilterLetsOut of what a reflector knows. What no rule names is left to Calico.
func TestWhatTheFilterLetsOut(t *testing.T) {
	const left = "left to Calico"
	spec := filterSpec(plan.PeeringFilter{
		Pods: cidrs("10.245.0.0/16"), Services: cidrs("10.96.0.0/16"), Withhold: cidrs("10.96.0.0/12", "203.0.113.0/25"),
	})
	for route, want := range map[string]struct{ own, learned string }{
		"10.245.7.0/26":   {left, "Accept"},
		"10.245.7.1/32":   {left, "Accept"},
		"10.96.0.0/16":    {"Accept", "Reject"},
		"10.96.0.9/32":    {"Accept", "Accept"},
		"10.96.0.0/12":    {"Reject", "Reject"},
		"10.97.0.9/32":    {"Reject", "Reject"},
		"203.0.113.0/25":  {"Reject", "Reject"},
		"198.51.100.0/24": {left, "Reject"},
	} {
		let := func(learned bool) string {
			for _, r := range spec.ExportV4[1:] { // the first is about routes of one interface
				if c, err := netip.ParsePrefix(r.CIDR); err == nil {
					of := netip.MustParsePrefix(route)
					if of.Bits() < c.Bits() || !c.Contains(of.Addr()) || r.MatchOperator == apiv3.Equal && of != c {
						continue
					}
				}
				if r.Source == "" || learned {
					return string(r.Action)
				}
			}
			return left
		}
		require.Equal(t, want.own, let(false), "%s of its own", route)
		require.Equal(t, want.learned, let(true), "%s that it has learned", route)
	}
}

func TestServicesAreAnnouncedBesideThoseOfOthersAndGivenBackExactly(t *testing.T) {
	ours := plan.AnnounceServices{CIDRs: cidrs("10.96.0.0/16", "fd00:96::/112")}
	for name, c := range map[string]struct {
		// before is the BGPConfiguration, nil for none.
		before func(*apiv3.BGPConfiguration)
		others []netip.Prefix
		// meanwhile happens while they are announced, and is undone by after.
		meanwhile, after func(*bench)
	}{
		"where there is no BGPConfiguration": {},
		"where rrpool has made it": {
			meanwhile: func(b *bench) {
				b.apply(plan.DisableMesh{}, true)
				b.apply(plan.RestoreMesh{}, true)
				b.apply(plan.ForgetMesh{}, true)
			},
		},
		"where rrpool needs it for longer": {
			meanwhile: func(b *bench) { b.apply(plan.DisableMesh{}, true) },
			after: func(b *bench) {
				require.NotNil(b.t, b.config(), "the mesh is off")
				b.apply(plan.RestoreMesh{}, true)
				b.apply(plan.ForgetMesh{}, true)
			},
		},
		"where none are announced": {before: func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Debug" }},
		"where others are":         {before: withPassword, others: cidrs("172.21.0.0/16", "198.51.100.200/32", "203.0.113.0/25")},
		"where somebody adds a range": {
			before: func(*apiv3.BGPConfiguration) {},
			meanwhile: func(b *bench) {
				b.editConfig(func(o *apiv3.BGPConfiguration) {
					o.Spec.ServiceClusterIPs = append(o.Spec.ServiceClusterIPs, apiv3.ServiceClusterIPBlock{CIDR: "10.1.0.0/16"})
				})
			},
			after: func(b *bench) {
				require.Equal(b.t, []apiv3.ServiceClusterIPBlock{{CIDR: "10.1.0.0/16"}}, b.config().Spec.ServiceClusterIPs)
				b.patch(b.custom(apiv3.KindBGPConfiguration, defaultConfig), `{"spec":{"serviceClusterIPs":null}}`)
			},
		},
		"where somebody takes ours away": {
			before: func(*apiv3.BGPConfiguration) {},
			meanwhile: func(b *bench) {
				b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.ServiceClusterIPs = nil })
				require.Eventually(b.t, func() bool { return len(b.peerings().Services) == 0 }, time.Minute, 10*time.Millisecond)
				b.apply(ours, true)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var before map[string]any
			if c.before != nil {
				b.giveConfig(c.before)
				before = b.raw(apiv3.KindBGPConfiguration, defaultConfig).Object["spec"].(map[string]any)
			}
			b.run()
			b.apply(plan.AnnounceServices{}, false)
			b.apply(ours, true)
			b.apply(ours, false)
			seen := b.peerings()
			require.Equal(t, ours.CIDRs, seen.Services)
			require.ElementsMatch(t, c.others, seen.OtherServices)
			if c.others != nil {
				require.Equal(t, c.others[:1], seen.OtherClusterIPs)
			}
			if c.meanwhile != nil {
				c.meanwhile(b)
				require.Eventually(t, func() bool { return len(b.peerings().Services) == 2 }, time.Minute, 10*time.Millisecond)
			}
			b.apply(plan.AnnounceServices{}, true)
			if c.after != nil {
				c.after(b)
			}
			if c.before == nil {
				require.Nil(t, b.config())
				return
			}
			require.Equal(t, before, b.raw(apiv3.KindBGPConfiguration, defaultConfig).Object["spec"])
			require.NotContains(t, b.config().Annotations, servicesAnnotation)
		})
	}
}

// IPv4 in the form of IPv6 is IPv4 to Calico, so it overlaps with that; what cannot be read leaves unknown what overlaps, and is named.
func TestRangesOfThisClusterAreReadAsCalicoReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"10.96.0.0/12": "10.96.0.0/12", "10.96.1.7/16": "10.96.0.0/16", "fd00::1/64": "fd00::/64", "::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.1.2.3/128": "10.1.2.3/32",
		"::ffff:0.0.0.0/80": "", "10.96.0.0": "", "": "", "10.96.0.0/33": "", "all": "",
	} {
		got, err := ownRange(text)
		if require.Equal(t, want == "", err != nil, "%s: %v", text, err); want != "" {
			require.Equal(t, want, got.String(), text)
		}
	}
	seen, err := servicesOf(apiv3.BGPConfigurationSpec{
		ServiceClusterIPs: []apiv3.ServiceClusterIPBlock{{CIDR: "::ffff:10.96.0.0/108"}}, ServiceExternalIPs: []apiv3.ServiceExternalIPBlock{{CIDR: "all"}},
	})
	require.Equal(t, cidrs("10.96.0.0/12"), seen)
	require.EqualError(t, err, `"all" is no CIDR such as 10.96.0.0/12`)
}

func TestABrokenNoteOfWhatIsAnnouncedIsNamed(t *testing.T) {
	b := newBench(t)
	b.giveConfig(func(o *apiv3.BGPConfiguration) { o.Annotations = map[string]string{servicesAnnotation: "10.96.0.0/16"} })
	b.run()
	_, err := b.ObservePeering(t.Context(), scope)
	require.ErrorContains(t, err, `annotation rrpool.io/peering-services="10.96.0.0/16" of BGPConfiguration "default"`)
	require.Empty(t, b.writes(func() {
		_, err := b.Apply(t.Context(), scope, plan.AnnounceServices{CIDRs: cidrs("10.96.0.0/16")})
		require.ErrorContains(t, err, `as ["10.96.0.0/12"]: correct it`)
	}))
}

// As Calico does, rrpool leaves out what cannot be read: one such object of others stops no ClusterPeering.
func TestAnObjectThatCannotBeReadStopsNoPeering(t *testing.T) {
	onlyV1(t)
	b := newBench(t).run()
	create := func(kind, name string, spec map[string]any) {
		raw := b.custom(kind, name)
		raw.SetAnnotations(map[string]string{metadataAnnotation: "{"})
		raw.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), raw))
	}
	create(apiv3.KindIPPool, "spoiled", map[string]any{"cidr": "10.8.0.0/16"})
	create(apiv3.KindBGPFilter, "spoiled", map[string]any{})
	out, err := b.ObservePeering(t.Context(), scope)
	require.NoError(t, err)
	require.Empty(t, out.Pools)
	create(apiv3.KindIPPool, peering.Prefix+"b", map[string]any{"cidr": "10.9.0.0/16"})
	_, err = b.ObservePeering(t.Context(), scope)
	require.ErrorContains(t, err, peering.Prefix+"b", "it is not known whether one of ours is there")
}
