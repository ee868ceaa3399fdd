// Package wiring makes the providers and metrics that the manager and the command line share.
package wiring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// TokenFileFlag of the manager names the file with the token of its service account for
// audience iam. TokenFile is its default: where IBM's documents mount such tokens.
const (
	TokenFileFlag = "iam-token-file"
	TokenFile     = "/var/run/secrets/tokens/sa-token" //nolint:gosec // G101: the name of a file
)

// Providers makes the provider that a RouteReflectorPool asks for.
type Providers struct {
	Adapter *calico.Adapter
	Pods    *workload.Pods
	// UserAgent names the program to the cloud.
	UserAgent string
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Connect is a pool.ProviderFactory. It sends no request.
func (p Providers) Connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	switch cfg.Type {
	case v1alpha1.ProviderIKS:
		return iks.New(iks.Config{
			ClusterID: cfg.ClusterID, PoolName: cfg.PoolName, ResourceGroup: cfg.ResourceGroup, Region: cfg.Region, Private: cfg.Private,
			APIKey: string(cfg.APIKey), Profile: cfg.Profile, TokenFile: cfg.TokenFile, UserAgent: p.UserAgent,
		})
	case v1alpha1.ProviderExistingNodes:
		return ExistingNodes(cfg, p.Adapter.Nodes(cfg.Scope), p.Pods.Count, p.Now)
	default:
		return nil, invalid(fmt.Errorf("there is no provider %q", cfg.Type))
	}
}

// ExistingNodes makes the provider of existing nodes. count and now may be nil, see existing.Config.
func ExistingNodes(
	cfg pool.ProviderConfig, nodes existing.Nodes, count func(context.Context, []string) (map[string]int, error), now func() time.Time,
) (cloud.Provider, error) {
	preferred, err := labels.Parse(cfg.Preferred)
	excluded, excludedErr := labels.Parse(cfg.Excluded)
	if err := errors.Join(err, excludedErr); err != nil {
		return nil, invalid(fmt.Errorf("reading the selectors of preferred and excluded nodes: %w", err))
	}
	return existing.New(existing.Config{
		PoolName: cfg.PoolName, Nodes: nodes, CountPods: count, Preferred: preferred, Excluded: excluded,
		NotReadyGrace: cfg.NotReadyGrace, Now: now,
	}), nil
}

// invalid is an error of the spec, found before any request.
func invalid(err error) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: "choosing the provider", Message: err.Error(), Err: err}
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
