package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/docs/links"
)

// scenes are the clusters whose status is kept.
func scenes() map[string]*api {
	degraded := migrating()
	set(degraded.pool, "Degraded", "True", "SessionTimeout", "AwaitSessions has been waiting for more than 10m0s for 10.1.9.1 ↔ 10.2.0.7 to be Established: "+
		"look at calico-node on these nodes (kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide); nothing is removed meanwhile")
	degraded.events = append(degraded.events, event("c", 50*time.Minute, "Warning", "SessionTimeout", strings.Repeat("AwaitSessions has been waiting. ", 20)))
	noCloud := atRest(func(o *v1alpha1.RouteReflectorPool) {
		set(o, "ProviderReady", "False", "CloudUnauthorized", "observing the pool: the key is not accepted: store another one")
		set(o, "Degraded", "True", "CloudUnauthorized", "observing the pool: the key is not accepted: store another one")
	})
	paused := migrating()
	paused.pool.Spec.Mode = v1alpha1.ModePaused
	paused.pool.Status.Step.WaitingFor = []string{"spec.mode other than Paused", "would switch the node-to-node mesh off"}
	paused.pool.Status.Step.Name = "DisableMesh"
	set(paused.pool, "Ready", "False", "Paused", "spec.mode is Paused; the next step would be DisableMesh")
	set(paused.pool, "Progressing", "False", "Paused", "spec.mode is Paused")
	deleting := migrating()
	gone := ago(time.Minute)
	deleting.pool.DeletionTimestamp = &gone
	deleting.pool.Status.Step = v1alpha1.StepStatus{Name: "DemoteReflectors", Reason: "the mesh carries every pair of nodes", Since: ago(20 * time.Second)}
	set(deleting.pool, "Ready", "False", "DemoteReflectors", "the mesh carries every pair of nodes")
	timer := atRest(func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Rollout.Gate = v1alpha1.GateTimer
		for i := range o.Status.Reflectors {
			o.Status.Reflectors[i].SessionsEstablished = 0
		}
		set(o, "ReflectorsEstablished", "Unknown", "TimerGate", "spec.rollout.gate is Timer: sessions are not observed")
	})
	lost := atRest(func(o *v1alpha1.RouteReflectorPool) {
		o.Status.Reflectors[1].SessionsEstablished = 0
		set(o, "ReflectorsEstablished", "False", "SessionsMissing", "10.1.9.2 has 0 of 65 sessions")
	})
	lost.nodes[21].Status.Conditions[0].Status = corev1.ConditionUnknown
	blind := atRest(func(o *v1alpha1.RouteReflectorPool) {
		for _, c := range o.Status.Conditions {
			set(o, c.Type, "Unknown", "ObservationFailed", "observing the cluster: bgppeers.crd.projectcalico.org is forbidden")
		}
	})
	behind := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 })
	stopped := atRest(nil)
	stopped.lease = cli.Lease(time.Hour)
	inPlace := atRest(func(o *v1alpha1.RouteReflectorPool) {
		o.Status.Provider, o.Status.Pool = "existing", "existing-nodes"
		o.Status.Zones = []v1alpha1.ZoneStatus{{Name: "", Desired: 3, Ready: 3}}
		o.Status.Reflectors = o.Status.Reflectors[:3]
		for i := range o.Status.Reflectors {
			o.Status.Reflectors[i].Zone = ""
		}
	})
	unpriced := atRest(nil)
	for i := range unpriced.nodes {
		unpriced.nodes[i].Labels["ibm-cloud.kubernetes.io/region"] = "jp-tok"
	}
	many := atRest(nil)
	many.events = nil
	for i := range 12 {
		many.events = append(many.events, event(string(rune('a'+i)), time.Duration(i+1)*time.Minute, "Normal", "PeerWritten", "write BGPPeer rrpool-clients"))
	}
	many.events[3].Series = &eventsv1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(cli.Now)}
	onMesh := ordering()
	onMesh.pool.Spec.Mode = v1alpha1.ModeFullMesh
	onMesh.pool.Status.Pool = ""
	onMesh.pool.Status.Zones = nil
	onMesh.pool.Status.Step = v1alpha1.StepStatus{Name: "Steady", Reason: "the node-to-node mesh carries 60 nodes", Since: ago(26 * time.Hour)}
	set(onMesh.pool, "Ready", "True", "Steady", "the node-to-node mesh carries 60 nodes")
	set(onMesh.pool, "ProviderReady", "False", "CredentialsMissing", "Secret rrpool-ibmcloud does not exist")
	set(onMesh.pool, "Progressing", "False", "Steady", "there is nothing to do")
	return map[string]*api{
		"at-rest": atRest(nil), "ordering": ordering(), "degraded": degraded, "no-cloud": noCloud,
		"paused": paused, "deleting": deleting, "timer": timer, "reflector-lost": lost, "blind": blind, "behind": behind, "manager-stopped": stopped,
		"existing-nodes": inPlace, "price-unknown": unpriced, "many-events": many, "on-mesh": onMesh,
		"no-pool":           {nodes: clusterOf(0), mesh: "absent"},
		"no-pool-no-calico": {nodes: clusterOf(0)},
		"no-rights":         atRest(nil).refusing("/namespaces/", 403, metav1.StatusReasonForbidden, "no"),
	}
}

