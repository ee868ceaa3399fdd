package reflector

import (
	"bufio"
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhatAClientAnnouncesIsReadAsItWasMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, MostClients-1).Draw(t, "client")
		kind, body, err := read(bufio.NewReaderSize(bytes.NewReader(announce(block(number), clientAddress(number))), largestMessage))
		require.NoError(t, err)
		require.EqualValues(t, typeUpdate, kind)
		withdrawn, announced, err := split(body)
		require.NoError(t, err)
		require.Empty(t, withdrawn)
		var prefixes []netip.Prefix
		require.NoError(t, each(announced, func(p netip.Prefix) error { prefixes = append(prefixes, p); return nil }))
		require.Equal(t, []netip.Prefix{block(number)}, prefixes)
		from, err := owner(prefixes[0])
		require.NoError(t, err)
		require.Equal(t, number, from)
		require.True(t, nodeNetwork.Contains(clientAddress(number)))
	})
}

func TestAnOpenOffersToSendAndReceiveSeveralPaths(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		body := open(as, clientAddress(0), restarted)[headerSize:]
		several, err := addPath(body)
		require.NoError(t, err)
		require.True(t, several)
	}
	plain := []byte{4, 0xfc, 0, 0, 240, 172, 20, 0, 1, 0}
	several, err := addPath(plain)
	require.NoError(t, err)
	require.False(t, several, "no capabilities at all")
	receiveOnly := slices.Concat(plain[:9], []byte{8, 2, 6, capabilityAddPath, 4, 0, 1, 1, 1})
	several, err = addPath(receiveOnly)
	require.NoError(t, err)
	require.False(t, several, "one direction is not enough")
}

func TestNoMessageMakesTheReaderPanicOrReadBeyondItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "body")
		_, _ = addPath(body)
		if withdrawn, announced, err := split(body); err == nil {
			require.LessOrEqual(t, len(withdrawn)+len(announced)+4, len(body))
			_ = each(withdrawn, func(netip.Prefix) error { return nil })
			_ = each(announced, func(netip.Prefix) error { return nil })
		}
	})
}

func TestWhatEndsEarlyIsRefused(t *testing.T) {
	whole := announce(block(1), clientAddress(1))
	for size := headerSize; size < len(whole); size++ {
		_, _, err := read(bufio.NewReaderSize(bytes.NewReader(whole[:size]), largestMessage))
		require.Error(t, err)
	}
	_, _, err := split([]byte{0, 9, 0, 0})
	require.ErrorIs(t, err, errShort)
	require.ErrorIs(t, each([]byte{0, 0, 0, 1, 26, 10}, nil), errShort)
	_, err = owner(netip.MustParsePrefix("10.240.0.0/24"))
	require.Error(t, err)
}

func TestATallyIsFullOnlyWhileAllCount(t *testing.T) {
	full := newTally(2)
	reached := func() bool {
		select {
		case <-full.reached():
			return true
		default:
			return false
		}
	}
	full.add(1)
	require.False(t, reached())
	full.add(1)
	require.True(t, reached())
	first := full.since()
	full.add(-1)
	require.False(t, reached(), "one is gone")
	full.add(1)
	require.True(t, reached())
	require.False(t, full.since().Before(first))
	require.Equal(t, 2, full.value())
}

func TestASetOfOwnersForgetsWhatIsRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.IntRange(0, 199)).Draw(t, "numbers")
		set, model := noOwners(200), map[int]bool{}
		for _, n := range numbers {
			if model[n] {
				set.remove(n)
				delete(model, n)
			} else {
				set.add(n)
				model[n] = true
			}
		}
		for n := range 200 {
			require.Equal(t, model[n], set.has(n))
		}
	})
}
