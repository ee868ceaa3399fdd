package topology

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/test/cli"
)

func pool(spec string) string {
	return "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\nspec: " + spec + "\n"
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"a negative number of nodes":         {[]string{"--nodes", "-3"}, []string{"--nodes", `"-3"`, "use a whole number from 1 to 100000"}},
		"no nodes":                           {[]string{"--nodes", "0"}, []string{"--nodes", `"0"`, "use a whole number from 1"}},
		"half a node":                        {[]string{"--nodes", "1.5"}, []string{"--nodes", `"1.5"`, "use a whole number"}},
		"negative zones":                     {[]string{"--nodes", "9", "--zones", "-1"}, []string{"--zones", `"-1"`, "use a whole number from 1 to 100"}},
		"too many reflectors":                {[]string{"--nodes", "9", "--reflectors", "99999"}, []string{"--reflectors", `"99999"`, "use a whole number from 1 to 1000"}},
		"reflectors that zones cannot share": {[]string{"--nodes", "9", "--zones", "3", "--reflectors", "7"}, []string{"--reflectors: 7", "each of 3 zones", "use 6 or 9, or other --zones"}},
		"fewer reflectors than zones":        {[]string{"--nodes", "9", "--zones", "3", "--reflectors", "2"}, []string{"--reflectors: 2", "use 3, or other --zones"}},
		"more zones than the sizing allows":  {[]string{"--nodes", "9", "--zones", "30"}, []string{"spec.sizing.max: 25", "30 zones", "raise max to 30", "or give --reflectors"}},
		"zones without nodes":                {[]string{"--zones", "3"}, []string{"--nodes: missing", "--zones", "such as --nodes 500"}},
		"a file without nodes":               {[]string{"-f", "x"}, []string{"--nodes: missing", "--filename", "such as --nodes 500"}},
		"a cluster and one to think of":      {[]string{"--nodes", "9", "--context", "x"}, []string{"--nodes 9 and --context", "leave out one of them"}},
		"an unknown format":                  {[]string{"-o", "png"}, []string{"--output", `"png"`, "use svg, dot, mermaid, json, html"}},
		"an unknown flag":                    {[]string{"--node", "3"}, []string{"unknown flag: --node", "--help lists all flags"}},
		"an argument":                        {[]string{"now"}, []string{`unexpected argument "now"`, "takes flags only"}},
		"a file that is not there":           {[]string{"--nodes", "9", "-f", "/nonexistent"}, []string{"--filename", `"/nonexistent"`, "no such file", "give the name of a file"}},
		"a file that is no YAML":             {[]string{"--nodes", "9", "-f", cli.File(t, "spec: [")}, []string{"--filename", "this is no YAML", "line 1"}},
		"a file of another kind":             {[]string{"--nodes", "9", "-f", cli.File(t, "apiVersion: v1\nkind: Node\n")}, []string{"--filename", `this is "Node"`, "give a RouteReflectorPool"}},
		"a field that is not there":          {[]string{"--nodes", "9", "-f", cli.File(t, pool("{size: 3}"))}, []string{"--filename", "spec.size: there is no such field"}},
		"a value that cannot be":             {[]string{"--nodes", "9", "-f", cli.File(t, pool("{sizing: {min: -1}}"))}, []string{"--filename", "spec.sizing.min", "-1"}},
		"an unknown topology":                {[]string{"--nodes", "9", "--topology", "star"}, []string{"--topology", `"star"`, "use single, quorum, hierarchy, multicluster, auto"}},
		"a topology without nodes":           {[]string{"--topology", "quorum"}, []string{"--nodes: missing", "--topology", "such as --nodes 500"}},
		"a topology for dedicated nodes":     {[]string{"--nodes", "9", "--topology", "quorum", "-f", cli.File(t, pool("{provider: {type: ExistingNodes}}"))}, []string{"--topology: Quorum", "spec.provider.type is ExistingNodes", "use single"}},
		"a topology that explodes":           {[]string{"--nodes", "500", "--zones", "3", "--topology", "multicluster"}, []string{"MultiCluster", "maxPathsPerPrefix", "64", "set spec.topology.type to"}},
		"more racks than the sizing allows":  {[]string{"--nodes", "5000", "--zones", "3", "--topology", "hierarchy", "--racks", "10"}, []string{"spec.sizing.max: 25", "takes 33", "raise max to 33", "or give --reflectors"}},
		"too few reflectors for the racks":   {[]string{"--nodes", "5000", "--zones", "3", "--topology", "hierarchy", "--racks", "10", "--reflectors", "9"}, []string{"--reflectors: 9 is too few", "takes 33", "give 33"}},
		"more racks than nodes":              {[]string{"--nodes", "9", "--racks", "10"}, []string{"--racks: 10 racks for 9 nodes", "at most as many racks as nodes"}},
		"fewer racks than zones":             {[]string{"--nodes", "9", "--zones", "3", "--racks", "2"}, []string{"--racks: 2 racks in 3 zones", "give at least 3"}},
		"reflectors on the mesh":             {[]string{"--nodes", "9", "--reflectors", "3", "-f", cli.File(t, pool("{mode: FullMesh}"))}, []string{"--reflectors: 3", "spec.mode is FullMesh", "leave out one of them"}},
		"more reflectors than nodes": {
			[]string{"--nodes", "2", "-f", cli.File(t, pool("{provider: {type: ExistingNodes}}"))}, []string{"--nodes: 2 nodes cannot hold 3 reflectors", "give more"},
		},
		"an output file in no folder":     {[]string{"--nodes", "9", "--output-file", "/nonexistent/x"}, []string{"--output-file", `"/nonexistent/x"`, "no such file", "give a folder that is there"}},
		"an output file that is a folder": {[]string{"--nodes", "9", "--output-file", "/"}, []string{"--output-file", `"/"`, "give the name of a file"}},
		"no kubeconfig":                   {[]string{"--kubeconfig", "/nonexistent"}, []string{"--kubeconfig", `"/nonexistent"`, "give the name of a kubeconfig file"}},
		"a kubeconfig that is no YAML":    {[]string{"--kubeconfig", cli.File(t, "spec: [")}, []string{"--kubeconfig", "no kubeconfig can be read", "without a cluster"}},
		"an unknown context":              {[]string{"--context", "elsewhere", "--kubeconfig", cli.Kubeconfig(t, &rest.Config{Host: "http://127.0.0.1:1"})}, []string{"--context", `"elsewhere"`, "kubectl config get-contexts"}},
		"no time to wait":                 {[]string{"--request-timeout", "-1s"}, []string{"--request-timeout", "-1s", "use for example 15s"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, append([]string{"topology"}, tc.args...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out, "no half of a picture")
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// answering is an apiserver that says the same to every question.
func answering(code int32, reason metav1.StatusReason, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: message,
		})
	})
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"nobody listens": {
			cli.Kubeconfig(t, &rest.Config{Host: cli.Unreachable}),
			[]string{cli.Unreachable, `context "rrpool"`, "cannot be reached", "connection refused", "check the address and the network"},
		},
		"silence": {
			cli.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			[]string{"did not answer within 2s", "give more --request-timeout"},
		},
		"the CRD is missing": {
			cli.Serve(t, http.NotFoundHandler()),
			[]string{"does not know routereflectorpools.rrpool.io", "config/crd", "choose another --context"},
		},
		"the pool may not be read": {
			cli.Serve(t, answering(http.StatusForbidden, metav1.StatusReasonForbidden, "no")),
			[]string{"may not get routereflectorpools.rrpool.io", "ask for a ClusterRole", "kubectl auth can-i get routereflectorpools.rrpool.io"},
		},
		"the credentials are not accepted": {
			cli.Serve(t, answering(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")),
			[]string{"does not accept the credentials", "log in again"},
		},
		"the apiserver fails": {
			cli.Serve(t, answering(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is\nfull.")),
			[]string{"to get routereflectorpools.rrpool.io: etcd is full"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "topology", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, append(tc.says, "without a cluster: rrpool topology --nodes 500 --zones 3")...)
		})
	}
}

// calicoless is an apiserver without Calico, and with a node.
func calicoless() http.Handler {
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/rrpool.io/v1alpha1/routereflectorpools/default", func(w http.ResponseWriter, _ *http.Request) {
		object, _ := crd.Default()
		answer(w, object)
	})
	mux.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, corev1.NodeList{
			TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}},
		})
	})
	return mux
}

