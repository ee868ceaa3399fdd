package migrate

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	got := cli.Ask(t, New, "migrate", "--yes", "-f", cli.PoolFile(t, "{mode: FullMesh}"))
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "--filename", "spec.mode", `"FullMesh"`, "leave it out")
}

func TestClustersThatRefuse(t *testing.T) {
	admission := func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodPatch {
			return nil
		}
		return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "freeze" denied the request: not before Monday`}
	}
	deleting := object(v1alpha1.ModeFullMesh)
	deleting.DeletionTimestamp = &metav1.Time{Time: cli.Now}
	for name, tc := range map[string]struct {
		kubeconfig string
		command    string
		says       []string
	}{
		"a webhook": {
			cli.Serve(t, &api{pool: object(v1alpha1.ModePaused), refuse: admission}), "migrate",
			[]string{"refuses to patch", `admission webhook "freeze" denied the request: not before Monday`},
		},
		"the object is being deleted": {
			cli.Serve(t, &api{pool: deleting}), "migrate",
			[]string{"is being deleted", "rrpool status --watch", "then call this again"},
		},
		"nothing to take back": {cli.Serve(t, &api{}), "rollback", []string{"there is no RouteReflectorPool", "rrpool status"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := New
			if tc.command == "rollback" {
				command = NewRollback
			}
			got := cli.Ask(t, command, tc.command, "--yes", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out, "nothing was begun")
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// No one reads the output: who has said yes before gets what was asked for, and no other user is
// asked to agree to what cannot be seen.
func TestAReaderThatIsGone(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}, happens: theWay()}
	got := s.play(t, iostreams.Streams{Out: cli.Broken{Err: syscall.EPIPE}}, "migrate", "--yes")
	require.Zero(t, got.Code, got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	s = &scenario{api: &api{pool: object(v1alpha1.ModePaused)}}
	asked := person("yes\n")
	asked.Out = cli.Broken{Err: syscall.EPIPE}
	got = s.play(t, asked, "migrate")
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "the plan cannot be written, so nothing was changed")
	requireMode(t, s.api, v1alpha1.ModePaused)
}
