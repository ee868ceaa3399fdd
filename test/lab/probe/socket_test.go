//go:build linux

package probe

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On a busy machine an answer may lie unread for seconds. It has come nevertheless, and in time.
func TestAnAnswerThatIsReadLateHasComeInTime(t *testing.T) {
	conn, err := listen(netip.MustParseAddr("127.0.0.1"))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("raw sockets are root's, here and in the namespaces of the lab")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	after := func(wait time.Duration) time.Duration {
		require.False(t, unread(conn))
		packet := make([]byte, packetSize)
		encode(packet, 7, 1, 2)
		_, err = conn.WriteToIP(packet, &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		sent := time.Now()
		for !unread(conn) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(wait)
		answer, came, err := read(conn, make([]byte, 1500), make([]byte, 256))
		require.NoError(t, err)
		_, number, sequence, ok := decode(answer)
		require.True(t, ok)
		require.Equal(t, []uint32{1, 2}, []uint32{number, sequence})
		return came.Sub(sent)
	}
	for begun := time.Now(); after(50*time.Millisecond) > 25*time.Millisecond; { // the kernel begins to note the time a little later
		require.Less(t, time.Since(begun), time.Minute)
	}
	require.Less(t, after(replyTimeout+100*time.Millisecond), replyTimeout)
	require.False(t, unread(conn))
}
