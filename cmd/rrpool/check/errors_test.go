package check

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	cli.RequireBad(t, New, "check", map[string]cli.Bad{
		"an unknown format":            {[]string{"-o", "yaml"}, []string{"--output", `"yaml"`, "use table, json"}},
		"a file that is a folder":      {[]string{"-f", "/"}, []string{"--filename", `"/"`, "is a directory"}},
		"two mistakes in one file":     {[]string{"-f", cli.PoolFile(t, "{mode: Fast, sizing: {min: 0}}")}, []string{"spec.mode", "spec.sizing.min"}},
		"standard input that is empty": {[]string{"-f", "-"}, []string{"--filename", "-: give a file with one RouteReflectorPool", "this has nothing"}},
	})
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"a page for people": {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\nlog in</html>")) })), []string{"get /version", "unable to parse the server version"}},
		"silence after the first word": {
			cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					_, _ = w.Write([]byte(`{"gitVersion":"v1.31.4"}`))
					return
				}
				<-r.Context().Done()
			})),
			[]string{"did not answer within 2s"},
		},
		"a version that may not be known": {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })), []string{"may not get /version"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, "check", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}
