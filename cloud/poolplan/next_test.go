package poolplan_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

var dedicated = cloud.Taint{Key: "rrpool.io/dedicated", Value: "rr", Effect: "NoExecute"}

// whole is a pool of size workers in each zone that fulfils want(size).
func whole(size int, zones ...string) poolplan.State {
	s := poolplan.State{
		Pool: cloud.Pool{
			Exists: true, Owned: true, ID: "p", Name: "rr", SizePerZone: size, Flavor: "small",
			Zones: zones, ClusterZones: zones, Taints: []cloud.Taint{dedicated},
		},
		Now: time.Unix(1_700_000_000, 0),
	}
	for _, z := range zones {
		for i := range size {
			s.Workers = append(s.Workers, cloud.Worker{ID: fmt.Sprintf("%s-%d", z, i), Zone: z, State: cloud.WorkerDeployed})
		}
	}
	return s
}

// oneEach leaves every second worker.
func oneEach(s *poolplan.State) {
	for i := range s.Workers[:len(s.Workers)/2] {
		s.Workers[i] = s.Workers[2*i]
	}
	s.Workers = s.Workers[:len(s.Workers)/2]
}

func want(size int) cloud.PoolSpec {
	return cloud.PoolSpec{SizePerZone: size, Taints: []cloud.Taint{dedicated}}
}

func next(t *testing.T, s poolplan.State, w cloud.PoolSpec) poolplan.Step {
	t.Helper()
	step, err := poolplan.Next(s, w)
	require.NoError(t, err)
	return step
}

// nextCase is a pool of two workers in each of two zones, but for state and want, what comes next, and words of it.
type nextCase struct {
	state func(s *poolplan.State)
	want  func(w *cloud.PoolSpec)
	kind  poolplan.Kind
	step  poolplan.Step
	text  string
}

func (c nextCase) next(t *testing.T, unseen bool) poolplan.Step {
	t.Helper()
	s, w := whole(2, "a", "b"), want(2)
	s.TaintsUnseen = unseen
	if c.state != nil {
		c.state(&s)
	}
	if c.want != nil {
		c.want(&w)
	}
	step := next(t, s, w)
	require.Contains(t, step.Progress.WaitingFor, c.text)
	return step
}