func TestAClusterWithoutCalico(t *testing.T) {
	got := ask(t, "topology", "--kubeconfig", cli.Serve(t, calicoless()))
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out, "no picture of nothing")
	cli.RequireSentence(t, got.Err, `nothing to draw in the cluster of context "rrpool"`, "the API has no BGPPeer", "install Calico")
}

func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	kubeconfig := cli.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	var out, said strings.Builder
	s := cli.Defaults(iostreams.Streams{Out: &out, Err: &said})
	require.Equal(t, 1, iostreams.Run(ctx, cli.Root(New(s)), []string{"topology", "--kubeconfig", kubeconfig}, s))
	require.Equal(t, "rrpool: interrupted\n", said.String())
	require.Empty(t, out.String())
}

// A network that one thinks of needs no cluster, not even one that is configured.
func TestNoClusterIsAskedWithoutNeed(t *testing.T) {
	var asked atomic.Bool
	t.Setenv("KUBECONFIG", cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		http.NotFound(w, r)
	})))
	require.Zero(t, ask(t, "topology", "--nodes", "3").Code)
	require.False(t, asked.Load())
	require.Equal(t, 1, ask(t, "topology").Code)
	require.True(t, asked.Load(), "without --nodes it is about the cluster")
}

// broken fails every write.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestFailuresToWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
		says string
	}{
		"a reader that has seen enough": {syscall.EPIPE, 0, ""},
		"a full disk":                   {syscall.ENOSPC, 1, "rrpool: writing the picture: no space left on device\n"},
		"anything else":                 {errors.New("moths"), 1, "rrpool: writing the picture: moths\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range formats {
				got := askIn(t, iostreams.Streams{Out: broken{tc.err}}, "topology", "--nodes", "9", "-o", format)
				require.Equal(t, cli.Answer{Err: tc.says, Code: tc.code}, got)
			}
		})
	}
}

