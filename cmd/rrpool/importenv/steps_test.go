package importenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// situations are clusters that somebody wants to take over.
func situations() map[string]*api {
	idleReflector := operated(6, 0, 1)
	idleReflector.idle(1)
	idleNode := operated(6, 0, 1)
	idleNode.idle(5)
	dedicated := operated(6, 0, 1, 2)
	dedicated.idle(0, 1, 2)
	uncounted := operated(4, 0)
	uncounted.refuse[podsPath] = 403
	uncounted.refuse[rolesPath] = 403
	uncounted.refuse[deploymentsPath] = 403
	old := operated(4, 0)
	delete(old.lists, statusesPath)
	many := multiplied(12, 0, 1, 2)
	manyIdle := multiplied(6, 0, 1)
	manyIdle.idle(0, 1)
	ibm := multiplied(5, 0)
	ibm.lists[deploymentsPath] = nil
	ibm.put(deploymentsPath, `{kind: Deployment, apiVersion: apps/v1, metadata: {name: rr-operator, namespace: kube-system}, spec: {replicas: 1, template: {spec: {containers: [{name: rr-operator, image: registry/rr-operator}]}}}, status: {replicas: 1}}`)
	ibm.put(crdsPath, `{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: routereflectors.route-reflector.ibm.com}}`)
	others := operated(4, 0)
	others.put(poolsPath, `{kind: RouteReflectorPool, apiVersion: rrpool.io/v1alpha1, metadata: {name: default}, spec: {mode: RouteReflector}}`)
	others.put(peersPath, `{kind: BGPPeer, apiVersion: crd.projectcalico.org/v1, metadata: {name: by-hand}, spec: {node: node-1, peerIP: 10.0.0.3}}`)
	others.node(2, nil, map[string]any{markAnnotation: "2026-11-21T09:00:00Z", idAnnotation: "244.0.0.1"})
	others.lists[nodesPath][3]["status"] = map[string]any{}
	gone := operated(4, 0)
	gone.lists[deploymentsPath] = nil
	gone.node(1, map[string]any{"calico-route-reflector": ""}, nil)
	return map[string]*api{
		"an-idle-reflector": idleReflector, "an-idle-node": idleNode, "dedicated": dedicated, "nobody-idle": operated(4, 0, 1),
		"uncounted": uncounted, "old-calico": old, "multi": many, "multi-idle": manyIdle, "ibm": ibm, "others": others, "operator-gone": gone,
		"nothing-left": world(3),
	}
}

func TestSteps(t *testing.T) {
	for name, a := range situations() {
		t.Run(name, func(t *testing.T) {
			kubeconfig := cli.Serve(t, a)
			for _, format := range []string{"yaml", "json"} {
				got := ask(t, "--takeover", "--kubeconfig", kubeconfig, "-o", format)
				require.Zero(t, got.Code, got.Err)
				require.Equal(t, "looking at the cluster of context \"rrpool\" …\n", got.Err)
				cli.Golden(t, filepath.Join("steps", name+"."+format+".golden"), got.Out)
			}
			narrow := askIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, "--takeover", "--kubeconfig", kubeconfig)
			require.NotContains(t, narrow.Out, "\x1b")
			for line := range strings.SplitSeq(narrow.Out, "\n") {
				if !isCommand(line) {
					require.LessOrEqual(t, len([]rune(line)), 60, line)
				}
			}
			require.Contains(t, askIn(t, iostreams.Streams{Terminal: true, Width: 60}, "--takeover", "--kubeconfig", kubeconfig).Out, "\x1b[1m")
		})
	}
}

// isCommand: a line to copy, or a word that cannot be broken.
func isCommand(line string) bool {
	trimmed := strings.TrimSpace(line)
	return strings.HasPrefix(trimmed, "$ ") || strings.HasPrefix(trimmed, "{") || !strings.Contains(trimmed, " ")
}

// The promises of the order, whatever the situation: the operator is stopped before
// anything else, the mesh is on before a role is taken, one role at a time, BGPPeers go
// when no node has a role, and in the end nothing is left that rrpool refuses.
func TestTheOrderKeepsItsPromises(t *testing.T) {
	for name, a := range situations() {
		t.Run(name, func(t *testing.T) {
			f := lookAt(t, a)
			w := newReplay(f)
			for i, s := range f.Steps() {
				w.play(t, i, s)
			}
			require.Empty(t, w.roles, "nobody has a foreign role")
			require.Empty(t, w.peers, "no BGPPeer of the operator or of the way is left")
			require.Empty(t, w.helpers)
			require.True(t, w.stopped)
		})
	}
}

