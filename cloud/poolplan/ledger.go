package poolplan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// Bounds of what is asked of a cloud that does not do as it was told. An order that replaces a failed worker does not count.
const (
	// window is how long a request counts.
	window = 24 * time.Hour
	// fewUnordered is how many workers may come without an order after the first removal. Then no more are removed: where a
	// cloud refills what was removed, that would never end.
	fewUnordered = 3
	// mostRequests is what is kept at most, so that an annotation can hold it.
	mostRequests = 500
)

// limits bounds the orders, and the removals, that no failure explains, for a pool of so many workers: all of them may be
// ordered and exchanged twice within an hour, and five times within a day.
func limits(workers int) (hour, day int) { return 3*workers + 2, 6*workers + 4 }

// Ledger is what was asked of the cloud within the last day. It outlives the process, which a Memory does not, and bounds
// what is asked for. The zero value bounds nothing.
type Ledger struct {
	// Lasting is the size per zone that was wanted at the last request, without substitutes; 0: unknown.
	Lasting  int       `json:"lasting,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	// Sizes and Zones are those that the pools had last. Anew is when others last changed them, in seconds since 1970: that
	// brings workers that rrpool has not ordered.
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
	// Options is the fingerprint of the flavor and options that were wanted.
	Options string `json:"options,omitempty"`
	// Orders and Removals are how many workers it was to bring and to take, of Live in both pools.
	Orders   int `json:"orders,omitempty"`
	Removals int `json:"removals,omitempty"`
	Live     int `json:"live,omitempty"`
	// Failure says that a worker which failed, or is dead, explains it.
	Failure bool `json:"failure,omitempty"`
	// Shown says that its effect was seen, Lost that it has no answer, so it may not have been done, and Repeated that it had
	// no effect and was asked for again: the two count as one.
	Shown    bool `json:"shown,omitempty"`
	Lost     bool `json:"lost,omitempty"`
	Repeated bool `json:"repeated,omitempty"`
	// Series counts the replacements in a row, since First, after which no new node of the zone stayed Ready, this one included.
	// Others are the zone's other workers then. Ready is since when a worker that came later has a Ready node, and Worked says
	// that it had one for proofTime.
	Series int      `json:"series,omitempty"`
	First  int64    `json:"first,omitempty"`
	Others []string `json:"others,omitempty"`
	Ready  int64    `json:"ready,omitempty"`
	Worked bool     `json:"worked,omitempty"`
}

func (r Request) at() time.Time { return time.Unix(r.At, 0).UTC() }

// repeats reports whether o asks for the same as r.
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

// within leaves out what is older than the window, and what is too much: first what a failure explains, last what other
// requests wait for. A time later than now is from before the clock was set back, and must not stop orders until then.
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

// delays reports whether a request for the same, or for another replacement in the zone, waits for r.
func (l Ledger) delays(r Request) bool {
	last, _ := l.replacement(r.Pool, r.Zone)
	return !r.Shown || r.Kind == Replace && last.At == r.At && last.Worker == r.Worker
}

// replacement gives the last one in a zone of a pool, but for one that may not have been done.
func (l Ledger) replacement(pool, zone string) (Request, bool) {
	for _, r := range slices.Backward(l.Requests) {
		if r.Kind == Replace && r.Pool == pool && r.Zone == zone && (r.Shown || !r.Lost) {
			return r, true
		}
	}
	return Request{}, false
}

// Asked is the ledger with a request. What it repeats, and had no effect so far, counts as one with it: a request brings
// no more when it is repeated.
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

// Answered is the ledger after the last request was refused, or its answer was lost. A refused request is taken out, and
// the one that it repeated counts again.
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

// tries gives the requests that step would repeat, none of which had an effect.
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
				l.Requests[i] = s.updated(r, want, p.live())
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

// updated gives r with what the pool shows of its effect now.
func (s State) updated(r Request, want cloud.PoolSpec, live int) Request {
	r.Shown = r.Shown || s.shows(r, want, live)
	if r.Kind != Replace || !s.hasNew(r, want.Ready) {
		r.Ready = 0
		return r
	}
	r.Ready = cmp.Or(r.Ready, s.Now.Unix())
	r.Worked = r.Worked || s.Now.Unix()-r.Ready >= int64(proofTime.Seconds())
	return r
}

// seeShapes notes the sizes and zones of the pools, and when others have changed them.
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

// changedByOthers reports whether the pool has another size or other zones than before, and that was not asked for.
func (s State) changedByOthers(l Ledger) bool {
	size, sized := l.Sizes[s.Name]
	zones, zoned := l.Zones[s.Name]
	asked, awaited := size, []string{}
	for _, r := range l.Requests {
		switch {
		case r.Pool != s.Name:
		case r.Size > 0:
			asked = r.Size
		case !r.Shown && slices.Contains([]Kind{AddZone, RemoveZone}, r.Kind):
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
	for _, w := range slices.Concat(p[0].Workers, p[1].Workers) {
		if w.State != cloud.WorkerDeleting {
			n++
		}
	}
	return n
}

// shows reports whether the pool is as the request was to make it.
func (s State) shows(r Request, want cloud.PoolSpec, live int) bool {
	switch r.Kind {
	case Create:
		return s.Exists
	case DeletePool:
		return !s.Exists || s.Deleting
	case SetTaints:
		return s.TaintsUnseen || Tainted(s.Taints, want.Taints) // of what the cloud never shows, nothing can be said
	case AddZone, RemoveZone:
		return slices.Contains(s.Zones, r.Zone) == (r.Kind == AddZone)
	case Resize:
		if r.Orders > 0 {
			return live > r.Live
		}
		return s.SizePerZone == r.Size
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
		return s.asReplacement(r, step, want)
	case Remove:
		if w.ID != "" { // else it goes already
			r.Removals = 1
		}
	case None, Create, SetTaints, RemoveZone, DeletePool:
	}
	return r
}

// asReplacement gives r with the counts of a replacement, the other workers of its zone, and the series that it belongs to.
func (s State) asReplacement(r Request, step Step, want cloud.PoolSpec) Request {
	r.Orders, r.Removals, r.Series, r.First = 1, 1, 1, r.At
	for _, o := range s.Workers {
		if o.Zone == step.Zone && o.ID != step.Worker {
			r.Others = append(r.Others, o.ID)
		}
	}
	if last, n := s.failedReplacements(step, want); n > 0 {
		r.First, r.Series = last.First, n
		if last.Worker != step.Worker {
			r.Series++
		}
	}
	return r
}

// hasNew reports whether a worker that came to the zone after replacement r is among ready.
func (s State) hasNew(r Request, ready []string) bool {
	return slices.ContainsFunc(s.Workers, func(w cloud.Worker) bool {
		return w.Zone == r.Zone && w.ID != r.Worker && !slices.Contains(r.Others, w.ID) && slices.Contains(ready, w.ID)
	})
}

// failedReplacements gives the last replacement in the zone of step, and how many in a row have failed: the node of the new
// worker was never Ready, or not for long. None has where step is about a worker that was there before, and the new one is
// Ready. Of those that worked, all count but oftenWorked for each worker of the zone within a day.
func (s State) failedReplacements(step Step, want cloud.PoolSpec) (last Request, n int) {
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

// proofTime is how long the node of a new worker is Ready before the worker counts as working.
const proofTime = 10 * time.Minute

// oftenWorked is how many workers in the place of one may die a day, after they had worked, before the next ones are delayed.
const oftenWorked = 5

// longestDelay is the longest pause between two replacements in a zone.
const longestDelay = 8 * time.Hour

// delayed says what step, a replacement, waits for because those before it in the zone failed; "" for nothing. From the second
// failure on the pause doubles. It stays shorter where the cloud itself says that a worker has failed: mostly for want of
// machines, which may be had at any time and are not paid for until then.
func (s State) delayed(step Step, want cloud.PoolSpec) (wait string, problem error) {
	last, n := s.failedReplacements(step, want)
	w, _ := s.worker(step.Worker)
	longest := longestDelay
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

// manyTries is how often a request is made without an effect before that is a problem.
const manyTries = 3

// repeated says what step waits for because the same was asked for before and has had no effect; "" for nothing. The pause
// doubles with each try.
func (s State) repeated(step Step) (wait string, problem error) {
	tries := s.Ledger.tries(s.Request(step, cloud.PoolSpec{}))
	// An earlier process may have ended before it asked. What the API does once only is asked for once more.
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
		problem = s.unexpected(again, "rrpool %s, and the cloud has acknowledged that %d times since %s, without an effect: "+
			"pool %s has %d workers, the size %d per zone, and the zones %s; it is asked for again at %s"+seeWho, step, len(tries), clock(tries[len(tries)-1].at()),
			s.Name, s.total, s.SizePerZone, cmp.Or(cloud.Capped(s.Zones, ", "), "none"), clock(again))
	}
	return wait, problem
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

// overBudget says why step is not taken now: more workers came than were ordered, or more were ordered or removed than
// failures explain. Each request that no longer counts lets another one through.
func (s State) overBudget(step Step, want cloud.PoolSpec) error {
	r := s.Request(step, want)
	if r.Failure || r.Orders == 0 && r.Removals == 0 {
		return nil
	}
	if came, first := s.unordered(); came >= fewUnordered {
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
		if again := s.allowedAt(l, r); again.After(s.Now) {
			return s.unexpected(again, "rrpool has %s %d workers within %s that no failure explains, for a pool of %d: none is ordered or removed until %s, "+
				"but those that fail are replaced"+seeWho, l.what, s.sum(s.Now.Add(-l.over), l.of), l.over, workers, clock(again))
		}
	}
	return nil
}

// budget is how many workers may be ordered, or removed, within a time; with same, for the same flavor and options.
type budget struct {
	what  string
	of    func(Request) int
	limit int
	over  time.Duration
	same  bool
}

// ordered counts the orders that failures do not explain: each failed worker that was taken away explains one.
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

// allowedAt gives when b allows r.
func (s State) allowedAt(b budget, r Request) time.Time {
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

// unordered counts the workers that came without an order since the first removal that no failure explains, which is first.
// It is at most the count since the first request: what was ordered before that removal may have come after it.
func (s State) unordered() (came int, first Request) {
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

// surplus counts the workers that these requests do not explain.
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
