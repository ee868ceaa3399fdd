package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// testLease is how long a lease lasts in these tests. client-go's is 15 s: its leader
// gives up 10 s after the last renewal, and others wait for 15 s.
const testLease = 3 * time.Second

// leaders watches who leads, by the lease that the apiserver has.
type leaders struct {
	mu sync.Mutex
	// lines by the identity that they have in the lease.
	leader string
	// changes of the leader in order.
	changes []newLeader
	// swapped is the line whose leadership is being taken away, "" for none.
	swapped string
}

// newLeader is the moment at which the apiserver has written a new holder.
type newLeader struct {
	line string
	at   time.Time
}

// see takes in a write of the lease that took effect. The body says whether it took or released the lease.
func (g *leaders) see(tb testing.TB, r intercept.Request) {
	tb.Helper()
	at := time.Now()
	var lease coordinationv1.Lease
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), r.Body, &lease); err != nil {
		tb.Errorf("%s: reading the lease: %v", r, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if ptr.Deref(lease.Spec.HolderIdentity, "") != "" && g.leader != r.Line {
		g.leader = r.Line
		g.changes = append(g.changes, newLeader{r.Line, at})
	}
}

func (g *leaders) now() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leader
}

// lateWrites are the writes that a manager sent after another one was written into the lease,
// by the moment of that. The one that was under way already is not to be prevented.
func (g *leaders) lateWrites(work []intercept.Request) map[time.Time][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[time.Time][]string{}
	for _, r := range work {
		i := slices.IndexFunc(g.changes, func(a newLeader) bool { return a.line == r.Line })
		if i < 0 {
			out[time.Time{}] = append(out[time.Time{}], fmt.Sprintf("%s by a manager that never led", r))
		} else if i+1 < len(g.changes) && r.At.After(g.changes[i+1].at) {
			to := g.changes[i+1]
			out[to.at] = append(out[to.at], fmt.Sprintf("%s, %s after %s had the lease", r, r.At.Sub(to.at).Round(time.Millisecond), to.line))
		}
	}
	return out
}

type leaderChange struct {
	name string
	// do begins it, with the leader's next write on its way; it must not wait.
	do func(a *environment, g *leaders, leader *managerProcess)
}

var leaderChanges = []leaderChange{
	{"the leader's renewals do not arrive", func(*environment, *leaders, *managerProcess) {}},
	{"the leader stands still until another one leads", func(_ *environment, g *leaders, leader *managerProcess) {
		_ = leader.Signal(syscall.SIGSTOP)
		go func() {
			for g.now() == leader.name && leader.Running() {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // the successor is at work
			_ = leader.Signal(syscall.SIGCONT)
		}()
	}},
	{"a person writes another holder into the lease", func(a *environment, _ *leaders, _ *managerProcess) {
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = testNamespace, leaseName
		patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, "a-person", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		if err := a.admin.Patch(context.WithoutCancel(a.Context()), lease, rawMerge(patch)); err != nil {
			a.Errorf("writing the lease: %v", err)
		}
	}},
}

// Leadership changes in the middle of whatever is being done; the two never both write.
func TestLeadersAreReplacedAtEveryFourthWrite(t *testing.T) {
	skipLong(t)
	shared(t, func(a *environment, share, shares int) {
		for first := 1 + 4*share; first <= writesBetweenKills; first += 4 * shares { // a scenario takes up to 90 s
			i := first % len(leaderChanges)
			order := append(slices.Clone(leaderChanges[i:]), leaderChanges[:i]...)
			a.subtest(fmt.Sprintf("from write %d on", first), func() { a.replaceLeaders(order, first, writesBetweenKills) })
		}
	})
}

// replaceLeaders runs a scenario with a leader change at write first and every so many after.
func (a *environment) replaceLeaders(how []leaderChange, first, every int) {
	a.Helper()
	a.begin()
	a.args, a.clock.lease = nil, testLease
	g := &leaders{}
	a.onWrite = func(r intercept.Request) {
		if r.Lease() && r.Executed() {
			g.see(a, r)
		}
	}
	var changed []string
	next := first
	a.between.Rules(func(r intercept.Request) intercept.Verdict {
		g.mu.Lock()
		swapped := g.swapped
		g.mu.Unlock()
		if r.Lease() && r.Line == swapped {
			return intercept.Verdict{Answer: 503}
		}
		// A manager that is losing the lease goes on writing for a moment: the next change waits for its successor.
		if r.Number < next || !r.Work() || r.Line == swapped {
			return intercept.Verdict{}
		}
		next = r.Number + every
		leader := a.manager(r.Line)
		g.mu.Lock()
		g.swapped = r.Line
		g.mu.Unlock()
		c := how[len(changed)%len(how)]
		changed = append(changed, fmt.Sprintf("%s at %s %s in %s", c.name, r.Kind(), r.Name, a.stepNow()))
		c.do(a, g, leader)
		return intercept.Verdict{}
	})
	a.start()
	a.waitFor("a leader", func() bool { return g.now() != "" })
	a.start()
	l := a.runScenario(func() { // managers are replaced as a Deployment of two does it
		for len(a.alive()) < 2 {
			a.start()
		}
	})
	a.Logf("%d writes, %d changes of leadership, %s: %s", len(l.work), len(g.changes)-1, l.took.Round(100*time.Millisecond), strings.Join(changed, "; "))
	require.NotEmpty(a, changed)
	require.GreaterOrEqual(a, len(g.changes)-1, len(changed)-1, "each change but perhaps the last has brought another leader")
	for at, writes := range g.lateWrites(l.work) {
		a.Logf("late: %v", writes)
		require.False(a, at.IsZero(), "%v", writes)
		require.LessOrEqual(a, len(writes), 1, "a manager wrote although another one led: %v", writes)
	}
	a.requireAsGolden(l)
	a.requireNoRepetition(l, len(g.changes)-1)
}

type fakeLease struct {
	client.Reader
	holder string
	err    error
	asked  int
}

func (p *fakeLease) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	p.asked++
	o.(*coordinationv1.Lease).Spec.HolderIdentity = &p.holder
	return p.err
}

