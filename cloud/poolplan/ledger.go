package poolplan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// How much may be asked of a cloud that does not do as it was told. A worker that has failed explains one order, which
// counts for none of this.
const (
	// window is how long a request counts.
	window = 24 * time.Hour
	// fewUnasked is how many workers may come that nobody ordered after the first removal. Then no more are removed: a
	// cloud that refills what was removed would have one removed after the other.
	fewUnasked = 3
	// mostRequests is what is kept at most, so that an annotation can hold it.
	mostRequests = 500
)

// limits of orders, and of removals, that no failure explains, for a pool of so many workers: all of them may be
// ordered and exchanged twice within an hour, and five times within a day.
func limits(workers int) (hour, day int) { return 3*workers + 2, 6*workers + 4 }

// Ledger is what was asked of the cloud within the last day. Unlike a Memory it outlives the process, and it bounds what
// is asked for; the zero value bounds nothing.
type Ledger struct {
	// Lasting is the size per zone that was wanted at the last request, without substitutes; 0: unknown.
	Lasting  int       `json:"lasting,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	// Sizes and Zones are those that the pools had last, and Anew is since when only rrpool has changed them: what others resize,
	// or give a zone, brings workers that nobody ordered here.
	Sizes map[string]int      `json:"sizes,omitempty"`
	Zones map[string][]string `json:"zones,omitempty"`
	Anew  int64               `json:"anew,omitempty"`
}

// Request is one request to the cloud.
type Request struct {
	// At is in seconds since 1970.
	At     int64  `json:"at"`
	Kind   Kind   `json:"kind"`
	Pool   string `json:"pool,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Worker string `json:"worker,omitempty"`
	Size   int    `json:"size,omitempty"`
	// Options is the fingerprint of the flavor and options that were wanted: others are a new wish.
	Options string `json:"options,omitempty"`
	// Orders and Removals are how many workers it was to bring and to take, of Live in both pools.
	Orders   int `json:"orders,omitempty"`
	Removals int `json:"removals,omitempty"`
	Live     int `json:"live,omitempty"`
	// Failure: a worker that failed, or is dead, explains it.
	Failure bool `json:"failure,omitempty"`
	// Shown: its effect was seen. Lost: its answer was not, so it may not have been made. Repeated: it was asked for again
	// without an effect, and is one with that.
	Shown    bool `json:"shown,omitempty"`
	Lost     bool `json:"lost,omitempty"`
	Repeated bool `json:"repeated,omitempty"`
	// Series is how many replacements in a row, since First, have brought the zone no Ready node that stays, this one included.
	// Others are the zone's other workers then: Ready is since when the node of one which came later is Ready, and Worked says
	// that it was for proofTime.
	Series int      `json:"series,omitempty"`
	First  int64    `json:"first,omitempty"`
	Others []string `json:"others,omitempty"`
	Ready  int64    `json:"ready,omitempty"`
	Worked bool     `json:"worked,omitempty"`
}

func (r Request) at() time.Time { return time.Unix(r.At, 0).UTC() }

// repeats: o asks for the same as r.
func (r Request) repeats(o Request) bool {
	return r.Kind == o.Kind && r.Pool == o.Pool && r.Zone == o.Zone && r.Worker == o.Worker && r.Size == o.Size
}

// ReadLedger reads what String has written.
func ReadLedger(text string, now time.Time) (Ledger, error) {
	var l Ledger
	if text == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return Ledger{}, fmt.Errorf("the record of what was ordered cannot be read: %w", err)
	}
	return l.within(now), nil
}

// String is the ledger as it is kept.
func (l Ledger) String() string {
	text, _ := json.Marshal(l) // numbers and words
	return string(text)
}

