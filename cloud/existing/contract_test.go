package existing_test

import (
	"testing"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		t.Helper()
		s := newStore(5)
		return providertest.Harness{World: s, Provider: func() cloud.Provider { return s.provider(t, s.config()) }}
	})
}
