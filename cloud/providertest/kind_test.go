package providertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
)

// bare hides everything but what every World has.
type bare struct{ World }

// posing claims that the nodes of a cloud of machines were there before.
type posing struct{ World }

func (posing) Nodes() []string { return nil }

// blunt orders machines, whatever it is asked for.
type blunt struct{ cloud.Provider }

func (b blunt) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if want.Flavor != "" {
		return cloud.Progress{}, &cloud.Error{Kind: cloud.InvalidInput}
	}
	want.Taints = []cloud.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}}
	return b.Provider.Ensure(ctx, want)
}

// ordered is as much of a World as is needed here.
type ordered struct {
	World
	cloud *fake.Cloud
}

func (o ordered) Workers() []cloud.Worker { return o.cloud.Workers() }

// TestProvidersThatOrderMachinesAreRecognized is the negative control of the
// choice of tests.
func TestProvidersThatOrderMachinesAreRecognized(t *testing.T) {
	c := fake.New(fake.Options{})
	honest := func() cloud.Provider { return c.Provider() }
	dishonest := func() cloud.Provider { return blunt{c.Provider()} }
	for name, tt := range map[string]struct {
		h    Harness
		says string
	}{
		"a world that is of no kind":                    {Harness{World: bare{ordered{cloud: c}}, Provider: honest}, "neither"},
		"a provider that takes flavors":                 {Harness{World: posing{ordered{cloud: c}}, Provider: honest}, "were not refused"},
		"a provider whose workers were no nodes before": {Harness{World: posing{ordered{cloud: c}}, Provider: dishonest}, "none of the nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, ordersNothing(context.Background(), tt.h), tt.says)
		})
	}
}
