package leaks

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestAGoroutineThatEndsLateHasNotLeaked(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	require.Error(t, goleak.Find(before), "it is there, and goleak's own patience is over")
	close(end)
	<-ended
	require.NoError(t, Find(before))
}
