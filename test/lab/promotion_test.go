//go:build linux

package lab_test

import (
	"slices"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// What reflectors with workloads cost: every node but one has pods, and every pair is probed, reflectors included.
// A step is a phase of the report.
func TestNodesWithWorkloadsBecomeReflectorsAndStop(t *testing.T) {
	lab.SkipLong(t)
	const first, second, third, fourth, fifth, idle = "worker-0", "worker-1", "worker-2", "worker-3", "worker-4", "idle"
	l := start(t, lab.Options{MeshPassword: "correct-horse"}, append(lab.Workers(6), lab.NodeSpec{Name: idle, Zone: "zone-1"})...)
	s := &peeringOrder{t: t, l: l, password: lab.PasswordRef()}
	s.start()
	requireZero := func(t *testing.T, phase probe.Report) { t.Helper(); require.NoError(t, phase.ZeroLoss()) }

	for _, step := range []struct {
		name   string
		do     func()
		demand func(*testing.T, probe.Report)
	}{
		{"the first reflector costs its own pairs seconds", func() { s.found(first) }, costs(10, time.Second, 5*time.Second, first)},
		{"control: plain peers between reflectors", func() { s.controlPlainPeers(second) }, costs(10, time.Second, time.Minute, second)},
		{"the third, with the mesh, leans on both", func() { s.promote(third) }, requireZero},
		{"the mesh goes", func() { s.setMesh(false) }, requireZero},
		{"control: nothing is prepared", func() { s.controlUnprepared(fourth) }, costs(10, time.Second, time.Minute, fourth)},
		{"the first and the second swap, with no other earlier than both", s.swap, costs(2, time.Second, 15*time.Second, first)},
		{"the one that was first stops", func() { s.demote(first) }, requireZero},
		{"an idle node becomes the first", func() { s.promoteFirst(idle) }, requireZero},
		{"the second, now the first of two, stops, without the mesh", func() { s.demote(second) }, requireZero},
		{"the fifth, without the mesh", func() { s.promote(fifth) }, requireZero},
		{"the fifth, the youngest, stops, without the mesh", func() { s.demote(fifth) }, requireZero},
		{"the mesh returns", func() { s.setMesh(true) }, requireZero},
		{"the third, before the fourth, stops, with the mesh", func() { s.demote(third) }, requireZero},
		{"the fourth, the youngest, stops, with the mesh", func() { s.demote(fourth) }, requireZero},
		{"the last, which is idle, stops", func() { s.disband(idle) }, requireZero},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			s.t = t
			l.Checkpoint(step.name)
			step.do()
			step.demand(t, l.Report().Phase(step.name))
		}) {
			break
		}
	}
	t.Log("\n" + l.Report().String())
}

// costs demands that exactly so many pairs, all of them of one node, lose packets, the worst for at least and at most so long, and all
// for at least half as long.
func costs(pairs int, least, most time.Duration, node string) func(*testing.T, probe.Report) {
	return func(t *testing.T, phase probe.Report) {
		t.Helper()
		require.NoError(t, phase.Without(node).ZeroLoss())
		lossy := phase.Lossy()
		for _, pair := range lossy {
			t.Log(pair)
		}
		require.Len(t, lossy, pairs)
		require.Greater(t, lossy[pairs-1].Longest().Duration(), least/2)
		require.Greater(t, phase.LongestOutage(), least)
		require.Less(t, phase.LongestOutage(), most)
	}
}

// controlPlainPeers promotes with the peers that a group of dedicated reflectors has, where both sides depend on the role, and mends it.
// That the sessions restart shows as well that requireSame would notice.
func (s *peeringOrder) controlPlainPeers(name string) {
	s.t.Helper()
	s.create("plain", apiv3.BGPPeerSpec{NodeSelector: "has(" + roleLabel + ")", PeerSelector: "has(" + roleLabel + ")"})
	before := s.sessions(name)
	s.setRole(name, true)
	earlier := slices.Clone(s.order)
	s.order = append(s.order, name)
	s.settle()
	after := s.sessions(name)
	for _, one := range earlier {
		key := one + "→" + s.l.Address(name).String()
		require.True(s.t, before[key].Established() && after[key].Established(), key)
		require.False(s.t, before[key].Same(after[key]), key)
	}
	s.remove("plain")
	for _, one := range earlier {
		s.create(pairName(one, name), s.pair(one, name))
	}
	s.settle()
}

// controlUnprepared writes the role before the peers.
func (s *peeringOrder) controlUnprepared(name string) {
	s.t.Helper()
	s.setRole(name, true)
	watch(s.t.Context(), time.Second)
	for _, one := range s.order {
		s.create(pairName(one, name), s.pair(one, name))
	}
	s.order = append(s.order, name)
	s.settle()
}

func (s *peeringOrder) setMesh(on bool) {
	s.t.Helper()
	setMesh(s.t, s.l, on, s.password)
	watch(s.t.Context(), time.Second)
	if on {
		require.Eventually(s.t, s.meshIsUp, patience, 100*time.Millisecond)
	}
	watch(s.t.Context(), time.Second)
}

// meshIsUp reports whether every two nodes that are not reflectors have their mesh session.
func (s *peeringOrder) meshIsUp() bool {
	clients := 0
	established := 0
	for _, name := range s.l.Nodes() {
		if slices.Contains(s.order, name) {
			continue
		}
		clients++
		sessions, err := s.l.Sessions(name)
		if err != nil {
			return false
		}
		for _, session := range sessions {
			if session.Mesh() && session.Established() {
				established++
			}
		}
	}
	return established == clients*(clients-1)
}

// disband takes the role from the last reflector, once the mesh is up.
func (s *peeringOrder) disband(last string) {
	s.t.Helper()
	require.Equal(s.t, []string{last}, s.order)
	s.setRole(last, false)
	s.order = nil
	require.NoError(s.t, s.l.WaitMesh(s.t.Context()))
}
