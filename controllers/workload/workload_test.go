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
	policyv1 "k8s.io/api/policy/v1"
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
	b.clock = b.clock.Add(countAge - time.Second)
	require.Zero(t, b.requests(func() { count(0, "m1") }))
	require.Equal(t, 3, b.requests(func() { count(1, "m1", "m2", "m3") }), "one that has not been counted")
	b.pod("m1", "newer", replicated)
	b.clock = b.clock.Add(countAge)
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
	clock = clock.Add(countAge)
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

func TestWhatCanMoveIsEvictedAndTheRestStays(t *testing.T) {
	b := newBench(t)
	stays := map[string]func(*corev1.Pod){"daemon": daemon, "mirror": mirror, "host": inHostNetwork, "bare": bare}
	for name, change := range stays {
		b.pod("e1", name, change)
	}
	b.pod("e1", "web", replicated)
	b.pod("e1", "scratch", withEmptyDir)
	b.pod("e2", "elsewhere", replicated)
	want := []string{b.space + "/scratch", b.space + "/web"}
	left, staying, err := b.Evictable(t.Context(), "e1")
	require.NoError(t, err)
	require.Equal(t, want, left)
	require.Equal(t, []string{b.space + "/bare"}, staying)

	did, err := b.Evict(t.Context(), "e1")
	require.NoError(t, err)
	require.Equal(t, Eviction{Evicted: 2}, did)
	for name := range stays {
		require.Nil(t, b.live(name).DeletionTimestamp, name)
	}
	require.Nil(t, b.live("elsewhere").DeletionTimestamp)
	require.EqualValues(t, 77, *b.live("web").DeletionGracePeriodSeconds, "its own")

	left, _, err = b.Evictable(t.Context(), "e1")
	require.NoError(t, err)
	require.Equal(t, want, left, "they are on their way, and not gone")
	again, err := b.Evict(t.Context(), "e1")
	require.NoError(t, err)
	require.Zero(t, again.Evicted, "once is enough")
	b.kill("web")
	b.kill("scratch")
	left, _, err = b.Evictable(t.Context(), "e1")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestABudgetIsKeptAndNamed(t *testing.T) {
	b := newBench(t)
	b.pod("b1", "one", replicated)
	b.pod("b1", "two", replicated)
	b.budget("pdb", true, 1)
	did, err := b.Evict(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, 1, did.Evicted, "as many as it lets go")
	require.Len(t, did.Blocked, 1)
	require.Contains(t, did.Blocked[0], b.space+"/")
	require.Contains(t, did.Blocked[0], "The disruption budget pdb ")
	left, _, err := b.Evictable(t.Context(), "b1")
	require.NoError(t, err)
	require.Len(t, left, 2)

	require.NoError(b.t, b.kube.PolicyV1().PodDisruptionBudgets(b.space).Delete(b.t.Context(), "pdb", metav1.DeleteOptions{}))
	did, err = b.Evict(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, Eviction{Evicted: 1}, did, "without the budget it goes")
}

// The apiserver proposes to come back in ten seconds, which client-go would do by itself, ten times.
func TestABudgetThatIsNotCountedYetHoldsUpNobody(t *testing.T) {
	b := newBench(t)
	b.pod("u1", "web", replicated)
	b.budget("fresh", false, 0)
	var did Eviction
	var err error
	require.Equal(t, 2, b.requests(func() { did, err = b.Evict(t.Context(), "u1") }), "listed, and asked to go once")
	require.NoError(t, err)
	require.Equal(t, []string{b.space + "/web: The disruption budget fresh is still being processed by the server."}, did.Blocked)

	// The same request by client-go's own method does wait.
	began := time.Now()
	impatient, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.Error(t, b.kube.CoreV1().Pods(b.space).EvictV1(impatient, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web"}}))
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
}

func TestOnePodThatCannotBeAskedDoesNotKeepTheOthers(t *testing.T) {
	b := newBench(t)
	b.pod("t1", "protected", replicated)
	b.pod("t1", "web", func(p *corev1.Pod) {
		replicated(p)
		p.Labels = nil
	})
	b.budget("one", true, 1)
	b.budget("two", true, 1)
	did, err := b.Evict(t.Context(), "t1")
	require.ErrorContains(t, err, `evicting pod "`+b.space+`/protected" from node "t1"`)
	require.ErrorContains(t, err, "more than one PodDisruptionBudget")
	require.Equal(t, 1, did.Evicted)
}

func TestAnotherPodOfTheNameIsNotEvicted(t *testing.T) {
	b := newBench(t)
	old := b.pod("a1", "web-0", replicated)
	b.kill("web-0")
	b.pod("a1", "web-0", replicated)
	require.Error(t, b.evict(t.Context(), old))
	require.Nil(t, b.live("web-0").DeletionTimestamp)
	require.NoError(t, b.evict(t.Context(), b.live("web-0")))
	require.NotNil(t, b.live("web-0").DeletionTimestamp)
}

// stuck lets so many evictions through, and then nothing until the caller's time is up, which is at once.
type stuck struct {
	http.RoundTripper
	left, asked int
	timeUp      context.CancelFunc
}

func (s *stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return s.RoundTripper.RoundTrip(r)
	}
	s.asked++
	if s.left--; s.left < 0 {
		s.timeUp()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.RoundTripper.RoundTrip(r)
}

// Time that runs out after some pods were asked is no failure: the others are asked next time.
func TestWhenTimeRunsOutTheOthersAreAskedNextTime(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"p1", "p2", "p3", "p4"} {
		b.pod("h1", name, replicated)
	}
	cfg := b.plane.UserConfig(b.user, "system:masters")
	transport := &stuck{RoundTripper: httpClient(t, cfg).Transport, left: 1}
	pods, err := New(cfg, &http.Client{Transport: transport})
	require.NoError(t, err)
	evict := func() (Eviction, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		transport.timeUp = cancel
		return pods.Evict(ctx, "h1")
	}
	did, err := evict()
	require.NoError(t, err)
	require.Equal(t, Eviction{Evicted: 1}, did)
	require.Equal(t, 2, transport.asked)
	_, err = evict()
	require.ErrorContains(t, err, `evicting pod "`+b.space+`/p2" from node "h1"`, "no pod at all could be asked")
	require.NotContains(t, err.Error(), "p3", "one is enough")
	transport.left = 2
	did, err = evict()
	require.NoError(t, err)
	require.Equal(t, 2, did.Evicted)
}
