package topology_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEveryPlanConnectsEverybodyAsDeeplyAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		l, problem := w.settle(rapid.IntRange(1, 9).Draw(t, "sized"))
		if problem != nil {
			t.Logf("%s", problem.Message)
			return
		}
		net := w.network()
		require.Empty(t, net.Unreached(func(string) bool { return true }))
		require.Equal(t, l.Depth, net.Depth(l.Depth+1, isClient))
	})
}
