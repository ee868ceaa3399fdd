package pool_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

// A list of workers that lacks one of the pool for a while takes no reflector away.
func TestAWorkerThatIsNotListedStaysAReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOvercast(t)
		o.migrate()
		o.pass(10 * time.Minute)
		applied, before := slices.Clone(o.applied), o.reflectors()
		require.Len(t, before, 3)
		workers := o.server.Workers("c1", "route-reflectors")
		gone := false
		o.server.Inject(iksserver.Fault{Method: http.MethodGet, Path: "orkers$", Spoil: func(body []byte) []byte {
			var all []map[string]any
			if err := json.Unmarshal(body, &all); err != nil {
				return body
			}
			for i, w := range all {
				if w["poolName"] == "route-reflectors" {
					gone = true
					out, err := json.Marshal(slices.Delete(all, i, i+1))
					require.NoError(t, err)
					return out
				}
			}
			return body
		}})
		o.pass(40 * time.Minute)
		require.True(t, gone, "no list lacked anything: %v", o.server.Requests()[len(o.server.Requests())-5:])
		require.Equal(t, "EnsurePool", o.seenStep.Name, "the lack is seen")
		require.Equal(t, applied, o.applied)
		require.Equal(t, before, o.reflectors())
		o.server.ClearFaults()
		o.pass(20 * time.Minute)
		require.Equal(t, applied, o.applied)
		require.Empty(t, o.lost)
		require.Equal(t, workers, o.server.Workers("c1", "route-reflectors"), "that the same size is asked for again orders nothing")
	})
}
