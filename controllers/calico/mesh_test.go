package calico

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// withPassword is the mesh as IKS has it, among settings that are not ours.
func withPassword(o *apiv3.BGPConfiguration) {
	o.Labels = map[string]string{"team": "network"}
	o.Annotations = map[string]string{"note": "do not touch"}
	o.Spec.LogSeverityScreen = "Info"
	o.Spec.ASNumber = ptr.To(numorstring.ASNumber(64999))
	o.Spec.ServiceClusterIPs = []apiv3.ServiceClusterIPBlock{{CIDR: "172.21.0.0/16"}}
	o.Spec.ServiceExternalIPs = []apiv3.ServiceExternalIPBlock{{CIDR: "198.51.100.200/32"}}
	o.Spec.ServiceLoadBalancerIPs = []apiv3.ServiceLoadBalancerIPBlock{{CIDR: "203.0.113.0/25"}}
	o.Spec.NodeToNodeMeshEnabled = ptr.To(true)
	o.Spec.NodeMeshPassword = &apiv3.BGPPassword{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "bgp"}, Key: "password", Optional: ptr.To(false),
	}}
	o.Spec.NodeMeshMaxRestartTime = &metav1.Duration{Duration: 200 * time.Second}
}

func TestAMeshWithAPasswordGoesOffAndComesBackAsItWas(t *testing.T) {
	b := newBench(t)
	original := b.giveConfig(withPassword)
	b.run()
	seen := b.observe().BGP
	seen.MeshWriter = "" // it is this test, where the API says it
	require.Equal(t, plan.BGPConfig{
		Exists: true, ASN: 64999, Mesh: plan.Mesh{
			Enabled: ptr.To(true), Password: &plan.SecretRef{Name: "bgp", Key: "password"}, MaxRestartTime: ptr.To(200 * time.Second),
		},
		Services: []netip.Prefix{netip.MustParsePrefix("172.21.0.0/16"), netip.MustParsePrefix("198.51.100.200/32"), netip.MustParsePrefix("203.0.113.0/25")},
	}, seen)

	off := plan.DisableMesh{Saved: seen.Mesh}
	require.Len(t, b.writes(func() { b.apply(off, true) }), 1)
	seen = b.observe().BGP
	require.False(t, seen.MeshOn())
	require.Equal(t, off.Saved, *seen.Saved)
	require.Nil(t, seen.Mesh.Password)
	require.Nil(t, seen.Mesh.MaxRestartTime)
	live := b.config()
	require.Equal(t, "network", live.Labels["team"])
	require.NotContains(t, live.Labels, v1alpha1.ManagedByLabel)
	require.Empty(t, b.writes(func() { b.apply(off, false) }), "off is off")

	restoredAt := b.clock.Move(time.Hour)
	require.Len(t, b.writes(func() { b.apply(plan.RestoreMesh{}, true) }), 1)
	seen = b.observe().BGP
	require.True(t, seen.MeshOn())
	require.Equal(t, off.Saved, seen.Mesh)
	require.True(t, seen.Restored.Equal(restoredAt))
	require.NotNil(t, seen.Saved, "kept until it is forgotten")
	b.clock.Move(time.Hour)
	require.Empty(t, b.writes(func() { b.apply(plan.RestoreMesh{}, false) }))

	require.Len(t, b.writes(func() { b.apply(plan.ForgetMesh{}, true) }), 1)
	live = b.config()
	require.Equal(t, original.Spec, live.Spec, "byte for byte, an optional password included")
	require.Equal(t, original.Labels, live.Labels)
	require.Equal(t, original.Annotations, live.Annotations)
	require.Empty(t, b.writes(func() { b.apply(plan.ForgetMesh{}, false) }))
}