// ordering is a cluster whose pool has just been ordered.
func ordering() *api {
	return &api{nodes: clusterOf(0), lease: cli.Lease(time.Second), pool: object(func(o *v1alpha1.RouteReflectorPool) {
		const reason = "the worker pool has fewer workers than are wanted"
		o.Status.Reflectors = nil
		for i := range o.Status.Zones {
			o.Status.Zones[i].Ready = 0
		}
		o.Status.Step = v1alpha1.StepStatus{Name: "EnsurePool", Reason: reason, Since: ago(90 * time.Second), WaitingFor: []string{"6 workers to be deployed"}}
		set(o, "Ready", "False", "EnsurePool", reason)
		set(o, "ProviderReady", "False", "WorkersPending", "worker pool route-reflectors: 0 of 6 workers deployed")
		set(o, "ReflectorsEstablished", "False", "NoReflectors", "no node is a route reflector")
		set(o, "MeshDisabled", "False", "MeshOn", "the node-to-node mesh is on")
		set(o, "Progressing", "True", "EnsurePool", reason)
	})}
}

// Every scene as a person reads it, in one file: that at rest, and of the others the lines in which they differ. On a narrow terminal all have
// narrow lines.
func TestTheTable(t *testing.T) {
	tables := scenes()
	rest := ask(t, tables["at-rest"]).Out
	all := "== at-rest\n\n" + rest
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		got := ask(t, tables[name])
		require.Zero(t, got.Code, got.Err)
		require.Empty(t, got.Err, name)
		if name != "at-rest" {
			all += "\n== " + name + "\n\n" + without("- ", rest, got.Out) + without("+ ", got.Out, rest)
		}
		narrow := askIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, tables[name])
		cli.RequireWidth(t, narrow.Out, 60)
	}
	cli.Golden(t, "tables.golden", all)
	cli.Golden(t, "degraded.json.golden", ask(t, tables["degraded"], "-o", "json").Out)
	require.Contains(t, ask(t, tables["no-pool"], "-o", "json").Out, `"events": []`, "a list is never null")
}

// without gives the lines of a text that another lacks, each with a mark.
func without(mark, text, other string) (out string) {
	for line := range strings.Lines(text) {
		if !slices.Contains(strings.SplitAfter(other, "\n"), line) {
			out += mark + line
		}
	}
	return out
}

