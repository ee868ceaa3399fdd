package main

import (
	"fmt"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/pool"
)

// provider connects the providers that this version has.
func provider(cfg pool.ProviderConfig) (cloud.Provider, error) {
	if cfg.Type != v1alpha1.ProviderIKS {
		return nil, &cloud.Error{
			Kind: cloud.InvalidInput, Op: "choosing the provider", Message: fmt.Sprintf("there is no provider %q", cfg.Type),
		}
	}
	p, err := iks.New(iks.Config{
		ClusterID:     cfg.ClusterID,
		PoolName:      cfg.PoolName,
		ResourceGroup: cfg.ResourceGroup,
		Region:        cfg.Region,
		Private:       cfg.Private,
		APIKey:        iks.StaticKey(string(cfg.APIKey)),
		UserAgent:     "rrpool-manager",
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
