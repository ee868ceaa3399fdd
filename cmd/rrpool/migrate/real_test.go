package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

// really calls a command that waits for real, but not for long.
func really(t *testing.T, command cli.Command, config *rest.Config, args ...string) cli.Answer {
	t.Helper()
	s := iostreams.Streams{Now: time.Now, Sleep: func(time.Duration, <-chan struct{}) { time.Sleep(20 * time.Millisecond) }}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return cli.Run(ctx, s, cli.Root(command), append(args, "--kubeconfig", cli.Kubeconfig(t, config))...)
}

// There and back on a real apiserver, by a user with the rights of the docs and no
// others, while a manager writes the status all the time.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "operator")
	admin := a.Admin
	operator := a.UserConfig("operator")
	began := time.Now()
	t.Cleanup(func() {
		pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
		require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), pool)))
	})

	role := cli.Roles(t, "migrate")[0]
	grant := func(verbs ...string) {
		rules := role.DeepCopy().Rules
		rules[0].Verbs = verbs
		a.Grant(role.ObjectMeta, rules...)
	}
	eventually := func(call func() cli.Answer, words string) cli.Answer {
		return a.Eventually(call, func(got cli.Answer) bool { return strings.Contains(got.Err, words) })
	}
	grant("get")
	got := eventually(func() cli.Answer { return really(t, New, operator, "migrate", "--yes") }, "may not create")
	cli.RequireSentence(t, got.Err, "may not create routereflectorpools.rrpool.io", "docs/migrate.md has the ClusterRole")

	grant("get", "create")
	got = eventually(func() cli.Answer { return really(t, New, operator, "migrate", "--yes", "--wait=false") }, "spec.mode is RouteReflector")
	require.Zero(t, got.Code)
	require.Contains(t, got.Out, "the RouteReflectorPool is created with all defaults")
	require.Contains(t, got.Out, "‼ there is no plan of what the manager will do: ")
	got = really(t, NewRollback, operator, "rollback", "--yes")
	cli.RequireRefused(t, got, "may not patch routereflectorpools.rrpool.io", "docs/migrate.md has the ClusterRole")

	grant(role.Rules[0].Verbs...)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { // the manager: whatever the mode, some steps and then rest
		defer close(stopped)
		for at := 0; ctx.Err() == nil; time.Sleep(30 * time.Millisecond) {
			o := &v1alpha1.RouteReflectorPool{}
			if err := admin.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, o); err != nil {
				continue
			}
			if o.Status.ObservedGeneration != o.Generation {
				at = 0
			}
			steps := []string{"EnsurePool", "AwaitSessions", "DisableMesh", "Steady"}
			if o.Spec.Mode == v1alpha1.ModeFullMesh {
				steps = []string{"RestoreMesh", "AwaitMesh", "DemoteReflectors", "Steady"}
			}
			step(o, steps[min(at, len(steps)-1)], "it is time")
			numbers(o, min(at, 2), 6, 20*at)
			for i := range o.Status.Conditions {
				o.Status.Conditions[i].LastTransitionTime = metav1.Now()
			}
			at++
			_ = admin.Status().Update(ctx, o) // a conflict is decided anew
		}
	}()
	defer func() { stop(); <-stopped }()
	got = really(t, New, operator, "migrate")
	require.Zero(t, got.Code, got.Err)
	require.Regexp(t, "√ The cluster is (already )?on route reflectors: it is time.", got.Out, "it may have been faster")
	got = eventually(func() cli.Answer { return really(t, NewRollback, operator, "rollback", "--yes") }, "spec.mode is FullMesh")
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Err, "reflectors left 6, mesh on", "it was watched")
	require.Contains(t, got.Out, "√ The cluster is on the node-to-node mesh: it is time.")

	var done []string
	writes, err := a.Writes("operator", began)
	require.NoError(t, err)
	for _, w := range writes {
		if w.Code < 300 {
			done = append(done, w.Verb+" "+w.Resource)
		}
	}
	require.Equal(t, []string{"create routereflectorpools", "patch routereflectorpools"}, done, "dry runs are no writes")
	var object v1alpha1.RouteReflectorPool
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "default"}, &object))
	require.Equal(t, v1alpha1.ModeFullMesh, object.Spec.Mode)

	t.Run("with what the manager will do", func(t *testing.T) {
		for i := range 6 {
			a.Node(fmt.Sprintf("n%d", i), "z1", fmt.Sprintf("10.0.0.%d", i+1))
		}
		got := really(t, New, a.AdminConfig(), "migrate", "--yes")
		require.Zero(t, got.Code, got.Err)
		require.NotContains(t, got.Out, "there is no plan of")
		require.Contains(t, got.Out, "What the manager will do")
		require.Contains(t, got.Out, "DisableMesh")
	})
}