func TestNext(t *testing.T) {
	for name, c := range map[string]nextCase{
		"a whole pool needs nothing":               {kind: poolplan.None},
		"no pool is created, without zones":        {state: func(s *poolplan.State) { s.Exists = false }, kind: poolplan.Create},
		"a lost taint comes before a missing zone": {state: func(s *poolplan.State) { s.Taints, s.Zones = nil, nil }, kind: poolplan.SetTaints},
		"a missing zone is added":                  {state: func(s *poolplan.State) { s.Zones = s.Zones[:1]; s.Workers = s.Workers[:2] }, kind: poolplan.AddZone},
		"a zone that lacks a worker is filled up":  {state: func(s *poolplan.State) { s.Workers = s.Workers[1:] }, kind: poolplan.Resize},
		"one that may not be listed yet, of a new zone, is not asked for again": {
			state: func(s *poolplan.State) {
				s.Memory.Note(poolplan.Step{Kind: poolplan.AddZone, Zone: "a"}, s.Now.Add(-time.Minute))
				s.Workers = s.Workers[1:]
			}, kind: poolplan.None, text: "1 more workers in zone a",
		},
		"nor one that replaces another": {
			state: func(s *poolplan.State) {
				s.Memory.Note(poolplan.Step{Kind: poolplan.Replace, Zone: "a"}, s.Now.Add(-time.Minute))
				s.Workers = s.Workers[1:]
			}, kind: poolplan.None, text: "1 more workers in zone a",
		},
		"a pool that is going away is waited for": {state: func(s *poolplan.State) { s.Deleting = true }, kind: poolplan.None, text: "on its way out"},
		"a smaller pool waits for names":          {want: func(w *cloud.PoolSpec) { w.SizePerZone = 1 }, kind: poolplan.None, text: "to be retired"},
		"a smaller pool waits for workers that may not be listed yet": {
			state: func(s *poolplan.State) {
				s.Memory.Note(poolplan.Step{Kind: poolplan.Resize, Size: 2}, s.Now.Add(-time.Minute))
				oneEach(s)
			},
			want: func(w *cloud.PoolSpec) { w.SizePerZone = 1 }, kind: poolplan.None, text: "take over the size of 1",
		},
		"and for what a process may have asked for that has just ended": {
			state: func(s *poolplan.State) { s.Memory.Since = s.Now.Add(-time.Minute); oneEach(s) },
			want:  func(w *cloud.PoolSpec) { w.SizePerZone = 1 }, kind: poolplan.None, text: "take over the size of 1",
		},
		"a smaller pool waits for those who are leaving": {
			state: func(s *poolplan.State) {
				for i := range s.Workers {
					if i%2 == 0 {
						s.Workers[i].State = cloud.WorkerDeleting
					}
				}
			},
			want: func(w *cloud.PoolSpec) { w.SizePerZone = 1 }, kind: poolplan.None, text: "Deleting",
		},
		"but not for one that has been leaving for long, as another zone lacks a worker": {
			state: func(s *poolplan.State) { s.Workers = s.Workers[:2]; s.Workers[1].State = cloud.WorkerDeleting },
			want:  func(w *cloud.PoolSpec) { w.SizePerZone, w.Stuck = 1, []string{"a-1"} }, kind: poolplan.Resize,
		},
		"one of those that are leaving may be stuck": {
			state: func(s *poolplan.State) {
				s.Workers = s.Workers[:3]
				s.Workers[1].State, s.Workers[2].State = cloud.WorkerDeleting, cloud.WorkerDeleting
			},
			want: func(w *cloud.PoolSpec) { w.SizePerZone, w.Stuck = 1, []string{"a-1"} }, kind: poolplan.None, text: "1 more workers in zone b",
		},
		"a zone that is given up waits for its workers to go": {
			state: func(s *poolplan.State) {
				s.Workers[2].State, s.Workers[3].State = cloud.WorkerDeleting, cloud.WorkerDeleting
			},
			want: func(w *cloud.PoolSpec) { w.Zones, w.Stuck = []string{"a"}, []string{"b-0"} }, kind: poolplan.None, text: "worker b-1 in zone b: Deleting",
		},
		"but not for such that have been leaving for long": {
			state: func(s *poolplan.State) {
				s.Workers[2].State, s.Workers[3].State = cloud.WorkerDeleting, cloud.WorkerDeleting
			},
			want: func(w *cloud.PoolSpec) { w.Zones, w.Stuck = []string{"a"}, []string{"b-0", "b-1"} }, kind: poolplan.RemoveZone,
		},
		"nor with one that is said to be, and works": {
			want: func(w *cloud.PoolSpec) { w.Zones, w.Stuck = []string{"a"}, []string{"b-0", "b-1"} }, kind: poolplan.None, text: "to be retired",
		},
		"a named worker is removed":        {want: func(w *cloud.PoolSpec) { w.SizePerZone, w.Retire = 1, []string{"a-0"} }, kind: poolplan.Remove},
		"a name that is gone is no matter": {want: func(w *cloud.PoolSpec) { w.Retire, w.Replace = []string{"x"}, []string{"y"} }, kind: poolplan.None},
		"a dead worker is replaced":        {want: func(w *cloud.PoolSpec) { w.Replace = []string{"a-0"} }, kind: poolplan.Replace},
		"a dead worker too many is removed instead": {
			want: func(w *cloud.PoolSpec) { w.SizePerZone, w.Replace = 1, []string{"a-0"} }, kind: poolplan.Remove,
		},
		"a zone that is getting a worker is not touched": {
			state: func(s *poolplan.State) { s.Workers[1].State = cloud.WorkerProvisioning },
			want:  func(w *cloud.PoolSpec) { w.Replace = []string{"a-0"} }, kind: poolplan.None, text: "worker a-1 to be ready before a-0",
		},
		"but by one that never gets ready nothing is held up": {
			state: func(s *poolplan.State) { s.Workers[1].State = cloud.WorkerProvisioning },
			want:  func(w *cloud.PoolSpec) { w.Replace = []string{"a-0", "a-1"} }, kind: poolplan.Replace,
		},
		"a deletion that has failed is asked for again": {
			state: func(s *poolplan.State) { s.Workers[0].State, s.Workers[0].DeleteFailed = cloud.WorkerDeleting, true }, kind: poolplan.Remove,
		},
		"so is that of the pool": {
			state: func(s *poolplan.State) { s.Deleting, s.DeleteFailed = true, true }, kind: poolplan.DeletePool,
		},
		"an empty zone that is not wanted is dropped before it fills up again": {
			state: func(s *poolplan.State) { s.Workers = s.Workers[:2] },
			want:  func(w *cloud.PoolSpec) { w.Zones = []string{"a"} }, kind: poolplan.RemoveZone,
		},
		"a zone that is not the cluster's any more stays": {
			state: func(s *poolplan.State) { s.ClusterZones, s.Workers = []string{"a"}, s.Workers[:2] }, kind: poolplan.None,
		},
		"workers that are missing wait for a zone that is given up": {
			state: func(s *poolplan.State) { s.Workers = s.Workers[1:3] }, want: func(w *cloud.PoolSpec) { w.Zones = []string{"a"} }, kind: poolplan.None, text: "to be retired",
		},
		"but not for one that is to serve meanwhile": {
			state: func(s *poolplan.State) { s.Workers = s.Workers[1:3] }, want: func(w *cloud.PoolSpec) { w.Zones, w.Refill = []string{"a"}, true }, kind: poolplan.Resize,
		},
		"which may itself lack some": {
			state: func(s *poolplan.State) { s.Workers = s.Workers[:3] }, want: func(w *cloud.PoolSpec) { w.Zones, w.Refill = []string{"a"}, true }, kind: poolplan.None,
			text: "to be retired",
		},
		"nor while the one in its place is refused": {
			state: func(s *poolplan.State) {
				s.Workers = s.Workers[1:3]
				s.Memory.Refused(poolplan.Step{Kind: poolplan.AddZone, Zone: "c"}, &cloud.Error{Kind: cloud.QuotaExceeded}, s.Now)
			},
			want: func(w *cloud.PoolSpec) { w.Zones = []string{"a", "c"} }, kind: poolplan.Resize,
		},
		"nor for a zone that is not the cluster's any more": {
			state: func(s *poolplan.State) { s.ClusterZones, s.Workers = []string{"a"}, s.Workers[1:3] }, kind: poolplan.Resize,
		},
		"a cluster without zones is waited for": {
			state: func(s *poolplan.State) { s.ClusterZones, s.Zones, s.Workers = nil, nil, nil }, kind: poolplan.None, text: "to have a zone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := c.next(t, false)
			require.Equal(t, c.kind, step.Kind, "%+v", step)
			require.Equal(t, c.kind == poolplan.None, step.String() == "")
		})
	}
}