func TestOnlyTheHolderOfTheLeaseWrites(t *testing.T) {
	ctx := t.Context()
	lease := &fakeLease{holder: "pod-1_x"}
	now := time.Now()
	f := &leaseCheck{reader: lease, namespace: testNamespace, self: "pod-1_x", now: func() time.Time { return now }}
	require.NoError(t, f.check(ctx))
	require.NoError(t, f.check(ctx))
	require.Equal(t, 1, lease.asked, "a look holds for a second")

	lease.holder = "pod-2_y"
	now = now.Add(2 * time.Second)
	require.ErrorContains(t, f.check(ctx), `Lease "rrpool-manager" in namespace "rrpool-system" is held by "pod-2_y"`)

	// The same pod, another process: not us either.
	lease.holder = "pod-1_z"
	require.Error(t, f.check(ctx))

	lease.holder = ""
	require.Error(t, f.check(ctx))

	lease.holder = "pod-1_x"
	require.NoError(t, f.check(ctx))

	// What cannot be known does not count as ours.
	now, lease.err = now.Add(2*time.Second), errors.New("no answer")
	require.ErrorContains(t, f.check(ctx), "no answer")
}

func TestAClockThatStoodStillIsNotBelieved(t *testing.T) {
	lease := &fakeLease{holder: "pod-1_x"}
	now := time.Now()
	f := &leaseCheck{reader: lease, self: "pod-1_x", now: func() time.Time { return now }}
	require.NoError(t, f.check(t.Context()))
	lease.holder = "pod-2_y"
	now = now.Round(0).Add(time.Hour) // the wall clock alone has gone on
	require.Error(t, f.check(t.Context()))
}

type fakeLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (*fakeLock) Identity() string { return "pod-1_x" }

func (l *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, nil
}

func (l *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = record
	return nil
}

func TestAFormerLeaderDoesNotReleaseItsSuccessorsLease(t *testing.T) {
	for holder, released := range map[string]bool{"pod-1_x": true, "pod-2_y": false} {
		lock := &fakeLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: holder}}
		l := &lease{Interface: lock}
		_, _, err := l.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, released, l.Update(t.Context(), resourcelock.LeaderElectionRecord{}) == nil)
		require.Equal(t, released, lock.record.HolderIdentity == "")
	}
}