func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "topology.svg")
	args := []string{"topology", "--nodes", "50", "--output-file", path}
	require.Equal(t, cli.Answer{}, ask(t, args...))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, ask(t, args[:3]...).Out, string(content))

	require.Equal(t, 1, ask(t, "topology", "--nodes", "9", "--zones", "3", "--reflectors", "7", "--output-file", path).Code)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(content), string(after), "a question without an answer leaves the old file")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing temporary stays")
}

// A terminal changes nothing about a picture: neither its width nor its colours do.
func TestTerminals(t *testing.T) {
	for _, format := range formats {
		args := []string{"topology", "--nodes", "50", "--zones", "2", "-o", format}
		want := ask(t, args...)
		for _, s := range []iostreams.Streams{
			{Terminal: true, Width: 60},
			{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")},
			{Terminal: true, Width: 200},
		} {
			got := askIn(t, s, args...)
			require.Equal(t, want, got)
			require.NotContains(t, got.Out, "\x1b")
		}
	}
}

func TestWhatIsInvented(t *testing.T) {
	existing := cli.File(t, pool("{provider: {type: ExistingNodes}}"))
	zoned := cli.File(t, pool("{provider: {type: IKS, iks: {zones: [eu-de-2, eu-de-1]}}, sizing: {min: 4}, topology: {clusterID: 10.0.0.1}}"))
	mesh := pool("{mode: FullMesh}")
	for name, tc := range map[string]struct {
		args []string
		in   string
		says []string
	}{
		"the default sizing":                 {[]string{"--nodes", "500", "--zones", "3"}, "", []string{"BGP topology for 500 nodes in 3 zones", "9 reflectors, 500 clients, cluster ID 244.0.0.1"}},
		"one zone unless told otherwise":     {[]string{"--nodes", "1"}, "", []string{"BGP topology for 1 node in 1 zone", "3 reflectors, 1 client,"}},
		"as many reflectors as one says":     {[]string{"--nodes", "500", "--zones", "3", "--reflectors", "33"}, "", []string{"33 reflectors, 500 clients", "528 sessions"}},
		"existing nodes are nodes":           {[]string{"--nodes", "50", "-f", existing}, "", []string{"3 reflectors, 47 clients"}},
		"the sizing and the zones of a file": {[]string{"--nodes", "50", "-f", zoned}, "", []string{"in 2 zones", "eu-de-1", "4 reflectors, 50 clients, cluster ID 10.0.0.1"}},
		"--zones counts before the file":     {[]string{"--nodes", "50", "--zones", "1", "-f", zoned}, "", []string{"in 1 zone", "zone-1", "4 reflectors"}},
		"a topology by its word":             {[]string{"--nodes", "500", "--zones", "3", "--topology", "hierarchy"}, "", []string{"12 reflectors (3 spines), 500 clients, topology Hierarchy", "rack zone-1", "167 × 3 sessions"}},
		"the topology of a file":             {[]string{"--nodes", "500", "-f", "-", "--zones", "3"}, pool("{topology: {type: Quorum}}"), []string{"topology Quorum", "with 6 of 9 reflectors"}},
		"a word counts before the file":      {[]string{"--nodes", "500", "-f", "-", "--topology", "single"}, pool("{topology: {type: Quorum}}"), []string{"8 reflectors, 500 clients, cluster ID 244.0.0.1"}},
		"what Auto takes":                    {[]string{"--nodes", "5000", "--zones", "3", "--topology", "auto"}, "", []string{"topology Hierarchy"}},
		"Auto on existing nodes":             {[]string{"--nodes", "50", "--topology", "auto", "-f", existing}, "", []string{"3 reflectors, 47 clients"}},
		"a rack for each label":              {[]string{"--nodes", "5000", "--zones", "3", "--topology", "hierarchy", "--racks", "10", "--reflectors", "33"}, "", []string{"33 reflectors (3 spines)", "rack 10", "500 × 3 sessions"}},
		"the mesh, from standard input":      {[]string{"--nodes", "500", "-f", "-"}, mesh, []string{"no reflectors, 500 nodes", "500 nodes each with each, 124,750 sessions"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"svg", "dot", "mermaid"} {
				got := askIn(t, iostreams.Streams{In: strings.NewReader(tc.in)}, append([]string{"topology", "-o", format}, tc.args...)...)
				require.Zero(t, got.Code, got.Err)
				for _, words := range tc.says {
					require.Contains(t, got.Out, words)
				}
			}
		})
	}
}

func TestCompletionAndHelp(t *testing.T) {
	require.Equal(t, "svg\ndot\nmermaid\njson\nhtml\n:4\n", ask(t, "__complete", "topology", "-o", "").Out)
	got := ask(t, "topology", "--help")
	require.Zero(t, got.Code)
	cli.Golden(t, "help.golden", got.Out)
}
