// Package wiring makes the providers and metrics that the manager and the command line share.
package wiring

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// TokenFile is the default of the manager's --iam-token-file: where IBM's documents mount such tokens.
const TokenFile = "/var/run/secrets/tokens/sa-token" //nolint:gosec // G101: the name of a file

// Platforms are the clouds whose machines rrpool can order.
var Platforms = []cloud.Platform{iks.Platform{}}

// Providers returns a factory of the providers that a RouteReflectorPool may ask for.
// userAgent names the program to the cloud; now is the clock, time.Now when nil.
func Providers(adapter *calico.Adapter, pods *workload.Pods, userAgent string, now func() time.Time) pool.ProviderFactory {
	return func(cfg pool.ProviderConfig) (cloud.Provider, error) {
		switch cfg.Type {
		case v1alpha1.ProviderIKS:
			return iks.New(iks.Config{
				ClusterID: cfg.ClusterID, PoolName: cfg.PoolName, ResourceGroup: cfg.ResourceGroup, Region: cfg.Region, Private: cfg.Private,
				APIKey: string(cfg.APIKey), Profile: cfg.Profile, TokenFile: cfg.TokenFile, UserAgent: userAgent,
			})
		case v1alpha1.ProviderExistingNodes:
			return ExistingNodes(cfg, adapter.Nodes(cfg.Scope), pods.Count, now), nil
		default:
			return nil, &cloud.Error{Kind: cloud.InvalidInput, Op: "choosing the provider", Message: fmt.Sprintf("there is no provider %q", cfg.Type)}
		}
	}
}

// ExistingNodes makes the provider of existing nodes. count and now may be nil, see existing.Config.
func ExistingNodes(
	cfg pool.ProviderConfig, nodes existing.Nodes, count func(context.Context, []string) (map[string]int, error), now func() time.Time,
) cloud.Provider {
	return existing.New(existing.Config{
		PoolName: cfg.PoolName, Nodes: nodes, CountPods: count, Preferred: cfg.Preferred, Excluded: cfg.Excluded,
		NotReadyGrace: cfg.NotReadyGrace, Now: now,
	})
}

// Metrics registers all metrics of the manager, with this program's version. docs/metrics.md is made from them.
func Metrics(registry prometheus.Registerer) *pool.Metrics {
	this := version.Get()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "rrpool", Name: "build_info", Help: "1, with the version that runs.",
		ConstLabels: prometheus.Labels{"version": this.Version, "revision": this.Revision, "goversion": this.Go},
	})
	build.Set(1)
	registry.MustRegister(build)
	return pool.NewMetrics(registry)
}
