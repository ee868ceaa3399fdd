//go:build linux

package probe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func here(do func() error) error { return do() }

// On a busy machine a probe may lie unread for seconds. It has come nevertheless, and in time.
func TestAProbeThatIsReadLateHasComeInTime(t *testing.T) {
	s, err := listen(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	after := func(wait time.Duration) time.Duration {
		require.False(t, s.unread())
		sent := time.Now()
		require.NoError(t, s.send(message{id: 7, number: 1, sequence: 2, sent: sent}.encode(make([]byte, messageSize)), s.address))
		for !s.unread() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(wait)
		got, err := s.read(make([]byte, 1500), make([]byte, 256))
		require.NoError(t, err)
		m, ok := decode(got.packet)
		require.True(t, ok)
		require.Equal(t, message{id: 7, number: 1, sequence: 2, sent: time.Unix(0, sent.UnixNano())}, m)
		return got.came.Sub(sent)
	}
	for begun := time.Now(); after(50*time.Millisecond) > 25*time.Millisecond; { // the kernel begins to note the time a little later
		require.Less(t, time.Since(begun), time.Minute)
	}
	require.Less(t, after(arrivalTimeout+100*time.Millisecond), arrivalTimeout)
	require.False(t, s.unread())
}

// A socket without room says how much it has dropped, and the report says that the machine lost it.
func TestWhatASocketHasNoRoomForIsTheMachines(t *testing.T) {
	s, err := listen(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	require.NoError(t, s.SetReadBuffer(4096))
	probed := message{sent: time.Now()}.encode(make([]byte, messageSize))
	for range 1000 {
		require.NoError(t, s.send(probed, s.address))
	}
	p := New(0, 0)
	t.Cleanup(func() { _ = p.Stop() })
	p.receive(s)
	require.Eventually(t, func() bool {
		require.NoError(t, s.send(probed, s.address)) // the number comes with the packet after
		return len(p.Report().Machine) == 1
	}, time.Minute, time.Millisecond)
	require.Greater(t, p.Report().Machine[0].Lost, 100)
	require.NoError(t, s.Close())
}

// Two programs, as in the pods of two nodes: each says what came of the other's probes, and one answer is as good as many.
func TestProbersOfTwoPrograms(t *testing.T) {
	addresses := map[string]netip.Addr{"a": netip.MustParseAddr("127.0.77.1"), "b": netip.MustParseAddr("127.0.77.2")}
	probers := map[string]*Prober{}
	for name, address := range addresses {
		p := New(time.Millisecond, 0)
		t.Cleanup(func() { _ = p.Stop() })
		require.NoError(t, p.Control(here))
		require.NoError(t, p.Add(name, address, here))
		probers[name] = p
	}
	require.NoError(t, probers["a"].Add("b", addresses["b"], nil))
	require.NoError(t, probers["b"].Add("a", addresses["a"], nil))
	sent := func(name string) (sent, lost int) { return probers[name].Report().Totals() }
	require.Eventually(t, func() bool {
		a, lostByA := sent("a")
		b, lostByB := sent("b")
		return a > 100 && b > 100 && lostByA == 0 && lostByB == 0
	}, time.Minute, 10*time.Millisecond)
	require.Empty(t, probers["a"].Report().Machine)

	require.NoError(t, probers["b"].Remove("b"))
	require.Eventually(t, func() bool { _, lost := sent("a"); return lost > 100 }, time.Minute, 10*time.Millisecond)
	require.ErrorContains(t, probers["a"].Report().ZeroLoss(), "a → b lost")
}

// A service is wherever a host serves it, until that ends.
func TestAServedAddressIsReceived(t *testing.T) {
	p := New(time.Millisecond, 0)
	t.Cleanup(func() { _ = p.Stop() })
	service := netip.MustParseAddr("127.0.78.9")
	require.NoError(t, p.Add("a", netip.MustParseAddr("127.0.78.1"), here))
	require.NoError(t, p.Add("service", service, nil))
	done, err := p.Serve(service, here)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		sent, _ := p.Report().Totals()
		return sent > 100 && p.Report().ZeroLoss() == nil
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, done())
	require.Eventually(t, func() bool { return p.Report().ZeroLoss() != nil }, time.Minute, 10*time.Millisecond)
}

func TestAcknowledgementsSayWhichOfTheLatestProbesCame(t *testing.T) {
	var a arrivals
	came := map[uint32]bool{}
	for _, sequence := range []uint32{0, 1, 3, 2, 70, 64, 600, 650, 5} {
		came[sequence] = true
		a.add(sequence)
	}
	m, ok := decode(message{acknowledges: true, sequence: a.latest, window: a.window}.encode(make([]byte, messageSize)))
	require.True(t, ok)
	s := &series{}
	for range 700 {
		s.begin(0)
	}
	s.take(m, 0)
	for sequence, arrived := range s.arrived {
		require.Equal(t, came[uint32(sequence)] && 650-sequence < windowSize, arrived, sequence)
	}
	for _, packet := range [][]byte{nil, magic, append(magic, 1), message{acknowledges: true}.encode(make([]byte, messageSize))[:headerSize+1]} {
		_, ok := decode(packet)
		require.False(t, ok)
	}
}
