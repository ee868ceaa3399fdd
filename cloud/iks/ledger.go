package iks

import (
	"context"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// readLedger updates the ledger by what another process has recorded, and by what the pools show. A record that cannot be read does
// not count as empty, as everything could be ordered again; nor does one that is gone, as replacing the object removes it.
func (p *Provider) readLedger(ctx context.Context, v *view, want cloud.PoolSpec) {
	record, text := cloud.RecordOf(ctx), ""
	if record != nil {
		text = record.Text()
	}
	if text != "" && text != p.recorded {
		ledger, err := poolplan.ReadLedger(text, p.cfg.Now())
		if err == nil {
			p.ledger, p.recorded = ledger, text
		} else {
			v.unreadable = p.invalidOrder("nothing is ordered or removed, as annotation %s of the RouteReflectorPool cannot be read (%v): remove it: "+
				"kubectl annotate routereflectorpool %s %[1]s-", v1alpha1.RequestsAnnotation, err, v1alpha1.SingletonName)
		}
	}
	p.ledger = v.pair.See(p.ledger, want)
	v.choose(v.state.Name)
	switch {
	case text != "":
		p.kept = text == p.recorded
	case p.kept && record != nil: // the object was replaced: the record is written again for the next process
		if again := p.ledger.String(); record.Write(ctx, again) == nil {
			p.recorded, p.kept = again, false
		}
	}
}

// record writes a step to the ledger before the cloud is asked for it. If it were written afterwards, a manager that is killed in
// between could order the same workers twice.
func (p *Provider) record(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
	if v.unreadable != nil {
		return v.unreadable
	}
	ledger := p.ledger.Asked(v.state.Request(step, want), min(want.Lasting, want.SizePerZone))
	if record := cloud.RecordOf(ctx); record != nil {
		text := ledger.String()
		if err := record.Write(ctx, text); err != nil {
			return &cloud.Error{Kind: cloud.Unavailable, Op: p.op("recording a request to"), Message: "nothing is asked for, as it cannot be recorded: " + p.session.scrub(err.Error())}
		}
		p.recorded = text
	}
	p.ledger = ledger
	return nil
}

// noteAnswer notes the answer to the request that was recorded last. It is written with the next one.
func (p *Provider) noteAnswer(step poolplan.Step, err error) {
	switch {
	case err == nil, step.Kind == poolplan.AddZone && hasZone(err),
		step.Kind != poolplan.Replace && foundNothing(step, err): // where nothing was found to replace, nothing was ordered
	case slices.Contains([]cloud.Kind{cloud.QuotaExceeded, cloud.InvalidInput, cloud.Conflict, cloud.Unauthorized, cloud.RateLimited, cloud.NotFound}, cloud.KindOf(err)):
		p.ledger = p.ledger.Answered(false)
	default:
		p.ledger = p.ledger.Answered(true)
	}
}