// TestOneWorkerProvesTheTaints where the cloud does not show them: none is ordered beside it before its node has them.
func TestOneWorkerProvesTheTaints(t *testing.T) {
	empty := func(s *poolplan.State) { s.Workers, s.Zones = nil, nil }
	one := func(s *poolplan.State) { s.Workers, s.Zones, s.SizePerZone = s.Workers[:1], s.Zones[:1], 1 }
	for name, c := range map[string]nextCase{
		"the size comes down to one":               {state: empty, step: poolplan.Step{Kind: poolplan.Resize, Size: 1}},
		"then one zone":                            {state: func(s *poolplan.State) { empty(s); s.SizePerZone = 1 }, step: poolplan.Step{Kind: poolplan.AddZone, Zone: "a"}},
		"zones that wait for workers are given up": {state: func(s *poolplan.State) { s.Workers = nil }, step: poolplan.Step{Kind: poolplan.RemoveZone, Zone: "b"}},
		"more zones wait": {
			state: func(s *poolplan.State) { s.Zones, s.Workers = s.Zones[:1], s.Workers[:2] }, text: "a node of the pool to show the taint rrpool.io/dedicated=rr:NoExecute",
		},
		"a node without them has them set once more": {want: func(w *cloud.PoolSpec) { w.SizePerZone, w.Untainted = 3, []string{"a-0"} }, step: poolplan.Step{Kind: poolplan.SetTaints}},
		"more workers wait":                          {want: func(w *cloud.PoolSpec) { w.SizePerZone = 3 }, text: "a node of the pool to show the taint"},
		"also those that go":                         {state: func(s *poolplan.State) { s.Workers = s.Workers[1:] }, text: "a node of the pool to show the taint"},
		"a replacement waits": {
			want: func(w *cloud.PoolSpec) { w.Replace = []string{"a-0"} }, text: "a node of the pool to show the taint",
		},
		"the only one is replaced": {
			state: one,
			want:  func(w *cloud.PoolSpec) { w.SizePerZone, w.Replace = 1, []string{"a-0"} }, step: poolplan.Step{Kind: poolplan.Replace, Worker: "a-0", Zone: "a"},
		},
		"another zone is tried when one fails": {
			state: func(s *poolplan.State) { one(s); s.Workers[0].State = cloud.WorkerFailed }, step: poolplan.Step{Kind: poolplan.AddZone, Zone: "b"},
		},
		"what is whole is left alone": {},
		"once it is seen, all go on": {
			state: func(s *poolplan.State) { s.Zones, s.Workers = s.Zones[:1], s.Workers[:2] },
			want:  func(w *cloud.PoolSpec) { w.TaintsSeen = true }, step: poolplan.Step{Kind: poolplan.AddZone, Zone: "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.step.Kind = cmp.Or(c.step.Kind, poolplan.None)
			step := c.next(t, true)
			require.Equal(t, [4]any{c.step.Kind, c.step.Worker, c.step.Zone, c.step.Size}, [4]any{step.Kind, step.Worker, step.Zone, step.Size}, "%+v", step)
		})
	}
}

