//go:build linux

package chaos_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
)

// class is what a fault may cost.
type class int

const (
	// free, as is what says nothing: no pair of pods may lose anything.
	_ class = iota
	// cuts: the node that it happens to is off the network, and its pods with it. No other may lose anything.
	cuts
	// costs: a person takes away what all nodes depend on. That cannot be prevented; what counts is how soon it is repaired.
	costs
)

func (c class) String() string { return [...]string{"free", "cuts a node off", "costs all nodes"}[c] }

// target is what a fault happens to.
type target int

const (
	noNode target = iota
	aReflector
	aClient
)

// fault is a kind of disturbance: a cause of loss, in the report.
type fault struct {
	name  string
	class class
	on    target
	// bound is how long a pair may be out of reach at most, when it costs all nodes.
	bound time.Duration
	// grave: it happens more rarely, and never together with another one. net: the mesh takes over, and stays for five
	// minutes after the reflectors are back; it needs a long run.
	grave, net bool
	// early: it may happen to a cluster that is on its way to reflectors, or back, as well.
	early bool
	// least and most is how long it lasts.
	least, most time.Duration
	// again is how often it is done while it lasts, when it is done more than once.
	again time.Duration
	// begin and end may be called again when they fail, because the apiserver is away.
	begin, end func(ctx context.Context, s *chaosRun, node string) error
}

// faults are all that can happen. What a person does is in hostile_test.go.
var faults = append([]*fault{
	{name: "reflector: BIRD is killed", on: aReflector, least: 2 * time.Second, most: 12 * time.Second, begin: killBird, end: startBird},
	{name: "reflector: BIRD shuts down", on: aReflector, least: 2 * time.Second, most: 12 * time.Second, begin: stopBird, end: startBird},
	{name: "reflector: link is cut", on: aReflector, least: 3 * time.Second, most: 15 * time.Second, begin: cut, end: restore},
	{name: "reflector: link is cut, and it is Unknown", on: aReflector, least: 3 * time.Second, most: 15 * time.Second, begin: cutAndNoticed, end: restore},
	{name: "reflector: host reboots", on: aReflector, least: 3 * time.Second, most: 12 * time.Second, begin: shutDown, end: powerOn},
	{name: "reflector: machine is destroyed", on: aReflector, begin: destroy},
	{name: "reflector: worker is replaced in the cloud", on: aReflector, begin: replace},
	{name: "reflector: confd and reporter hang", on: aReflector, least: 5 * time.Second, most: 20 * time.Second, begin: pauseAgent, end: resumeAgent},
	{name: "reflector: confd and reporter are down", on: aReflector, least: 5 * time.Second, most: 20 * time.Second, begin: stopAgent, end: startAgent},

	{name: "client: BIRD is killed", class: cuts, on: aClient, early: true, least: 2 * time.Second, most: 12 * time.Second, begin: killBird, end: startBird},
	{name: "client: BIRD shuts down", class: cuts, on: aClient, least: 2 * time.Second, most: 8 * time.Second, begin: stopBird, end: startBird},
	{name: "client: link is cut", class: cuts, on: aClient, early: true, least: 2 * time.Second, most: 10 * time.Second, begin: cut, end: restore},
	{name: "client: host reboots", class: cuts, on: aClient, least: 2 * time.Second, most: 8 * time.Second, begin: shutDown, end: powerOn},
	{name: "client: confd and reporter hang", on: aClient, early: true, least: 5 * time.Second, most: 20 * time.Second, begin: pauseAgent, end: resumeAgent},
	{name: "client: confd and reporter are down", on: aClient, early: true, least: 5 * time.Second, most: 20 * time.Second, begin: stopAgent, end: startAgent},

	{name: "apiserver is killed", early: true, least: time.Second, most: 6 * time.Second, begin: killAPI, end: startAPI},
	{name: "etcd hangs", early: true, least: 2 * time.Second, most: 8 * time.Second, begin: pauseEtcd, end: resumeEtcd},
	{name: "manager is killed", early: true, most: 10 * time.Second, begin: killManager, end: startManager},
	{name: "cloud answers 503", early: true, least: 5 * time.Second, most: 20 * time.Second, begin: cloudDown, end: cloudUp},
	{name: "cloud does not answer", early: true, least: 5 * time.Second, most: 20 * time.Second, begin: cloudHangs, end: cloudUp},
}, hostile...)

func killBird(_ context.Context, s *chaosRun, node string) error { return s.Lab.KillBIRD(node) }
func stopBird(_ context.Context, s *chaosRun, node string) error { return s.Lab.StopBIRD(node) }

func startBird(ctx context.Context, s *chaosRun, node string) error {
	return s.Lab.StartBIRD(ctx, node)
}

func pauseAgent(_ context.Context, s *chaosRun, node string) error { return s.Lab.PauseAgent(node) }

func resumeAgent(_ context.Context, s *chaosRun, node string) error { return s.Lab.ResumeAgent(node) }
func stopAgent(_ context.Context, s *chaosRun, node string) error   { return s.Lab.StopAgent(node) }
func startAgent(_ context.Context, s *chaosRun, node string) error  { return s.Lab.StartAgent(node) }
func cut(_ context.Context, s *chaosRun, node string) error         { return s.Lab.CutLink(node) }
func shutDown(ctx context.Context, s *chaosRun, node string) error  { return s.Lab.Shutdown(ctx, node) }

