package iks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// longestCommand bounds a command for people: labels that do not fit are left out.
const longestCommand = 600

// knownPool is a pool that was seen as ours. Its label can be lost, and a listing can lack it, but its ID is never another pool's.
type knownPool struct {
	// leaving says that its deletion was acknowledged, or seen, so that it is expected to be absent.
	leaving bool
	// absent is since when it is neither listed nor found, zero while it is.
	absent time.Time
	// seen says that this process has seen it as ours; the others are known by PoolSpec.Known.
	seen bool
	// gone says that it is not listed, and that this is believed.
	gone bool
}

// know gives what is kept of a pool of ours.
func (p *Provider) know(id string) *knownPool {
	if p.known[id] == nil {
		p.known[id] = &knownPool{}
	}
	return p.known[id]
}

// owns reports whether the pool has one of our names, and our label, which a pool that is being deleted may have lost.
func (p *Provider) owns(o pool) bool {
	return slices.Contains(p.names[:], o.name) && (o.labels[v1alpha1.PoolLabel] == p.cfg.PoolName || o.deleting && p.known[o.id] != nil)
}

// mayBeOurs reports whether the pool's ID, name or label is one of ours.
func (p *Provider) mayBeOurs(o pool) bool {
	return p.known[o.id] != nil || slices.Contains(p.names[:], o.name) || o.labels[v1alpha1.PoolLabel] == p.cfg.PoolName
}

// unmarked says that a pool is ours by its ID only, and how to mark it again; "" for any other pool.
func (p *Provider) unmarked(o pool) string {
	switch {
	case o.id == "" || p.known[o.id] == nil || p.owns(o):
		return ""
	case !slices.Contains(p.names[:], o.name):
		return p.session.scrub(fmt.Sprintf("pool %s is rrpool's by its ID %s, but not by its name, so nothing is changed there: "+
			"set spec.provider.iks.poolName to the name that it was made with", o.name, o.id))
	}
	return fmt.Sprintf("pool %s is rrpool's by its ID, but %s", o.name, p.mark(o))
}

// mark says which label a pool of ours lacks, and how to put it back. IBM's command replaces all labels, so it has to name the others
// too. Those that are no valid labels are left out, as people run the command in a shell.
func (p *Provider) mark(o pool) string {
	label, left, out := v1alpha1.PoolLabel+"="+p.cfg.PoolName, "", 0
	command := "ibmcloud ks worker-pool label set --cluster " + p.cfg.ClusterID + " --worker-pool " + o.id + " --label " + label
	for _, key := range slices.Sorted(maps.Keys(o.labels)) {
		key, value := p.session.scrub(key), p.session.scrub(o.labels[key])
		switch flag := " --label " + key + "=" + value; {
		case key == v1alpha1.PoolLabel || strings.Contains(key, "kubernetes.io/"):
		case len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0, len(command)+len(flag) > longestCommand:
			out++
		default:
			command += flag
		}
	}
	if out > 0 {
		left = fmt.Sprintf(" (%d of its labels are left out, as they are too many or no valid labels: see ibmcloud ks worker-pool get, as the command replaces all)", out)
	}
	return fmt.Sprintf("lacks the label %s, so nothing is changed there: put the label back%s: %s", label, left, command)
}

// withUnlisted adds our pools that exist and are not listed. One that is not found either is believed to be gone only after a while:
// otherwise it would be ordered again, or stay, and cost, when all else is released. One that only an earlier process has seen is gone at
// once where the listing has another pool of ours, or nothing is ordered by this look.
func (p *Provider) withUnlisted(ctx context.Context, g generation, all []pool, once bool) ([]pool, error) {
	if len(all) == 0 {
		return nil, nil
	}
	another := slices.ContainsFunc(all, func(o pool) bool { return !o.deleting && !o.deleted && (p.owns(o) || p.known[o.id] != nil) })
	var unsure error
	for _, id := range p.notListed(all) {
		known, now := p.known[id], p.cfg.Now()
		found, err := p.ask(ctx, g, id)
		switch {
		case err == nil:
			known.absent = time.Time{}
			all = append(all, found)
		case !isNoPool(err):
			return nil, err
		case once || another && !known.seen:
			known.absent, known.gone = now.Add(-poolplan.SettlePause), true
		default:
			known.absent = cmp.Or(known.absent, now)
			unsure = cmp.Or(unsure, error(&cloud.Error{
				Kind: cloud.Unavailable, Op: p.op("observing"), Err: err, RetryAfter: poolplan.SettlePause / 4, // so that a look comes when it ends
				Message: fmt.Sprintf("pool %s is rrpool's, and is neither listed nor found any more: that is believed after %s", id, poolplan.SettlePause),
			}))
		}
	}
	return all, unsure //nolint:wrapcheck // it is one of ours
}

// notListed notes which of our pools are listed, and which count as gone, and gives the IDs of the others.
func (p *Provider) notListed(all []pool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		known := p.known[id]
		if i := slices.IndexFunc(all, func(o pool) bool { return o.id == id }); i >= 0 {
			known.absent, known.gone, known.leaving = time.Time{}, false, known.leaving || all[i].deleting || all[i].deleted
			continue
		}
		if known.gone = known.leaving || !known.absent.IsZero() && p.cfg.Now().Sub(known.absent) >= poolplan.SettlePause; !known.gone {
			ids = append(ids, id)
		}
	}
	return ids
}

// departed gives those of these IDs whose pools exist no more.
func (p *Provider) departed(ids []string) (out []string) {
	for _, id := range ids {
		if known := p.known[id]; known != nil && known.gone {
			out = append(out, id)
		}
	}
	return out
}

// takeRenamed puts pools that are ours by their ID, and have other names, in the place of named ones that do not exist.
func (p *Provider) takeRenamed(v *view) {
	v.others = slices.DeleteFunc(v.others, func(o pool) bool {
		free := slices.IndexFunc(v.named[:], func(n pool) bool { return n.id == "" })
		if free < 0 || p.unmarked(o) == "" {
			return false
		}
		v.named[free] = o
		return true
	})
}
