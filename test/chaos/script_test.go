//go:build linux

package chaos_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// blow is one disturbance as it is drawn. Whom it befalls is known when it falls: nodes come and go.
type blow struct {
	fault *fault
	// pick chooses among those whom it may befall.
	pick uint64
	// after is the time since the blow before it, at least; hold is how long it lasts.
	after, hold time.Duration
}

// part is a part of a run, with a script of its own.
type part uint64

const (
	there part = iota + 1
	storming
	back
)

// perGrave is how many ordinary blows fall between two grave ones.
const perGrave = 5

// draw writes the script of a part: the same seed gives the same blows. All of a kind fall before any falls again.
func draw(seed uint64, p part, n int) []blow {
	random := rand.New(rand.NewPCG(seed, uint64(p)))
	ordinary, grave := deck{random: random}, deck{random: random}
	for _, f := range faults {
		switch {
		case p != storming && !f.early:
		case f.grave:
			grave.all = append(grave.all, f)
		default:
			ordinary.all = append(ordinary.all, f)
		}
	}
	script := make([]blow, n)
	for i := range script {
		from := &ordinary
		if len(grave.all) > 0 && i%(perGrave+1) == perGrave {
			from = &grave
		}
		f := from.take()
		script[i] = blow{
			fault: f, pick: random.Uint64(),
			after: between(random, time.Second, 7*time.Second), hold: between(random, f.least, f.most),
		}
	}
	return script
}

// deck gives out all its cards in a random order before it is shuffled again.
type deck struct {
	random    *rand.Rand
	all, left []*fault
}

func (d *deck) take() *fault {
	if len(d.left) == 0 {
		d.left = append(d.left, d.all...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// between is a random time, in tenths of a second.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return least + time.Duration(random.Int64N(int64((most-least)/unit)+1))*unit
}

func TestTheSameSeedIsTheSameChaos(t *testing.T) {
	const blows = 200
	for _, p := range []part{there, storming, back} {
		script := draw(7, p, blows)
		require.Equal(t, script, draw(7, p, blows))
		require.NotEqual(t, script, draw(8, p, blows))
		seen := map[string]bool{}
		for _, b := range script {
			require.True(t, p == storming || b.fault.early, b.fault.name)
			require.True(t, b.hold >= b.fault.least && b.hold <= b.fault.most, b.fault.name)
			seen[b.fault.name] = true
		}
		for _, f := range faults {
			require.Equal(t, p == storming || f.early, seen[f.name], f.name)
		}
	}
}
