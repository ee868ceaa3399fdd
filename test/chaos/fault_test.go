//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	calicoerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

type target int

const (
	noNode target = iota
	aReflector
	aClient
)

type fault struct {
	name string
	on   target
	// cuts: the node that it happens to is off the network, and its pods with it. No other may lose anything.
	cuts bool
	// bound is how long a pair may be out of reach at most, when a person takes away what all nodes depend on. That cannot be prevented;
	// what counts is how soon it is repaired. Else no pair may lose anything.
	bound time.Duration
	// grave: it happens more rarely, and never together with another one.
	grave bool
	// early: it may happen to a cluster that is on its way to reflectors, or back, as well.
	early bool
	// least and most is how long it lasts.
	least, most time.Duration
	// again is how often it is done while it lasts, when it is done more than once.
	again      time.Duration
	begin, end deed
}

// faults are all that can happen. What a person does is hostile.
var faults = append([]*fault{
	{name: "reflector: BIRD is killed", on: aReflector, least: 2 * time.Second, most: 12 * time.Second, begin: host((*lab.Lab).KillBIRD), end: hostAndAPI((*lab.Lab).StartBIRD)},
	{name: "reflector: BIRD shuts down", on: aReflector, least: 2 * time.Second, most: 12 * time.Second, begin: host((*lab.Lab).StopBIRD), end: hostAndAPI((*lab.Lab).StartBIRD)},
	{name: "reflector: link is cut", on: aReflector, least: 3 * time.Second, most: 15 * time.Second, begin: host((*lab.Lab).CutLink), end: restore},
	{name: "reflector: link is cut, and it is Unknown", on: aReflector, least: 3 * time.Second, most: 15 * time.Second, begin: cutAndNoticed, end: restore},
	{name: "reflector: host reboots", on: aReflector, least: 3 * time.Second, most: 12 * time.Second, begin: hostAndAPI((*lab.Lab).Shutdown), end: hostAndAPI((*lab.Lab).PowerOn)},
	{name: "reflector: machine is destroyed", on: aReflector, begin: destroy},
	{name: "reflector: worker is replaced in the cloud", on: aReflector, begin: replace},
	{name: "reflector: confd and reporter hang", on: aReflector, least: 5 * time.Second, most: 20 * time.Second, begin: host((*lab.Lab).PauseAgent), end: host((*lab.Lab).ResumeAgent)},

	{name: "client: BIRD is killed", cuts: true, on: aClient, early: true, least: 2 * time.Second, most: 12 * time.Second, begin: host((*lab.Lab).KillBIRD), end: hostAndAPI((*lab.Lab).StartBIRD)},
	{name: "client: BIRD shuts down", cuts: true, on: aClient, least: 2 * time.Second, most: 8 * time.Second, begin: host((*lab.Lab).StopBIRD), end: hostAndAPI((*lab.Lab).StartBIRD)},
	{name: "client: link is cut", cuts: true, on: aClient, early: true, least: 2 * time.Second, most: 10 * time.Second, begin: host((*lab.Lab).CutLink), end: restore},
	{name: "client: host reboots", cuts: true, on: aClient, least: 2 * time.Second, most: 8 * time.Second, begin: hostAndAPI((*lab.Lab).Shutdown), end: hostAndAPI((*lab.Lab).PowerOn)},
	{name: "client: confd and reporter hang", on: aClient, early: true, least: 5 * time.Second, most: 20 * time.Second, begin: host((*lab.Lab).PauseAgent), end: host((*lab.Lab).ResumeAgent)},

	{name: "apiserver is killed", early: true, least: time.Second, most: 6 * time.Second, begin: killAPI, end: startAPI},
	{name: "etcd hangs", early: true, least: 2 * time.Second, most: 8 * time.Second, begin: plane((*controlplane.ControlPlane).PauseEtcd), end: plane((*controlplane.ControlPlane).ResumeEtcd)},
	{name: "manager is killed", early: true, most: 10 * time.Second, begin: manager((*keeper).kill), end: manager((*keeper).start)},
	{name: "cloud answers 503", early: true, least: 5 * time.Second, most: 20 * time.Second, begin: cloudFault(iksserver.Fault{Status: 503}), end: cloudUp},
	{name: "cloud does not answer", early: true, least: 5 * time.Second, most: 20 * time.Second, begin: cloudFault(iksserver.Fault{Hang: true}), end: cloudUp},
}, hostile...)

