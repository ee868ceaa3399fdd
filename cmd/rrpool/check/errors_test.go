package check

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/cli"
)

const header = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	file := func(content string) string { return cli.File(t, content) }
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"an unknown format":            {[]string{"-o", "yaml"}, []string{"--output", `"yaml"`, "use table, json, short"}},
		"a file that is a folder":      {[]string{"-f", "/"}, []string{"--filename", `"/"`, "is a directory"}},
		"a file that is no YAML":       {[]string{"-f", file("a: [")}, []string{"--filename", "this is no YAML", "line 1"}},
		"a file of something else":     {[]string{"-f", file("kind: Pod\napiVersion: v1")}, []string{"--filename", `this is "Pod"`, "give a RouteReflectorPool"}},
		"two mistakes in one file":     {[]string{"-f", file(header + "spec: {mode: Fast, sizing: {min: 0}}")}, []string{"spec.mode", "spec.sizing.min"}},
		"standard input that is empty": {[]string{"-f", "-"}, []string{"--filename", "-: nothing is in it"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, append([]string{"check"}, tc.args...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out, "no half of an answer")
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// refusing answers to everything but the version with a failure.
func refusing(code int32, reason metav1.StatusReason) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"gitVersion":"v1.31.4"}`))
			return
		}
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: "no",
		})
	})
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"a web server that knows nothing": {cli.Serve(t, http.NotFoundHandler()), []string{"get /version"}},
		"a page for people":               {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\nlog in</html>")) })), []string{"does not answer as an apiserver does", "--context"}},
		"credentials that are not known":  {cli.Serve(t, refusing(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)), []string{"does not accept the credentials", "log in again"}},
		"silence after the first word": {
			cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					refusing(http.StatusForbidden, "").ServeHTTP(w, r)
					return
				}
				<-r.Context().Done()
			})),
			[]string{"did not answer within 2s"},
		},
		"a version that may not be known":  {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })), []string{"may not get /version"}},
		"an apiserver that fails entirely": {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })), []string{"get /version"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, "check", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}
