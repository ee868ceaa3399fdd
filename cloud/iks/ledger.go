package iks

import (
	"context"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// readLedger brings what was asked for lately up to date: with what another process has recorded, and with what the
// pools show by now. A record that cannot be read is no empty one, as that would let everything be ordered again; nor is
// one that is gone, as whoever replaces the object takes it away unknowingly.
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
	v.at(v.state.Name)
	switch {
	case text != "":
		p.kept = text == p.recorded
	case p.kept && record != nil: // somebody replaced the object, and the next process is to know it
		if again := p.ledger.String(); record.Write(ctx, again) == nil {
			p.recorded, p.kept = again, false
		}
	}
}

// record writes down that step is asked for, before it is: what nobody remembers would be ordered again.
func (p *Provider) record(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) error {
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

// answered takes in what came of the request that was recorded last. It is written down with the next one.
func (p *Provider) answered(step poolplan.Step, err error) {
	switch {
	case err == nil, step.Kind == poolplan.AddZone && hasZone(err),
		step.Kind != poolplan.Replace && takesAway(step, err): // where nothing was found to replace, nothing was ordered
	case slices.Contains([]cloud.Kind{cloud.QuotaExceeded, cloud.InvalidInput, cloud.Conflict, cloud.Unauthorized, cloud.RateLimited, cloud.NotFound}, cloud.KindOf(err)):
		p.ledger = p.ledger.Answered(false)
	default:
		p.ledger = p.ledger.Answered(true)
	}
}
