package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// testLease is how long a lease lasts in these tests. client-go's is 15 s: its leader
// gives up 10 s after the last renewal, and others wait for 15 s.
const testLease = 3 * time.Second

// reign watches who leads, by the lease that the apiserver has.
type reign struct {
	mu sync.Mutex
	// lines by the identity that they have in the lease.
	leader string
	// accessions in order.
	accessions []accession
	// swapped is the line whose leadership is being taken away, "" for none.
	swapped string
}

// accession is the moment at which the apiserver has written a new holder.
type accession struct {
	line string
	at   time.Time
}

// see takes in a write of the lease that took effect: a manager writes itself, or nobody.
func (g *reign) see(a *arena, r intercept.Request) {
	at := time.Now()
	lease := &coordinationv1.Lease{}
	err := a.admin.Get(context.WithoutCancel(a.Context()), client.ObjectKey{Namespace: testNamespace, Name: leaseName}, lease)
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader != r.Line {
		g.leader = r.Line
		g.accessions = append(g.accessions, accession{r.Line, at})
	}
}

func (g *reign) now() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leader
}

// late are the writes that a manager sent after another one was written into the lease,
// by the moment of that. The one that was under way already is not to be prevented.
func (g *reign) late(work []intercept.Request) map[time.Time][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[time.Time][]string{}
	for _, r := range work {
		i := slices.IndexFunc(g.accessions, func(a accession) bool { return a.line == r.Line })
		if i < 0 {
			out[time.Time{}] = append(out[time.Time{}], fmt.Sprintf("%s by one who never led", r))
		} else if i+1 < len(g.accessions) && r.At.After(g.accessions[i+1].at) {
			to := g.accessions[i+1]
			out[to.at] = append(out[to.at], fmt.Sprintf("%s, %s after %s had the lease", r, r.At.Sub(to.at).Round(time.Millisecond), to.line))
		}
	}
	return out
}

// coup takes leadership away from a manager at one of its writes.
type coup struct {
	name string
	// do begins it, with the leader's next write on its way; it must not wait.
	do func(a *arena, g *reign, leader *mortal)
}

var coups = []coup{
	{"the leader's renewals do not arrive", func(*arena, *reign, *mortal) {}},
	{"the leader stands still until another one leads", func(_ *arena, g *reign, leader *mortal) {
		_ = leader.cmd.Process.Signal(syscall.SIGSTOP)
		go func() {
			for g.now() == leader.name && !leader.dead() {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // the successor is at work
			_ = leader.cmd.Process.Signal(syscall.SIGCONT)
		}()
	}},
	{"somebody writes another holder into the lease", func(a *arena, _ *reign, _ *mortal) { a.usurp("somebody") }},
}

// usurp writes a holder into the lease as a person would.
func (a *arena) usurp(holder string) {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = testNamespace, leaseName
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	if err := a.admin.Patch(context.WithoutCancel(a.Context()), lease, rawMerge(patch)); err != nil {
		a.Errorf("writing the lease: %v", err)
	}
}

// Leadership changes in the middle of whatever is being done; the two never both write.
func TestLeadersAreReplacedAtEveryWrite(t *testing.T) {
	skipLong(t)
	for _, kind := range []v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes} {
		t.Run(string(kind), func(t *testing.T) {
			a := newArena(t, kind)
			steps := map[string]bool{}
			for first := 1; first <= stride; first++ {
				i := first % len(coups)
				order := append(slices.Clone(coups[i:]), coups[:i]...)
				a.run(fmt.Sprintf("from write %d on", first), func() {
					for _, s := range a.replaceLeaders(order, first, stride) {
						steps[s] = true
					}
				})
			}
			t.Logf("in the middle of %v", steps)
		})
	}
}

// replaceLeaders lives a life with a coup at write first and every so many after, and
// names the steps in whose middle that was.
func (a *arena) replaceLeaders(how []coup, first, every int) []string {
	a.Helper()
	a.begin()
	a.args, a.clock.lease = nil, testLease
	g := &reign{}
	a.onWrite = func(r intercept.Request) {
		if r.Lease() && r.Executed() {
			g.see(a, r)
		}
	}
	var steps, told []string
	next := first
	a.between.Rules(func(r intercept.Request) intercept.Verdict {
		g.mu.Lock()
		swapped := g.swapped
		g.mu.Unlock()
		if r.Lease() && r.Line == swapped {
			return intercept.Verdict{Answer: 503}
		}
		if r.Number < next || !r.Work() {
			return intercept.Verdict{}
		}
		next = r.Number + every
		leader := a.manager(r.Line)
		g.mu.Lock()
		g.swapped = r.Line
		g.mu.Unlock()
		c := how[len(steps)%len(how)]
		steps = append(steps, a.stepNow())
		told = append(told, fmt.Sprintf("%s at %s %s in %s", c.name, r.Kind(), r.Name, steps[len(steps)-1]))
		c.do(a, g, leader)
		return intercept.Verdict{}
	})
	a.rise()
	a.waitFor("a leader", func() bool { return g.now() != "" })
	a.rise()
	l := a.live(a.twoAlive)
	a.Logf("%d writes, %d changes of leadership, %s: %s", len(l.work), len(g.accessions)-1, l.took.Round(100*time.Millisecond), strings.Join(told, "; "))
	require.NotEmpty(a, steps)
	require.GreaterOrEqual(a, len(g.accessions)-1, len(steps)-1, "each coup but perhaps the last has brought another leader")
	for at, writes := range g.late(l.work) {
		a.Logf("late: %v", writes)
		require.False(a, at.IsZero(), "%v", writes)
		require.LessOrEqual(a, len(writes), 1, "a manager wrote although another one led: %v", writes)
	}
	a.requireAsGolden(l)
	a.requireNoRepetition(l, len(g.accessions)-1)
	return steps
}