// within leaves out what is older than the window, or too much: of that first what a failure explains, and nothing that makes
// others wait. What is later than now is of a clock that was put back, and must not stop orders until then.
func (l Ledger) within(now time.Time) Ledger {
	l.Requests = slices.DeleteFunc(slices.Clone(l.Requests), func(r Request) bool { return r.at().Before(now.Add(-window)) })
	for i := range l.Requests {
		r := &l.Requests[i]
		r.At, r.First, r.Ready = min(r.At, now.Unix()), min(r.First, now.Unix()), min(r.Ready, now.Unix())
	}
	l.Anew = min(l.Anew, now.Unix())
	for len(l.Requests) > mostRequests {
		i := slices.IndexFunc(l.Requests, func(r Request) bool { return r.Failure && !l.delays(r) })
		if i < 0 {
			i = max(0, slices.IndexFunc(l.Requests, func(r Request) bool { return !l.delays(r) }))
		}
		l.Requests = slices.Delete(l.Requests, i, i+1)
	}
	return l
}

// delays: what asks for the same, or for another replacement in the zone, waits for r.
func (l Ledger) delays(r Request) bool {
	last, _ := l.replacement(r.Pool, r.Zone)
	return !r.Shown || r.Kind == Replace && last.At == r.At && last.Worker == r.Worker
}

// replacement is the last one in a zone of a pool, without one that may not have been made.
func (l Ledger) replacement(pool, zone string) (Request, bool) {
	for _, r := range slices.Backward(l.Requests) {
		if r.Kind == Replace && r.Pool == pool && r.Zone == zone && (r.Shown || !r.Lost) {
			return r, true
		}
	}
	return Request{}, false
}

// Asked is the ledger with a request. What it repeats, without an effect so far, is one with it: no request that is
// repeated brings more than it does once.
func (l Ledger) Asked(r Request, lasting int) Ledger {
	l = l.within(r.at())
	for i := range l.Requests {
		if o := &l.Requests[i]; r.Orders+r.Removals > 0 && r.repeats(*o) && (!o.Shown || r.Worker != "") { // no worker goes twice
			o.Repeated = true
		}
	}
	l.Lasting, l.Requests = cmp.Or(lasting, l.Lasting), append(l.Requests, r)
	return l
}

// Answered is the ledger after the last request was refused, which makes it none, or its answer was lost. What a refused
// one repeats counts again.
func (l Ledger) Answered(lost bool) Ledger {
	last := len(l.Requests) - 1
	if l.Requests = slices.Clone(l.Requests); lost {
		l.Requests[last].Lost = true
		return l
	}
	refused := l.Requests[last]
	l.Requests = l.Requests[:last]
	for i := range slices.Backward(l.Requests) {
		if refused.repeats(l.Requests[i]) {
			l.Requests[i].Repeated = false
			break
		}
	}
	return l
}

// tries are the requests that step would repeat, none of which had an effect.
func (l Ledger) tries(step Request) (out []Request) {
	for _, r := range slices.Backward(l.Requests) {
		switch {
		case !r.repeats(step) || r.Lost:
		case r.Shown:
			return out
		default:
			out = append(out, r)
		}
	}
	return out
}

// See brings both pools' ledger up to date with what they show.
func (p *Pair) See(l Ledger, want cloud.PoolSpec) Ledger {
	l = p.seeShapes(l.within(p[0].Now))
	for i, r := range l.Requests {
		for _, s := range p {
			if s.Name == r.Pool {
				l.Requests[i].Shown = r.Shown || s.shows(r, want, p.live())
				l.Requests[i].Ready = 0
				if r.Kind == Replace && s.hasNew(r, want.Ready) {
					l.Requests[i].Ready = cmp.Or(r.Ready, s.Now.Unix())
					l.Requests[i].Worked = r.Worked || s.Now.Unix()-l.Requests[i].Ready >= int64(proofTime.Seconds())
				}
			}
		}
	}
	for i, r := range l.Requests {
		if last, _ := l.replacement(r.Pool, r.Zone); last.Shown && last.At > r.At {
			l.Requests[i].Others = nil // an annotation is to hold it
		}
	}
	for i := range p {
		p[i].Ledger, p[i].total = l, p.live()
	}
	return l
}

// seeShapes notes which sizes and zones the pools have, and when others have changed them.
func (p *Pair) seeShapes(l Ledger) Ledger {
	sizes, zones := map[string]int{}, map[string][]string{}
	for _, s := range p {
		if s.Exists && !s.SizeUnknown {
			sizes[s.Name], zones[s.Name] = s.SizePerZone, s.Zones
			if s.changedByOthers(l) {
				l.Anew = s.Now.Unix()
			}
		}
	}
	l.Sizes, l.Zones = sizes, zones
	return l
}

