//go:build linux

package lab_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/lab"
)

const (
	// agreeWithin is how long sessions may take to restart, which BIRD may try in vain a few times, and routes to spread.
	agreeWithin = time.Minute
	// agreeFor is how long the lab must stay as it should be: longer than what is under way needs.
	agreeFor = 2 * time.Second
)

// The simulator knows what BIRD does with a configuration: it and the lab have the same sessions, and on every node the same number of
// paths to every prefix, from the same neighbours, before and after reflectors are killed.
func TestTheSimulatorAgreesWithBIRD(t *testing.T) {
	lab.SkipLong(t)
	agreeOn(t, configurations())
}

// A sample of it, for every day: one reflector of three, and a spine and a reflector of a rack are lost.
func TestTheSimulatorAgreesWithBIRDOnASample(t *testing.T) {
	agreeOn(t, []configuration{multiCluster3(), hierarchy2x3()})
}

func agreeOn(t *testing.T, configurations []configuration) {
	specs := topologyNodes()
	l := start(t, lab.Options{ProbeInterval: time.Second}, specs...)
	w := &writer{t: t, l: l, specs: specs}
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			w.configure(c)
			network := w.simulate(c, "")
			w.requireAgreement(network)
			inTheLab, err := measured(l)
			require.NoError(t, err)
			require.Contains(t, disagreement(inTheLab, simulated(w.simulate(c, c.control), w.names())), "lab and simulator disagree", "the control")
			for _, name := range c.kill {
				require.NoError(t, l.KillBIRD(name))
			}
			defer w.revive(c.kill)
			w.requireAgreement(network.Without(c.kill...), c.kill...)
		})
	}
}

// requireAgreement waits until lab and simulator agree, and stay so for a while.
func (w *writer) requireAgreement(n *simulate.Network, down ...string) {
	w.t.Helper()
	want := simulated(n, w.names(), down...)
	ctx, cancel := context.WithTimeout(w.t.Context(), agreeWithin)
	defer cancel()
	began := time.Now()
	agreed := time.Time{}
	for {
		got, err := measured(w.l, down...)
		require.NoError(w.t, err)
		switch problem := disagreement(got, want); {
		case problem != "" && ctx.Err() != nil:
			require.Fail(w.t, problem)
		case problem != "":
			agreed = time.Time{}
		case agreed.IsZero():
			agreed = time.Now()
		case time.Since(agreed) > agreeFor:
			w.t.Logf("agreed after %s\n%s", agreed.Sub(began).Round(100*time.Millisecond), got)
			return
		}
		watch(w.t.Context(), 200*time.Millisecond)
	}
}

// simulate makes the simulator's network of a configuration, without one of its BGPPeers.
func (w *writer) simulate(c configuration, without string) *simulate.Network {
	w.t.Helper()
	off := false
	bgp := plan.BGPConfig{Exists: true, ASN: asNumber}
	if !c.mesh {
		bgp.Mesh.Enabled = &off
	}
	var nodes []plan.Node
	for _, spec := range w.specs {
		s := c.seats[spec.Name]
		nodes = append(nodes, plan.Node{
			Name: spec.Name, Ready: true, Addresses: w.addresses(spec.Name), Labels: map[string]string{zone: spec.Zone}, Zone: spec.Zone,
			RoleLabel: s.name != "", Seat: s.name, ClusterID: s.clusterID, Rack: c.racks[spec.Name],
		})
	}
	peers := slices.DeleteFunc(w.resolved(c.peers), func(p plan.Peer) bool { return p.Name == without })
	return simulate.NewConfiguration(roleLabel, nodes, bgp, peers).Network(func(string) bool { return true })
}
