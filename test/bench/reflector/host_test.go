//go:build linux

package reflector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIdleCoresAreNotBusy(t *testing.T) {
	spent, err := parseBusy("cpu  100 10 20 99999 88888 1 2 3 0 0\ncpu0 1 2 3 4\n")
	require.NoError(t, err)
	require.Equal(t, 1360*time.Millisecond, spent)
	_, err = parseBusy("intr 1 2 3\n")
	require.Error(t, err)
}
