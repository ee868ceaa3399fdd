package poolplan_test

import (
	"fmt"
	"slices"
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

// wrongs are the beliefs that a request may meet: its effect does not come, is taintsLost, or is more than was asked for.
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
	for i := range 6 {
		w.Replace, w.Ready = []string{b.Workers[0].ID}, nil
		for _, o := range b.Workers[1:] {
			w.Ready = append(w.Ready, o.ID)
		}
		require.NoError(t, b.turn(w, i%3 == 0))
		b.Now = b.Now.Add(poolplan.SettlePause)
		require.Equal(t, 3+i+1, b.removed)
	}
	// As the day moves on it goes on by itself.
	b.Now = b.Now.Add(24 * time.Hour)
	w = want(1)
	w.Retire = []string{b.Workers[0].ID}
	require.NoError(t, b.turn(w, true))
	require.Equal(t, 3+6+1, b.removed)
}

// A pool without zones that does not show its size gets them all the same, once that has been asked for.
func TestAPoolThatShowsNoSizeGetsItsZones(t *testing.T) {
	b := &believed{State: whole(0), wrong: "the size stays"}
	w := want(2)
	w.Zones = []string{"a"}
	for zones := range 2 {
		require.NoError(t, b.turn(w, false))
		require.Len(t, b.Zones, zones, "asked %d times", b.asked)
		b.Now = b.Now.Add(time.Minute)
	}
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

// barren is a cloud whose workers deploy, and whose nodes are Ready only where they were at the beginning.
type barren struct {
	believed
	// begun is when a worker was ordered, cured says that those that come become Ready, failing that the cloud calls them failed.
	begun   map[string]time.Time
	ready   map[string]bool
	cured   bool
	failing bool
	// replaced are the times of replacements in each zone.
	replaced map[string][]time.Time
}

func newBarren(size int) *barren {
	b := &barren{believed: believed{State: whole(size, "a", "b", "c")}, begun: map[string]time.Time{}, ready: map[string]bool{}, replaced: map[string][]time.Time{}}
	for _, w := range b.Workers {
		b.ready[w.ID] = true
	}
	return b
}

// pass lets minutes pass. As a caller does, it names those that are dead for 15 minutes after they were deployed, or called failed.
func (b *barren) pass(t require.TestingT, minutes int, restarted func() bool) {
	for range minutes {
		w := want(len(b.Workers) / 3)
		before := map[string]bool{}
		for i, o := range b.Workers {
			before[o.ID] = true
			age := b.Now.Sub(b.begun[o.ID])
			if !b.begun[o.ID].IsZero() && age < 10*time.Minute {
				b.Workers[i].State = cloud.WorkerProvisioning
				continue
			}
			b.Workers[i].State = cloud.WorkerDeployed
			if _, known := b.ready[o.ID]; !known {
				b.ready[o.ID] = b.cured
			}
			switch {
			case b.ready[o.ID]:
				w.Ready = append(w.Ready, o.ID)
			case b.failing:
				b.Workers[i].State, b.Workers[i].Message = cloud.WorkerFailed, "no machine is left"
				w.Replace = append(w.Replace, o.ID)
			case age >= 25*time.Minute:
				w.Replace = append(w.Replace, o.ID)
			}
		}
		removed := b.removed
		require.NoError(t, b.turn(w, restarted()))
		for _, o := range b.Workers {
			if !before[o.ID] && b.removed > removed {
				b.begun[o.ID] = b.Now
				b.replaced[o.Zone] = append(b.replaced[o.Zone], b.Now)
			}
		}
		b.Now = b.Now.Add(time.Minute)
	}
}

func never() bool { return false }

// TestReplacementsThatComeToNothingAreBraked: those of one zone, ever longer, also over restarts; not those of others, nor
// what fails once the zone is in order again.
func TestReplacementsThatComeToNothingAreBraked(t *testing.T) {
	for name, size := range map[string]int{"the only worker of a zone": 1, "one of two": 2} {
		for _, failing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, failed %v", name, failing), func(t *testing.T) {
				for every := range 3 {
					n := 0
					restarted := func() bool { n++; return n%(7+30*every) == 0 }
					b := newBarren(size)
					b.failing = failing
					b.ready["a-0"] = false
					b.pass(t, 60, never)
					require.GreaterOrEqual(t, len(b.replaced["a"]), 2, "the first failures are replaced at once")
					require.False(t, b.said)
					b.pass(t, 2*24*60, restarted)
					require.Equal(t, !failing, b.said, "where the cloud says that a worker has failed, that is said")
					most := map[bool]int{false: 13, true: 42}[failing] // every 8 hours, or 80 minutes
					require.LessOrEqual(t, len(b.replaced["a"]), most)
					require.GreaterOrEqual(t, len(b.replaced["a"]), most/2, "and not given up")

					b.cured = true
					b.ready["b-0"] = false
					b.pass(t, 30, restarted)
					require.Len(t, b.replaced["b"], 1, "another zone is as quick as ever")
					b.pass(t, 9*60, restarted)
					all := len(b.replaced["a"])
					for id := range b.ready { // what is there dies, long after
						b.ready[id] = b.ready[id] && id[0] != 'a'
					}
					b.pass(t, 5, restarted)
					require.Len(t, b.replaced["a"], all+1)
				}
			})
		}
	}
}

