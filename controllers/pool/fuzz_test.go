package pool

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func requirePlain(t *testing.T, text string, most int) {
	t.Helper()
	require.LessOrEqual(t, len(text), most)
	require.True(t, utf8.ValidString(text), "%q", text)
	require.NotContains(t, text, "\n")
	require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }), "%q", text)
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
			{Name: "client", ProviderID: "ibm://acc///c1/w0", Labels: map[string]string{"ibm-cloud.kubernetes.io/worker-id": "w0"}, Created: born, Zone: "z1"},
			{Name: "one", ProviderID: "ibm://acc///c1/w1", Labels: map[string]string{"ibm-cloud.kubernetes.io/worker-id": "w1", v1alpha1.PoolLabel: poolName}, Created: born},
			{Name: "two", ProviderID: "ibm://acc///c1/w2", Labels: map[string]string{"ibm-cloud.kubernetes.io/worker-id": "w2", v1alpha1.PoolLabel: poolName}, Created: born},
		}
		for _, n := range honest {
			if n.Name == name {
				t.Skip("names of nodes are unique")
			}
		}
		members := map[string]string{"w1": "z1", "w2": "z2"}
		alone := slices.Clone(honest)
		fillIn(iks.Platform{}, alone, poolName, members)

		// The label of the worker is one that NodeRestriction keeps from kubelets.
		evil := plan.Node{Name: name, ProviderID: providerID, Labels: map[string]string{v1alpha1.PoolLabel: pool}, Created: time.Unix(age, 0)}
		with := append(slices.Clone(honest), evil)
		fillIn(iks.Platform{}, with, poolName, members)
		require.Equal(t, alone, with[:len(alone)])
		if (iks.Platform{}).IdentityOf(evil).WorkerID != "" {
			require.False(t, with[3].Pooled, "the cloud has no such worker for it")
		}
		require.Equal(t, workersOf(poolOf(supplied, alone, cloud.Taint{}, true)), workersOf(poolOf(supplied, with, cloud.Taint{}, true)))

		// Where that is not kept, it still takes nothing from who came before.
		evil.Labels["ibm-cloud.kubernetes.io/worker-id"] = worker
		if evil.Created = time.Unix(max(age, 1001), 0); evil.Created.Before(born) {
			evil.Created = born.Add(time.Second)
		}
		with = append(slices.Clone(honest), evil)
		fillIn(iks.Platform{}, with, poolName, members)
		require.Equal(t, alone, with[:len(alone)])
		if problem := crossCheck("c1", clusterIDs(iks.Platform{}, with)); problem != nil {
			requirePlain(t, apiText(problem.Message), maxNote)
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
		requirePlain(t, apiText(problem.Message), maxNote)
		for _, line := range capped([]string{text, "ok", text}, 3) {
			requirePlain(t, line, maxNote)
		}
		if utf8.ValidString(text) && len(text) <= maxNote && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
			require.Equal(t, text, apiText(text), "what is plain stays as it is")
		}
		did := poolChanged(text)
		require.LessOrEqual(t, len(did.action), maxAction)
	})
}

// A kubelet may write a megabyte into its Node, and the manager must not spend hours on making that short.
func TestALongTextIsShortenedAtOnce(t *testing.T) {
	began := time.Now()
	for _, text := range []string{strings.Repeat("ß", 1<<20), strings.Repeat("\x80", 1<<20)} {
		requirePlain(t, apiText(text), maxNote)
	}
	require.Less(t, time.Since(began), 5*time.Second)
}