// TestAFailedOrderHoldsUpNoOtherZone, whatever the words of the failure, and is repeated after a pause.
func TestAFailedOrderHoldsUpNoOtherZone(t *testing.T) {
	s, w := whole(1, "a", "b", "c"), want(1)
	s.Zones, s.Workers = nil, nil
	ordered := func() (poolplan.Step, error) {
		t.Helper()
		step, err := poolplan.Next(s, w)
		if err == nil && step.Kind != poolplan.None {
			require.Equal(t, poolplan.AddZone, step.Kind)
			s.Memory.Refused(step, &cloud.Error{Kind: cloud.InvalidInput, Message: "nothing left in " + step.Zone}, s.Now)
		}
		return step, err
	}
	for range 2 {
		for _, zone := range []string{"a", "b", "c"} {
			step, err := ordered()
			require.NoError(t, err)
			require.Equal(t, zone, step.Zone)
			s.Now = s.Now.Add(time.Minute)
		}
		_, err := ordered()
		require.ErrorContains(t, err, "nothing left in a")
		require.Equal(t, poolplan.FailurePause-3*time.Minute, cloud.RetryAfter(err))
		s.Now = s.Now.Add(poolplan.FailurePause)
	}
	s.Memory = poolplan.Memory{}
	for i, zone := range []string{"c", "a", "b"} {
		s.Memory.Refused(poolplan.Step{Kind: poolplan.AddZone, Zone: zone}, errors.New("no"), s.Now.Add(time.Duration(i)*time.Second))
	}
	s.Now = s.Now.Add(time.Hour)
	step, err := ordered()
	require.NoError(t, err)
	require.Equal(t, "c", step.Zone, "the one that was asked for longest ago")
}

