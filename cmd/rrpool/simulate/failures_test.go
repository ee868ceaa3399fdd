package simulate

import (
	"math"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/cli"
)

func TestSetsAreCounted(t *testing.T) {
	require.Equal(t, uint64(286), choose(13, 3))
	require.Equal(t, uint64(1), choose(5, 0))
	require.Zero(t, choose(3, 4))
	require.Equal(t, uint64(math.MaxUint64), choose(1000, 500), "no overflow")
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

// What fewer failures than the depth do is not tried set by set; here it is.
func TestWhatIsSaidToSurviveDoes(t *testing.T) {
	for name, args := range map[string][]string{
		"single":    {"--nodes", "57", "--zones", "3", "--reflectors", "3", "--topology", "single"},
		"quorum":    {"--nodes", "84", "--zones", "3", "--reflectors", "6", "--topology", "quorum"},
		"hierarchy": {"--nodes", "90", "--racks", "3", "--topology", "hierarchy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &request{}
			r.register(&cobra.Command{Use: "simulate"})
			require.NoError(t, r.cmd.ParseFlags(args))
			require.NoError(t, r.complete(cli.Defaults(iostreams.Streams{})))
			s, err := r.cluster.Size(r.cluster.Spec.Topology.Type)
			require.NoError(t, err)
			a, err := r.arrange(s)
			require.NoError(t, err)
			said := a.figures()
			a.failures(said, 0)
			require.Positive(t, said.SurvivesAny)
			for k := 1; k <= said.SurvivesAny; k++ {
				tried := &figures{Reflectors: said.Reflectors}
				a.try(tried, k)
				require.Equal(t, simulate.Count{Paths: choose(said.Reflectors, k)}, tried.SetsTried)
				require.Zero(t, tried.SetsCutting, k)
			}
			broken := &figures{Reflectors: said.Reflectors}
			a.try(broken, said.SurvivesAny+1)
			require.Len(t, broken.Breaking, said.SurvivesAny+1, "one more can cut")
			require.Len(t, broken.Cut, 2)
		})
	}
}