// The guard of the test above: an order that begins with the BGPPeers breaks its promises.
func TestAnotherOrderDoesNot(t *testing.T) {
	f := lookAt(t, situations()["an-idle-reflector"])
	steps := f.Steps()
	w := newReplay(f)
	require.NotEmpty(t, w.broken(steps[len(steps)-2]), "BGPPeers before the mesh")
	require.NotEmpty(t, newReplay(f).broken(steps[5]), "a role before the mesh")
}

// replay follows what the steps do.
type replay struct {
	stopped, mesh         bool
	roles, helpers, peers map[string]bool
}

func newReplay(f *Found) *replay {
	w := &replay{mesh: f.Mesh, roles: map[string]bool{}, helpers: map[string]bool{}, peers: map[string]bool{}, stopped: true}
	for _, o := range f.Operators {
		w.stopped = w.stopped && o.Wanted == 0
	}
	for _, n := range f.Nodes {
		if n.reflector() {
			w.roles[n.Name] = true
		}
		if n.Helper {
			w.helpers[n.Name] = true
		}
	}
	for _, name := range append(append([]string{}, f.Peers...), f.Ours...) {
		w.peers[name] = true
	}
	return w
}

func (w *replay) play(t *testing.T, i int, s Step) {
	t.Helper()
	require.Empty(t, w.broken(s), "step %d: %s", i+1, s.Title)
}

// broken names the promise that a step breaks, and does the step.
func (w *replay) broken(s Step) string {
	roles := 0
	for _, a := range s.Actions {
		if a.Verb == "scale" {
			w.stopped = true
			continue
		}
		if !w.stopped {
			return "the operator is running"
		}
		var broken string
		switch a.Resource.Resource {
		case "bgpconfigurations":
			w.mesh = true
		case "nodes":
			roles++
			broken = w.role(a)
		case "bgppeers":
			broken = w.peer(a)
		}
		if broken != "" {
			return broken
		}
	}
	if roles > 1 {
		return "two roles in one step"
	}
	return ""
}

// role follows the patch of a node.
func (w *replay) role(a Action) string {
	metadata := a.Body["metadata"].(map[string]any)
	if !w.mesh {
		return "a role changes without the mesh"
	}
	delete(w.roles, a.Names[0])
	delete(w.helpers, a.Names[0])
	if metadata["annotations"].(map[string]any)[idAnnotation] != nil {
		w.helpers[a.Names[0]] = true
	}
	return ""
}

func (w *replay) peer(a Action) string {
	if a.Verb != "delete" {
		w.peers[a.Names[0]] = true
		return ""
	}
	for _, name := range a.Names {
		byAddress := strings.HasPrefix(name, helperPrefix) && name != helperPeer && name != everyonePeer
		if !byAddress && len(w.roles)+len(w.helpers) > 0 {
			return "a BGPPeer goes while it makes sessions"
		}
		delete(w.peers, name)
	}
	return ""
}

// After each step the rest of the way is the same as it was before: the order can be
// asked for again, and what is done is left out.
func TestStepsAreLeftOutWhenTheyAreDone(t *testing.T) {
	firstIdle := operated(6, 1, 2)
	firstIdle.idle(0)
	for name, a := range map[string]*api{
		"an idle reflector": situations()["an-idle-reflector"], "the first node is idle": firstIdle, "dedicated": situations()["dedicated"],
		"nobody is idle": situations()["nobody-idle"], "multi": situations()["multi"],
	} {
		t.Run(name, func(t *testing.T) {
			before := lookAt(t, a).Steps()
			for i := range before[:len(before)-1] {
				a.do(t, before[i])
				rest := lookAt(t, a).Steps()
				require.Equal(t, titles(before[i+1:]), titles(rest), "after %s", before[i].Title)
			}
		})
	}
}

// What a step waits for was not so before it: a count that had been the same all along
// would be no proof.
func TestWhatAStepWaitsForIsNew(t *testing.T) {
	f := lookAt(t, situations()["an-idle-node"])
	last := map[string]Wait{}
	for _, s := range f.Steps() {
		for _, w := range s.Waits {
			require.NotEqual(t, last[w.Node], w, "%s: %s", s.Title, w.Node)
			last[w.Node] = w
		}
	}
	require.Equal(t, Wait{Node: "node-0", Mesh: 3, Peers: 3}, last["node-0"], "three others in the mesh; the other reflector, the helper, and the rack's switch")
	require.Equal(t, Wait{Node: "node-5", Mesh: 5, Peers: 1}, last["node-5"])
}