// TestWorkersThatDieSoonAreBraked once several did so within a day; several that die at once are not.
func TestWorkersThatDieSoonAreBraked(t *testing.T) {
	b := newBarren(3)
	b.cured = true
	for _, id := range []string{"a-0", "a-1", "a-2"} {
		b.ready[id] = false
	}
	b.pass(t, 45, never)
	require.Len(t, b.replaced["a"], 3, "one after the other, as each is Ready")
	require.False(t, b.said)
	b = newBarren(1)
	b.cured = true
	b.ready["a-0"] = false
	for range 24 * 4 {
		b.pass(t, 15, never)
		for id := range b.begun {
			if b.Now.Sub(b.begun[id]) > 40*time.Minute {
				b.ready[id] = false
			}
		}
	}
	require.True(t, b.said)
	require.LessOrEqual(t, len(b.replaced["a"]), 13)
}

// The number of them, since when, and the cloud's words about the last are said.
func TestWhatIsSaidOfReplacementsThatComeToNothing(t *testing.T) {
	s, w := whole(1, "a"), want(1)
	w.Replace = []string{"a-0"}
	since := s.Now.Add(-2 * time.Hour)
	for _, failed := range []bool{false, true} {
		s.Workers[0].Message = "the image is broken"
		if failed {
			s.Workers[0].State = cloud.WorkerFailed
		}
		pair := poolplan.Pair{s, {Now: s.Now}}
		pair.See(poolplan.Ledger{Requests: []poolplan.Request{
			{At: s.Now.Add(-time.Minute).Unix(), Kind: poolplan.Replace, Pool: "rr", Zone: "a", Worker: "x", Shown: true, Series: 4, First: since.Unix()},
		}}, w)
		step, err := pair.Next(w)
		if failed {
			require.NoError(t, err, "the cloud says so of the worker itself")
			require.Contains(t, step.Progress.WaitingFor, "none of its last 4 replacements has stayed Ready")
			continue
		}
		require.Equal(t, cloud.Unexpected, cloud.KindOf(err))
		for _, words := range []string{"4 workers in zone a", since.UTC().Format("2006-01-02 15:04 UTC"), "the image is broken", s.Now.Add(79 * time.Minute).UTC().Format("15:04")} {
			require.ErrorContains(t, err, words)
		}
	}
}

