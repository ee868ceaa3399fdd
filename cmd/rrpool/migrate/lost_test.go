package migrate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// lost makes the write, and never answers.
type lost struct {
	*api
	then func()
}

// ServeHTTP implements http.Handler.
func (l lost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPatch || r.URL.Query().Get("dryRun") != "" {
		l.api.ServeHTTP(w, r)
		return
	}
	l.api.ServeHTTP(httptest.NewRecorder(), r)
	l.then()
	<-r.Context().Done()
}

// A write whose answer is lost may have happened, and the command says so: whoever reads that nothing
// was changed walks away from a migration that runs.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := &api{pool: object(v1alpha1.ModeFullMesh)}
	kubeconfig := cli.Serve(t, lost{a, stop}) // Ctrl-C, or no answer in time
	got := cli.Run(ctx, iostreams.Streams{}, (&scenario{}).root, "migrate", "--yes", "--wait=false", "--kubeconfig", kubeconfig)
	require.Equal(t, 1, got.Code)
	require.Equal(t, v1alpha1.ModeRouteReflector, a.pool.Spec.Mode)
	require.Contains(t, got.Err, "whether spec.mode was set is not known, as the answer was lost (interrupted): rrpool status says it")
}
