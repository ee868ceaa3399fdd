package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

func TestSetsAreCounted(t *testing.T) {
	require.Equal(t, uint64(286), choose(13, 3))
	require.Equal(t, uint64(1), choose(5, 0))
	require.Zero(t, choose(3, 4))
	require.Equal(t, uint64(1)<<62, choose(1000, 500), "no overflow")
	count := uint64(0)
	combinations(13, 3, func(chosen []int) bool {
		require.Less(t, chosen[0], chosen[1])
		require.Less(t, chosen[1], chosen[2])
		require.Less(t, chosen[2], 13)
		count++
		return true
	})
	require.Equal(t, choose(13, 3), count)
	combinations(2, 3, func([]int) bool { require.Fail(t, "there is none"); return false })
}

// Sets drawn from classes are, with those that they stand for, all there are.
func TestSetsOfClassesAreAllSets(t *testing.T) {
	classes := []simulate.Class{{Nodes: []string{"a", "b", "c"}}, {Nodes: []string{"d"}}, {Nodes: []string{"e", "f"}}}
	for k := range 7 {
		total := uint64(0)
		draw(classes, k, func(taken []int) bool {
			sets := uint64(1)
			for i, n := range taken {
				sets *= choose(len(classes[i].Nodes), n)
			}
			total += sets
			return true
		})
		require.Equal(t, choose(6, k), total, k)
	}
}

func TestWordsForSets(t *testing.T) {
	for want, counts := range map[string]map[string]int{
		"3 of one rack":                     {"a": 3},
		"2 of one rack, 1 of another":       {"a": 1, "b": 2},
		"1 each of 3 racks":                 {"a": 1, "b": 1, "c": 1},
		"2 of one rack, 1 each of 2 others": {"a": 2, "b": 1, "c": 1},
		"2 each of 2 racks, 1 of another":   {"a": 2, "b": 1, "c": 2},
	} {
		got := ""
		for i, part := range each(counts, "rack") {
			if i > 0 {
				got += ", "
			}
			got += part
		}
		require.Equal(t, want, got)
	}
}

// What fewer failures than the depth do is not tried set by set; here it is.
func TestWhatIsSaidToSurviveDoes(t *testing.T) {
	for name, args := range map[string][]string{
		"single":    {"--nodes", "60", "--zones", "3", "--reflectors", "3", "--topology", "single"},
		"quorum":    {"--nodes", "90", "--zones", "3", "--reflectors", "6", "--topology", "quorum"},
		"hierarchy": {"--nodes", "90", "--racks", "3", "--topology", "hierarchy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlags()
			cmd := commandOf(f)
			require.NoError(t, cmd.ParseFlags(args))
			q, err := f.question(streams())
			require.NoError(t, err)
			s, clients, err := q.settle(q.spec.Topology.Type)
			require.NoError(t, err)
			a, err := q.build(s, clients)
			require.NoError(t, err)
			said := a.failures(q.zones, 0)
			require.Positive(t, said.SurvivesAny)
			for k := 1; k <= said.SurvivesAny; k++ {
				tried := &failuresView{}
				a.sets(tried, a.reflectors(), k)
				for _, set := range tried.Sets {
					require.Zero(t, set.Cutting, "%d: %s", k, set.Which)
				}
			}
			broken := &failuresView{}
			a.sets(broken, a.reflectors(), said.SurvivesAny+1)
			require.NotEmpty(t, broken.Breaking, "one more can cut")
			guessed := &failuresView{}
			a.weakest(guessed, said.SurvivesAny+1)
			require.Len(t, guessed.Breaking, said.SurvivesAny+1)
		})
	}
}
