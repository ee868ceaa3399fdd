package existing_test

import (
	"testing"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/contract"
)

func TestContract(t *testing.T) {
	contract.Run(t, func(t *testing.T) contract.Harness {
		t.Helper()
		s := newStore(5)
		return contract.Harness{World: s, Provider: func() cloud.Provider { return s.provider(t, s.config()) }}
	})
}