func TestAFailedWorkerIsNotReplacedAtOnceAgain(t *testing.T) {
	for state, pause := range map[cloud.WorkerState]time.Duration{cloud.WorkerFailed: poolplan.FailurePause, cloud.WorkerUnhealthy: poolplan.SettlePause} {
		s, w := whole(1, "a", "b"), want(1)
		w.Replace = []string{"a-0", "b-0"}
		for i := range s.Workers {
			s.Workers[i].State, s.Workers[i].Message = state, "no machine of this kind is left"
		}
		for _, id := range w.Replace {
			step := next(t, s, w)
			require.Equal(t, id, step.Worker)
			s.Memory.Note(step, s.Now)
		}
		s.Now = s.Now.Add(pause - time.Second)
		step := next(t, s, w)
		require.Equal(t, poolplan.None, step.Kind)
		require.Contains(t, step.Progress.WaitingFor, "zone a to ")
		s.Now = s.Now.Add(time.Second)
		step = next(t, s, w)
		require.Equal(t, poolplan.Replace, step.Kind, state)
	}
}

// One of two workers that are to be replaced never can be, and comes first: the other one is all the same.
func TestAWorkerThatCannotBeReplacedHoldsUpNoOther(t *testing.T) {
	for name, other := range map[string]string{"of another zone": "b-0", "of its zone": "a-1"} {
		s, w := whole(2, "a", "b"), want(2)
		w.Replace = []string{"a-0", other}
		for i := range s.Workers {
			s.Workers[i].State = cloud.WorkerUnhealthy
		}
		tried := map[string]int{}
		for range 4 {
			step := next(t, s, w)
			require.Equal(t, poolplan.Replace, step.Kind, name)
			tried[step.Worker]++
			s.Memory.Refused(step, &cloud.Error{Kind: cloud.InvalidInput, Message: "it is broken"}, s.Now)
			s.Now = s.Now.Add(poolplan.FailurePause)
		}
		require.Equal(t, map[string]int{"a-0": 2, other: 2}, tried, name)
	}
}

func TestMemorySpacesRequestsOut(t *testing.T) {
	s, w := whole(2, "a", "b"), want(3)
	step := next(t, s, w)
	require.Equal(t, poolplan.Resize, step.Kind)
	s.Memory.Note(step, s.Now)
	step = next(t, s, w)
	require.Equal(t, poolplan.None, step.Kind, "asked for a moment ago")
	require.False(t, step.Progress.Done)
	s.Now = s.Now.Add(poolplan.SettlePause)
	step = next(t, s, w)
	require.Equal(t, poolplan.Resize, step.Kind, "and not listened to")
}

func TestOthersTaintsStay(t *testing.T) {
	s := whole(1, "a")
	other := cloud.Taint{Key: "team", Value: "x", Effect: "NoSchedule"}
	s.Taints = []cloud.Taint{other, {Key: dedicated.Key, Value: "wrong", Effect: "NoExecute"}}
	step := next(t, s, want(1))
	require.Equal(t, poolplan.SetTaints, step.Kind)
	require.ElementsMatch(t, []cloud.Taint{dedicated, other}, step.Taints)
}

func states(t *rapid.T) (poolplan.State, cloud.PoolSpec) {
	zones := []string{"a", "b", "c"}
	places := zones
	if rapid.IntRange(0, 9).Draw(t, "placeless") == 0 {
		places = append(places, "")
	}
	s := whole(rapid.IntRange(0, 3).Draw(t, "size"), rapid.SliceOfDistinct(rapid.SampledFrom(zones), rapid.ID).Draw(t, "zones")...)
	s.Workers, s.ClusterZones = nil, zones
	if rapid.Bool().Draw(t, "untainted") {
		s.Taints = nil
	}
	s.Autoscaled = rapid.IntRange(0, 9).Draw(t, "autoscaled") == 0
	s.Owned = rapid.IntRange(0, 9).Draw(t, "owned") > 0
	w := want(rapid.IntRange(1, 3).Draw(t, "want"))
	s.TaintsUnseen, w.TaintsSeen = rapid.Bool().Draw(t, "taints unseen"), rapid.Bool().Draw(t, "taints seen")
	for i := range rapid.IntRange(0, 9).Draw(t, "workers") {
		id := fmt.Sprintf("w%d", i)
		s.Workers = append(s.Workers, cloud.Worker{
			ID: id, Zone: rapid.SampledFrom(places).Draw(t, "zone"),
			State: rapid.SampledFrom([]cloud.WorkerState{
				cloud.WorkerDeployed, cloud.WorkerProvisioning, cloud.WorkerFailed, cloud.WorkerUnhealthy, cloud.WorkerDeleting,
			}).Draw(t, "state"),
		})
		switch rapid.IntRange(0, 4).Draw(t, "named") {
		case 0:
			w.Retire = append(w.Retire, id)
		case 1:
			w.Replace = append(w.Replace, id)
		}
	}
	if rapid.Bool().Draw(t, "listed") {
		w.Zones = []string{"a", "b"}
	}
	return s, w
}

