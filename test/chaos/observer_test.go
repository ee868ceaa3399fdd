//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// enough is how many reflectors every Ready client must have an Established session with before anything is taken away, where there
// are as many.
const enough = 2

// observer sees the mesh and roles go at the moment they do, and asks every BIRD what is left. What it finds are the invariants.
type observer struct {
	run *chaosRun

	mu     sync.Mutex
	mesh   bool
	roles  map[string]bool
	others map[string]bool // versions of nodes that a person wrote
	taken  []taking
	wrong  []error
}

// taking is something that was taken away: the mesh, or a reflector's role.
type taking struct {
	at      time.Time
	what    string
	version string
	node    string
	// fewest is the least number of other reflectors that any client had sessions with, of so many.
	fewest, of int
	client     string
	mesh       bool
}

func (s *chaosRun) startObserver(ctx context.Context) *observer {
	s.t.Helper()
	w := &observer{run: s, mesh: true, roles: map[string]bool{}, others: map[string]bool{}}
	client, err := dynamic.NewForConfig(s.Lab.AdminConfig())
	require.NoError(s.t, err)
	for resource, see := range map[schema.GroupVersionResource]func(*unstructured.Unstructured){
		{Version: "v1", Resource: "nodes"}:                                             w.seeNode,
		{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgpconfigurations"}: w.seeConfiguration,
	} {
		s.watchers.Go(func() {
			for ctx.Err() == nil {
				_ = follow(ctx, client.Resource(resource), see) // the apiserver may be away
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	return w
}

// follow gives all that there is, and then whatever changes, until the apiserver is away. An informer would wait up to half a minute
// before it looked again, and miss the moment.
func follow(ctx context.Context, resource dynamic.ResourceInterface, see func(*unstructured.Unstructured)) error {
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		see(&list.Items[i])
	}
	w, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		o, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return errors.New("the watch ended")
		}
		see(o)
	}
	return nil
}

// notOurs: this version of a node was written by a person.
func (w *observer) notOurs(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.others[version] = true
}

func (w *observer) seeNode(o *unstructured.Unstructured) {
	_, label := o.GetLabels()["rrpool.io/route-reflector"]
	id := o.GetAnnotations()["projectcalico.org/RouteReflectorClusterID"] != ""
	role := label && id
	w.mu.Lock()
	before := w.roles[o.GetName()]
	w.roles[o.GetName()] = role
	w.mu.Unlock()
	if before && !role {
		w.sample(taking{what: "the role of " + o.GetName(), version: o.GetResourceVersion(), node: o.GetName()})
	}
}

func (w *observer) seeConfiguration(o *unstructured.Unstructured) {
	on, found, err := unstructured.NestedBool(o.Object, "spec", "nodeToNodeMeshEnabled")
	on = on || !found || err != nil
	w.mu.Lock()
	before := w.mesh
	w.mesh = on
	w.mu.Unlock()
	if before && !on {
		w.sample(taking{what: "the mesh"})
		return
	}
	if !before && on {
		w.run.note("the mesh is on")
	}
}

func (w *observer) reflectors(without string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for n, role := range w.roles {
		if role && n != without {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (w *observer) sample(t taking) {
	t.at = time.Now()
	reflectors := slices.DeleteFunc(w.reflectors(t.node), w.run.gone)
	t.of = len(reflectors)
	t.fewest, t.client = w.fewest(reflectors)
	w.mu.Lock()
	defer w.mu.Unlock()
	t.mesh = w.mesh
	w.taken = append(w.taken, t)
	w.run.note("taken away: %s", t)
}

// fewest asks each client that is not cut off.
func (w *observer) fewest(reflectors []string) (least int, client string) {
	now := w.run.glimpse()
	hit := map[string]bool{}
	for _, k := range w.run.record.felt() {
		hit[k.node] = true
	}
	least = len(reflectors)
	for _, c := range w.run.Workers {
		if served := now.served(c, reflectors); !hit[c] && served < least {
			least, client = served, c
		}
	}
	return least, client
}

func (t taking) String() string {
	text := fmt.Sprintf("%s, while all had sessions with all %d other reflectors", t.what, t.of)
	if t.client != "" {
		text = fmt.Sprintf("%s, while %s had sessions with %d of %d other reflectors", t.what, t.client, t.fewest, t.of)
	}
	if t.mesh {
		text += ", under the mesh"
	}
	return text
}

func (w *observer) watchCloud(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond)
		pools, untainted := w.run.Cloud.Pools(site.ClusterID), w.run.Cloud.Untainted(site.PoolName)
		w.mu.Lock()
		if len(pools) > 2 {
			w.wrong = append(w.wrong, fmt.Errorf("a second pool: %s", strings.Join(pools, ", ")))
		}
		if len(untainted) > 0 {
			w.wrong = append(w.wrong, fmt.Errorf("%d workers without a taint", len(untainted)))
		}
		w.mu.Unlock()
	}
}

func (w *observer) judge() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	errs := slices.Clone(w.wrong)
	for _, t := range w.taken {
		if t.node != "" && (t.mesh || w.others[t.version]) {
			continue
		}
		if t.fewest < min(enough, t.of) || t.of == 0 {
			errs = append(errs, fmt.Errorf("%s taken away: %s", t.at.Format("15:04:05.000"), t))
		}
	}
	return errors.Join(errs...)
}

// sight is the cluster from outside: roles from the API, sessions from each node's BIRD.
type sight struct {
	nodes      []string
	reflectors []string
	names      map[netip.Addr]string
	// sessions by node; none where BIRD does not answer.
	sessions map[string][]lab.Session
	// apart are two workers of which the first's kernel has no route to the second.
	apart [][2]string
}

func (s *chaosRun) look(ctx context.Context) (*sight, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reflectors, err := s.CurrentReflectors(ctx)
	if err != nil {
		return nil, err
	}
	now := s.glimpse()
	now.reflectors = reflectors
	for _, a := range s.Workers {
		for _, b := range s.Workers {
			if reaches, err := s.Lab.Reaches(a, b); a != b && (err != nil || !reaches) {
				now.apart = append(now.apart, [2]string{a, b})
			}
		}
	}
	return now, nil
}

// glimpse is what can be seen without the API.
func (s *chaosRun) glimpse() *sight {
	now := &sight{nodes: s.Lab.Nodes(), names: map[netip.Addr]string{}, sessions: map[string][]lab.Session{}}
	for _, n := range now.nodes {
		now.names[s.Lab.Address(n)] = n
		if sessions, err := s.Lab.Sessions(n); err == nil {
			now.sessions[n] = sessions
		}
	}
	return now
}

// gone: there is no such host any more.
func (s *chaosRun) gone(node string) bool { return !slices.Contains(s.Lab.Nodes(), node) }

// sound: all is well but for those that are hit.
func (v *sight) sound(hit map[string]bool, reflectors int) error {
	for _, pair := range v.apart {
		if !hit[pair[0]] && !hit[pair[1]] {
			return fmt.Errorf("%s has no route to %s", pair[0], pair[1])
		}
	}
	whole := 0
	for _, n := range v.nodes {
		if hit[n] {
			continue
		}
		if err := v.whole(n, hit); err != nil {
			return err
		}
		if slices.Contains(v.reflectors, n) {
			whole++
		}
	}
	for n := range hit {
		if slices.Contains(v.reflectors, n) {
			whole++ // its own occurrence waits for it
		}
	}
	if whole < reflectors {
		return fmt.Errorf("%d reflectors serve, not %d", whole, reflectors)
	}
	return nil
}

// whole: a node has an Established session with every reflector, or with every node, and none that is not.
func (v *sight) whole(node string, hit map[string]bool) error {
	up := map[string]bool{}
	for _, session := range v.sessions[node] {
		peer := v.names[session.Peer]
		known := peer != "" && !hit[peer]
		if known && !session.Established() {
			return fmt.Errorf("%s ↔ %s is %s, protocol %s", node, peer, session.State, session.ProtocolState)
		}
		up[peer] = true
	}
	delete(up, "")
	missing := slices.DeleteFunc(slices.Clone(v.reflectors), func(h string) bool {
		return h == node || hit[h] || up[h] || !slices.Contains(v.nodes, h)
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s has no session with %s", node, strings.Join(missing, ", "))
	}
	if len(up) == 0 && len(v.nodes)-len(hit) > 1 {
		return fmt.Errorf("%s has no session at all", node)
	}
	return nil
}

// served counts the reflectors that a node has an Established session with.
func (v *sight) served(node string, reflectors []string) int {
	count := 0
	for _, session := range v.sessions[node] {
		if session.Established() && !session.Mesh() && slices.Contains(reflectors, v.names[session.Peer]) {
			count++
		}
	}
	return count
}

// apart is the time between two shutdowns.
const apart = 20 * time.Second

// reflectors are those that serve, in peering order. The cluster must be at rest.
func (c *cluster) reflectors() []string {
	c.t.Helper()
	return c.inPeeringOrder(c.waitReflectors("calm", func(h []string) bool { return len(h) >= 3 }))
}

// waitReplaced waits until another node has the role instead of this one, and the others still have it.
func (c *cluster) waitReplaced(before []string, hit string) []string {
	c.t.Helper()
	stay := slices.DeleteFunc(slices.Clone(before), func(n string) bool { return n == hit })
	return c.waitReflectors("a substitute for "+hit, func(now []string) bool {
		return len(now) == len(before) && !slices.Contains(now, hit) &&
			!slices.ContainsFunc(stay, func(n string) bool { return !slices.Contains(now, n) })
	})
}

// newOne is the one that was not there before.
func newOne(before, after []string) string {
	for _, n := range after {
		if !slices.Contains(before, n) {
			return n
		}
	}
	return ""
}

func (c *cluster) onePerZone(reflectors []string) bool {
	c.t.Helper()
	zones := c.zones()
	seen := map[string]bool{}
	for _, h := range reflectors {
		seen[zones[h]] = true
	}
	return len(seen) == len(reflectors)
}

func (c *cluster) requireOnePerZone(reflectors []string) {
	c.t.Helper()
	require.True(c.t, c.onePerZone(reflectors), "%v are in zones %v", reflectors, c.zones())
}
