package existing_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/providertest"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// caller is a sensible one: it promotes members, and takes out of service and
// names those that the selection does not want, one at a time.
type caller struct {
	store *store
	size  int
	named string
}

// call makes one call; done says that nothing is left to do.
func (c *caller) call(p cloud.Provider) (done bool, err error) {
	nodes, rules := c.look()
	chosen := selection.Choose(nodes, rules)
	want := size(c.size)
	c.named = ""
	for _, n := range nodes {
		wanted := slices.ContainsFunc(chosen, func(w plan.Node) bool { return w.Name == n.Name })
		switch {
		case n.Pooled && wanted && n.Ready && !n.Marked:
			c.store.role(n.Name, true)
			return false, nil
		case !wanted && n.Marked:
			c.store.role(n.Name, false)
			return false, nil
		case !wanted && n.Pooled && c.named == "":
			c.named = n.Name
			want.Retire = []string{n.Name}
		}
	}
	got, err := p.Ensure(context.Background(), want)
	return got.Done, err
}

// look is what the caller sees.
func (c *caller) look() ([]plan.Node, selection.Rules) {
	nodes, _ := c.store.List(context.Background())
	rules := selection.Rules{PerZone: c.size, Lost: func(n plan.Node) bool {
		return !n.Ready && c.store.now().Sub(n.ReadyChanged) > grace
	}}
	slices.SortFunc(nodes, func(a, b plan.Node) int { return a.Created.Compare(b.Created) })
	for i, n := range nodes {
		nodes[i].Pooled = n.Labels[v1alpha1.PoolLabel] == providertest.PoolName
		if n.SpeaksBGP() {
			rules.Zones = append(rules.Zones, n.Zone)
		}
	}
	return nodes, rules
}

// role gives a node the role, or takes it.
func (s *store) role(name string, give bool) {
	s.edit(name, func(n *plan.Node) {
		n.Marked, n.RoleLabel, n.ClusterID = give, give, ""
		if give {
			n.ClusterID = "244.0.0.1"
		}
	})
}

// TestAnyOrderOfEventsSettles lets nodes come, go, fall ill and recover, sizes change, labels and answers get lost
// and the provider restart, in any order. No node leaves that was not named. Without events none comes and goes:
// each node changes at most once until all is done, or waits for nodes alone.
func TestAnyOrderOfEventsSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore(rapid.IntRange(1, 4).Draw(t, "nodes per zone"))
		c := &caller{store: s, size: 1}
		p := s.provider(s.config())
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				p = s.provider(s.config())
			}
			if rapid.Bool().Draw(t, "event") {
				disturb(t, c, i)
			}
			steady(t, c, p)
		}
		s.Heal()
		s.Advance(2 * grace) // whoever is away is lost by now
		counts := map[string]int{}
		for range 200 {
			before := s.members()
			done := steady(t, c, p)
			changed := difference(before, s.members())
			for _, name := range changed {
				counts[name]++
				require.Equal(t, 1, counts[name], "%s comes and goes", name)
			}
			if done || s.short(c) && len(changed) == 0 && c.idle() {
				return
			}
		}
		require.Fail(t, "never settles", "%v", s.members())
	})
}

// idle: every chosen node is a member in the role, and no other node is either.
func (c *caller) idle() bool {
	nodes, rules := c.look()
	chosen := selection.Choose(nodes, rules)
	return !slices.ContainsFunc(nodes, func(n plan.Node) bool {
		wanted := slices.ContainsFunc(chosen, func(w plan.Node) bool { return w.Name == n.Name })
		return wanted != n.Pooled || wanted != n.Marked
	})
}

// short: there are fewer fit nodes than wanted.
func (s *store) short(c *caller) bool {
	nodes, rules := c.look()
	return len(selection.Choose(nodes, rules)) < rules.Total() || rules.Total() == 0
}

// steady makes one call and asserts that no node leaves that was not named.
func steady(t *rapid.T, c *caller, p cloud.Provider) bool {
	before := c.store.members()
	done, err := c.call(p)
	if err != nil {
		require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
	}
	require.Empty(t, harm(before, c.store.members(), c.named))
	return done
}

// harm says what a call did that no call may do, "" for nothing.
func harm(before, after []string, named string) string {
	changed := difference(before, after)
	if len(changed) > 1 {
		return fmt.Sprintf("more than one change: %v", changed)
	}
	for _, name := range changed {
		if slices.Contains(before, name) && name != named {
			return fmt.Sprintf("%s left without being named", name)
		}
	}
	return ""
}

// rash tidies up by itself what it waits for.
type rash struct{ cloud.Provider }

func (r rash) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	got, err := r.Provider.Ensure(ctx, want)
	if got.WaitingFor != "" {
		return r.Delete(ctx)
	}
	return got, err
}

func TestAProviderThatChoosesTheVictimIsCaught(t *testing.T) {
	s := newStore(2)
	for name, p := range map[string]cloud.Provider{"sound": s.provider(s.config()), "rash": rash{s.provider(s.config())}} {
		settle(t, s.provider(s.config()), size(2))
		before := s.members()
		ensure(t, p, size(1))
		require.Equal(t, name == "rash", harm(before, s.members(), "") != "")
	}
}

func difference(a, b []string) []string {
	only := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(n string) bool { return slices.Contains(b, n) })
	}
	return append(only(a, b), only(b, a)...)
}

// disturb lets one thing happen.
func disturb(t *rapid.T, c *caller, serial int) {
	s := c.store
	changed := rapid.SampledFrom(s.Nodes()).Draw(t, "changed")
	edits := []func(*plan.Node){
		func(n *plan.Node) { n.Cordoned = !n.Cordoned },
		func(n *plan.Node) { n.Leaving = !n.Leaving },
		func(n *plan.Node) { delete(n.Labels, v1alpha1.PoolLabel) },
		func(n *plan.Node) {
			n.UID += "'"
			n.Labels = map[string]string{}
			n.Marked, n.RoleLabel, n.ClusterID = false, false, ""
		},
	}
	at := s.now()
	flip := func(n *plan.Node) { n.Ready, n.ReadyChanged = !n.Ready, at }
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind < len(edits):
		s.edit(changed, edits[kind])
	case kind < 7:
		s.edit(changed, flip)
		s.Advance(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
	case kind == 7:
		c.size = rapid.IntRange(1, 3).Draw(t, "size")
	case kind == 8:
		s.Inject(providertest.LostAnswer)
	default:
		zone := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone")
		s.add(fmt.Sprintf("%s-new%d", zone, serial), zone, time.Duration(rapid.IntRange(1, 2000).Draw(t, "age"))*time.Hour)
	}
}
