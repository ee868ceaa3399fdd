package existing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/providertest"
)

const grace = time.Minute

type store struct {
	clock *clocktesting.FakeClock
	mu    sync.Mutex
	nodes map[string]plan.Node
	// pods by node; counted are the nodes that were asked about, each time.
	pods    map[string]int
	counted [][]string
	// reads and writes are requests, changes the writes that changed something.
	reads, writes, changes int
	fault                  providertest.Fault
	// hung is closed when a hanging apiserver answers again.
	hung chan struct{}
	// listed runs after each listing, outside of the lock.
	listed func()
}

var (
	_ existing.Nodes     = (*store)(nil)
	_ providertest.World = (*store)(nil)
)

// newStore has n nodes in each of zones a, b and c: a1 the oldest, then b1, c1, a2.
func newStore(n int) *store {
	s := &store{
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), nodes: map[string]plan.Node{}, pods: map[string]int{},
	}
	for i := 1; i <= n; i++ {
		for z, zone := range []string{"a", "b", "c"} {
			s.add(fmt.Sprintf("%s%d", zone, i), zone, time.Duration(1000-3*i-z)*time.Hour)
		}
	}
	return s
}

func (s *store) add(name, zone string, age time.Duration) {
	s.nodes[name] = plan.Node{
		Name: name, UID: "uid-" + name, Labels: map[string]string{}, Zone: zone, Created: s.clock.Now().Add(-age),
		Ready: true, ReadyChanged: s.clock.Now().Add(-age), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(len(s.nodes) + 1)})},
	}
}

// edit changes a node as a person or the kubelet would.
func (s *store) edit(name string, change func(*plan.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	n.Labels = maps.Clone(n.Labels)
	change(&n)
	s.nodes[name] = n
}

func (s *store) config() existing.Config {
	return existing.Config{
		PoolName: providertest.PoolName, Nodes: s, CountPods: s.CountPods, NotReadyGrace: grace, Now: s.clock.Now,
	}
}

func (s *store) List(ctx context.Context) ([]plan.Node, error) {
	if err := s.answer(ctx, &s.reads); err != nil {
		return nil, err
	}
	s.mu.Lock()
	out := slices.Collect(maps.Values(s.nodes))
	then := s.listed
	s.mu.Unlock()
	if then != nil {
		then()
	}
	return out, nil
}

func (s *store) CountPods(ctx context.Context, nodes []string) (map[string]int, error) {
	if err := s.answer(ctx, &s.reads); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = append(s.counted, slices.Sorted(slices.Values(nodes)))
	return maps.Clone(s.pods), nil
}

func (s *store) SetPool(ctx context.Context, node plan.Node, pool string) error {
	if err := s.answer(ctx, &s.writes); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[node.Name]
	if !ok || n.UID != node.UID {
		return fmt.Errorf("labelling node %q: %w", node.Name, apierrors.NewConflict(nodesResource, node.Name, errors.New("another UID")))
	}
	if n.Labels[v1alpha1.PoolLabel] != pool {
		s.changes++
		n.Labels = maps.Clone(n.Labels)
		n.Labels[v1alpha1.PoolLabel] = pool
		if pool == "" {
			delete(n.Labels, v1alpha1.PoolLabel)
		}
		s.nodes[node.Name] = n
	}
	if s.fault == providertest.LostAnswer {
		s.fault = ""
		return errors.New("unexpected EOF")
	}
	return nil
}

var nodesResource = schema.GroupResource{Resource: "nodes"}

func (s *store) answer(ctx context.Context, count *int) error {
	s.mu.Lock()
	*count++
	fault, hung := s.fault, s.hung
	s.mu.Unlock()
	switch fault {
	case providertest.ServerError:
		return fmt.Errorf("reading: %w", apierrors.NewInternalError(errors.New("etcd has no leader")))
	case providertest.Limited:
		return fmt.Errorf("reading: %w", apierrors.NewTooManyRequests("busy", int(providertest.LimitedFor.Seconds())))
	case providertest.Denied:
		return fmt.Errorf("reading: %w", apierrors.NewForbidden(nodesResource, "", errors.New("no RBAC policy matched")))
	case providertest.Hanging:
		select {
		case <-hung:
		case <-ctx.Done():
			return fmt.Errorf("reading: %w", ctx.Err())
		}
	case providertest.LostAnswer:
	}
	return nil
}

func (s *store) Advance(d time.Duration) { s.clock.Step(d) }

func (s *store) members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, n := range s.nodes {
		if n.Labels[v1alpha1.PoolLabel] == providertest.PoolName {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (s *store) Workers() []cloud.Worker {
	names := s.members()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []cloud.Worker
	for _, name := range names {
		out = append(out, cloud.Worker{ID: name, NodeName: name, Zone: s.nodes[name].Zone})
	}
	return out
}

func (s *store) Pools() int { return min(1, len(s.members())) }

func (s *store) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.nodes))
}

func (s *store) Mutations() int { return s.read(&s.changes) }
func (s *store) Requests() int  { return s.read(&s.reads) + s.read(&s.writes) }

func (s *store) read(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// Break lets a node be NotReady for longer than the grace.
func (s *store) Break(name, _ string) {
	since := s.clock.Now().Add(-grace - time.Second)
	s.edit(name, func(n *plan.Node) { n.Ready, n.ReadyChanged = false, since })
}

func (s *store) Inject(f providertest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
	if f == providertest.Hanging {
		s.hung = make(chan struct{})
	}
}

func (s *store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == providertest.Hanging {
		close(s.hung)
	}
	s.fault = ""
}
