//go:build linux

package lab_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	takeover "github.com/rrpool/rrpool/cmd/rrpool/importenv"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

var statusResource = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "caliconodestatuses"}

// oldLabel marks the reflectors of the operator that exists.
const oldLabel = "calico-route-reflector"

// The steps that `rrpool import-env --takeover` prints are taken one by one, each as printed, with what it says to wait for. Every node but
// one has pods, two of the operator's three reflectors included, and every pair is probed.
func TestTakingOverFromTheOperatorLosesNothing(t *testing.T) {
	lab.SkipLong(t)
	l := start(t, lab.Options{}, append(lab.Workers(5), lab.NodeSpec{Name: "idle", Zone: "zone-1"})...)
	o := &operated{t: t, l: l, reflectors: []string{"idle", "worker-0", "worker-1"}}
	o.connect()
	// The negative control: were the probes blind, this would find nothing. It is what the operator and its README do.
	l.Checkpoint("the operator, all at once")
	setMesh(t, l, false, nil)
	awaitNoSession(t, l, meshPrefix)
	o.begin(sharedID, o.simplePeers)
	require.Equal(t, rollout.Refused, o.nextOfRRPool(), "rrpool refuses what is there")
	l.Checkpoint("taking over")
	titles := o.takeOver()
	require.Contains(t, titles, "Let idle lean in")
	watch(t.Context(), time.Second)
	require.NoError(t, l.WaitMesh(t.Context()))
	require.NotEqual(t, rollout.Refused, o.nextOfRRPool(), "rrpool goes on from here")

	report := l.Report()
	t.Log("\n" + report.String())
	require.NoError(t, report.Phase("taking over").ZeroLoss())
	requireAllLost(t, report.Phase("the operator, all at once"))
}

// The same where all reflectors have pods, and a node without any, which is none of them, leans in.
func TestTakingOverWithAnOrdinaryNodeLosesNothing(t *testing.T) {
	lab.SkipLong(t)
	l := start(t, lab.Options{}, append(lab.Workers(5), lab.NodeSpec{Name: "idle", Zone: "zone-1"})...)
	o := &operated{t: t, l: l, reflectors: []string{"worker-0", "worker-1"}}
	o.connect()
	o.begin(sharedID, o.simplePeers)
	l.Checkpoint("taking over")
	require.Contains(t, o.takeOver(), "Let idle lean in")
	watch(t.Context(), time.Second)
	require.NoError(t, l.WaitMesh(t.Context()))
	l.Checkpoint("back to where it was")
	o.begin(sharedID, o.simplePeers)
	l.Checkpoint("everything deleted at once")
	o.allAtOnce()

	report := l.Report()
	t.Log("\n" + report.String())
	require.NoError(t, report.Phase("taking over").ZeroLoss())
	requireAllLost(t, report.Phase("everything deleted at once"))
}

func requireAllLost(t *testing.T, phase probe.Report) {
	t.Helper()
	require.Len(t, phase.Lossy(), len(phase.Pairs))
	require.Greater(t, phase.LongestOutage(), time.Second)
}

// sharedID is that of all reflectors in topology simple.
func sharedID(int) string { return "224.0.0.0" }

// In topology multi each reflector has a cluster ID of its own, and nobody can carry its routes: its own pods lose what the step says,
// and nobody else loses anything.
func TestTakingOverFromTopologyMultiCostsTheReflectorsOwnPods(t *testing.T) {
	lab.SkipLong(t)
	busy := []string{"worker-0", "worker-1", "worker-2"}
	l := start(t, lab.Options{}, lab.Workers(6)...)
	o := &operated{t: t, l: l, reflectors: busy}
	o.connect()
	o.begin(func(i int) string { return fmt.Sprintf("224.%d.7.1", i) }, o.multiPeers)
	l.Checkpoint("taking over")
	titles := o.takeOver()
	require.Contains(t, titles, "Let every node peer with every reflector")
	watch(t.Context(), 2*time.Second)

	report := l.Report()
	t.Log("\n" + report.String())
	phase := report.Phase("taking over")
	require.NoError(t, phase.Without(busy...).ZeroLoss())
	require.NotEmpty(t, phase.Lossy())
	require.Less(t, phase.LongestOutage(), 18*time.Second)
	require.NotEqual(t, rollout.Refused, o.nextOfRRPool())
}

// operated is a cluster that the operator has been at work in.
type operated struct {
	t          *testing.T
	l          *lab.Lab
	reflectors []string
	connection *cluster.Connection
	client     dynamic.Interface
}

func (o *operated) connect() {
	o.t.Helper()
	ctrl.SetLogger(logr.Discard())
	var access cluster.Access
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	access.Register(flags)
	require.NoError(o.t, flags.Set("kubeconfig", o.l.Kubeconfig()))
	var err error
	o.connection, err = access.Connect()
	require.NoError(o.t, err)
	o.client, err = dynamic.NewForConfig(o.connection.Config)
	require.NoError(o.t, err)
}

// begin makes what the operator makes, and switches the mesh off when the reflectors serve.
func (o *operated) begin(id func(int) string, peers func()) {
	o.t.Helper()
	for i, name := range o.reflectors {
		o.patchNode(name, fmt.Sprintf("%q", fmt.Sprint(1000+i)), fmt.Sprintf("%q", id(i)))
	}
	o.peer("rrs-to-rrs", "has("+oldLabel+")", "has("+oldLabel+")")
	peers()
	require.NoError(o.t, o.l.WaitReflected(o.t.Context(), o.reflectors...))
	setMesh(o.t, o.l, false, nil)
	awaitNoSession(o.t, o.l, meshPrefix)
	watch(o.t.Context(), time.Second)
}

