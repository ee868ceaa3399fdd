package migrate

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

// A write whose answer is lost has happened, and the command says so: whoever reads that nothing
// was changed walks away from a migration that runs.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	for name, interrupt := range map[string]bool{"no answer in time": false, "Ctrl-C meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			a := &api{pool: object(v1alpha1.ModeFullMesh)}
			path := cli.Serve(t, lost{a, func() {
				if interrupt {
					time.AfterFunc(50*time.Millisecond, stop)
				}
			}})
			var out, errs bytes.Buffer
			s := cli.Defaults(iostreams.Streams{Out: &out, Err: &errs})
			code := iostreams.Run(ctx, cli.Root(newMigrate(s, planned)), []string{
				"migrate", "--yes", "--wait=false", "--kubeconfig", path, "--request-timeout", "2s", // which the other requests must not come near to
			}, s)
			require.Equal(t, v1alpha1.ModeRouteReflector, a.pool.Spec.Mode)
			if interrupt {
				require.Equal(t, 1, code)
				require.Contains(t, errs.String(), "interrupted, and spec.mode is set all the same")
				return
			}
			require.Zero(t, code, errs.String())
			require.Contains(t, out.String(), "The migration goes on by itself.")
		})
	}
}
