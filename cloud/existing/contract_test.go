package existing_test

import (
	"testing"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) (providertest.World, func() cloud.Provider) {
		t.Helper()
		s := newStore(5)
		return s, func() cloud.Provider { return s.provider(s.config()) }
	})
}