func TestClusterPeerings(t *testing.T) {
	const section = `
CLUSTERPEERING  READY            REMOTE AS  SESSIONS
------------------------------------------------------
b               Peered               64513       2/2
c               SessionsMissing      64514       1/2
d               NotReported          64515       1/1
e               NotReported              -       0/0
‼ c: not Established: 10.1.9.2 ↔ 10.9.0.7; the remote cluster needs a ClusterPeering for this one
‼ d: the manager has not yet observed it as it is
‼ e: the manager has not yet observed it as it is
`
	a := peered()
	got := ask(t, a)
	require.True(t, strings.HasSuffix(got.Out, section), got.Out)
	cli.RequireWidth(t, askIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, a).Out, 60)
	require.Contains(t, ask(t, a, "-o", "yaml").Out, "\nclusterPeerings:\n- metadata:\n    generation: 1\n    name: b\n")
	a.pool = nil
	require.Contains(t, ask(t, a).Out, section, "without a RouteReflectorPool as well")
	got = ask(t, a.refusing("clusterpeerings", 403, metav1.StatusReasonForbidden, "no"))
	require.Zero(t, got.Code)
	require.Contains(t, got.Out, "‼ no ClusterPeerings are shown: the user of context \"rrpool\" may not list clusterpeerings.rrpool.io")
}

// The next command is about the same cluster.
func TestTheNextCommandHasTheFlags(t *testing.T) {
	kubeconfig := cli.Serve(t, migrating())
	got := cli.Ask(t, New, "status", "--kubeconfig", kubeconfig, "--context", "rrpool", "-n", "rrpool-system")
	require.Contains(t, got.Out, "Next: rrpool status --watch --kubeconfig "+kubeconfig+" --context rrpool\n")
	got = cli.Ask(t, New, "status", "--kubeconfig", kubeconfig, "-n", "else where")
	require.Contains(t, got.Out, "Next: rrpool status --watch --kubeconfig "+kubeconfig+" --namespace 'else where'\n")
}

// What -v shows.
func TestVerbose(t *testing.T) {
	full, quiet := migrating(), atRest(nil)
	failing := pool.Scope{ProviderProblem: &plan.Problem{Reason: "CredentialsUnreadable", Message: "Secret rrpool-ibmcloud cannot be read: grant access to it"}}
	seen := pool.Scope{Provider: v1alpha1.ProviderIKS, Pool: &cloud.Pool{Problems: []string{"worker w-2: over quota in eu-de-1"}}}
	for i, r := range full.pool.Status.Reflectors {
		seen.Step.Reflectors = append(seen.Step.Reflectors, evidence.Reflector{Node: r.Node})
		seen.Pool.Workers = append(seen.Pool.Workers, cloud.Worker{
			ID: fmt.Sprintf("kube-c1-rr%d", i), NodeName: r.Node, Zone: r.Zone, Flavor: "bx2.2x8", State: cloud.WorkerDeployed,
		})
	}
	seen.Pool.Workers[1].State, seen.Pool.Workers[1].NodeName = cloud.WorkerProvisioning, ""
	seen.Pool.Workers[1].Message = "waiting for capacity in the zone, which may take some minutes"
	for _, node := range full.nodes[:27] {
		if node.Labels[v1alpha1.PoolLabel] == "" {
			seen.Step.Reflectors[5].Missing = append(seen.Step.Reflectors[5].Missing, node.Name)
		}
	}
	seen.Step.Reflectors[0].Missing = []string{"10.1.0.7", "10.2.0.7"}
	for name, tc := range map[string]struct {
		api  *api
		seen pool.Scope
	}{"verbose": {full, seen}, "verbose-quiet": {quiet, failing}} {
		s, err := Take(t.Context(), cli.Connect(t, tc.api), Phrase{program: "rrpool", namespace: "rrpool-system"}, cli.Now)
		require.NoError(t, err)
		s.add(tc.seen)
		for _, width := range []int{0, 60} {
			var out bytes.Buffer
			page{iostreams.Streams{Out: &out, Width: width}, s, true}.render()
			switch {
			case width > 0:
				cli.RequireWidth(t, out.String(), width)
			case name == "verbose":
				cli.Golden(t, "verbose.golden", out.String())
			default:
				require.Contains(t, out.String(), "‼ the pool, as your user sees it: Secret rrpool-ibmcloud cannot be read: grant access to it\n")
			}
		}
	}
}

