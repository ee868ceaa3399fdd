package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPodsWithAnAddressOfTheirOwnCount(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*corev1.Pod){
		"replicated": replicated, "daemon": daemon, "bare": bare, "host": inHostNetwork, "done": replicated, "failed": replicated,
	} {
		b.pod("c1", name, change)
	}
	b.phase(b.live("done"), corev1.PodSucceeded)
	b.phase(b.live("failed"), corev1.PodFailed)
	b.pod("c2", "other", replicated)
	counts, err := b.Count(t.Context(), []string{"c1", "c3"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"c1": 3, "c3": 0}, counts)
}

// requests are the lists of pods that Pods has asked for while f ran.
func (b *bench) requests(f func()) int {
	b.t.Helper()
	began := time.Now()
	f()
	all, err := b.plane.Requests(b.user, began)
	require.NoError(b.t, err)
	return len(all)
}

func TestFewNodesAreAskedOneByOneAndManyAtOnce(t *testing.T) {
	for _, tc := range []struct{ nodes, pods, requests int }{
		{fewNodes, 3, fewNodes},
		{fewNodes + 1, 3, 1},
		{fewNodes + 1, page + 3, 2},
	} {
		t.Run(fmt.Sprintf("%d nodes with %d pods", tc.nodes, tc.pods), func(t *testing.T) {
			b := newBench(t)
			var nodes []string
			for i := range tc.nodes {
				nodes = append(nodes, fmt.Sprintf("n%d", i))
			}
			for i := range tc.pods {
				b.pod("n1", fmt.Sprintf("p%d", i), replicated)
			}
			t.Cleanup(func() {
				require.NoError(t, b.kube.CoreV1().Pods(b.space).DeleteCollection(context.Background(),
					metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}, metav1.ListOptions{}))
			})
			require.Equal(t, tc.requests, b.requests(func() {
				counts, err := b.Count(t.Context(), nodes)
				require.NoError(t, err)
				require.Len(t, counts, tc.nodes)
				require.Equal(t, tc.pods, counts["n1"])
			}))
		})
	}
}

func TestCountsAreRememberedForAMoment(t *testing.T) {
	b := newBench(t)
	count := func(want int, nodes ...string) {
		t.Helper()
		counts, err := b.Count(t.Context(), nodes)
		require.NoError(t, err)
		require.Equal(t, want, counts[nodes[0]])
	}
	require.Equal(t, 2, b.requests(func() { count(0, "m1", "m2") }))
	b.pod("m1", "new", replicated)
	b.clock = b.clock.Add(memory - time.Second)
	require.Zero(t, b.requests(func() { count(0, "m1") }))
	require.Equal(t, 3, b.requests(func() { count(1, "m1", "m2", "m3") }), "one that has not been counted")
	b.pod("m1", "newer", replicated)
	b.clock = b.clock.Add(memory)
	require.Equal(t, 1, b.requests(func() { count(2, "m1") }))
}

// asked remembers the queries of requests.
type asked struct {
	http.RoundTripper
	queries []url.Values
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.queries = append(a.queries, r.URL.Query())
	return a.RoundTripper.RoundTrip(r)
}

// The apiserver finds the pods of one node by an index in memory, older ones only
// when no limit is given: with one they read every pod of the cluster from etcd.
func TestThePodsOfOneNodeAreFoundByTheIndex(t *testing.T) {
	b := newBench(t)
	cfg := b.plane.UserConfig(b.user, "system:masters")
	transport := &asked{RoundTripper: httpClient(t, cfg).Transport}
	pods, err := New(cfg, &http.Client{Transport: transport})
	require.NoError(t, err)
	_, err = pods.Count(t.Context(), []string{"i1", "i2"})
	require.NoError(t, err)
	_, _, err = pods.Evictable(t.Context(), "i1")
	require.NoError(t, err)
	_, err = pods.Evict(t.Context(), "i1")
	require.NoError(t, err)
	require.Len(t, transport.queries, 4)
	for _, query := range transport.queries {
		require.Contains(t, query.Get("fieldSelector"), "spec.nodeName=i")
		require.Empty(t, query.Get("limit"))
	}
	_, err = pods.Count(t.Context(), make([]string, fewNodes+1))
	require.NoError(t, err)
	require.Equal(t, "500", transport.queries[4].Get("limit"), "all pods come in pages")
}

// A cluster whose pods take half a minute to list must not be listed all the time.
func TestACountThatTookLongIsGoodForLonger(t *testing.T) {
	b := newBench(t)
	clock, tick := b.clock, 30*time.Second
	b.now = func() time.Time {
		clock = clock.Add(tick)
		return clock
	}
	count := func() int {
		return b.requests(func() {
			_, err := b.Count(t.Context(), []string{"l1"})
			require.NoError(t, err)
		})
	}
	require.Equal(t, 1, count())
	tick = 0
	clock = clock.Add(119 * time.Second)
	require.Zero(t, count())
	clock = clock.Add(time.Second)
	require.Equal(t, 1, count())
	clock = clock.Add(memory)
	require.Equal(t, 1, count(), "that one was quick")
}

func TestACountThatFailsIsNotRemembered(t *testing.T) {
	b := newBench(t)
	cfg := b.plane.UserConfig("stranger")
	denied, err := New(cfg, httpClient(t, cfg))
	require.NoError(t, err)
	for range 2 {
		_, err = denied.Count(t.Context(), []string{"f1", "f2"})
		require.ErrorContains(t, err, "counting the pods of 2 nodes: listing pods")
		require.ErrorContains(t, err, `User "stranger" cannot list resource "pods"`)
	}
	_, _, err = denied.Evictable(t.Context(), "f1")
	require.ErrorContains(t, err, `looking at the pods of node "f1"`)
	_, err = denied.Evict(t.Context(), "f1")
	require.ErrorContains(t, err, `evicting the pods of node "f1"`)
}
