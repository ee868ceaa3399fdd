//go:build linux

// Package chaos_test breaks clusters on purpose, with the real manager watching, and counts the packets that are
// lost: in scenarios with a known end (TestInPlaceReflectorsFailAndAreReplaced and others), and at random, from a
// seed, with a report of what each cause has cost (TestChaos).
package chaos_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

// limit is how long any one wait may take on a slow machine.
const limit = 5 * time.Minute

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// cluster is a site under test.
type cluster struct {
	*site.Site
	t   *testing.T
	ctx context.Context //nolint:containedctx // of the test
}

// start builds a cluster and starts the manager in it.
func start(t *testing.T, options site.Options) *cluster {
	t.Helper()
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, options)
	c := &cluster{Site: s, t: t, ctx: ctx}
	require.NoError(t, c.StartManager("--leader-elect=false"))
	return c
}

// stage is a part of a scenario, with a name for the test.
type stage struct {
	name string
	do   func(*cluster)
}

// stages play one after the other in the same cluster, until one cannot be played
// to its end. That packets are lost is no reason to miss what comes next.
func (c *cluster) stages(stages []stage) {
	c.t.Helper()
	for _, stage := range stages {
		played := false
		passed := c.t.Run(stage.name, func(t *testing.T) {
			here := *c
			here.t = t
			stage.do(&here)
			played = true
		})
		if !passed && !played {
			c.t.FailNow()
		}
	}
}

// hasty shortens waits that are nothing but time. The safety net's are not.
func hasty(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Rollout.NotReadyGrace = metav1.Duration{Duration: 5 * time.Second}
	o.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 10 * time.Second}
}

// waitFor waits until the pool is as asked.
func (c *cluster) waitFor(what string, is func(*v1alpha1.RouteReflectorPool) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	require.NoError(c.t, c.WaitFor(ctx, what, is))
}

// waitReflectors waits until exactly those serve that is says, and the manager has nothing to do. It names them.
func (c *cluster) waitReflectors(what string, is func(reflectors []string) bool) []string {
	c.t.Helper()
	var reflectors []string
	c.waitFor(what, func(o *v1alpha1.RouteReflectorPool) bool {
		now, err := c.CurrentReflectors(c.ctx)
		if err != nil || !is(now) || !ready(o) {
			return false
		}
		reflectors = now
		return true
	})
	return reflectors
}

// ready: the manager has nothing to do, and all sessions are there.
func ready(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady" &&
		meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReflectorsEstablished)
}

// zones gives each node's zone.
func (c *cluster) zones() map[string]string {
	c.t.Helper()
	list, err := c.Lab.Kube().CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	require.NoError(c.t, err)
	zones := map[string]string{}
	for i := range list.Items {
		zones[list.Items[i].Name] = list.Items[i].Labels["topology.kubernetes.io/zone"]
	}
	return zones
}

// edit changes the pool's spec.
func (c *cluster) edit(change func(*v1alpha1.RouteReflectorPoolSpec)) {
	c.t.Helper()
	require.NoError(c.t, c.Edit(c.ctx, change))
}

// keeper starts the manager again whenever it ends, as a kubelet does. It runs with leader election, as it does in a cluster: one
// that is killed leaves its lease behind.
type keeper struct {
	site *site.Site
	note func(string, ...any)

	mu   sync.Mutex
	away bool // on purpose
}

func (k *keeper) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = false
	return k.site.StartManager()
}

func (k *keeper) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = true
	k.site.KillManager()
	return nil
}

func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		k.startAgain()
	}
}

func (k *keeper) startAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away || !k.site.ManagerEnded() {
		return
	}
	k.note("the manager ended by itself, and is started again")
	if err := k.site.StartManager(); err != nil {
		k.note("the manager does not start: %v", err)
	}
}
