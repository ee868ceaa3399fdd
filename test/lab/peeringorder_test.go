//go:build linux

package lab_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
)

// asNumber is Calico's default. A peering by address must name it.
const asNumber = 64512

// peeringOrder keeps reflectors that share a cluster ID, some or all of them with workloads, in an order: every two have a BGPPeer on the
// earlier one's node with the later one's address. confd knows no cluster ID for an address, so the earlier one treats the later one as its
// client whether that is a reflector or not, and the later one, by the automatic reverse peering, is a plain peer. Neither side depends on
// the later one's role, so no session with an earlier one restarts when it changes, and every route to and from the later one stays with
// the earlier one meanwhile.
type peeringOrder struct {
	t        *testing.T
	l        *lab.Lab
	password *apiv3.BGPPassword
	order    []string
}

// clientsPeer makes every node without the role peer with every node that has it.
const clientsPeer = "clients"

// start allows reflectors. There are none yet.
func (s *peeringOrder) start() {
	s.t.Helper()
	s.create(clientsPeer, apiv3.BGPPeerSpec{NodeSelector: "!has(" + roleLabel + ")", PeerSelector: "has(" + roleLabel + ")"})
}

// found makes a node the first reflector. No other carries its routes, so its pods are cut off until its sessions are up. Were both sides
// to connect at once, 2 s after the write, the connection of one would look like a restart to the other, and their session would go down
// again, several times: 5–8 s were measured. So the reflector's side begins a second later, and only accepts.
func (s *peeringOrder) found(first string) {
	s.t.Helper()
	s.setReverse(apiv3.ReversePeeringManual)
	watch(s.t.Context(), time.Second)
	s.setRole(first, true)
	watch(s.t.Context(), 1200*time.Millisecond)
	s.setReverse(apiv3.ReversePeeringAuto)
	s.order = []string{first}
	s.settle()
}

// promote makes a client the last reflector: first all earlier ones get a peer for it, then one write changes it.
func (s *peeringOrder) promote(name string) {
	s.t.Helper()
	before := s.sessions(name)
	for _, one := range s.order {
		s.create(pairName(one, name), s.pair(one, name))
	}
	watch(s.t.Context(), 2*time.Second) // every confd must have seen the peers before it sees the role
	s.requireUntouched(before, name, "preparing")
	s.setRole(name, true)
	earlier := slices.Clone(s.order)
	s.order = append(s.order, name)
	s.settle()
	s.requireSame(before, name, earlier)
}

// promoteFirst makes a client without pods the first reflector. All its sessions restart, and no node needs them yet.
func (s *peeringOrder) promoteFirst(name string) {
	s.t.Helper()
	for _, one := range s.order {
		s.create(pairName(name, one), s.pair(name, one))
	}
	s.setRole(name, true)
	s.order = append([]string{name}, s.order...)
	s.settle()
}

// demote makes a reflector that is not the first a client: one write, then its peers go. Sessions with later ones restart, and those with
// earlier ones do not, which reflect between it and all others meanwhile.
func (s *peeringOrder) demote(name string) {
	s.t.Helper()
	before := s.sessions(name)
	place := slices.Index(s.order, name)
	earlier, later := slices.Clone(s.order[:place]), slices.Clone(s.order[place+1:])
	s.order = slices.Concat(earlier, later)
	s.setRole(name, false)
	s.settle()
	s.requireSame(before, name, earlier)
	left := s.sessions(name)
	for _, other := range s.order {
		s.remove(pairName(name, other))
	}
	watch(s.t.Context(), time.Second)
	s.requireUntouched(left, name, "cleaning up")
}

// requireUntouched demands that a node has the sessions that it had.
func (s *peeringOrder) requireUntouched(before map[string]lab.Session, of, by string) {
	s.t.Helper()
	after := s.sessions(of)
	require.Len(s.t, after, len(before), by)
	for key, was := range before {
		require.True(s.t, was == after[key] || was.Same(after[key]), "%s has changed %s: %+v, then %+v", by, key, was, after[key])
	}
}