func powerOn(ctx context.Context, s *chaosRun, node string) error { return s.Lab.PowerOn(ctx, node) }

func killAPI(_ context.Context, s *chaosRun, _ string) error {
	s.Lab.ControlPlane().KillAPIServer()
	return nil
}

// startAPI takes as long as it takes: one that was given up half-way would hold the port of the next.
func startAPI(_ context.Context, s *chaosRun, _ string) error {
	s.Lab.ControlPlane().KillAPIServer()
	return s.Lab.ControlPlane().StartAPIServer(s.ctx)
}

func pauseEtcd(_ context.Context, s *chaosRun, _ string) error {
	return s.Lab.ControlPlane().PauseEtcd()
}

func resumeEtcd(_ context.Context, s *chaosRun, _ string) error {
	return s.Lab.ControlPlane().ResumeEtcd()
}
func killManager(_ context.Context, s *chaosRun, _ string) error  { return s.keeper.kill() }
func startManager(_ context.Context, s *chaosRun, _ string) error { return s.keeper.start() }
func cloudDown(_ context.Context, s *chaosRun, _ string) error {
	s.Cloud.Inject(iksserver.Fault{Status: 503})
	return nil
}

func cloudHangs(_ context.Context, s *chaosRun, _ string) error {
	s.Cloud.Inject(iksserver.Fault{Hang: true})
	return nil
}
func cloudUp(_ context.Context, s *chaosRun, _ string) error { s.Cloud.ClearFaults(); return nil }

// cutAndNoticed: the node controller takes 40 s for that; here it happens at once.
func cutAndNoticed(ctx context.Context, s *chaosRun, node string) error {
	if err := s.Lab.CutLink(node); err != nil {
		return err
	}
	return s.Lab.SetUnknown(ctx, node)
}

// restore: a node that was replaced meanwhile is gone.
func restore(ctx context.Context, s *chaosRun, node string) error {
	if s.gone(node) {
		return nil
	}
	if err := s.Lab.RestoreLink(node); err != nil {
		return err
	}
	return s.Lab.SetReady(ctx, node, true)
}

// destroy: the machine is dead and does not come back, and the cloud says so. Only the manager can have it replaced.
func destroy(ctx context.Context, s *chaosRun, node string) error {
	if s.gone(node) {
		return nil
	}
	if err := s.Lab.Crash(node); err != nil {
		return err
	}
	for _, w := range s.Cloud.Workers(site.ClusterID, site.PoolName) {
		if w.IP == node {
			s.Cloud.Break(site.ClusterID, w.ID, "deploy_failed", "critical", "The machine is gone")
		}
	}
	return s.Lab.SetUnknown(ctx, node)
}

// replace: as with ibmcloud ks worker replace.
func replace(_ context.Context, s *chaosRun, node string) error {
	for _, w := range s.Cloud.Workers(site.ClusterID, site.PoolName) {
		if w.IP == node {
			s.Cloud.ReplaceWorker(site.ClusterID, w.ID)
		}
	}
	return nil
}

// planned is one fault as it is drawn. Its node is chosen when it happens: nodes come and go.
type planned struct {
	fault *fault
	// pick chooses among the nodes that it may happen to.
	pick uint64
	// after is the time since the one before it, at least; hold is how long it lasts.
	after, hold time.Duration
}

// part is a part of a run, with a script of its own.
type part uint64

const (
	there part = iota + 1
	onReflectors
	back
)

// perGrave is how many ordinary faults happen between two grave ones.
const perGrave = 5

// draw writes the script of a part: the same seed gives the same faults. All of a kind happen before any happens again.
func draw(seed uint64, p part, n int) []planned {
	random := rand.New(rand.NewPCG(seed, uint64(p)))
	ordinary, grave := deck{random: random}, deck{random: random}
	for _, f := range faults {
		switch {
		case p != onReflectors && !f.early:
		case f.grave:
			grave.all = append(grave.all, f)
		default:
			ordinary.all = append(ordinary.all, f)
		}
	}
	script := make([]planned, n)
	for i := range script {
		from := &ordinary
		if len(grave.all) > 0 && i%(perGrave+1) == perGrave {
			from = &grave
		}
		f := from.take()
		script[i] = planned{
			fault: f, pick: random.Uint64(),
			after: between(random, time.Second, 7*time.Second), hold: between(random, f.least, f.most),
		}
	}
	return script
}

// deck gives out all its cards in a random order before it is shuffled again.
type deck struct {
	random    *rand.Rand
	all, left []*fault
}

func (d *deck) take() *fault {
	if len(d.left) == 0 {
		d.left = append(d.left, d.all...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// between is a random time, in tenths of a second.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return least + time.Duration(random.Int64N(int64((most-least)/unit)+1))*unit
}

func TestTheSameSeedIsTheSameChaos(t *testing.T) {
	const faultCount = 200
	for _, p := range []part{there, onReflectors, back} {
		script := draw(7, p, faultCount)
		require.Equal(t, script, draw(7, p, faultCount))
		require.NotEqual(t, script, draw(8, p, faultCount))
		seen := map[string]bool{}
		for _, b := range script {
			require.True(t, p == onReflectors || b.fault.early, b.fault.name)
			require.True(t, b.hold >= b.fault.least && b.hold <= b.fault.most, b.fault.name)
			seen[b.fault.name] = true
		}
		for _, f := range faults {
			require.Equal(t, p == onReflectors || f.early, seen[f.name], f.name)
		}
	}
}