// rules that no step may break, by what would happen.
var rules = map[string]func(s poolplan.State, w cloud.PoolSpec, step poolplan.Step) bool{
	"the pool is not ours": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind != poolplan.None && !s.Owned
	},
	"a zone without taints": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind == poolplan.AddZone && !slices.Contains(s.Taints, dedicated)
	},
	"a zone of another size": func(s poolplan.State, w cloud.PoolSpec, step poolplan.Step) bool {
		trial := s.TaintsUnseen && !w.TaintsSeen && s.SizePerZone == 1
		// Where a zone that is given up would be filled up as well, the size comes after the zone.
		givenUp := len(w.Zones) > 0 && s.SizePerZone > 0 && slices.ContainsFunc(s.Zones, func(z string) bool { return !slices.Contains(w.Zones, z) })
		return step.Kind == poolplan.AddZone && s.SizePerZone != w.SizePerZone && !trial && (s.SizePerZone > w.SizePerZone || !givenUp)
	},
	"the cloud would choose the worker to go": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind == poolplan.Resize && slices.Max(append(slices.Collect(maps.Values(live(s))), 0)) > step.Size
	},
	"workers would go with the zone": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind == poolplan.RemoveZone && live(s)[step.Zone] > 0
	},
	"the worker to remove was not named": func(_ poolplan.State, w cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind == poolplan.Remove && !slices.Contains(slices.Concat(w.Retire, w.Replace), step.Worker)
	},
	"the worker to replace was not named": func(_ poolplan.State, w cloud.PoolSpec, step poolplan.Step) bool {
		return step.Kind == poolplan.Replace && !slices.Contains(w.Replace, step.Worker)
	},
	"a worker's zone is not known": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		return live(s)[""] > 0 && (step.Kind == poolplan.Resize || step.Kind == poolplan.RemoveZone)
	},
	"a second worker before one has proven its taints": func(s poolplan.State, w cloud.PoolSpec, step poolplan.Step) bool {
		able := 0
		for _, o := range s.Workers {
			if o.State != cloud.WorkerDeleting && o.State != cloud.WorkerFailed && o.ID != step.Worker {
				able++
			}
		}
		more := map[poolplan.Kind]int{poolplan.AddZone: s.SizePerZone, poolplan.Replace: 1}[step.Kind]
		for _, z := range s.Zones {
			if step.Kind == poolplan.Resize {
				more += max(0, step.Size-live(s)[z])
			}
		}
		return s.TaintsUnseen && !w.TaintsSeen && more > 0 && able+more > 1
	},
	"an autoscaler is at work": func(s poolplan.State, _ cloud.PoolSpec, step poolplan.Step) bool {
		changes := []poolplan.Kind{poolplan.Resize, poolplan.Remove, poolplan.Replace, poolplan.AddZone}
		return s.Autoscaled && slices.Contains(changes, step.Kind)
	},
}

func live(s poolplan.State) map[string]int {
	out := map[string]int{}
	for _, o := range s.Workers {
		if o.State != cloud.WorkerDeleting {
			out[o.Zone]++
		}
	}
	return out
}

func unsafe(s poolplan.State, w cloud.PoolSpec, step poolplan.Step) string {
	for reason, broken := range rules {
		if broken(s, w, step) {
			return reason
		}
	}
	return ""
}

func TestNoStepIsUnsafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, w := states(t)
		step, err := poolplan.Next(s, w)
		if err != nil {
			require.NotEmpty(t, cloud.KindOf(err))
			return
		}
		require.Empty(t, unsafe(s, w, step), "%+v", step)
		require.Equal(t, step.Kind == poolplan.None, step.Progress != cloud.Progress{}, "either a change or an answer")
		if step.Kind == poolplan.None {
			return
		}
		s.Memory.Note(step, s.Now)
		again, err := poolplan.Next(s, w)
		if err != nil {
			require.NotEmpty(t, cloud.KindOf(err))
			return
		}
		require.False(t, again.Progress.Done, "%+v does not show yet", step)
		require.NotEqual(t, [3]string{string(step.Kind), step.Worker, step.Zone}, [3]string{string(again.Kind), again.Worker, again.Zone},
			"what does not show yet is not asked for twice")
	})
}

// TestTheJudgeSeesUnsafeSteps is the negative control of the test above.
func TestTheJudgeSeesUnsafeSteps(t *testing.T) {
	bare := whole(1, "a")
	bare.Taints = nil
	alien, scaled, lost, unseen := whole(1, "a"), whole(1, "a"), whole(1, "a"), whole(1, "a")
	unseen.TaintsUnseen = true
	lost.Workers[0].Zone = ""
	alien.Owned, scaled.Autoscaled = false, true
	for _, c := range []struct {
		state poolplan.State
		step  poolplan.Step
	}{
		{bare, poolplan.Step{Kind: poolplan.AddZone, Zone: "b"}},
		{whole(2, "a"), poolplan.Step{Kind: poolplan.Resize, Size: 1}},
		{lost, poolplan.Step{Kind: poolplan.Resize, Size: 2}},
		{lost, poolplan.Step{Kind: poolplan.RemoveZone, Zone: "b"}},
		{whole(1, "a"), poolplan.Step{Kind: poolplan.RemoveZone, Zone: "a"}},
		{whole(1, "a"), poolplan.Step{Kind: poolplan.Remove, Worker: "a-0"}},
		{whole(1, "a"), poolplan.Step{Kind: poolplan.Replace, Worker: "a-0"}},
		{alien, poolplan.Step{Kind: poolplan.DeletePool}},
		{scaled, poolplan.Step{Kind: poolplan.Resize, Size: 1}},
		{unseen, poolplan.Step{Kind: poolplan.Resize, Size: 2}},
		{unseen, poolplan.Step{Kind: poolplan.AddZone, Zone: "b"}},
	} {
		require.NotEmpty(t, unsafe(c.state, want(1), c.step), "%+v", c.step)
	}
}

func TestWhatATakeOverMustNotHoldUp(t *testing.T) {
	former, growing := whole(1, "a"), whole(1, "a")
	growing.Name, growing.Flavor = "rr-b", "large"
	w := want(1)
	w.Flavor = "large"
	require.Equal(t, []string{"a"}, poolplan.Pair{former, growing}.Pool(w).Zones, "once, although both pools have it")
	t.Run("the deletion of a pool that is empty: it may be refused for long", func(t *testing.T) {
		empty := former
		empty.Workers = nil
		growing := growing
		growing.Workers = slices.Clone(growing.Workers)
		growing.Workers[0].ID, growing.Workers[0].State = "b-0", cloud.WorkerFailed
		w := w
		w.Replace = []string{"b-0"}
		step, err := poolplan.Pair{empty, growing}.Next(w)
		require.NoError(t, err)
		require.Equal(t, poolplan.Step{Kind: poolplan.Replace, Worker: "b-0", Zone: "a", Pool: "rr-b"}, step)
		w.Replace, growing.Workers[0].State = nil, cloud.WorkerDeployed
		step, err = poolplan.Pair{empty, growing}.Next(w)
		require.NoError(t, err)
		require.Equal(t, poolplan.Step{Kind: poolplan.DeletePool, Pool: "rr"}, step)
		w.Retire = []string{"a-0"}
		step, err = poolplan.Pair{empty, growing}.Next(w)
		require.NoError(t, err)
		require.Equal(t, "workers that are gone to be listed no more", step.Progress.WaitingFor, "whose caller counts one that is gone")
	})
	t.Run("a failed worker: what is wanted may be something that cannot be had", func(t *testing.T) {
		former := former
		former.Workers = slices.Clone(former.Workers)
		former.Workers[0].State = cloud.WorkerFailed
		w := w
		w.Replace = []string{"a-0"}
		for name, other := range map[string]poolplan.State{"none": {Pool: cloud.Pool{Name: "rr-b"}}, "foreign": {Pool: cloud.Pool{Name: "rr-b", Exists: true}}} {
			step, err := poolplan.Pair{former, other}.Next(w)
			require.NoError(t, err, name)
			require.Equal(t, poolplan.Step{Kind: poolplan.Replace, Worker: "a-0", Zone: "a", Pool: "rr"}, step, name)
		}
		step, err := poolplan.Pair{former, growing}.Next(w)
		require.NoError(t, err)
		require.Equal(t, poolplan.Remove, step.Kind, "the other pool has one in its place")
	})
}

