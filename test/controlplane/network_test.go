package controlplane

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A held port is its server's only, before it listens, while it does, and between two runs.
func TestAHeldPortIsNobodyElses(t *testing.T) {
	p, err := holdPort()
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number))
	sharing := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		require.NoError(t, failed)
		return err
	}}
	for range 2 {
		_, err := net.Listen("tcp", address)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		server, err := sharing.Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		for range 10 {
			client, err := net.Dial("tcp", address)
			require.NoError(t, err)
			came, err := server.Accept()
			require.NoError(t, err)
			require.Equal(t, client.LocalAddr().String(), came.RemoteAddr().String(), "it comes to the server, and not to whoever holds the port")
			require.NoError(t, client.Close())
			require.NoError(t, came.Close())
		}
		require.NoError(t, server.Close())
	}
	require.NoError(t, p.release())
	others, err := net.Listen("tcp", address)
	require.NoError(t, err)
	require.NoError(t, others.Close())
}
