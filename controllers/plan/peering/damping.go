package peering

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// The limits of changes within changesWithin. Up to a limit, changes of the remote cluster are accepted at once. After
// that, a change is accepted when it has lasted for steadyFor. Each change of ranges may write up to 200 IPPools.
// Reflectors change more often, for example when nodes are replaced, and each of these changes writes a few BGPPeers.
const (
	rangeChanges     = 5
	reflectorChanges = 60
	changesWithin    = time.Hour
	steadyFor        = 10 * time.Minute
)

// Damping limits how often changes of a remote cluster are accepted. Its
// state is in memory, so the first declaration after a restart is accepted.
type Damping struct{ ranges, reflectors declaration }

// Take returns the accepted declaration of the remote cluster, and why that differs from declared; "" if it does not.
func (d *Damping) Take(declared Side, now time.Time) (Side, string) {
	out, held := d.ranges.accept(Side{ASN: declared.ASN, Pods: sorted(declared.Pods), Services: sorted(declared.Services)}, now, rangeChanges)
	reflectors, also := d.reflectors.accept(Side{Reflectors: declared.Reflectors}, now, reflectorChanges)
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

// declaration is a part of what the remote cluster declares. taken was accepted last. seen was
// declared last, and since is when that began. changes are the times of the accepted changes.
type declaration struct {
	begun       bool
	taken, seen Side
	since       time.Time
	changes     []time.Time
}

// accept returns the accepted declaration, and whether it differs from s. most is the limit of changes.
func (d *declaration) accept(s Side, now time.Time, most int) (taken Side, held bool) {
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