// Whatever the two pools are like, the former one is only reduced: by workers that were named, and as a whole when it has none.
func TestTheFormerPoolOnlyShrinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, w := states(t)
		second, other := states(t)
		second.Name = "rr-b"
		for i := range second.Workers {
			second.Workers[i].ID = "b-" + second.Workers[i].ID
		}
		for _, id := range other.Retire {
			w.Retire = append(w.Retire, "b-"+id)
		}
		flavors := rapid.SampledFrom([]string{"small", "large", "other"})
		first.Flavor, second.Flavor, w.Flavor = flavors.Draw(t, "first"), flavors.Draw(t, "second"), flavors.Draw(t, "wanted")
		pair := poolplan.Pair{first, second}
		growing, former := pair.Sides(w)
		pool := pair.Pool(w)
		require.True(t, !former.Exists || len(pool.Workers) >= len(former.Workers))
		step, err := pair.Next(w)
		if err != nil {
			require.NotEmpty(t, cloud.KindOf(err))
			return
		}
		switch {
		case step.Kind == poolplan.None:
			require.False(t, step.Progress.Done && former.Exists)
		case step.Pool == growing.Name:
			require.NotEqual(t, poolplan.DeletePool, step.Kind)
			require.False(t, growing.Exists && !growing.Owned)
			require.False(t, step.Kind == poolplan.Resize && slices.Max(append(slices.Collect(maps.Values(live(growing))), 0)) > step.Size)
		default:
			requireReduced(t, growing, former, w, step)
		}
	})
}

func requireReduced(t *rapid.T, growing, former poolplan.State, w cloud.PoolSpec, step poolplan.Step) {
	require.Equal(t, former.Name, step.Pool)
	require.True(t, former.Owned)
	if step.Kind == poolplan.Replace {
		require.False(t, growing.Owned, "as long as there is no other pool, it heals")
		require.Contains(t, w.Replace, step.Worker)
		return
	}
	require.Contains(t, []poolplan.Kind{poolplan.Remove, poolplan.DeletePool, poolplan.SetTaints}, step.Kind)
	require.True(t, step.Kind != poolplan.DeletePool || len(former.Workers) == 0)
	require.True(t, step.Kind != poolplan.Remove || slices.Contains(slices.Concat(w.Retire, w.Replace), step.Worker))
}

// One pool that does not go is no reason to keep, and pay for, the other.
func TestEachOfTwoPoolsIsDeleted(t *testing.T) {
	stuck, other := whole(1, "a"), whole(1, "a")
	stuck.Deleting, stuck.Name, stuck.Says = true, "rr-b", "delete_failed"
	step, err := poolplan.Pair{other, stuck}.NextDelete()
	require.NoError(t, err)
	require.Equal(t, poolplan.DeletePool, step.Kind)
	require.Equal(t, other.Name, step.Pool)
	step, err = poolplan.Pair{{Pool: cloud.Pool{Name: "rr"}, Now: other.Now}, stuck}.NextDelete()
	require.NoError(t, err)
	require.False(t, step.Progress.Done)
	require.Contains(t, step.Progress.WaitingFor, "rr-b: delete_failed")
	stuck.Unmarked, stuck.Owned, stuck.Deleting = "put the label back", false, false
	_, err = poolplan.Pair{{Pool: cloud.Pool{Name: "rr"}, Now: other.Now}, stuck}.NextDelete()
	require.ErrorContains(t, err, "put the label back")
}