// With a Timer gate sessions are not observed, so no node is short of them.
func TestNoNodeIsShortOfWhatIsNotObserved(t *testing.T) {
	scope := pool.Scope{Step: rollout.Step{Reflectors: []evidence.Reflector{{Node: "rr", Missing: []string{"a"}}}}}
	var s Status
	s.add(scope)
	require.Equal(t, map[string][]string{"a": {"rr"}}, s.Lacking)
	scope.Desired.Timer = true
	s.add(scope)
	require.Empty(t, s.Lacking)
}

// What the manager reports counts, whatever this version would say.
func TestTheManagersCostCounts(t *testing.T) {
	o := object(func(o *v1alpha1.RouteReflectorPool) {
		o.Status.Cost = &v1alpha1.CostStatus{Currency: "EUR", Hourly: "1", Monthly: "720.00", Source: "a contract"}
	})
	(&Status{Object: o}).describe(clusterOf(2))
	require.Equal(t, "720.00 EUR/month (a contract)", costText(o.Status.Cost))
	require.Equal(t, "unknown: the manager does not know it", costText(&v1alpha1.CostStatus{}))
}

func TestAReaderThatHasSeenEnough(t *testing.T) {
	require.Equal(t, cli.Answer{}, askIn(t, iostreams.Streams{Out: cli.Broken{Err: syscall.EPIPE}}, atRest(nil), "--watch"), "the watch ends")
}

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "status", func(args ...string) cli.Answer { return ask(t, migrating(), args[1:]...) })
}

// The docs name each state with its sign.
func TestWhatTheDocsName(t *testing.T) {
	page := cli.Page(t, "status")
	for state, look := range signs {
		require.Contains(t, page, "| `"+look.sign+" "+string(state)+"` |")
	}
}

// Every reason leads to its page of the runbook.
func TestTheLinksToTheConditions(t *testing.T) {
	for _, of := range reason.All() {
		require.NoError(t, links.Leads(os.DirFS("../../.."), "docs/"+plan.Page(of.Name)))
	}
}

// Whether the manager runs is read from its lease or Deployment, whatever may be read.
func TestFindManager(t *testing.T) {
	released := cli.Lease(0)
	none := ""
	released.Spec.HolderIdentity = &none
	for name, tc := range map[string]struct {
		api  *api
		want ManagerStatus
		says string
	}{
		"a lease that is renewed":              {&api{lease: cli.Lease(5 * time.Second)}, Running, "m1 holds the lease"},
		"a clock that is a little off":         {&api{lease: cli.Lease(70 * time.Second)}, Running, "holds the lease"},
		"a lease that ran out":                 {&api{lease: cli.Lease(2 * time.Minute)}, Stopped, "has not renewed the lease rrpool-manager in namespace rrpool-system since 2026-11-21 08:58:00Z"},
		"a lease that was given back":          {&api{lease: released}, Stopped, "has no holder"},
		"the lease counts, not the Deployment": {&api{lease: cli.Lease(time.Hour), deployment: replicas(2, 2)}, Stopped, "renewed"},
		"a Deployment alone":                   {&api{deployment: replicas(2, 1)}, Running, "1 of 2 replicas"},
		"a Deployment without replicas":        {&api{deployment: replicas(2, 0)}, Stopped, "0 of 2 replicas"},
		"nothing there":                        {&api{}, ManagerUnknown, "there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system"},
		"no rights":                            {(&api{lease: cli.Lease(0)}).refusing("/", 403, metav1.StatusReasonForbidden, "no"), ManagerUnknown, "can be read"},
		"no right to the lease":                {(&api{deployment: replicas(1, 1)}).refusing("leases", 403, metav1.StatusReasonForbidden, "no"), Running, "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FindManager(t.Context(), cli.Connect(t, tc.api), "rrpool-system", cli.Now)
			require.Equal(t, tc.want, got.Status, got.Message)
			require.Contains(t, got.Message, tc.says)
		})
	}
}