// changedByOthers: the pool has another size than it had, or zones that came or went, and that was not asked for.
func (s State) changedByOthers(l Ledger) bool {
	size, sized := l.Sizes[s.Name]
	zones, zoned := l.Zones[s.Name]
	asked, awaited := size, []string{}
	for _, r := range l.Requests {
		switch {
		case r.Pool != s.Name:
		case r.Size > 0:
			asked = r.Size
		case !r.Shown && (r.Kind == AddZone || r.Kind == RemoveZone):
			awaited = append(awaited, r.Zone)
		}
	}
	differs := func(zone string) bool {
		return slices.Contains(zones, zone) != slices.Contains(s.Zones, zone) && !slices.Contains(awaited, zone)
	}
	return sized && s.SizePerZone != size && s.SizePerZone != asked || zoned && slices.ContainsFunc(slices.Concat(zones, s.Zones), differs)
}

// live counts the workers of both pools.
func (p *Pair) live() int {
	n := 0
	for _, s := range p {
		for _, w := range s.Workers {
			if w.State != cloud.WorkerDeleting {
				n++
			}
		}
	}
	return n
}

// shows: the pool is as the request was to make it.
func (s State) shows(r Request, want cloud.PoolSpec, live int) bool {
	switch r.Kind {
	case Create:
		return s.Exists
	case DeletePool:
		return !s.Exists || s.Deleting
	case SetTaints:
		return s.TaintsUnseen || Tainted(s.Taints, want.Taints) // of what the cloud never shows, nothing can be said
	case AddZone:
		return slices.Contains(s.Zones, r.Zone)
	case RemoveZone:
		return !slices.Contains(s.Zones, r.Zone)
	case Resize:
		return r.Orders > 0 && live > r.Live || r.Orders == 0 && s.SizePerZone == r.Size
	case Remove, Replace:
		_, there := s.worker(r.Worker)
		return !there
	case None:
	}
	return true
}

// Request is step as it is recorded.
func (s State) Request(step Step, want cloud.PoolSpec) Request {
	r := Request{
		At: s.Now.Unix(), Kind: step.Kind, Pool: s.Name, Zone: step.Zone, Worker: step.Worker, Size: step.Size,
		Options: Fingerprint(want), Live: s.total,
	}
	w, _ := s.worker(step.Worker)
	r.Failure = step.Kind == Replace || step.Kind == Remove && (w.State == cloud.WorkerFailed || slices.Contains(want.Replace, w.ID))
	switch step.Kind {
	case AddZone:
		r.Orders = cmp.Or(s.SizePerZone, want.SizePerZone)
	case Resize:
		for _, z := range s.Zones {
			r.Orders += max(0, step.Size-s.live(z))
		}
	case Replace:
		r.Orders, r.Removals, r.Series, r.First = 1, 1, 1, r.At
		for _, o := range s.Workers {
			if o.Zone == step.Zone && o.ID != step.Worker {
				r.Others = append(r.Others, o.ID)
			}
		}
		if last, n := s.vain(step, want); n > 0 {
			r.First, r.Series = last.First, n
			if last.Worker != step.Worker {
				r.Series++
			}
		}
	case Remove:
		if w.ID != "" { // else it goes already
			r.Removals = 1
		}
	case None, Create, SetTaints, RemoveZone, DeletePool:
	}
	return r
}

// hasNew: a worker of the zone that was not there at replacement r is one of ready.
func (s State) hasNew(r Request, ready []string) bool {
	return slices.ContainsFunc(s.Workers, func(w cloud.Worker) bool {
		return w.Zone == r.Zone && w.ID != r.Worker && !slices.Contains(r.Others, w.ID) && slices.Contains(ready, w.ID)
	})
}

