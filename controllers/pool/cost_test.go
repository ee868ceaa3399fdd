package pool_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// hired gives the cluster another node, labelled as a worker of that flavor in a pool.
func (w *world) hired(poolName, flavor string) {
	w.Helper()
	number := len(w.calico.cluster.Nodes) + 1
	n := node(fmt.Sprintf("10.0.1.%d", number), fmt.Sprintf("rr%d", number), fmt.Sprintf("z%d", number%3+1))
	n.Labels = map[string]string{
		pool.PoolLabel: poolName, "ibm-cloud.kubernetes.io/machine-type": flavor, "ibm-cloud.kubernetes.io/region": "eu-de",
	}
	w.calico.cluster.Nodes = append(w.calico.cluster.Nodes, n)
}

// priced is what as many workers cost by the entry of the built-in book, which is read here by itself.
func priced(t *testing.T, flavor string, workers int) *v1alpha1.CostStatus {
	t.Helper()
	book, err := cost.Builtin()
	require.NoError(t, err)
	for _, e := range book.Entries() {
		if e.Flavor == flavor && e.Region == "eu-de" {
			return &v1alpha1.CostStatus{
				Currency: e.Currency, Hourly: e.Hourly.Times(workers).Short(6), Monthly: e.Hourly.Times(720 * workers).Round(2),
				Source: "the built-in prices of " + e.Date.Format(time.DateOnly) + "; rrpool cost has the details",
			}
		}
	}
	require.Fail(t, "no price", flavor)
	return nil
}

// expectCost holds the status and the metric to a cost, nil for none.
func (w *world) expectCost(want *v1alpha1.CostStatus) {
	w.Helper()
	require.Equal(w, want, w.object().Status.Cost)
	w.expectMetric(want)
}

func (w *world) expectMetric(want *v1alpha1.CostStatus) {
	w.Helper()
	var lines []string
	for _, line := range told(w, w.metrics) {
		if strings.HasPrefix(line, "pool_cost_hourly") {
			lines = append(lines, line)
		}
	}
	if want == nil || want.Hourly == "" {
		require.Empty(w, lines, "a 0 would be taken for free")
		return
	}
	require.Equal(w, []string{"pool_cost_hourly " + want.Currency + " " + want.Hourly}, lines)
}

func (w *world) setMode(mode v1alpha1.Mode) {
	w.Helper()
	object := w.object()
	object.Spec.Mode = mode
	require.NoError(w, w.client.Update(w.Context(), object))
}

// The whole life of a pool, as somebody pays for it.
func TestThePoolCostsFromItsFirstNodeToItsLast(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.settle(2)
	w.expectCost(nil)

	for range 3 {
		w.hired("route-reflectors", small)
	}
	w.settle(1)
	w.expectCost(priced(t, small, 3))

	writes := w.writes
	for range 3 { // until all prices are older than a year
		w.clock = w.clock.AddDate(1, 0, 0)
		require.NoError(t, w.reconcile())
	}
	w.restart()
	require.NoError(t, w.reconcile())
	require.Equal(t, writes, w.writes, "at rest nothing is written")

	w.hired("route-reflectors", small+".encrypted")
	w.settle(1)
	w.expectCost(priced(t, small, 4))
	require.Equal(t, writes+1, w.writes, "the count above counts")

	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeFullMesh, v1alpha1.ModePaused} {
		w.setMode(mode)
		w.settle(2)
		w.expectCost(priced(t, small, 4))
	}

	w.calico.cluster.Nodes = w.calico.cluster.Nodes[:6]
	w.settle(1)
	w.expectCost(nil)
}

// Neither the cloud nor its key is needed to tell: nodes say what they are.
func TestTheCostNeedsNoCloud(t *testing.T) {
	for name, away := range map[string]func(*world){
		"the cloud does not answer": func(w *world) { w.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "observing"} },
		"there is no key":           func(w *world) { require.NoError(w, w.client.Delete(w.Context(), secret(""))) },
		"the pool has no workers yet, by the cloud": func(w *world) {
			w.cloud.pool = cloud.Pool{Exists: true, Owned: true, SizePerZone: 1, Zones: []string{"z1"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.script = always(steady)
			w.hired("route-reflectors", small)
			away(w)
			w.settle(2)
			w.expectCost(priced(t, small, 1))
		})
	}
}

// While the cluster cannot be observed the status keeps what was known, and the metric,
// which has no room for "was", is absent.
func TestTheCostStaysWhileNothingIsSeen(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.hired("route-reflectors", small)
	w.settle(1)
	w.calico.err = errors.New("no route to host")
	require.Error(t, w.reconcile())
	w.expect("Ready Unknown ObservationFailed")
	require.Equal(t, priced(t, small, 1), w.object().Status.Cost)
	w.expectMetric(nil)
}

func TestWhatIsNotPaidForAsThePool(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.hired("somebody-else", small)
	w.hired("route-reflectors-2", small)
	w.settle(2)
	w.expectCost(nil)
}

// Existing nodes cost nothing extra, whatever their labels say.
func TestExistingNodesHaveNoCost(t *testing.T) {
	w := newBusyWorld(t)
	w.script = always(rollout.Step{Name: rollout.Steady})
	for i := range w.calico.cluster.Nodes {
		w.calico.cluster.Nodes[i].Labels = map[string]string{
			pool.PoolLabel: pool.ExistingPool, "node.kubernetes.io/instance-type": small, "topology.kubernetes.io/region": "eu-de",
		}
	}
	w.calico.cluster.Nodes[0].Labels[pool.PoolLabel] = w.object().Spec.Provider.IKS.PoolName
	w.settle(2)
	require.Equal(t, pool.ExistingPool, w.object().Status.Pool)
	w.expectCost(nil)
}

// Nothing is guessed: what has no exact amount has none, and the source says why.
func TestAnUnknownPriceIsNamedAndNotGuessed(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.hired("route-reflectors", "odd.1x1")
	w.settle(1)
	w.expectCost(&v1alpha1.CostStatus{Source: "no price is known of odd.1x1 in eu-de; rrpool cost says how to give one"})

	w.hired("route-reflectors", small)
	w.settle(1)
	known := priced(t, small, 1)
	w.expectCost(&v1alpha1.CostStatus{
		Source: "at least " + known.Monthly + " USD/month by " + strings.TrimSuffix(known.Source, "rrpool cost has the details") +
			"no price is known of odd.1x1 in eu-de; rrpool cost says how to give one",
	})
}

// Nodes change in any order and come in any order: only what they cost together counts.
func TestTheOrderOfNodesIsNoNews(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	for _, flavor := range []string{small, "bx2.4x16", "odd.1x1", "odd.2x2"} {
		w.hired("route-reflectors", flavor)
	}
	w.settle(1)
	before, writes := w.object().Status.Cost, w.writes
	require.NotNil(t, before)
	nodes := w.calico.cluster.Nodes
	for range nodes {
		nodes = append(nodes[1:len(nodes):len(nodes)], nodes[0])
		w.calico.cluster.Nodes = append([]plan.Node{}, nodes...)
		for i := range w.calico.cluster.Nodes { // others hold these maps
			w.calico.cluster.Nodes[i].Labels = maps.Clone(w.calico.cluster.Nodes[i].Labels)
		}
		require.NoError(t, w.reconcile())
	}
	require.Equal(t, before, w.object().Status.Cost)
	require.Equal(t, writes, w.writes)
}

// small is a flavor that has a price.
const small = "bx2.2x8"
