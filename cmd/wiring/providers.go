// Package wiring connects the providers of nodes that this version has. The manager and
// the command line share it.
package wiring

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
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

// Connect is a pool.ProviderFactory. It talks to nobody yet.
func (p Providers) Connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	switch cfg.Type {
	case v1alpha1.ProviderIKS:
		return p.ibmCloud(cfg)
	case v1alpha1.ProviderExistingNodes:
		return ExistingNodes(cfg, p.Adapter.Nodes(cfg.Scope), p.Pods.Count, p.Now)
	default:
		return nil, wrong(fmt.Errorf("there is no provider %q", cfg.Type))
	}
}

func (p Providers) ibmCloud(cfg pool.ProviderConfig) (cloud.Provider, error) {
	provider, err := iks.New(iks.Config{
		ClusterID:     cfg.ClusterID,
		PoolName:      cfg.PoolName,
		ResourceGroup: cfg.ResourceGroup,
		Region:        cfg.Region,
		Private:       cfg.Private,
		APIKey:        iks.StaticKey(string(cfg.APIKey)),
		UserAgent:     p.UserAgent,
	})
	if err != nil {
		return nil, err
	}
	return provider, nil
}

// ExistingNodes makes the provider of nodes that are there. count and now may be nil, see
// existing.Config.
func ExistingNodes(
	cfg pool.ProviderConfig, nodes existing.Nodes, count func(context.Context, []string) (map[string]int, error), now func() time.Time,
) (cloud.Provider, error) {
	preferred, err := labels.Parse(cfg.Preferred)
	if err != nil {
		return nil, wrong(fmt.Errorf("reading the selector of preferred nodes %q: %w", cfg.Preferred, err))
	}
	excluded, err := labels.Parse(cfg.Excluded)
	if err != nil {
		return nil, wrong(fmt.Errorf("reading the selector of excluded nodes %q: %w", cfg.Excluded, err))
	}
	provider, err := existing.New(existing.Config{
		PoolName:      cfg.PoolName,
		Nodes:         nodes,
		CountPods:     count,
		Preferred:     preferred,
		Excluded:      excluded,
		NotReadyGrace: cfg.NotReadyGrace,
		Now:           now,
	})
	if err != nil {
		return nil, wrong(err)
	}
	return provider, nil
}

// wrong is what no cloud has to be asked for.
func wrong(err error) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: "choosing the provider", Message: err.Error(), Err: err}
}