func TestTheMeshWithoutAnObject(t *testing.T) {
	for name, tc := range map[string]struct {
		api  *api
		want string
		says string
	}{
		"switched on":     {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":true}}`}, meshOn, ""},
		"switched off":    {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":false}}`}, meshOff, ""},
		"left open":       {&api{mesh: `{"spec":{}}`}, meshOn, ""},
		"no right to ask": {(&api{}).refusing("bgp", http.StatusForbidden, metav1.StatusReasonForbidden, "no"), meshUnknown, "may not get bgpconfigurations.crd.projectcalico.org"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Take(t.Context(), cli.Connect(t, tc.api), Phrase{}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Mesh)
			require.Contains(t, strings.Join(got.Warnings, ""), tc.says)
			require.Equal(t, tc.says == "", len(got.Warnings) == 0)
		})
	}
}

// watched calls the command with --watch while the cluster changes, and gives the waits as well.
func watched(t *testing.T, changes []func(*api), args ...string) (cli.Answer, []time.Duration) {
	t.Helper()
	a := migrating()
	t.Setenv("KUBECONFIG", cli.Serve(t, a))
	return cli.Play(t, iostreams.Streams{}, cli.Root(New), a, changes, append([]string{"status", "--watch"}, args...)...)
}

func nothing(*api) {}

// complete ends the migration.
func complete(a *api) { a.pool = object(nil) }

func fail(a *api) {
	a.refusing("/", http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd has no leader")
}

func answerAgain(a *api) { a.refuse = nil }

func TestAWatchShowsChangesOnly(t *testing.T) {
	got, waits := watched(t, []func(*api){nothing, nothing, complete, nothing, fail, nothing, answerAgain, nothing})
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "… Progressing"), got.Out)
	require.Equal(t, 1, strings.Count(got.Out, "√ Ready"), got.Out)
	require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"), "nothing else is shown twice")
	require.Regexp(t, `^‼ what is shown is old: asking \S+ of context "rrpool" to get routereflectorpools.rrpool.io: etcd has no leader; trying again every 2s\n$`, got.Err, "once")
	require.Equal(t, 2*time.Second, waits[0])

	got, _ = watched(t, []func(*api){nothing, complete}, "-o", "json")
	require.Zero(t, got.Code)
	require.Equal(t, 2, strings.Count(got.Out, `"schemaVersion"`))
	got, _ = watched(t, []func(*api){nothing, complete}, "-o", "yaml")
	require.Zero(t, got.Code)
	require.Len(t, strings.Split(got.Out, "\n---\n"), 2, "a document for each change")
}

// A change that a running manager has not observed yet is no alarm.
func TestAChangeOfJustNow(t *testing.T) {
	deleted := func(a *api) {
		gone := ago(2 * time.Second)
		a.pool.DeletionTimestamp = &gone
	}
	for name, tc := range map[string]struct {
		edit func(*api)
		want State
	}{
		"the manager runs":              {nothing, Progressing},
		"and it is a deletion":          {deleted, Deleting},
		"the lease is not renewed":      {func(a *api) { a.lease = cli.Lease(time.Hour) }, Stale},
		"nothing is known of a manager": {func(a *api) { a.lease = nil }, Stale},
		"the manager has observed it":   {func(a *api) { a.pool.Generation = 3 }, Ready},
	} {
		t.Run(name, func(t *testing.T) {
			a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 })
			tc.edit(a)
			got, err := Take(t.Context(), cli.Connect(t, a), Phrase{namespace: "rrpool-system"}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.State, got.Summary)
			require.Equal(t, tc.want != Ready, strings.Contains(got.Summary, "has not yet observed the RouteReflectorPool as it is (generation 4, observed 3)"))
		})
	}
}

func TestMain(m *testing.M) { cli.Main(m) }

func shows(words string) func(cli.Answer) bool {
	return func(a cli.Answer) bool { return a.Code == 0 && strings.Contains(a.Out, words) }
}

