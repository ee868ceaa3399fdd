package calico

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
)

// writtenAnnotation says when we last wrote a BGPPeer, in RFC 3339.
const writtenAnnotation = "rrpool.io/written"

// peerOf converts a BGPPeer.
func peerOf(o *apiv3.BGPPeer) plan.Peer {
	out := plan.Peer{
		Name: o.Name, Peering: peeringOf(o),
		Node: o.Spec.Node, NodeSelector: o.Spec.NodeSelector,
		PeerIP: o.Spec.PeerIP, PeerSelector: o.Spec.PeerSelector,
		ASN: uint32(o.Spec.ASNumber), LocalASN: uint32(ptr.Deref(o.Spec.LocalASNumber, 0)), Password: refOf(o.Spec.Password),
		MaxRestartTime: durationOf(o.Spec.MaxRestartTime), Extra: extraOf(o.Spec),
		Manual:    ptr.Deref(o.Spec.ReversePeering, "") == apiv3.ReversePeeringManual,
		Workloads: o.Spec.LocalWorkloadSelector != "",
		Filters:   o.Spec.Filters,
	}
	switch mode := o.Spec.NextHopMode; {
	case mode == nil:
		out.KeepNextHop = o.Spec.KeepOriginalNextHop // Calico ignores it where nextHopMode is set
	case string(*mode) != string(apiv3.NextHopModeAuto):
		out.KeepNextHop = string(*mode) == string(apiv3.NextHopModeKeep)
		out.SelfNextHop = !out.KeepNextHop
	}
	out.Extra += o.Annotations[unreadAnnotation]
	out.Owned = isOurs(o) && out.Peering == ""
	if isOurs(o) {
		out.Written = timeOf(o.Annotations[writtenAnnotation])
	}
	return out
}

// extraOf returns, as JSON, the fields of a spec that plan.Peer lacks, "" if there are none. Fields with Calico's default value do not count.
func extraOf(spec apiv3.BGPPeerSpec) string {
	spec.Node, spec.NodeSelector, spec.PeerIP, spec.PeerSelector = "", "", "", ""
	spec.ASNumber, spec.LocalASNumber, spec.MaxRestartTime, spec.Filters, spec.KeepOriginalNextHop = 0, nil, nil, nil, false
	if refOf(spec.Password) != nil && spec.Password.SecretKeyRef.Optional == nil {
		spec.Password = nil
	}
	if r := spec.ReversePeering; r != nil && (*r == apiv3.ReversePeeringAuto || *r == apiv3.ReversePeeringManual) {
		spec.ReversePeering = nil
	}
	if m := spec.NextHopMode; m != nil && string(*m) == string(apiv3.NextHopModeAuto) {
		spec.NextHopMode = nil
	}
	if spec.SourceAddress == apiv3.SourceAddressUseNodeIP {
		spec.SourceAddress = ""
	}
	out, _ := json.Marshal(spec) // texts and numbers can be rendered
	if string(out) == "{}" {
		return ""
	}
	return string(out)
}

// peerSpec returns the whole spec of a BGPPeer of ours.
func peerSpec(p plan.Peer) apiv3.BGPPeerSpec {
	spec := apiv3.BGPPeerSpec{
		Node: p.Node, NodeSelector: p.NodeSelector, PeerIP: p.PeerIP, PeerSelector: p.PeerSelector,
		ASNumber: numorstring.ASNumber(p.ASN), Password: passwordOf(p.Password), Filters: p.Filters, KeepOriginalNextHop: p.KeepNextHop,
	}
	if p.LocalASN != 0 {
		spec.LocalASNumber = ptr.To(numorstring.ASNumber(p.LocalASN))
	}
	if p.MaxRestartTime != nil {
		spec.MaxRestartTime = &metav1.Duration{Duration: *p.MaxRestartTime}
	}
	if p.Manual {
		spec.ReversePeering = ptr.To(apiv3.ReversePeeringManual)
	}
	return spec
}

// putPeer creates a BGPPeer of ours, or makes it equal to want.
func (a *Adapter) putPeer(ctx context.Context, want plan.Peer) (bool, error) {
	if want.Extra != "" {
		return false, fmt.Errorf("writing BGPPeer %q: fields that rrpool does not set: %s", want.Name, want.Extra)
	}
	var err error
	if want.Node, err = a.calicoName(ctx, want.Node); err != nil {
		return false, err
	}
	have, err := a.calico.peers.get(ctx, want.Name)
	switch {
	case apierrors.IsNotFound(err):
		have = apiv3.NewBGPPeer()
		have.Name, have.Labels = want.Name, labelsFor(want.Peering)
	case err != nil:
		return false, fmt.Errorf("reading BGPPeer %q: %w", want.Name, err)
	case !isOurs(have) || peeringOf(have) != want.Peering:
		return false, &NameTakenError{Kind: apiv3.KindBGPPeer, Name: want.Name}
	case plan.SamePeer(peerOf(have), want):
		a.store.put(have)
		return false, nil
	}
	have.Spec = peerSpec(want)
	metav1.SetMetaDataAnnotation(&have.ObjectMeta, writtenAnnotation, rfc3339(a.cfg.Now()))
	out, err := a.calico.peers.write(ctx, have)
	if err != nil {
		return false, err
	}
	a.store.put(out)
	return true, nil
}

// deletePeer deletes a BGPPeer of ours. If the BGPPeer of that name is not ours, it is left alone, and that is no error.
func (a *Adapter) deletePeer(ctx context.Context, name string) (bool, error) {
	have, err := a.calico.peers.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		a.store.forget(apiv3.KindBGPPeer, name)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading BGPPeer %q: %w", name, err)
	case !isOurs(have):
		a.store.put(have)
		return false, nil
	}
	return a.deleteVersion(ctx, have)
}

func refOf(p *apiv3.BGPPassword) *plan.SecretRef {
	if p == nil || p.SecretKeyRef == nil {
		return nil
	}
	return &plan.SecretRef{Name: p.SecretKeyRef.Name, Key: p.SecretKeyRef.Key}
}

func passwordOf(ref *plan.SecretRef) *apiv3.BGPPassword {
	if ref == nil {
		return nil
	}
	return &apiv3.BGPPassword{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key,
	}}
}

func durationOf(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}