func TestAnAbsentBGPConfigurationIsAbsentAgainAfterwards(t *testing.T) {
	b := newBench(t).run()
	require.Equal(t, plan.BGPConfig{ASN: 64512}, b.observe().BGP)
	require.Len(t, b.writes(func() { b.apply(plan.DisableMesh{SavedAbsent: true}, true) }), 1)

	live := b.config()
	require.Equal(t, v1alpha1.ManagedByValue, live.Labels[v1alpha1.ManagedByLabel])
	live.Spec.ServiceLoadBalancerAggregation, live.Spec.LogSeverityScreen = nil, "" // the CRDs' own defaults
	require.Equal(t, apiv3.BGPConfigurationSpec{NodeToNodeMeshEnabled: ptr.To(false)}, live.Spec)
	seen := b.observe().BGP
	require.True(t, seen.Exists && seen.SavedAbsent && !seen.MeshOn())
	require.Empty(t, b.writes(func() { b.apply(plan.DisableMesh{SavedAbsent: true}, false) }))

	b.apply(plan.RestoreMesh{}, true)
	require.True(t, b.observe().BGP.MeshOn())
	require.Nil(t, b.config().Spec.NodeToNodeMeshEnabled)
	b.apply(plan.ForgetMesh{}, true)
	require.Nil(t, b.config())
	require.Equal(t, plan.BGPConfig{ASN: 64512}, b.observe().BGP)
}

func TestWhatOthersAddToOurBGPConfigurationStays(t *testing.T) {
	for name, edit := range map[string]func(*apiv3.BGPConfiguration){
		"a setting":     func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Debug" },
		"a label":       func(o *apiv3.BGPConfiguration) { o.Labels["team"] = "network" },
		"an annotation": func(o *apiv3.BGPConfiguration) { o.Annotations["note"] = "mine" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).run()
			b.apply(plan.DisableMesh{SavedAbsent: true}, true)
			b.editConfig(edit)
			b.apply(plan.RestoreMesh{}, true)
			b.apply(plan.ForgetMesh{}, true)
			live := b.config()
			require.NotNil(t, live)
			require.NotContains(t, live.Labels, v1alpha1.ManagedByLabel)
			require.NotContains(t, live.Annotations, beforeAnnotation)
			require.NotContains(t, live.Annotations, restoredAnnotation)
			want := &apiv3.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}}
			edit(want)
			require.Equal(t, want.Spec.LogSeverityScreen, strings.Replace(live.Spec.LogSeverityScreen, "Info", "", 1))
			require.Equal(t, want.Labels["team"], live.Labels["team"])
			require.Equal(t, want.Annotations["note"], live.Annotations["note"])
		})
	}
}

// Others have switched the mesh off on an object that we made for something else: without the object Calico would switch it on.
func TestABGPConfigurationWithTheMeshOffIsNotDeleted(t *testing.T) {
	b := newBench(t).run()
	b.apply(plan.AnnounceServices{CIDRs: cidrs("10.96.0.0/16")}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.NodeToNodeMeshEnabled = ptr.To(false) })
	b.apply(plan.AnnounceServices{}, true)
	live := b.config()
	require.NotNil(t, live)
	require.Equal(t, ptr.To(false), live.Spec.NodeToNodeMeshEnabled)
	require.NotContains(t, live.Labels, v1alpha1.ManagedByLabel)
	require.Empty(t, live.Spec.ServiceClusterIPs)
}

