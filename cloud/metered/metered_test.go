package metered_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cloud/metered"
)

type limited struct{ cloud.Provider }

func (limited) Ensure(context.Context, cloud.PoolSpec) (cloud.Progress, error) {
	return cloud.Progress{}, &cloud.Error{Kind: cloud.RateLimited, Op: "x"}
}

func TestCallsAreCountedByKind(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metered.NewMetrics(reg)
	p := m.Provider(limited{fake.New(fake.Options{Now: time.Now}).Provider()})
	ctx := context.Background()
	_, err := p.Observe(ctx, cloud.PoolSpec{})
	require.NoError(t, err)
	_, err = p.Ensure(ctx, cloud.PoolSpec{})
	require.True(t, cloud.Is(err, cloud.RateLimited))
	_, err = p.Delete(ctx)
	require.NoError(t, err)

	families, err := reg.Gather()
	require.NoError(t, err)
	got := map[string]uint64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			got[f.GetName()+labels(s)] = uint64(s.GetCounter().GetValue()) + s.GetHistogram().GetSampleCount()
		}
	}
	require.Equal(t, map[string]uint64{
		"rrpool_provider_calls_total None Observe fake":       1,
		"rrpool_provider_calls_total RateLimited Ensure fake": 1,
		"rrpool_provider_calls_total None Delete fake":        1,
		"rrpool_provider_call_duration_seconds Observe fake":  1,
		"rrpool_provider_call_duration_seconds Ensure fake":   1,
		"rrpool_provider_call_duration_seconds Delete fake":   1,
	}, got)
}

func labels(m *dto.Metric) string {
	out := ""
	for _, l := range m.GetLabel() {
		out += " " + l.GetValue()
	}
	return out
}
