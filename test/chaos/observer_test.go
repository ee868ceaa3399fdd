//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
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

// reflectors are those that the API last said.
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

// watchCloud looks at the pool twice a second.
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

// judge gives the invariants that did not hold.
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