// What a failure explains is left out first where there is too much, but never what a brake depends on.
func TestAFullRecordKeepsTheBrakes(t *testing.T) {
	l, at := poolplan.Ledger{}, int64(1_700_000_000)
	brake := poolplan.Request{At: at, Kind: poolplan.Replace, Pool: "rr", Zone: "a", Worker: "a-0", Failure: true, Shown: true, Series: 5}
	plain := poolplan.Request{At: at, Kind: poolplan.Resize, Pool: "rr", Orders: 1, Shown: true}
	l = l.Asked(brake, 0).Asked(plain, 0)
	for i := range int64(600) {
		l = l.Asked(poolplan.Request{At: at + i, Kind: poolplan.Remove, Pool: "rr", Zone: "b", Worker: fmt.Sprint(i), Failure: true, Shown: true}, 0)
	}
	again, err := poolplan.ReadLedger(l.String(), time.Unix(at+600, 0))
	require.NoError(t, err)
	require.Len(t, again.Requests, 500)
	require.Equal(t, []poolplan.Request{brake, plain}, again.Requests[:2])
}

// A request that is refused was none: what it repeats counts again.
func TestARefusedRepetitionCountsNothing(t *testing.T) {
	r := poolplan.Request{At: 1_700_000_000, Kind: poolplan.Resize, Pool: "rr", Size: 2, Orders: 3}
	once := poolplan.Ledger{}.Asked(r, 0)
	require.Equal(t, once, once.Asked(r, 0).Answered(false))
	thrice := once.Asked(r, 0).Asked(r, 0).Answered(false)
	require.Equal(t, []bool{true, false}, []bool{thrice.Requests[0].Repeated, thrice.Requests[1].Repeated})
	require.True(t, once.Asked(r, 0).Answered(true).Requests[0].Repeated, "an answer that is lost may have been a good one")
}

// A process that died between its record and the request holds its successor up by nothing, once.
func TestWhatAProcessThatDiedMayNotHaveAskedFor(t *testing.T) {
	s, w := whole(1, "a"), want(1)
	w.Zones = []string{"a", "b"}
	s.Memory.Since = s.Now
	r := poolplan.Request{At: s.Now.Add(-time.Second).Unix(), Kind: poolplan.AddZone, Pool: "rr", Zone: "b"}
	for tries, kind := range []poolplan.Kind{poolplan.AddZone, poolplan.AddZone, poolplan.None} {
		l := poolplan.Ledger{}
		for range tries {
			l = l.Asked(r, 0)
		}
		pair := poolplan.Pair{s, {Now: s.Now}}
		pair.See(l, w)
		step, err := pair.Next(w)
		require.NoError(t, err)
		require.Equal(t, kind, step.Kind, tries)
	}
}

// shrink has the pool become one of so many workers in each zone, as a caller does: one surplus worker at a time.
func (b *believed) shrink(t *testing.T, size int) {
	t.Helper()
	for range 60 {
		w, n := want(size), map[string]int{}
		for _, o := range b.Workers {
			if n[o.Zone]++; n[o.Zone] > size {
				w.Retire = []string{o.ID}
			}
		}
		require.NoError(t, b.turn(w, b.Now.Minute()%7 == 0))
		b.Now = b.Now.Add(time.Minute)
	}
}

// What somebody else resizes brings workers that nobody ordered, and is put right; what comes back without that is not.
func TestAResizeByOthersIsNoRefill(t *testing.T) {
	for _, resized := range []bool{true, false} {
		b := &believed{State: whole(2, "a", "b", "c")}
		b.shrink(t, 1)
		require.Len(t, b.Workers, 3)
		for range 3 { // three times a day
			for _, z := range b.Zones {
				b.order(z)
			}
			if resized {
				b.SizePerZone = 2
			}
			b.shrink(t, 1)
			require.Equal(t, !resized, b.said)
			if resized {
				require.Len(t, b.Workers, 3)
				require.Equal(t, 1, b.SizePerZone)
			}
		}
	}
}