// vain is the last replacement in the zone of step, a replacement, and how many in a row have come to nothing: the node of
// the new worker was never Ready, or not for long. Step may be about one that was there before, while the new one is well.
// Those that worked count when there are more than oftenWorked for each worker of the zone within a day.
func (s State) vain(step Step, want cloud.PoolSpec) (last Request, n int) {
	last, ok := s.Ledger.replacement(s.Name, step.Zone)
	switch {
	case !ok || slices.Contains(last.Others, step.Worker) && s.hasNew(last, want.Ready):
		return last, 0
	case last.Worked:
		worked := len(slices.DeleteFunc(slices.Clone(s.Ledger.Requests), func(r Request) bool { return !r.Worked || r.Pool != s.Name || r.Zone != step.Zone }))
		return last, max(0, worked/max(1, s.live(step.Zone))-oftenWorked)
	}
	return last, max(last.Series, 1)
}

// proofTime is how long the node of a new worker is Ready before the worker counts as one that works.
const proofTime = 10 * time.Minute

// oftenWorked is how many workers in the place of one may die a day, after they had worked, before the next ones are delayed.
const oftenWorked = 5

// longestBrake is the longest pause between two replacements in a zone.
const longestBrake = 8 * time.Hour

// braked says what step, a replacement, waits for, as those before it in the zone have come to nothing; "" for nothing. The first
// one delays the second no more than any; from then on the pause doubles. Where the cloud itself says that a worker has failed, it may
// be for want of machines, which are mostly not paid for and may be had at any time; why it failed is said all the time.
func (s State) braked(step Step, want cloud.PoolSpec) (wait string, problem error) {
	last, n := s.vain(step, want)
	w, _ := s.worker(step.Worker)
	longest := longestBrake
	if w.State == cloud.WorkerFailed {
		longest = longestPause
	}
	again := last.at().Add(min(FailurePause<<min(max(n-1, 0), 8), longest))
	if n < 2 || !s.Now.Before(again) {
		return "", nil
	}
	wait = fmt.Sprintf("zone %s to be tried again at %s, as none of its last %d replacements has stayed Ready", step.Zone, clock(again), n)
	if n >= manyTries && w.State != cloud.WorkerFailed {
		problem = s.unexpected(again, "rrpool has replaced %d workers in zone %s, one after the other, since %s, and the node of none became Ready and stayed so. The last one is %s. "+
			"It is replaced at %s; until then see why it does not become a node (ibmcloud ks worker get --worker %s, kubectl describe node)",
			n, step.Zone, clock(time.Unix(last.First, 0)), describe(w), clock(again), w.ID)
	}
	return wait, problem
}

// manyTries without an effect are a problem. Fewer are a cloud that takes its time.
const manyTries = 3

// repeated says what to wait for, as the same was asked for before and has no effect so far; "" for nothing. The pause
// doubles with each try.
func (s State) repeated(step Step) (wait string, problem error) {
	tries := s.Ledger.tries(s.Request(step, cloud.PoolSpec{}))
	// A process that has ended may have died before it asked. What the API would do once only is asked for once more.
	died := len(tries) == 1 && step.Kind != Replace && tries[0].at().Before(s.Memory.Since)
	if len(tries) == 0 || died {
		return "", nil
	}
	again := tries[0].at().Add(SettlePause << min(len(tries)-1, 8))
	if !s.Now.Before(again) {
		return "", nil
	}
	wait = fmt.Sprintf("the cloud to show that rrpool %s", step)
	if len(tries) >= manyTries {
		problem = s.unexpected(again, "rrpool %s, and the cloud has acknowledged that %d times since %s, without an effect: %s; it is asked for again at %s"+seeWho,
			step, len(tries), clock(tries[len(tries)-1].at()), s.shape(), clock(again))
	}
	return wait, problem
}

// shape says what the pool is like now.
func (s State) shape() string {
	return fmt.Sprintf("pool %s has %d workers, the size %d per zone, and the zones %s", s.Name, s.total, s.SizePerZone, cmp.Or(cloud.Capped(s.Zones, ", "), "none"))
}

// clock writes a time for a message.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// seeWho is the remedy where something else may change the pool.
const seeWho = "; see what else changes the pool (ibmcloud ks worker ls, ibmcloud ks worker-pool get)"