// With IPv6 the helper carries both families.
func TestBothFamilies(t *testing.T) {
	a := situations()["an-idle-node"]
	for i := range 6 {
		a.node(i, nil, map[string]any{addr6Annotation: fmt.Sprintf("fd00::%d/64", i+1)})
	}
	var names, gone []string
	for _, s := range lookAt(t, a).Steps() {
		for _, action := range s.Actions {
			if strings.HasSuffix(action.Names[0], "node-0") || strings.HasSuffix(action.Names[0], "-v6") {
				names = append(names, action.Names[0])
			}
			if action.Verb == "delete" && gone == nil {
				gone = action.Names
			}
		}
	}
	require.Subset(t, names, []string{helperPrefix + "node-0", helperPrefix + "node-0-v6", helperPrefix + "node-1-v6"})
	require.Equal(t, []string{helperPrefix + "node-0", helperPrefix + "node-0-v6", helperPrefix + "node-1", helperPrefix + "node-1-v6"}, gone)
}

func titles(steps []Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.Title)
	}
	return out
}

// do changes the cluster as kubectl would.
func (a *api) do(t *testing.T, s Step) {
	t.Helper()
	paths := map[string]string{"nodes": nodesPath, "bgppeers": peersPath, "bgpconfigurations": configsPath, "caliconodestatuses": statusesPath, "deployments": deploymentsPath}
	for _, action := range s.Actions {
		path := paths[action.Resource.Resource]
		body, err := json.Marshal(action.Body)
		require.NoError(t, err)
		switch action.Verb {
		case "apply":
			a.put(path, string(body))
		case "scale":
			a.lists[path][0]["spec"].(map[string]any)["replicas"] = 0
			a.lists[path][0]["status"] = map[string]any{}
		case "delete":
			var rest []map[string]any
			for _, object := range a.lists[path] {
				if !strings.Contains(" "+strings.Join(action.Names, " ")+" ", fmt.Sprintf(" %s ", object["metadata"].(map[string]any)["name"])) {
					rest = append(rest, object)
				}
			}
			a.lists[path] = rest
		case "patch":
			for _, object := range a.lists[path] {
				if object["metadata"].(map[string]any)["name"] == action.Names[0] {
					merge(object, action.Body)
				}
			}
		}
	}
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		have, _ := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && have != nil:
			merge(have, inner)
		default:
			into[key] = value
		}
	}
}

func lookAt(t *testing.T, a *api) *Found {
	t.Helper()
	var access cluster.Access
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	access.Register(set)
	require.NoError(t, set.Set("kubeconfig", cli.Serve(t, a)))
	connection, err := access.Connect()
	require.NoError(t, err)
	found, err := Look(t.Context(), connection)
	require.NoError(t, err)
	return found
}

func TestClustersThatCannotBeLookedAt(t *testing.T) {
	refused := func(path string, code int) string {
		a := operated(4, 0)
		a.refuse[path] = code
		return cli.Serve(t, a)
	}
	without := func(path string) string {
		a := operated(4, 0)
		delete(a.lists, path)
		return cli.Serve(t, a)
	}
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"nobody listens":           {cli.Kubeconfig(t, &rest.Config{Host: cli.Unreachable}), []string{cli.Unreachable, "cannot be reached", "check the address"}},
		"silence":                  {cli.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })), []string{"did not answer within 2s", "--request-timeout"}},
		"no kubeconfig":            {"/nonexistent", []string{"--kubeconfig", `"/nonexistent"`}},
		"nodes may not be read":    {refused(nodesPath, 403), []string{"may not list nodes", "kubectl auth can-i list nodes"}},
		"peers may not be read":    {refused(peersPath, 403), []string{"may not list bgppeers.crd.projectcalico.org"}},
		"the mesh may not be read": {refused(configsPath+"/default", 403), []string{"may not get bgpconfigurations.crd.projectcalico.org"}},
		"not logged in":            {refused(nodesPath, 401), []string{"log in again"}},
		"no Calico":                {without(peersPath), []string{"does not know bgppeers.crd.projectcalico.org", "Calico with the Kubernetes datastore"}},
		"no nodes":                 {cli.Serve(t, world(0)), []string{"no nodes that speak BGP", "right --context"}},
		"a page for people":        {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) })), []string{"list nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--takeover", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, strings.TrimPrefix(got.Err, "looking at the cluster of context \"rrpool\" …\n"), tc.says...)
		})
	}
}