func TestAMeshThatIsNoLongerWhatWasDecidedOnIsLeftAlone(t *testing.T) {
	on := plan.DisableMesh{Saved: plan.Mesh{Enabled: ptr.To(true)}}
	give := func(change func(*apiv3.BGPConfiguration)) func(*bench) {
		return func(b *bench) { b.giveConfig(change) }
	}
	for name, c := range map[string]struct {
		given  func(*bench)
		action plan.Action
		fine   bool
	}{
		"as decided":          {give(func(o *apiv3.BGPConfiguration) { o.Spec.NodeToNodeMeshEnabled = ptr.To(true) }), on, true},
		"a password has come": {give(withPassword), on, false},
		"a person created it": {give(func(*apiv3.BGPConfiguration) {}), plan.DisableMesh{SavedAbsent: true}, false},
		"a person deleted it": {func(*bench) {}, on, false},
		"a person switched it off": {
			give(func(o *apiv3.BGPConfiguration) { o.Spec.NodeToNodeMeshEnabled = ptr.To(false) }), on, false,
		},
		"another password than decided on, after we had saved one": {give(func(o *apiv3.BGPConfiguration) {
			withPassword(o)
			o.Annotations[beforeAnnotation] = `{"enabled":true}`
		}), on, false},
		"forgetting while the mesh is off": {give(func(o *apiv3.BGPConfiguration) {
			o.Spec.NodeToNodeMeshEnabled = ptr.To(false)
			o.Annotations = map[string]string{beforeAnnotation: `{}`}
		}), plan.ForgetMesh{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.given(b)
			before := b.config()
			did, err := b.Apply(t.Context(), scope, c.action)
			if c.fine {
				require.NoError(t, err)
				require.True(t, did)
				return
			}
			require.False(t, did)
			require.True(t, IsConflict(err), "got %v", err)
			require.Equal(t, before, b.config(), "nothing was written")
		})
	}
}

func TestAMeshThatSomebodySwitchedOnAgainGoesOffWithWhatWasSavedFirst(t *testing.T) {
	b := newBench(t)
	b.giveConfig(withPassword)
	b.run()
	first := b.observe().BGP.Mesh
	b.apply(plan.DisableMesh{Saved: first}, true)
	b.apply(plan.RestoreMesh{}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.NodeMeshPassword.SecretKeyRef.Key = "new" })
	want := first
	want.Password = &plan.SecretRef{Name: "bgp", Key: "new"}
	b.apply(plan.DisableMesh{Saved: want}, true)
	seen := b.observe().BGP
	require.False(t, seen.MeshOn())
	require.Equal(t, want, *seen.Saved)
	require.Zero(t, seen.Restored, "it is no longer restored")
	b.apply(plan.RestoreMesh{}, true)
	require.False(t, *b.config().Spec.NodeMeshPassword.SecretKeyRef.Optional, "in Calico's own words")
}

func TestAMeshThatNothingWasSavedOfIsSwitchedOn(t *testing.T) {
	b := newBench(t)
	b.giveConfig(func(o *apiv3.BGPConfiguration) { o.Spec.NodeToNodeMeshEnabled = ptr.To(false) })
	b.run()
	b.apply(plan.RestoreMesh{}, true)
	seen := b.observe().BGP
	require.True(t, seen.MeshOn())
	require.True(t, seen.Restored.Equal(b.clock.Now()))
	b.apply(plan.RestoreMesh{}, false)
	b.apply(plan.ForgetMesh{}, true)
	require.True(t, *b.config().Spec.NodeToNodeMeshEnabled)
}

func TestAMeshWhoseNoteIsLostIsSwitchedOnWithThePasswordOfOurBGPPeers(t *testing.T) {
	b := newBench(t)
	b.giveConfig(withPassword)
	b.run()
	before := b.observe().BGP.Mesh
	b.apply(plan.PutPeer{Peer: plan.Peer{
		Name: "rrpool-aaa", Peering: "b", Node: five, PeerIP: "10.9.0.1", ASN: 64513, Password: &plan.SecretRef{Name: "shared", Key: "with-b"},
	}}, true)
	b.apply(plan.PutPeer{Peer: plan.Peer{Name: "rrpool-clients", NodeSelector: "all()", PeerSelector: "all()", Password: before.Password}}, true)
	b.apply(plan.DisableMesh{Saved: before}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { delete(o.Annotations, beforeAnnotation) })
	b.apply(plan.RestoreMesh{}, true)
	seen := b.observe().BGP
	require.True(t, seen.MeshOn())
	require.Equal(t, before.Password, seen.Mesh.Password)
}