func (o *operated) simplePeers() { o.peer("peer-to-rrs-1", "!has("+oldLabel+")", "has("+oldLabel+")") }

// multiPeers are three for each client.
func (o *operated) multiPeers() {
	for _, client := range o.l.Nodes() {
		for i := range o.reflectors {
			if !slices.Contains(o.reflectors, client) {
				o.peer(fmt.Sprintf("peer-to-rrs-%d-%s", 1000+i, client), fmt.Sprintf("kubernetes.io/hostname=='%s'", client), fmt.Sprintf("%s=='%d'", oldLabel, 1000+i))
			}
		}
	}
}

func (o *operated) peer(name, nodes, peers string) {
	o.t.Helper()
	peer := apiv3.NewBGPPeer()
	peer.Name = name
	peer.Spec = apiv3.BGPPeerSpec{NodeSelector: nodes, PeerSelector: peers}
	_, err := o.l.Calico().BGPPeers().Create(o.t.Context(), peer, options.SetOptions{})
	require.NoError(o.t, err)
}

func (o *operated) patchNode(name, label, id string) {
	o.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s},"annotations":{"projectcalico.org/RouteReflectorClusterID":%s}}}`, oldLabel, label, id)
	_, err := o.l.Kube().CoreV1().Nodes().Patch(o.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(o.t, err)
}

// allAtOnce is how one does it who does not know better.
func (o *operated) allAtOnce() {
	o.t.Helper()
	for _, name := range []string{"rrs-to-rrs", "peer-to-rrs-1"} {
		_, err := o.l.Calico().BGPPeers().Delete(o.t.Context(), name, options.DeleteOptions{})
		require.NoError(o.t, err)
	}
	for _, name := range o.reflectors {
		o.patchNode(name, "null", "null")
	}
	awaitNoSession(o.t, o.l, nodePrefix)
	setMesh(o.t, o.l, true, nil)
	require.NoError(o.t, o.l.WaitMesh(o.t.Context()))
}

// takeOver asks for the steps, takes the first one, and asks again, until none is left that changes anything.
func (o *operated) takeOver() []string {
	o.t.Helper()
	var titles []string
	for {
		found, err := takeover.Look(o.t.Context(), o.connection)
		require.NoError(o.t, err)
		steps := slices.DeleteFunc(found.Steps(), func(s takeover.Step) bool { return len(s.Actions) == 0 })
		if len(steps) == 0 {
			return titles
		}
		began := time.Now()
		for _, action := range steps[0].Actions {
			o.do(action)
		}
		for _, wait := range steps[0].Waits {
			o.await(wait)
		}
		titles = append(titles, steps[0].Title)
		o.t.Logf("%s: %s", steps[0].Title, time.Since(began).Round(time.Millisecond))
		watch(o.t.Context(), time.Second/2) // the step says ten seconds
	}
}

// do is what kubectl does with the command.
func (o *operated) do(a takeover.Action) {
	o.t.Helper()
	objects := o.client.Resource(a.Resource)
	body, err := json.Marshal(a.Body)
	require.NoError(o.t, err)
	switch a.Verb {
	case "patch":
		require.Contains(o.t, a.Command(), string(body[1:9]))
		_, err = objects.Patch(o.t.Context(), a.Names[0], types.MergePatchType, body, metav1.PatchOptions{})
	case "apply":
		_, err = objects.Create(o.t.Context(), &unstructured.Unstructured{Object: a.Body}, metav1.CreateOptions{})
	case "delete":
		for _, name := range a.Names {
			require.NoError(o.t, objects.Delete(o.t.Context(), name, metav1.DeleteOptions{}))
		}
	default:
		o.t.Fatalf("unexpected: %s", a.Command())
	}
	require.NoError(o.t, err, a.Command())
}

// await looks where the step says to look.
func (o *operated) await(wait takeover.Wait) {
	o.t.Helper()
	statuses := o.client.Resource(statusResource)
	want := map[string]int{"NodeMesh Established": wait.Mesh, "NodePeer Established": wait.Peers, "GlobalPeer Established": wait.Global}
	maps.DeleteFunc(want, func(_ string, count int) bool { return count == 0 })
	require.Eventually(o.t, func() bool {
		status, err := statuses.Get(o.t.Context(), "takeover-"+wait.Node, metav1.GetOptions{})
		require.NoError(o.t, err)
		peers, _, _ := unstructured.NestedSlice(status.Object, "status", "bgp", "peersV4")
		have := map[string]int{}
		for _, peer := range peers {
			fields := peer.(map[string]any)
			have[fmt.Sprint(fields["type"], " ", fields["state"])]++
		}
		return maps.Equal(want, have)
	}, patience, 200*time.Millisecond, "%s: %v wanted: %s", wait.Node, want, o.sessions(wait.Node))
}

func (o *operated) sessions(node string) string {
	sessions, err := o.l.Sessions(node)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, s := range sessions {
		out = append(out, s.Name+" "+s.State)
	}
	return strings.Join(out, ", ")
}

// nextOfRRPool is the step that the manager would take.
func (o *operated) nextOfRRPool() string {
	o.t.Helper()
	seen, err := snapshot.Take(o.t.Context(), o.connection, "default", nil, false)
	require.NoError(o.t, err)
	o.t.Logf("rrpool: %s: %s", seen.Step.Name, seen.Step.Reason)
	return seen.Step.Name
}