// swap makes the second the first in one write, so that both sides see it at once. Their session restarts, and no other is earlier than both.
func (s *peeringOrder) swap() {
	s.t.Helper()
	name := pairName(s.order[0], s.order[1])
	peer, err := s.l.Calico().BGPPeers().Get(s.t.Context(), name, options.GetOptions{})
	require.NoError(s.t, err)
	s.order[0], s.order[1] = s.order[1], s.order[0]
	peer.Spec = s.pair(s.order[0], s.order[1])
	peer.Spec.Password = s.password
	_, err = s.l.Calico().BGPPeers().Update(s.t.Context(), peer, options.SetOptions{})
	require.NoError(s.t, err)
	s.settle()
}

func (s *peeringOrder) setReverse(mode apiv3.ReversePeering) {
	s.t.Helper()
	peer, err := s.l.Calico().BGPPeers().Get(s.t.Context(), clientsPeer, options.GetOptions{})
	require.NoError(s.t, err)
	peer.Spec.ReversePeering = &mode
	_, err = s.l.Calico().BGPPeers().Update(s.t.Context(), peer, options.SetOptions{})
	require.NoError(s.t, err)
}

// settle waits for what the last write has begun, and until every session with a reflector is up.
func (s *peeringOrder) settle() {
	s.t.Helper()
	watch(s.t.Context(), time.Second)
	require.NoError(s.t, s.l.WaitReflected(s.t.Context(), s.order...))
	watch(s.t.Context(), time.Second)
}

func (s *peeringOrder) setRole(name string, on bool) {
	s.t.Helper()
	label, id := "null", "null"
	if on {
		label, id = `""`, fmt.Sprintf("%q", clusterID)
	}
	patchRole(s.t, s.l, name, label, id)
}

func (s *peeringOrder) pair(earlier, later string) apiv3.BGPPeerSpec {
	return apiv3.BGPPeerSpec{Node: earlier, PeerIP: s.l.Address(later).String(), ASNumber: asNumber}
}

// pairName is the same for both orders, so that one write swaps them.
func pairName(a, b string) string { return "pair-" + min(a, b) + "-" + max(a, b) }

func (s *peeringOrder) create(name string, spec apiv3.BGPPeerSpec) {
	s.t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name, peer.Spec = name, spec
	peer.Spec.Password = s.password
	_, err := s.l.Calico().BGPPeers().Create(s.t.Context(), peer, options.SetOptions{})
	require.NoError(s.t, err)
}

func (s *peeringOrder) remove(name string) {
	s.t.Helper()
	_, err := s.l.Calico().BGPPeers().Delete(s.t.Context(), name, options.DeleteOptions{})
	require.NoError(s.t, err)
}

// sessions are those of a node, keyed by "on→with", from both sides.
func (s *peeringOrder) sessions(of string) map[string]lab.Session {
	s.t.Helper()
	all := map[string]lab.Session{}
	for _, on := range s.l.Nodes() {
		sessions, err := s.l.Sessions(on)
		require.NoError(s.t, err)
		for _, session := range sessions {
			if on == of || session.Peer == s.l.Address(of) {
				all[on+"→"+session.Peer.String()] = session
			}
		}
	}
	return all
}

// requireSame is the strongest proof there is: the sessions that carry everything have not restarted, on either side.
func (s *peeringOrder) requireSame(before map[string]lab.Session, of string, with []string) {
	s.t.Helper()
	require.NotEmpty(s.t, with, "no reflector is earlier than %s", of)
	after := s.sessions(of)
	for _, other := range with {
		for _, key := range []string{of + "→" + s.l.Address(other).String(), other + "→" + s.l.Address(of).String()} {
			require.True(s.t, before[key].Established() && strings.HasPrefix(before[key].Name, "Node_"), "%s: %+v", key, before[key])
			require.True(s.t, before[key].Same(after[key]), "%s has restarted: %+v, then %+v", key, before[key], after[key])
		}
	}
}
