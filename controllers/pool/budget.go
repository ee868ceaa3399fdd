package pool

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// budget is how many events may be sent. Usual days come nowhere near it; it is for
// trouble that comes and goes all the time, and for somebody who undoes what rrpool does
// as soon as it is done. Kubernetes itself folds events only while the object is the very
// same, and its status, which we write, is part of it.
//
// The log has everything. Of each kind the first is always sent, and the next one that is
// sent says how many were not. What a person must be able to rely on afterwards is never
// held back: see free.
//
// The zero value is full.
type budget struct {
	kinds map[string]*allowance
	// words is for all but deeds together.
	words *rate.Limiter
}

// allowance is the budget of one kind of event.
type allowance struct {
	*rate.Limiter
	deed bool
	// untold counts what has happened since the last event of this kind, first and last
	// are when the first of those did, and the last of all.
	untold      int
	first, last time.Time
	// rested: the last that happened was the first for a long time.
	rested bool
}

// Deeds are changes of the cluster. One turn may promote hundreds of reflectors; a fight
// about one of them is at most one deed in a turn. Words are trouble and its end.
const (
	deedBurst, deedEvery   = 600, 10 * time.Second
	wordBurst, wordEvery   = 10, 5 * time.Minute
	wordsBurst, wordsEvery = 60, time.Minute
	// rest is how long nothing of a kind has happened when the next is a first one.
	rest = time.Hour
)

// free are the deeds that change what carries the routes of everybody, or what is paid
// for. They take seconds at least, each with proof before.
var free = map[string]bool{"MeshDisabled": true, "MeshRestored": true, "MeshForgotten": true, "PoolChanged": true, "Released": true}

var deeds = map[string]bool{
	"ReflectorAdded": true, "ReflectorRemoved": true, "PeerWritten": true, "PeerDeleted": true,
	"NodeCordoned": true, "NodeUncordoned": true, "PodsEvicted": true, "RacksLabelled": true,
}

// happened notes that there is something of a kind to tell.
func (b *budget) happened(kind string, now time.Time) {
	a := b.of(kind)
	if a.untold == 0 {
		a.first = now
	}
	a.untold++
	a.rested = a.last.IsZero() || now.Sub(a.last) >= rest
	a.last = now
}

// spend says whether an event of a kind may be sent now, and if so what to add to it: of
// what it has to tell besides.
func (b *budget) spend(kind string, now time.Time) (suffix string, ok bool) {
	a := b.of(kind)
	if !free[kind] && !b.allow(a, now) {
		return "", false
	}
	if more := a.untold - 1; more > 0 {
		suffix = fmt.Sprintf(" (and %d more of these since %s, which only the log has)", more, a.first.UTC().Format("15:04:05Z"))
	}
	a.untold = 0
	return suffix, true
}

func (b *budget) allow(a *allowance, now time.Time) bool {
	if a.deed {
		return a.AllowN(now, 1)
	}
	if !a.rested && b.words.TokensAt(now) < 1 || !a.AllowN(now, 1) {
		return false
	}
	_ = b.words.AllowN(now, 1) // the first goes without
	a.rested = false
	return true
}

func (b *budget) of(kind string) *allowance {
	if b.kinds == nil {
		b.kinds = map[string]*allowance{}
		b.words = rate.NewLimiter(rate.Every(wordsEvery), wordsBurst)
	}
	a := b.kinds[kind]
	if a == nil {
		a = &allowance{Limiter: rate.NewLimiter(rate.Every(wordEvery), wordBurst)}
		if deeds[kind] {
			a = &allowance{Limiter: rate.NewLimiter(rate.Every(deedEvery), deedBurst), deed: true}
		}
		b.kinds[kind] = a
	}
	return a
}