// The note that is lost is written again while the mesh is off, in Calico's own words, and never over one that is there.
func TestALostNoteIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	b.giveConfig(withPassword)
	b.run()
	before := b.observe().BGP.Mesh
	note := plan.NoteMesh{Saved: plan.Mesh{Enabled: ptr.To(true), Password: before.Password}}
	b.apply(note, false) // the mesh is on
	b.apply(plan.PutPeer{Peer: plan.Peer{Name: "rrpool-clients", NodeSelector: "all()", PeerSelector: "all()", Password: before.Password}}, true)
	b.apply(plan.DisableMesh{Saved: before}, true)
	b.apply(note, false) // the note is there
	b.editConfig(func(o *apiv3.BGPConfiguration) { delete(o.Annotations, beforeAnnotation) })
	b.apply(note, true)
	require.Equal(t, note.Saved, *b.observe().BGP.Saved)
	require.False(t, b.observe().BGP.MeshOn())
	b.apply(plan.RestoreMesh{}, true)
	require.Equal(t, before.Password, b.observe().BGP.Mesh.Password)
}

func TestAConcurrentEditIsAConflict(t *testing.T) {
	b := newBench(t)
	b.giveConfig(withPassword)
	stale, err := b.liveConfig(t.Context())
	require.NoError(t, err)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Debug" })
	require.NoError(t, stale.set(savedMesh{Enabled: ptr.To(false)}))
	_, err = b.updateConfig(t.Context(), stale)
	require.True(t, IsConflict(err), "got %v", err)
	require.Contains(t, err.Error(), `updating BGPConfiguration "default"`)
	require.True(t, *b.config().Spec.NodeToNodeMeshEnabled)
}

// A note that cannot be read is as one that is lost, and said: the mesh comes back all the same, with the password that our BGPPeers have.
func TestASpoiledNoteIsAsALostOne(t *testing.T) {
	for _, text := range []string{"", "\x1b[2J"} { // FuzzMeshNote has more
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			b.giveConfig(withPassword)
			b.run()
			before := b.observe().BGP.Mesh
			b.apply(plan.PutPeer{Peer: plan.Peer{Name: "rrpool-clients", NodeSelector: "all()", PeerSelector: "all()", Password: before.Password}}, true)
			b.apply(plan.DisableMesh{Saved: before}, true)
			spoil := func() {
				b.editConfig(func(o *apiv3.BGPConfiguration) { o.Annotations[beforeAnnotation] = text })
				b.await("the note", func(c plan.Cluster) bool { return c.BGP.SavedUnread != "" })
			}
			spoil()
			seen := b.observe().BGP
			requireVisible(t, seen.SavedUnread)
			require.Equal(t, plan.Mesh{Enabled: ptr.To(true), Password: before.Password}, *seen.Saved)

			b.apply(plan.NoteMesh{Saved: before}, true)
			require.Empty(t, b.observe().BGP.SavedUnread)
			require.Equal(t, before, *b.observe().BGP.Saved)
			b.apply(plan.NoteMesh{Saved: before}, false)

			spoil()
			b.apply(plan.RestoreMesh{}, true)
			seen = b.observe().BGP
			require.True(t, seen.MeshOn())
			require.Equal(t, before.Password, seen.Mesh.Password)
			require.Equal(t, seen.Mesh, *seen.Saved, "a mesh that is on is as it is to be")
			b.apply(plan.ForgetMesh{}, true)
			require.NotContains(t, b.config().Annotations, beforeAnnotation)
		})
	}
}

// rawConfig is the custom resource without what the API counts by itself.
func (b *bench) rawConfig() map[string]any {
	b.t.Helper()
	raw := b.raw(apiv3.KindBGPConfiguration, defaultConfig)
	for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(raw.Object, "metadata", field)
	}
	return raw.Object
}