// deed is what begins or ends a fault. It may be done again when it fails, because the apiserver is away.
type deed func(ctx context.Context, s *chaosRun, node string) error

func host(do func(*lab.Lab, string) error) deed {
	return func(_ context.Context, s *chaosRun, node string) error { return do(s.Lab, node) }
}

func hostAndAPI(do func(*lab.Lab, context.Context, string) error) deed {
	return func(ctx context.Context, s *chaosRun, node string) error { return do(s.Lab, ctx, node) }
}

func plane(do func(*controlplane.ControlPlane) error) deed {
	return func(_ context.Context, s *chaosRun, _ string) error { return do(s.Lab.ControlPlane()) }
}

func manager(do func(*keeper) error) deed {
	return func(_ context.Context, s *chaosRun, _ string) error { return do(s.keeper) }
}

func cloudFault(f iksserver.Fault) deed {
	return func(_ context.Context, s *chaosRun, _ string) error {
		s.Cloud.Inject(f)
		return nil
	}
}

func cloudUp(_ context.Context, s *chaosRun, _ string) error { s.Cloud.ClearFaults(); return nil }

func killAPI(_ context.Context, s *chaosRun, _ string) error {
	s.Lab.ControlPlane().KillAPIServer()
	return nil
}

// startAPI takes as long as it takes: one that was given up half-way would hold the port of the next.
func startAPI(_ context.Context, s *chaosRun, _ string) error {
	s.Lab.ControlPlane().KillAPIServer()
	return s.Lab.ControlPlane().StartAPIServer(s.ctx)
}

// cutAndNoticed: the node controller takes 40 s for that; here it happens at once.
func cutAndNoticed(ctx context.Context, s *chaosRun, node string) error {
	if err := s.Lab.CutLink(node); err != nil {
		return err
	}
	return s.Lab.SetReady(ctx, node, corev1.ConditionUnknown)
}