// What the other tests believe about apiservers, seen on a real one: each right of the
// docs is needed, and enough for what the docs say it is for.
func TestARealApiserver(t *testing.T) {
	w := cli.RealApiserver(t, "reader")
	args := []string{"status", "--kubeconfig", w.Kubeconfig()}
	asking := func(wanted func(cli.Answer) bool, more ...string) cli.Answer {
		return w.Eventually(func() cli.Answer { return cli.Ask(t, New, append(args, more...)...) }, wanted)
	}
	grant := func(role rbacv1.Role) { w.Grant(role.ObjectMeta, role.Rules...) }
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-system"}})
	roles := cli.Roles(t, "status")
	require.Len(t, roles, 4)
	needed, events, manager, verbose := roles[0], roles[1], roles[2], roles[3]
	got := asking(func(a cli.Answer) bool { return a.Code == 1 })
	cli.RequireSentence(t, got.Err, "may not get routereflectorpools.rrpool.io")

	grant(needed)
	got = asking(shows("NoPool"))
	require.Contains(t, got.Out, "‼ the mesh is unknown: the user of context \"rrpool\" may not get bgpconfigurations.crd.projectcalico.org")
	require.Contains(t, got.Out, "Next: rrpool plan --kubeconfig ")

	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.Create(pool)
	for i := range 6 {
		w.Node(fmt.Sprintf("n%d", i), "z1", fmt.Sprintf("10.0.0.%d", i+1), func(n *corev1.Node) {
			if i >= 4 { // it is a reflector by rrpool's doing
				n.Labels[v1alpha1.PoolLabel], n.Labels["rrpool.io/route-reflector"] = "existing-nodes", ""
				n.Annotations["projectcalico.org/RouteReflectorClusterID"], n.Annotations["rrpool.io/reflector-since"] = "224.0.0.1", "2026-11-21T08:00:00Z"
			}
		})
	}
	got = asking(shows("Stale"))
	require.Contains(t, got.Out, "the manager has not yet observed the RouteReflectorPool")
	require.Contains(t, got.Out, "‼ no events are shown: the user of context \"rrpool\" may not list events.events.k8s.io")

	pool.Status = object(nil).Status
	pool.Status.ObservedGeneration, pool.Status.Provider, pool.Status.Reflectors = pool.Generation, "existing", nil
	require.NoError(t, w.Admin.Status().Update(t.Context(), pool))
	for i, about := range []string{"RouteReflectorPool", "RouteReflectorPool", "Node"} {
		w.Create(&eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", i), Namespace: "default"}, EventTime: metav1.NowMicro(),
			Regarding: corev1.ObjectReference{Kind: about, Name: "default"}, Type: "Normal", Reason: fmt.Sprintf("Reason%d", i), Action: "Act",
			Note: "something happened", ReportingController: "rrpool.io/manager", ReportingInstance: "m1",
		})
	}
	grant(events)
	got = asking(shows("Reason1"))
	require.Contains(t, got.Out, "Reason0")
	require.NotContains(t, got.Out, "Reason2", "it is about something else")
	require.Contains(t, got.Out, "√ Ready")

	grant(manager)
	got = asking(shows("Manager    unknown: there is neither a lease nor a Deployment"), "-v")
	require.Contains(t, got.Out, "‼ neither workers nor single sessions are shown: ")

	grant(verbose)
	got = asking(func(a cli.Answer) bool { return a.Code == 0 && !strings.Contains(a.Out, "neither workers") }, "-v", "-o", "json")
	var v Status
	require.NoError(t, json.Unmarshal([]byte(got.Out), &v))
	require.Empty(t, v.Warnings)
	require.Equal(t, []string{"n4", "n5"}, v.Lacking["n3"], "neither has reported any session")

	require.NoError(t, w.Admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "routereflectorpools.rrpool.io"}}))
	got = asking(func(a cli.Answer) bool { return a.Code == 1 })
	cli.RequireSentence(t, got.Err, "does not know routereflectorpools.rrpool.io", "install rrpool's CRD")
}