// kubectl writes the default BGPConfiguration as kubectl and cloud controllers
// do: past libcalico-go, so nothing is kept in its annotation of metadata.
func (b *bench) kubectl() {
	b.t.Helper()
	raw := b.custom(apiv3.KindBGPConfiguration, defaultConfig)
	raw.SetLabels(map[string]string{"team": "network"})
	raw.SetAnnotations(map[string]string{"created-by": "IBMCloudKubernetesService"})
	raw.SetFinalizers([]string{"example.com/hold"})
	raw.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "6a3f0f0e-0000-4000-8000-000000000001",
	}}
	raw.Object["spec"] = map[string]any{
		"nodeToNodeMeshEnabled": true, "asNumber": int64(64999), "logSeverityScreen": "Info",
		"nodeMeshPassword": map[string]any{"secretKeyRef": map[string]any{"name": "bgp", "key": "password"}},
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), raw))
	b.t.Cleanup(func() {
		raw := b.custom(apiv3.KindBGPConfiguration, defaultConfig)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(b.t, client.IgnoreNotFound(b.kube.Patch(context.Background(), raw, patch)))
	})
}

func TestWhatOthersWroteOnTheBGPConfigurationIsKeptToTheLastField(t *testing.T) {
	for name, c := range map[string]struct{ given, between func(*bench) }{
		"written by kubectl or a cloud": {given: (*bench).kubectl},
		"written by calicoctl":          {given: func(b *bench) { b.giveConfig(withPassword) }},
		"written by calicoctl, labeled with kubectl": {given: func(b *bench) {
			b.giveConfig(withPassword)
			b.patch(b.custom(apiv3.KindBGPConfiguration, defaultConfig), `{"metadata":{"labels":{"by":"hand"},"annotations":{"by":"hand"}}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.given(b)
			before := b.rawConfig()
			b.run()
			b.apply(plan.DisableMesh{Saved: b.observe().BGP.Mesh}, true)
			off := b.rawConfig()
			meta, was := off["metadata"].(map[string]any), before["metadata"].(map[string]any)
			for _, field := range []string{"labels", "finalizers", "ownerReferences"} {
				require.Equal(t, was[field], meta[field], "%s while the mesh is off", field)
			}
			for key, value := range was["annotations"].(map[string]any) {
				require.Equal(t, value, meta["annotations"].(map[string]any)[key], "%s while the mesh is off", key)
			}
			require.False(t, b.observe().BGP.MeshOn())
			require.NotNil(t, b.observe().BGP.Saved)
			b.apply(plan.RestoreMesh{}, true)
			b.apply(plan.ForgetMesh{}, true)
			require.Equal(t, before, b.rawConfig())
		})
	}
}

func TestNotesThatCalicoctlHasMovedAreFoundAndRemoved(t *testing.T) {
	b := newBench(t)
	b.kubectl()
	b.run()
	mesh := b.observe().BGP.Mesh
	b.apply(plan.DisableMesh{Saved: mesh}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Debug" })
	edited := b.config().ResourceVersion
	b.await("the edit", func(plan.Cluster) bool {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		return b.store.config.ResourceVersion == edited
	})
	require.Equal(t, mesh, *b.observe().BGP.Saved)
	b.apply(plan.RestoreMesh{}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Error" })
	b.apply(plan.DisableMesh{Saved: mesh}, true)
	require.Zero(t, b.observe().BGP.Restored)
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	live := b.config()
	require.NotContains(t, live.Annotations, beforeAnnotation)
	require.NotContains(t, live.Annotations, restoredAnnotation)
	require.Equal(t, "IBMCloudKubernetesService", live.Annotations["created-by"])
	require.Equal(t, "network", live.Labels["team"])
}

func TestAnOldNoteOfARestoredMeshDoesNotStay(t *testing.T) {
	b := newBench(t)
	b.giveConfig(func(o *apiv3.BGPConfiguration) {
		o.Spec.NodeToNodeMeshEnabled = ptr.To(false)
		o.Annotations = map[string]string{restoredAnnotation: "2026-05-01T00:00:00Z"}
	})
	b.apply(plan.ForgetMesh{}, true)
	live := b.config()
	require.NotContains(t, live.Annotations, restoredAnnotation)
	require.False(t, *live.Spec.NodeToNodeMeshEnabled, "nothing was saved, so it stays as a person wrote it")

	b.editConfig(func(o *apiv3.BGPConfiguration) {
		o.Annotations = map[string]string{beforeAnnotation: `{"enabled":true}`, restoredAnnotation: "2026-05-01T00:00:00Z"}
	})
	b.apply(plan.DisableMesh{Saved: plan.Mesh{Enabled: ptr.To(true)}}, true)
	live = b.config()
	require.Contains(t, live.Annotations, beforeAnnotation)
	require.NotContains(t, live.Annotations, restoredAnnotation, "switched off by a person after we had restored it: it is off")
}

func TestAConfigurationWithoutASpecIsGivenOneAndKeepsItsMetadata(t *testing.T) {
	b := newBench(t)
	raw := b.custom(apiv3.KindBGPConfiguration, defaultConfig)
	raw.SetAnnotations(map[string]string{"note": "bare"})
	require.NoError(t, b.kube.Create(t.Context(), raw))
	b.run()
	b.apply(plan.DisableMesh{Saved: b.observe().BGP.Mesh}, true)
	require.False(t, b.observe().BGP.MeshOn())
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	require.Equal(t, map[string]string{"note": "bare"}, b.config().Annotations)
	require.Nil(t, b.config().Spec.NodeToNodeMeshEnabled)
}

// Who brings a BGPConfiguration back to what it is elsewhere shows in its metadata.
func TestWhoKeepsTheBGPConfiguration(t *testing.T) {
	at := func(manager, fields string, minute int64) metav1.ManagedFieldsEntry {
		when := metav1.NewTime(time.Unix(60*minute, 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const mesh, other = `{"f:spec":{"f:nodeToNodeMeshEnabled":{}}}`, `{"f:spec":{"f:asNumber":{}}}`
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		managers            []metav1.ManagedFieldsEntry
		keeper, writer      string
	}{
		"nobody":          {labels: map[string]string{"a": "b"}, annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
		"Argo CD":         {annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x"}, keeper: "Argo CD: annotation argocd.argoproj.io/tracking-id"},
		"Flux":            {labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"}, keeper: "Flux: label kustomize.toolkit.fluxcd.io/name=x"},
		"Helm":            {labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, keeper: "Helm: label app.kubernetes.io/managed-by=Helm"},
		"a field manager": {managers: []metav1.ManagedFieldsEntry{at("argocd-controller", other, 1)}, keeper: "Argo CD: field manager argocd-controller"},
		"the last to write": {
			managers: []metav1.ManagedFieldsEntry{at("theirs", mesh, 3), at("manager", mesh, 2), at("late", other, 4)}, writer: "field manager theirs",
		},
	} {
		o := apiv3.NewBGPConfiguration()
		o.Labels, o.Annotations, o.ManagedFields = tc.labels, tc.annotations, tc.managers
		require.Equal(t, tc.keeper, keeperOf(o), name)
		require.Equal(t, tc.writer, writerOf(o), name)
	}
	b := newBench(t)
	b.giveConfig(func(o *apiv3.BGPConfiguration) { o.Labels = map[string]string{"argocd.argoproj.io/instance": "calico"} })
	c := b.run().observe()
	require.Equal(t, "Argo CD: label argocd.argoproj.io/instance=calico", c.BGP.ManagedBy)
	if inEtcd {
		return
	}
	b.patch(b.custom(apiv3.KindBGPConfiguration, defaultConfig), `{"spec":{"nodeToNodeMeshEnabled":true}}`)
	b.await("who has written the field", func(c plan.Cluster) bool { return strings.HasPrefix(c.BGP.MeshWriter, "field manager ") })
}
