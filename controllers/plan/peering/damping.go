package peering

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// A remote cluster that changes repeatedly has up to 200 IPPools written for each change. So many changes an hour are taken at once;
// beyond that, one is taken when it has stayed as it is for steadyFor. Reflectors come and go more often than ranges, as when their
// nodes are replaced, and each costs a few BGPPeers.
const (
	rangeChanges     = 5
	reflectorChanges = 60
	changesWithin    = time.Hour
	steadyFor        = 10 * time.Minute
)

// Damping remembers what a remote cluster has declared, in memory only: the first that is seen is taken.
type Damping struct{ ranges, reflectors damped }

// Take gives what to take for the remote cluster, and why that is not what it declares now, "" where it is.
func (d *Damping) Take(declared Side, now time.Time) (Side, string) {
	out, held := d.ranges.take(Side{ASN: declared.ASN, Pods: sorted(declared.Pods), Services: sorted(declared.Services)}, now, rangeChanges)
	reflectors, also := d.reflectors.take(Side{Reflectors: declared.Reflectors}, now, reflectorChanges)
	out.Reflectors = reflectors.Reflectors
	const why = "the remote cluster has changed its %s %d times within %s: what it declares now is taken when it has stayed so for %s"
	switch {
	case held:
		return out, fmt.Sprintf(why, "ranges or AS number", rangeChanges, changesWithin, steadyFor)
	case also:
		return out, fmt.Sprintf(why, "reflectors", reflectorChanges, changesWithin, steadyFor)
	}
	return out, ""
}

// damped is a part of what is declared. changes are when another one was taken.
type damped struct {
	begun       bool
	taken, seen Side
	since       time.Time
	changes     []time.Time
}

func (d *damped) take(s Side, now time.Time, most int) (taken Side, held bool) {
	if !d.begun {
		d.begun, d.taken, d.seen, d.since = true, s, s, now
	}
	if !reflect.DeepEqual(s, d.seen) {
		d.seen, d.since = s, now
	}
	d.changes = slices.DeleteFunc(d.changes, func(t time.Time) bool { return now.Sub(t) >= changesWithin })
	switch {
	case reflect.DeepEqual(s, d.taken):
	case len(d.changes) < most || now.Sub(d.since) >= steadyFor:
		d.taken, d.changes = s, append(d.changes, now)
	default:
		return d.taken, true
	}
	return d.taken, false
}
