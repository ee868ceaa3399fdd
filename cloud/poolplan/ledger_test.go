package poolplan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// believed is a cloud in which one thing is not as it is believed to be.
type believed struct {
	poolplan.State
	wrong  string
	serial int
	ledger poolplan.Ledger
	// ordered and removed are what the cloud has made and taken, asked is how often it was asked, said whether it was said.
	ordered, removed, asked int
	said                    bool
}

// wrongs are the beliefs that a request may meet: its effect does not come, is undone, or is more than was asked for.
var wrongs = []string{"", "nothing happens", "what was removed comes back", "what was ordered goes", "what was ordered comes twice", "no worker comes", "no zone comes", "the size stays"}

func (b *believed) order(zone string) {
	times := 1
	switch b.wrong {
	case "no worker comes":
		return
	case "what was ordered comes twice":
		times = 2
	}
	for range times {
		b.serial++
		b.ordered++
		b.Workers = append(b.Workers, cloud.Worker{ID: zone + "-" + time.Duration(b.serial).String(), Zone: zone, State: cloud.WorkerDeployed})
	}
}

func (b *believed) take(id string) {
	for i, w := range b.Workers {
		if w.ID == id {
			b.Workers = append(append([]cloud.Worker{}, b.Workers[:i]...), b.Workers[i+1:]...)
			b.removed++
			if b.wrong == "what was removed comes back" {
				b.order(w.Zone)
			}
			return
		}
	}
}

func (b *believed) fill() {
	for _, z := range b.Zones {
		have := 0
		for _, w := range b.Workers {
			if w.Zone == z {
				have++
			}
		}
		for ; have < b.SizePerZone; have++ {
			b.order(z)
		}
	}
}

func (b *believed) apply(step poolplan.Step) {
	b.asked++
	if b.wrong == "nothing happens" {
		return
	}
	switch step.Kind {
	case poolplan.Resize:
		if b.wrong != "the size stays" {
			b.SizePerZone = step.Size
		}
		b.fill()
	case poolplan.AddZone:
		if b.wrong != "no zone comes" {
			b.Zones = append(append([]string{}, b.Zones...), step.Zone)
			b.fill()
		}
	case poolplan.Remove:
		b.take(step.Worker)
	case poolplan.Replace:
		for _, w := range b.Workers {
			if w.ID == step.Worker {
				b.take(w.ID)
				b.order(w.Zone)
			}
		}
	default:
	}
}

// turn asks for one change, as a manager that has just started would with restarted.
func (b *believed) turn(want cloud.PoolSpec, restarted bool) error {
	if restarted {
		b.Memory = poolplan.Memory{}
		again, err := poolplan.ReadLedger(b.ledger.String(), b.Now)
		if err != nil {
			return err
		}
		b.ledger = again
	}
	pair := poolplan.Pair{b.State, {Pool: cloud.Pool{Name: "rr-b"}, Now: b.Now}}
	b.ledger = pair.See(b.ledger, want)
	step, err := pair.Next(want)
	if err == nil {
		err = step.Refusal
	}
	if err == nil && step.Kind != poolplan.None {
		b.ledger = b.ledger.Asked(pair[0].Request(step, want), 0)
		b.Memory.Note(step, b.Now)
		b.apply(step)
	}
	if b.wrong == "what was ordered goes" && len(b.Workers) > 0 {
		last := b.Workers[len(b.Workers)-1].ID
		for _, w := range b.Workers {
			if w.ID == last && b.ordered > 0 {
				b.Workers = b.Workers[:len(b.Workers)-1]
			}
		}
	}
	b.said = b.said || cloud.Is(err, cloud.Unexpected)
	return nil
}

// Whatever the cloud does, a day costs a bounded number of workers and requests, wherever the manager restarts.
func TestNothingIsOrderedOrRemovedWithoutEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(t, "size")
		b := &believed{State: whole(size, "a", "b", "c"), wrong: rapid.SampledFrom(wrongs).Draw(t, "wrong")}
		w := want(rapid.IntRange(1, 3).Draw(t, "wanted"))
		w.Zones = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID[string]).Draw(t, "zones")
		if rapid.Bool().Draw(t, "one is gone") {
			b.Workers = b.Workers[1:]
		}
		for end := b.Now.Add(24 * time.Hour); b.Now.Before(end); b.Now = b.Now.Add(time.Minute) {
			w.Retire = nil
			for _, o := range b.Workers { // as a caller does: one surplus worker at a time
				n := 0
				for _, p := range b.Workers {
					if p.Zone == o.Zone {
						n++
					}
				}
				unwanted := true
				for _, z := range w.Zones {
					unwanted = unwanted && z != o.Zone
				}
				if unwanted || n > w.SizePerZone {
					w.Retire = []string{o.ID}
					break
				}
			}
			if err := b.turn(w, rapid.IntRange(0, 9).Draw(t, "restart") == 0); err != nil {
				t.Fatal(err)
			}
		}
		most := 4*max(len(b.Zones)*3, 12)*2 + 8
		if b.ordered > most || b.removed > most || b.asked > 3*most {
			t.Fatalf("%s: %d asked, %d ordered, %d removed", b.wrong, b.asked, b.ordered, b.removed)
		}
		if b.asked > 40 && !b.said {
			t.Fatalf("%s: asked %d times, and said nothing", b.wrong, b.asked)
		}
	})
}

// Failures explain what they cost: healing is as fast as it was, also when nothing else may be ordered.
func TestWhatHasFailedIsReplacedWhenTheRestIsSpent(t *testing.T) {
	b := &believed{State: whole(2, "a", "b", "c"), wrong: "what was removed comes back"}
	for range 3 * 60 {
		w := want(1)
		w.Retire = []string{b.Workers[0].ID}
		require.NoError(t, b.turn(w, false))
		b.Now = b.Now.Add(time.Minute)
	}
	require.True(t, b.said)
	require.Equal(t, 3, b.removed)
	b.wrong = ""
	w := want(2)
	for i := range 20 {
		w.Replace = []string{b.Workers[0].ID}
		require.NoError(t, b.turn(w, i%3 == 0))
		b.Now = b.Now.Add(poolplan.SettlePause)
		require.Equal(t, 3+i+1, b.removed)
	}
	// As the day moves on it goes on by itself.
	b.Now = b.Now.Add(24 * time.Hour)
	w = want(1)
	w.Retire = []string{b.Workers[0].ID}
	require.NoError(t, b.turn(w, true))
	require.Equal(t, 3+20+1, b.removed)
}

// A cloud acknowledges taints, and neither shows nor sets them: it is not asked for them every ten minutes for ever.
func TestTaintsThatAreNeverSetAreAskedForEverMoreSlowly(t *testing.T) {
	b := &believed{State: whole(2, "a", "b")}
	b.TaintsUnseen = true
	w := want(3)
	w.Untainted = []string{"a-0"}
	for range 24 * 60 {
		require.NoError(t, b.turn(w, false))
		b.Now = b.Now.Add(time.Minute)
	}
	require.Greater(t, b.asked, 2)
	require.Less(t, b.asked, 9)
}

// A record that cannot be read is not taken for none, and one of a clock that was wrong stops nothing for long.
func TestARecordThatCannotBeRead(t *testing.T) {
	_, err := poolplan.ReadLedger("{", time.Now())
	require.Error(t, err)
	l, err := poolplan.ReadLedger(`{"requests":[{"at":99999999999,"kind":"Resize","size":2}]}`, time.Unix(1000, 0))
	require.NoError(t, err)
	require.Equal(t, int64(1000), l.Requests[0].At)
}