// restore: a node that was replaced meanwhile is gone.
func restore(ctx context.Context, s *chaosRun, node string) error {
	if s.gone(node) {
		return nil
	}
	if err := s.Lab.RestoreLink(node); err != nil {
		return err
	}
	return s.Lab.SetReady(ctx, node, corev1.ConditionTrue)
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
	return s.Lab.SetReady(ctx, node, corev1.ConditionUnknown)
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

// What a person does that decides what can be as it was in the end.
const (
	notesLost      = "a person removes our notes from the BGPConfiguration"
	meshSwitchedOn = "a person switches the mesh on"
)

// hostile is what a second controller does, or a person who does not know better: to what is ours, and again whenever it is put right.
var hostile = []*fault{
	{
		name: "a person removes a reflector's label", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":null}}}`),
	},
	{
		name: "a person removes a reflector's cluster ID", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`),
	},
	{
		name: "a person changes a reflector's cluster ID", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":"244.9.9.9"}}}`),
	},
	{
		name: "a person takes a reflector's whole role", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":null},` +
			`"annotations":{"projectcalico.org/RouteReflectorClusterID":null,"rrpool.io/reflector-since":null}}}`),
	},
	{name: "a person cordons a reflector", on: aReflector, least: 5 * time.Second, most: 30 * time.Second, begin: hostAndAPI((*lab.Lab).Cordon), end: uncordon},
	{name: "a person labels a client as a reflector", on: aClient, most: 6 * time.Second, again: 2 * time.Second, begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":""}}}`)},
	{name: meshSwitchedOn, most: 6 * time.Second, again: 2 * time.Second, begin: meshOn},
	{name: "a person edits rrpool-reflectors", most: 6 * time.Second, again: 2 * time.Second, begin: editPeer("rrpool-reflectors", "has(nothing)")},
	{name: "a person deletes rrpool-reflectors", most: 6 * time.Second, again: 2 * time.Second, begin: deletePeer("rrpool-reflectors")},
	{name: "a person deletes our CalicoNodeStatuses", most: 6 * time.Second, again: 2 * time.Second, begin: deleteStatuses},

	{name: notesLost, grave: true, begin: removeNotes},
	{
		name: "a person gives a client a cluster ID", cuts: true, on: aClient, grave: true, least: 2 * time.Second, most: 8 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":"244.0.0.1"}}}`),
		end:   patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`),
	},
	{name: "a person deletes rrpool-clients", bound: 10 * time.Second, grave: true, begin: deletePeer("rrpool-clients")},
	{name: "a person edits rrpool-clients", bound: 10 * time.Second, grave: true, begin: editPeer("rrpool-clients", "has(nothing)")},
}

func patch(body string) deed {
	return func(ctx context.Context, s *chaosRun, node string) error {
		if s.gone(node) {
			return nil
		}
		written, err := s.Lab.Kube().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "hostile"})
		if err != nil {
			return fmt.Errorf("patching %q: %w", node, err)
		}
		s.observer.notOurs(written.ResourceVersion)
		return nil
	}
}

// uncordon: the node may have been replaced meanwhile.
func uncordon(ctx context.Context, s *chaosRun, node string) error {
	if s.gone(node) {
		return nil
	}
	return s.Lab.Uncordon(ctx, node)
}

func meshOn(ctx context.Context, s *chaosRun, _ string) error { return setMesh(ctx, s, true) }

func meshOff(ctx context.Context, s *chaosRun, _ string) error { return setMesh(ctx, s, false) }

// setMesh writes the field that a person knows, and nothing else; what Calico refuses together with it goes.
func setMesh(ctx context.Context, s *chaosRun, on bool) error {
	return s.editConfiguration(ctx, func(c *apiv3.BGPConfiguration) {
		c.Spec.NodeToNodeMeshEnabled = &on
		if !on {
			c.Spec.NodeMeshPassword = nil
		}
	})
}

func removeNotes(ctx context.Context, s *chaosRun, _ string) error {
	return s.editConfiguration(ctx, func(c *apiv3.BGPConfiguration) {
		delete(c.Annotations, "rrpool.io/mesh-before")
		delete(c.Annotations, "rrpool.io/mesh-restored")
	})
}

func (s *chaosRun) editConfiguration(ctx context.Context, edit func(*apiv3.BGPConfiguration)) error {
	c, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the BGPConfiguration: %w", err)
	}
	edit(c)
	if _, err := s.Lab.Calico().BGPConfigurations().Update(ctx, c, options.SetOptions{}); err != nil {
		return fmt.Errorf("writing the BGPConfiguration: %w", err)
	}
	return nil
}

func editPeer(name, selector string) deed {
	return func(ctx context.Context, s *chaosRun, _ string) error {
		p, err := s.Lab.Calico().BGPPeers().Get(ctx, name, options.GetOptions{})
		if err != nil {
			return notThere(err)
		}
		p.Spec.PeerSelector = selector
		_, err = s.Lab.Calico().BGPPeers().Update(ctx, p, options.SetOptions{})
		return notThere(err)
	}
}

func deletePeer(name string) deed {
	return func(ctx context.Context, s *chaosRun, _ string) error {
		_, err := s.Lab.Calico().BGPPeers().Delete(ctx, name, options.DeleteOptions{})
		return notThere(err)
	}
}

func deleteStatuses(ctx context.Context, s *chaosRun, _ string) error {
	list, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the CalicoNodeStatuses: %w", err)
	}
	for i := range list.Items {
		_, err := s.Lab.Calico().CalicoNodeStatus().Delete(ctx, list.Items[i].Name, options.DeleteOptions{})
		if err := notThere(err); err != nil {
			return err
		}
	}
	return nil
}

// notThere is fine: the manager may be about to put right what was done before.
func notThere(err error) error {
	var missing calicoerrors.ErrorResourceDoesNotExist
	if errors.As(err, &missing) {
		return nil
	}
	return err
}

// The same probes, record and observer must see what a bad operator does: the mesh goes first, and reflectors were to follow.
func TestChaosSeesABadOperator(t *testing.T) {
	s := newRun(t, time.Minute)
	s.control = true
	bad := &fault{name: "an operator switches the mesh off first", begin: meshOffForSeconds, end: meshOn}
	pause(t.Context(), 2*time.Second) // in which nothing is lost
	s.play(t.Context(), t.Context(), []planned{{fault: bad}}, s.begun.Add(s.length))
	err := s.finish()
	require.ErrorContains(t, err, `while ["an operator switches the mesh off first"] was felt, 30 pairs lost more than they may (0s)`)
	require.ErrorContains(t, err, "taken away: the mesh")

	report := s.Lab.Report()
	require.Greater(t, report.LongestOutage(), 2*time.Second)
	for _, part := range s.record.shares(report) {
		require.True(t, len(part.faults) > 0 || part.pair.Lost == 0, "before it happened nothing was lost: %s", part.pair)
	}
}

// meshOffForSeconds counts them from when the last session has gone: confd may take as long to render it, and would else see only that the
// mesh is on again.
func meshOffForSeconds(ctx context.Context, s *chaosRun, node string) error {
	if err := meshOff(ctx, s, node); err != nil {
		return err
	}
	for now := s.glimpse(); slices.ContainsFunc(s.Workers, func(n string) bool { return slices.ContainsFunc(now.sessions[n], lab.Session.Established) }); now = s.glimpse() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause(ctx, glance)
	}
	pause(ctx, 3*time.Second)
	return nil
}

// What is lost is judged by who was cut off, and by what was felt.
func TestLossIsJudgedByItsCause(t *testing.T) {
	lost := func(from string, probes int) probe.Pair {
		p := probe.Pair{From: from, To: "b", Sent: 100_000}
		if probes > 0 {
			begun := time.Unix(0, 0)
			p.Lost, p.LongestRun = probes, probes
			p.Outages = []probe.Outage{{From: begun, Until: begun.Add(time.Duration(probes) * 10 * time.Millisecond), Lost: probes}}
		}
		return p
	}
	cutOff := &segment{cut: map[string]bool{"a": true}, occurrences: []string{"client: link is cut (a)"}}
	costly := &segment{faults: []*fault{{bound: time.Second}}, occurrences: []string{"a person deletes rrpool-clients"}}
	for name, tc := range map[string]struct {
		share share
		says  string
	}{
		"nothing is lost":                         {share: share{&segment{}, lost("a", 0)}},
		"one packet of very many":                 {share: share{&segment{}, lost("a", 1)}},
		"two in a row":                            {share: share{&segment{}, lost("a", 2)}, says: "while nothing was felt, 1 pairs lost more than they may (0s); the worst: a → b"},
		"by a node that was cut off":              {share: share{cutOff, lost("a", 500)}},
		"by another node at that time":            {share: share{cutOff, lost("c", 500)}, says: "client: link is cut (a)"},
		"by what cannot be prevented, in time":    {share: share{costly, lost("a", 90)}},
		"by what cannot be prevented, for longer": {share: share{costly, lost("a", 110)}, says: "lost more than they may (1s)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := verdict(probe.Report{}, []share{tc.share, {&segment{}, lost("x", 0)}}, nil)
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// This is the negative control of all the others: without the preparation, a
// node with workloads that becomes a reflector while the mesh is on loses packets: about two seconds of them,
// or less where the sides happen to connect at once. It is not the first one, which runs no pods.
func TestImmediatePromotionLosesPackets(t *testing.T) {
	idle := lab.NodeSpec{Name: "control-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}
	c := start(t, site.Options{Nodes: []lab.NodeSpec{
		idle, {Name: "worker-0", Pods: 1}, {Name: "worker-1", Pods: 1}, {Name: "worker-2", Pods: 1}, {Name: "worker-3", Pods: 1},
	}})
	e := c.begin("onto nodes with workloads, at once")
	require.NoError(t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionImmediate
	}))
	var reflectors []string
	c.waitFor("three reflectors", func(*v1alpha1.RouteReflectorPool) bool {
		var err error
		reflectors, err = c.CurrentReflectors(c.ctx)
		return err == nil && len(reflectors) == 3
	})
	time.Sleep(10 * time.Second) // until their sessions are back
	require.Equal(t, idle.Name, reflectors[0])
	promoted := reflectors[1:]
	for i, n := range promoted {
		c.requireEvents(e, []string{"ReflectorAdded", n, "at once (promotion: Immediate)", "cannot be reached from other nodes"})
		require.ErrorContains(t, c.lost(e, promoted[1-i]).ZeroLoss(), "lost probes in a row", "%s and the plain nodes", n)
	}
	c.requireLostNothing(e, promoted...)
}