// A pool may be made, and be deleted by others twice, within an hour.
func TestAPoolThatIsDeletedTwiceIsMadeAgain(t *testing.T) {
	b := &believed{State: whole(1)}
	w := want(1)
	w.Zones = []string{"a", "b", "c"}
	for range 3 {
		b.Zones, b.Workers, b.Memory = nil, nil, poolplan.Memory{}
		for range 15 {
			require.NoError(t, b.turn(w, false))
			b.Now = b.Now.Add(time.Minute)
		}
		require.Len(t, b.Workers, 3)
		require.False(t, b.said)
	}
}

// Workers that were well for twenty minutes are replaced at once, each time. Those that were for a minute are not.
func TestReplacementsThatWorkedAreNotBraked(t *testing.T) {
	for well, delayed := range map[int]bool{20: false, 2: true} {
		b := newBarren(1)
		b.cured, b.ready["a-0"] = true, false
		for i := range 6 {
			if b.pass(t, 1, never); i > 0 {
				b.pass(t, max(0, 25-10-well), never)
			}
			if !delayed {
				require.Len(t, b.replaced["a"], i+1, "%d", i)
			}
			b.pass(t, 10+well, never)
			for id := range b.ready {
				b.ready[id] = b.ready[id] && id[0] != 'a'
			}
		}
		require.Equal(t, delayed, len(b.replaced["a"]) < 6)
	}
}

// Zones that somebody else adds bring workers that nobody ordered here: what goes meanwhile comes back as soon as ever. So it is with
// a zone that was ours before, and where the manager has restarted.
func TestZonesOfOthersAreNoRefill(t *testing.T) {
	for name, others := range map[string][]string{"two new ones": {"d", "e"}, "two that were given up": {"b", "c"}} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				b := &believed{State: whole(2, "a", "b", "c")}
				w := want(2)
				w.Zones = []string{"a"}
				for range 60 { // rrpool gives up two zones
					w.Retire = nil
					for _, o := range b.Workers {
						if o.Zone != "a" {
							w.Retire = []string{o.ID}
						}
					}
					require.NoError(t, b.turn(w, false))
					b.Zones = slices.DeleteFunc(b.Zones, func(z string) bool { // as the cloud does when it is asked for RemoveZone
						return z != "a" && len(w.Retire) == 0
					})
					b.Now = b.Now.Add(time.Minute)
				}
				require.Equal(t, []string{"a"}, b.Zones)
				require.Equal(t, 4, b.removed)
				b.Zones = append(b.Zones, others...)
				b.fill()
				w.Zones, w.Retire = b.Zones, nil
				require.NoError(t, b.turn(w, restarted))
				b.take(b.Workers[0].ID)
				for range 10 {
					b.Now = b.Now.Add(time.Minute)
					require.NoError(t, b.turn(w, restarted))
				}
				require.Len(t, b.Workers, 6)
				require.False(t, b.said)
			})
		}
	}
}

// A clock that is put back stops nothing for as long as it was ahead, also in the process that has seen it so.
func TestAClockThatIsPutBackStopsNothingForLong(t *testing.T) {
	for name, step := range map[string]func(b *believed, w *cloud.PoolSpec){
		"a replacement": func(b *believed, w *cloud.PoolSpec) { w.Replace = []string{b.Workers[0].ID} },
		"a resize":      func(b *believed, _ *cloud.PoolSpec) { b.Workers = b.Workers[1:] },
		"a zone":        func(_ *believed, w *cloud.PoolSpec) { w.Zones = []string{"a", "b", "c", "d"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := &believed{State: whole(1, "a", "b", "c"), wrong: "nothing happens"}
			right, w := b.Now, want(1)
			b.Now = right.Add(8 * time.Hour)
			step(b, &w)
			require.NoError(t, b.turn(w, false))
			require.Equal(t, 1, b.asked)
			b.wrong = ""
			b.Memory = poolplan.Memory{} // its pauses go by a clock that is never put back
			for b.Now = right; b.Now.Before(right.Add(5 * time.Minute)); b.Now = b.Now.Add(time.Minute) {
				require.NoError(t, b.turn(w, false))
			}
			require.Greater(t, b.asked, 1)
		})
	}
}
