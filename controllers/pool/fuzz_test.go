package pool

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// requirePlain holds a text to what the API takes and a terminal may show.
func requirePlain(t *testing.T, text string, most int) {
	t.Helper()
	require.LessOrEqual(t, len(text), most)
	require.True(t, utf8.ValidString(text), "%q", text)
	require.NotContains(t, text, "\n")
	require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }), "%q", text)
}

// shelf is an apiserver that has one ConfigMap.
type shelf struct {
	client.Reader
	content string
}

func (s shelf) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.(*corev1.ConfigMap).Data = map[string]string{clusterInfoKey: s.content} //nolint:forcetypeassert // nothing else is asked for
	return nil
}

// Whatever ConfigMap cluster-info says, it gives an ID that can be put into an address, or
// a condition that says what to do.
func FuzzClusterInfo(f *testing.F) {
	for _, seed := range []string{
		`{"cluster_id":"c1","name":"n","crn":"crn:v1"}`, `{"cluster_id":""}`, `{"cluster_id":1}`, `{`, ``, `null`, `[]`,
		`{"cluster_id":"../../v1/clusters/x"}`, `{"cluster_id":"a&cluster=b"}`, `{"cluster_id":"a\n\u001b[2Jb"}`, `{"CLUSTER_ID":"upper"}`,
		`{"cluster_id":"` + strings.Repeat("a", 100) + `"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		r := &Reconciler{Live: shelf{content: content}}
		id, problem := r.findClusterID(t.Context(), "")
		if problem != nil {
			require.Empty(t, r.clusterID, "what is no ID is not remembered")
			require.Equal(t, ReasonClusterIDUnknown, problem.Reason)
			require.Contains(t, problem.Message, "set spec.provider.iks.clusterID")
			requirePlain(t, short(problem.Message), maxNote)
			return
		}
		_, err := iks.New(iks.Config{ClusterID: id, PoolName: "p", APIKey: "k"})
		require.NoError(t, err)
		var says map[string]any
		require.NoError(t, json.Unmarshal([]byte(content), &says))
		require.Contains(t, slices.Collect(maps.Values(says)), id)
	})
}

// A node that claims to be what it is not takes nothing from the others: not their
// machines, not their place in the pool, not their zones. Nor does it get into the pool
// by what a kubelet may write: it has its own machine, and the cloud does not know that.
func FuzzProviderID(f *testing.F) {
	f.Add("ibm://acc///c1/w9", "route-reflectors", "", int64(0), "evil")
	f.Add("ibm://acc///c1/w1", "route-reflectors", "", int64(5), "aaa")
	f.Add("ibm://acc///c1/w1", "", "w2", int64(5), "zzz")
	f.Add("ibm:///////w1", "existing-nodes", "", int64(5), "evil")
	f.Add("aws:///z/i-1", "route-reflectors", "w\x1b[2J", int64(9), "evil")
	f.Add("ibm://\n"+strings.Repeat("x/", 300), "route-reflectors", "", int64(9), "evil")
	f.Fuzz(func(t *testing.T, providerID, pool, worker string, age int64, name string) {
		const poolName = "route-reflectors"
		born := time.Unix(1000, 0)
		honest := []plan.Node{
			{Name: "client", ProviderID: "ibm://acc///c1/w0", Labels: map[string]string{workerIDLabel: "w0"}, Created: born, Zone: "z1"},
			{Name: "one", ProviderID: "ibm://acc///c1/w1", Labels: map[string]string{workerIDLabel: "w1", v1alpha1.PoolLabel: poolName}, Created: born},
			{Name: "two", ProviderID: "ibm://acc///c1/w2", Labels: map[string]string{workerIDLabel: "w2", v1alpha1.PoolLabel: poolName}, Created: born},
		}
		for _, n := range honest {
			if n.Name == name {
				t.Skip("names of nodes are unique")
			}
		}
		members := map[string]string{"w1": "z1", "w2": "z2"}
		alone := slices.Clone(honest)
		fillIn(alone, poolName, members)

		// The label of the worker is one that NodeRestriction keeps from kubelets.
		evil := plan.Node{Name: name, ProviderID: providerID, Labels: map[string]string{v1alpha1.PoolLabel: pool}, Created: time.Unix(age, 0)}
		with := append(slices.Clone(honest), evil)
		fillIn(with, poolName, members)
		require.Equal(t, alone, with[:len(alone)])
		if workerID(evil) != "" {
			require.False(t, with[3].Pooled, "the cloud has no such worker for it")
		}
		require.Equal(t, workersOf(poolOf(supplied, alone, cloud.Taint{}, true)), workersOf(poolOf(supplied, with, cloud.Taint{}, true)))

		// Where that is not kept, it still takes nothing from who came before.
		evil.Labels[workerIDLabel] = worker
		if evil.Created = time.Unix(max(age, 1001), 0); evil.Created.Before(born) {
			evil.Created = born.Add(time.Second)
		}
		with = append(slices.Clone(honest), evil)
		fillIn(with, poolName, members)
		require.Equal(t, alone, with[:len(alone)])
		if problem := crossCheck("c1", with); problem != nil {
			requirePlain(t, short(problem.Message), maxNote)
		}
	})
}

// supplied is the pool as the cloud has it.
var supplied = &cloud.Pool{Exists: true, Owned: true, Workers: []cloud.Worker{
	{ID: "w1", NodeName: "one", Zone: "z1", State: cloud.WorkerDeployed}, {ID: "w2", NodeName: "two", Zone: "z2", State: cloud.WorkerDeployed},
}}

func workersOf(pool *rollout.ObservedPool) []rollout.ObservedWorker { return pool.Workers }

// Whatever the cloud or a node says, what gets into conditions, events and the status is
// one line that the API takes, and is made in no time.
func FuzzWords(f *testing.F) {
	f.Add("quota exceeded", "RateLimited")
	f.Add("\x1b[2J\x1b[H√ all is well\n\r\u202egnorw si siht", "Conflict")
	f.Add(strings.Repeat("ß\n", 400), "")
	f.Add("\xff\xfe\x00"+strings.Repeat("\x80", 1100), "Unavailable")
	f.Add(strings.Repeat("ɐ ", 100), "")
	f.Fuzz(func(t *testing.T, text, kind string) {
		problem := cloudProblem(&cloud.Error{Kind: cloud.Kind(kind), Op: "asking", Message: text})
		requirePlain(t, short(problem.Message), maxNote)
		for _, line := range capped([]string{text, "ok", text}, 3) {
			requirePlain(t, line, maxNote)
		}
		if utf8.ValidString(text) && len(text) <= maxNote && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
			require.Equal(t, text, short(text), "what is plain stays as it is")
		}
		did := poolChanged(text)
		require.LessOrEqual(t, len(did.action), maxAction)
	})
}

// A kubelet may write a megabyte into its Node, and the manager must not spend hours on making that short.
func TestALongTextIsShortenedAtOnce(t *testing.T) {
	began := time.Now()
	for _, text := range []string{strings.Repeat("ß", 1<<20), strings.Repeat("\x80", 1<<20)} {
		requirePlain(t, short(text), maxNote)
	}
	require.Less(t, time.Since(began), 5*time.Second)
}