func (s State) unexpected(again time.Time, format string, args ...any) error {
	return &cloud.Error{
		Kind: cloud.Unexpected, Op: fmt.Sprintf("changing pool %q", s.Name), RetryAfter: min(again.Sub(s.Now), FailurePause), Message: fmt.Sprintf(format, args...),
	}
}

// unaffordable says why step is not taken now: more came than was ordered, or more was ordered or removed than
// any failure explains. Each request that no longer counts lets another one through.
func (s State) unaffordable(step Step, want cloud.PoolSpec) error {
	r := s.Request(step, want)
	if r.Failure || r.Orders == 0 && r.Removals == 0 {
		return nil
	}
	if came, first := s.unasked(); came >= fewUnasked {
		return s.unexpected(first.at().Add(window), "since %s rrpool has removed %d workers and ordered %d, so there should be %d, and there are %d: "+
			"what is removed comes back, or something else orders workers; none is ordered or removed until %s, but those that fail are replaced"+seeWho,
			clock(first.at()), s.sum(first.at(), Request.removed), s.sum(first.at(), Request.ordered), s.total-came, s.total, clock(first.at().Add(window)))
	}
	workers := max(s.total, want.SizePerZone*len(zonesOf(s, want)))
	for _, o := range s.Ledger.Requests {
		workers = max(workers, o.Live+o.Orders)
	}
	hour, day := limits(workers)
	for _, l := range []budget{
		{"ordered", Request.ordered, hour, time.Hour, true},
		{"removed", Request.removed, hour, time.Hour, true},
		{"ordered", Request.ordered, day, window, false},
		{"removed", Request.removed, day, window, false},
	} {
		if again := s.room(l, r); again.After(s.Now) {
			return s.unexpected(again, "rrpool has %s %d workers within %s that no failure explains, for a pool of %d: none is ordered or removed until %s, "+
				"but those that fail are replaced"+seeWho, l.what, s.sum(s.Now.Add(-l.over), l.of), l.over, workers, clock(again))
		}
	}
	return nil
}

// budget is how many workers may be ordered, or removed, within a time; with same, of one wish for flavor and options.
type budget struct {
	what  string
	of    func(Request) int
	limit int
	over  time.Duration
	same  bool
}

// ordered counts the orders that failures do not explain: each worker that was taken away as it had failed makes up for one.
func (r Request) ordered() int {
	switch {
	case r.Repeated:
		return 0
	case r.Failure:
		return r.Orders - r.Removals
	}
	return r.Orders
}

// removed counts the removals that failures do not explain.
func (r Request) removed() int {
	if r.Failure || r.Repeated {
		return 0
	}
	return r.Removals
}

// sum adds up the requests since then.
func (s State) sum(since time.Time, of func(Request) int) int {
	n := 0
	for _, r := range s.Ledger.Requests {
		if !r.at().Before(since) {
			n += of(r)
		}
	}
	return n
}

// room is when there is room for r within b.
func (s State) room(b budget, r Request) time.Time {
	n := b.of(r)
	for _, o := range slices.Backward(s.Ledger.Requests) {
		if o.at().Add(b.over).After(s.Now) && (!b.same || o.Options == r.Options) {
			n += b.of(o)
		}
		if n > b.limit {
			return o.at().Add(b.over)
		}
	}
	return s.Now
}

// unasked is how many more workers there are than there should be, since the first removal that no failure explains, and
// since the first request: what was ordered before that removal may have come after it.
func (s State) unasked() (came int, first Request) {
	requests := s.Ledger.Requests
	for len(requests) > 0 && requests[0].At < s.Ledger.Anew {
		requests = requests[1:]
	}
	i := slices.IndexFunc(requests, func(r Request) bool { return r.removed() > 0 })
	if i < 0 {
		return 0, Request{}
	}
	return min(s.surplus(requests), s.surplus(requests[i:])), requests[i]
}

// surplus is how many more workers there are than these requests explain.
func (s State) surplus(requests []Request) int {
	came := s.total - requests[0].Live
	for _, r := range requests {
		if r.Repeated {
			continue
		}
		if r.Shown {
			came += r.Removals
		}
		if r.Shown || r.Kind != Replace {
			came -= r.Orders
		}
	}
	return came
}
