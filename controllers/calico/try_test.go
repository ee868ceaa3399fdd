package calico

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/rrpool/rrpool/controllers/plan"
)

// What the apiserver would not take is known without a write.
func TestWhatWouldBeRefusedIsKnownBeforeItIsWritten(t *testing.T) {
	onlyV1(t)
	b := newBench(t)
	b.node("10.0.0.1", nil)
	b.run()
	peer := func(as uint32) plan.PutPeer {
		return plan.PutPeer{Peer: plan.Peer{Name: "rrpool-a", Node: "10.0.0.1", PeerIP: "10.0.0.2", ASN: as}}
	}
	for _, action := range []plan.Action{peer(64512), peer(2147483647), plan.DisableMesh{SavedAbsent: true}, plan.SetReflector{Node: "10.0.0.1", ClusterID: "244.0.0.1", StandIn: true}} {
		require.NoError(t, b.Try(t.Context(), scope, action), action)
	}
	err := b.Try(t.Context(), scope, peer(2147483648))
	require.ErrorContains(t, err, "asNumber")
	require.True(t, Refuses(err), err)
	seen, err := b.Observe(t.Context(), scope)
	require.NoError(t, err)
	require.Empty(t, seen.Peers)
	require.False(t, seen.BGP.Exists)
	require.Empty(t, seen.Nodes[0].ClusterID)
	_, err = b.calico.peers.get(t.Context(), "rrpool-a")
	require.True(t, apierrors.IsNotFound(err), "nothing was written")
}

// A trial deletes nothing either: to announce no services gives a BGPConfiguration back that is there for them alone.
func TestATrialDeletesNothing(t *testing.T) {
	onlyV1(t)
	b := newBench(t)
	b.run()
	b.apply(plan.AnnounceServices{CIDRs: cidrs("10.96.0.0/16")}, true)
	require.NoError(t, b.Try(t.Context(), scope, plan.AnnounceServices{}))
	b.apply(plan.AnnounceServices{}, true) // it was still there
	b.apply(plan.AnnounceServices{}, false)
}

// So is what a policy of the cluster would refuse.
func TestWhatAPolicyWouldRefuseIsKnownAsWell(t *testing.T) {
	onlyV1(t)
	b := newBench(t)
	b.run()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-peers"}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group.Group}, APIVersions: []string{"*"}, Resources: []string{"bgppeers"}},
		},
	}}}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "!object.metadata.name.startsWith('rrpool-')", Message: "no peers by machines"}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = policy.Name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	require.NoError(t, b.kube.Create(t.Context(), policy))
	require.NoError(t, b.kube.Create(t.Context(), binding))
	t.Cleanup(func() {
		require.NoError(t, b.kube.Delete(context.Background(), binding))
		require.NoError(t, b.kube.Delete(context.Background(), policy))
	})
	var err error
	require.Eventually(t, func() bool { // the apiserver takes a moment to learn of it
		err = b.Try(t.Context(), scope, plan.PutPeer{Peer: plan.Peer{Name: "rrpool-a", PeerSelector: "all()"}})
		return err != nil
	}, 2*time.Minute, 50*time.Millisecond)
	require.ErrorContains(t, err, "no peers by machines")
	require.True(t, Refuses(err), err)
}

func TestWhoMayNotAskIsNotRefused(t *testing.T) {
	peers := schema.GroupResource{Group: "crd.projectcalico.org", Resource: "bgppeers"}
	require.False(t, Refuses(apierrors.NewForbidden(peers, "a", userError(`User "u" cannot create resource "bgppeers" in API group "crd.projectcalico.org" at the cluster scope`))))
	require.False(t, Refuses(fmt.Errorf("creating it: %w", apierrors.NewForbidden(peers, "", userError(`User "cannot \"do\"" cannot list resource "bgppeers"`)))))
	for _, denial := range []string{
		"admission webhook denied the request",
		`admission webhook "validate.kyverno.svc-fail" denied the request: BGPPeers cannot be created by service accounts`,
		`admission webhook "w" denied the request: secrets "a" is forbidden: User "w" cannot get resource "secrets"`,
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: User "u" cannot create BGPPeers`,
	} {
		require.True(t, Refuses(apierrors.NewForbidden(peers, "a", userError(denial))), denial)
		webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: denial}}
		require.True(t, Refuses(webhook), denial)
	}
	dry := fmt.Errorf("creating it: %w", webhookerrors.NewDryRunUnsupportedErr("w"))
	require.True(t, Untriable(dry))
	require.False(t, Refuses(dry))
	bad := apierrors.NewBadRequest(`strict decoding error: unknown field "spec.x"`)
	require.True(t, Refuses(bad) && !Untriable(bad))
	require.False(t, Refuses(apierrors.NewConflict(peers, "a", userError("changed"))))
	require.False(t, Refuses(apierrors.NewInternalError(userError("failed calling webhook"))))
	require.False(t, Refuses(nil))
}

type userError string

func (e userError) Error() string { return string(e) }
