package controlplane

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rrpool/rrpool/test/leaks"
)

func TestMain(m *testing.M) { Main(m) }

func TestWritesFindsWhoWroteWhatAndWhen(t *testing.T) {
	plane := ForTest(t)
	client := kubernetes.NewForConfigOrDie(plane.UserConfig("writer", "system:masters"))
	start, next := time.Now(), plane.Follow("writer")
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.CoreV1().ConfigMaps("default").Delete(context.Background(), "written", metav1.DeleteOptions{}))
	})
	_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	writes, err := plane.Writes("writer", start)
	require.NoError(t, err)
	require.Len(t, writes, 1)
	got := writes[0]
	require.Equal(t, []any{"create", "configmaps", "default", "written", 201, false}, []any{got.Verb, got.Resource, got.Namespace, got.Name, got.Code, got.Lease()}, got.String())

	requests, err := plane.Requests("writer", start)
	require.NoError(t, err)
	require.Len(t, requests, 2)
	for _, want := range [][]AuditEvent{requests, nil} {
		event, err := next()
		require.NoError(t, err)
		require.Equal(t, want, event)
	}

	writes, err = plane.Writes("writer", time.Now())
	require.NoError(t, err)
	require.Empty(t, writes, "an earlier write was counted")
	writes, err = plane.Writes("another", start)
	require.NoError(t, err)
	require.Empty(t, writes, "another user's write was counted")
}

func TestTheDataAndTheUsersSurviveARestartOfTheAPIServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	ignored := goleak.IgnoreCurrent()
	plane, err := Start(ctx, Options{})
	require.NoError(t, err)
	config := plane.AdminConfig()
	client := kubernetes.NewForConfigOrDie(config)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, plane.StopAPIServer())
	require.ErrorContains(t, plane.StopAPIServer(), "ended by itself")
	_, err = client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
	require.Error(t, err, "the apiserver still answers")
	require.NoError(t, plane.StartAPIServer(ctx))
	plane.KillAPIServer()
	require.NoError(t, plane.StartAPIServer(ctx))
	_, err = client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
	require.NoError(t, err)

	require.NoError(t, plane.PauseEtcd())
	soon, cancelSoon := context.WithTimeout(ctx, time.Second)
	defer cancelSoon()
	_, err = client.CoreV1().Namespaces().Create(soon, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	require.Error(t, err, "etcd still answers")
	require.NoError(t, plane.ResumeEtcd())
	_, err = client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
	require.NoError(t, err)

	dir := plane.Dir()
	require.NoError(t, plane.Stop())
	require.NoError(t, plane.Stop(), "stopping twice")
	require.NoDirExists(t, dir)
	require.NoError(t, leaks.Find(ignored))
}

// A held port is its server's only, before it listens, while it does, and between two runs.
func TestAHeldPortIsItsServersAlone(t *testing.T) {
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
			require.Equal(t, client.LocalAddr().String(), came.RemoteAddr().String(), "it comes to the server, and not to the holder of the port")
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
