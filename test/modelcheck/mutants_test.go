package modelcheck

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gatePackages hold the gates.
var gatePackages = []string{"../../controllers/plan/rollout", "../../controllers/plan/evidence"}

// Each gate of rollout and evidence is taken out in turn, and the explorer finds what that breaks.
// With none taken out, it finds nothing in the same clusters.
func TestWithoutAnyOneGateTheExplorerFails(t *testing.T) {
	t.Parallel()
	// The explorer, with every mutation in it. Without mutantVariable they do nothing.
	folder, replace := t.TempDir(), map[string]string{}
	write := func(name, text string) {
		to := filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
		replace[name] = to
	}
	for _, source := range gatePackages {
		source, err := filepath.Abs(source)
		require.NoError(t, err)
		for name, f := range sources(t, source) {
			write(name, mutate(f))
		}
		write(filepath.Join(source, "mutant.go"), fmt.Sprintf(mutantSource, filepath.Base(source), mutantVariable))
	}
	rollout, err := filepath.Abs(gatePackages[0])
	require.NoError(t, err)
	write(filepath.Join(rollout, "opened.go"), openedSource)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path, binary := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "explore")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", path, "-o", binary).CombinedOutput()
	require.NoError(t, err, "%s", out)
	jobs := map[string][]string{"": nil}
	for _, m := range Mutations {
		switch {
		case m.Redundant != "":
			require.NotEmpty(t, m.Guards, m.Name)
			continue
		case m.Scenario == "":
			t.Errorf("%s: no scenario finds it, and no reason says why", m.Name)
			continue
		}
		jobs[m.Name] = []string{m.Scenario}
		jobs[""] = append(jobs[""], m.Scenario)
	}
	for name, scenarios := range jobs {
		t.Run(cmp.Or(name, "none"), func(t *testing.T) {
			t.Parallel()
			found, out := explored(t, binary, name, scenarios)
			require.Equal(t, name != "", found, out)
		})
	}
}

// explored runs the binary with a mutation, and says whether it has found a violation.
func explored(t *testing.T, binary, mutation string, scenarios []string) (found bool, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestProbes$")
	cmd.Env = append(os.Environ(), mutantVariable+"="+mutation, probesVariable+"="+strings.Join(scenarios, "|"), "GOMAXPROCS=1")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.Equal(t, 1, exit.ExitCode(), "%s: %s", mutation, text)
		require.Contains(t, string(text), "BROKEN: ", mutation)
		return true, string(text)
	}
	require.NoError(t, err, "%s: %s", mutation, text)
	return false, string(text)
}

// probesVariable names the probes that TestProbes explores.
const probesVariable = "RRPOOL_PROBES"

// TestProbes is what TestWithoutAnyOneGateTheExplorerFails runs, with a gate taken out.
func TestProbes(t *testing.T) {
	names := strings.Split(os.Getenv(probesVariable), "|")
	for _, sc := range probes() {
		if slices.Contains(names, sc.Name) {
			r := Explore(sc)
			require.Empty(t, r.Violation, "%s", r.Trace)
		}
	}
}

// Whatever looks like a gate is in the list of mutations, or in that of exceptions.
func TestEveryGateIsTakenOut(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, m := range Mutations {
		listed[m.Function] = true
	}
	there := map[string]bool{}
	for _, folder := range gatePackages {
		for name, f := range sources(t, folder) {
			for fn, d := range f.functions() {
				there[fn] = true
				_, excepted := exceptions[fn]
				if looksLikeAGate(d) && !listed[fn] && !excepted {
					t.Errorf("%s: %s looks like a gate: add it to Mutations, or to exceptions with a reason", filepath.Base(name), fn)
				}
			}
		}
	}
	for _, m := range Mutations {
		require.True(t, there[m.Function], "%s: %s is no function any more", m.Name, m.Function)
	}
	for fn, why := range exceptions {
		require.True(t, there[fn], "exception %s is no function any more", fn)
		require.NotEmpty(t, why)
		require.False(t, listed[fn], "%s is in both lists", fn)
	}
}

// looksLikeAGate reports whether a function returns a proof, or adds to one, or is a rule.
func looksLikeAGate(d *ast.FuncDecl) bool {
	gate := func(list *ast.FieldList) bool {
		if list == nil {
			return false
		}
		for _, f := range list.List {
			if isPointerTo(f.Type, "Proof") {
				return true
			}
		}
		return false
	}
	return !gate(d.Recv) && (gate(d.Type.Params) || gate(d.Type.Results) || isRule(d))
}

func isRule(d *ast.FuncDecl) bool {
	return d.Recv == nil && len(d.Type.Params.List) == 1 && isPointerTo(d.Type.Params.List[0].Type, "view") &&
		d.Type.Results != nil && isPointerTo(d.Type.Results.List[0].Type, "Step")
}

func isPointerTo(t ast.Expr, name string) bool {
	star, ok := t.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch x := star.X.(type) {
	case *ast.Ident:
		return x.Name == name
	case *ast.SelectorExpr:
		return x.Sel.Name == name
	}
	return false
}

// The control of that: a gate that is not listed is seen.
func TestAGateThatIsNotListedIsSeen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := "package rollout\nfunc (e *Evidence) proves() *Proof { return nil }\nfunc (v *view) fills(p *evidence.Proof) {}\nfunc rule(v *view) *Step { return nil }\nfunc (p *Proof) open() bool { return true }\nfunc other(v *view) bool { return true }\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "new.go"), []byte(text), 0o600))
	for _, f := range sources(t, folder) {
		for name, d := range f.functions() {
			require.Equal(t, name == "proves" || name == "fills" || name == "rule", looksLikeAGate(d), name)
		}
	}
}

// Mutation takes one gate out of rollout or evidence: Statement becomes the first one of Function. Two
// of the same name go together.
type Mutation struct {
	Name string
	// Function is the name of a function or method of one of these packages.
	Function  string
	Statement string
	// Guards says what goes wrong without it.
	Guards string
	// Scenario finds that.
	Scenario string
	// Redundant says which other gate protects as well, and why a run finds nothing.
	Redundant string
}

// Mutations are all the gates.
var Mutations = []Mutation{
	{"reflector gate", "Prove", "return &Proof{}", "sessions before the mesh goes, and before a reflector does", "probe: timer", ""},
	{"sessions", "sessionsUp", "return nil", "each session of a gate", "probe: back", ""},
	{"proof", "provenBy", "return", "settled sessions, seen after the last write, in a fresh report", "probe: there, quickly", ""},
	{"settle", "provenBy", "settled = time.Time{}", "sessions that have carried routes for a moment", "probe: back", ""},
	{"quiet", "provenBy", "after = time.Time{}", "what was seen before the last write was rendered", "probe: existing nodes, a cordon", ""},
	{"freshness", "provenBy", "st.Updated = e.clock.now", "an old report", "", "the route gate protects as well: see what follows"},
	{"freshness and routes", "provenBy", "st.Updated = e.clock.now", "an old report", "probe: stale", ""},
	{"freshness and routes", "proveRoutesOf", "return", "routes on clients", "probe: stale", ""},
	{"removal delay", "removeReflector", "v.d.RemovalDelay = 0", "a reflector before the others have proven themselves", "probe: existing nodes, a cordon", ""},
	{"one at a time", "removeReflector", "return &Step{Name: \"RemoveReflector\", Actions: func() (out []plan.Action) { for _, h := range v.Current { out = append(out, plan.ClearReflector{Node: h.Name}) }; return out }()}", "two reflectors in one step", "probe: fewer", ""},
	{"completeness", "isComplete", "return true", "as many reflectors as wanted before the mesh goes", "", "growPool comes first and waits for the whole pool; the reflector gate covers those that are there: rollout's TestTheMeshStaysOnWhile"},
	{"start", "mayStart", "return true", "no role before the pool is complete", "probe: too small a pool", ""},
	{"route gate", "ProveRoutes", "return &Proof{}", "routes on clients, not only sessions", "probe: mute", ""},
	{"routes", "proveRoutesOf", "return", "the same, of one client", "probe: mute", ""},
	{"learned", "learned", "return", "every prefix from every reflector", "probe: mute", ""},
	{"mesh gate", "ProveMesh", "return &Proof{}", "the mesh before the reflectors go", "probe: back", ""},
	{"mesh sessions", "meshSessions", "return", "each session of the mesh", "probe: back", ""},
	{"mesh batch", "unproven", "return nil", "each node of the mesh", "probe: back", ""},
	{"restore", "restoreMesh", "return nil", "the mesh on, before the reflectors go", "probe: back", ""},
	{"under mesh", "underMesh", "return change", "the mesh, before reflector sessions restart", "probe: a password", ""},
	{"safety net", "safetyNet", "return nil", "the mesh when too few serve", "probe: two failures", ""},
	{"carriers", "ProveWith", "return &Proof{}", "others that carry an in-place node's routes", "probe: existing nodes, 3 of 5", ""},
	{"promotion gate", "ProveCarried", "return &Proof{}", "the same, at a promotion", "probe: existing nodes, there", ""},
	{"stage demotion", "stepDown", "return nil", "other reflectors before an in-place node gives the role back", "probe: existing nodes, a cordon", ""},
	{"stage promotion", "makeClient", "return nil", "other reflectors before an in-place node gets the role", "probe: existing nodes, there", ""},
	{"bridge", "isBridged", "return true", "a reflector of both, while a session is reversed", "probe: existing nodes, a cordon", ""},
	{"first of all", "promoteFirst", "v.ev.Quiet = 0", "peers rendered before the first reflector", "", "it only shortens an outage that is announced, and the model has no seconds; rollout's goldens show it"},
	{"stray peerings", "deleteStrayPeerings", "v.StraySince = v.clock.Now().Add(-1 << 50)", "a change of role rendered before its peers go", "", "no other rule gives the role back within the removal delay, which is longer: rollout's TestABlockedDrainDoesNotKeepStrayPeerings"},
	{"slots now", "Prove", "if c.AsConfigured { return &Proof{} }", "the others while a reflector changes its slot", "probe: single to multi", ""},
	{"depth", "needs", "return 0", "how many others are enough for that", "probe: single to multi", ""},
	{"scope time", "untilScopedPeersRendered", "return 0", "scoped peers rendered before other reflectors come", "", "what is rendered too early multiplies paths for seconds and cuts no node off; the scope itself is taken out above"},
	{"scope", "scoped", "return layout.Peers", "Single's peers away from other cluster IDs", "probe: single to hierarchy", ""},
	{"paths", "multiplied", "return 0", "the mesh while paths multiply", "", "writePeers and clearPaths end it before: rollout's TestTheMeshStaysWhilePathsMultiply"},
	{"narrow", "narrow", "v = opened(v)", "sessions that end, until the reflectors serve without", "", "disableMesh has waited for the same gate, and no edit in these small clusters leaves a BGPPeer too wide: rollout's TestGrowingTakesNoSessionBeforeTheNextIsUp"},
	{"mesh off", "disableMesh", "v = opened(v)", "all of it, before the mesh goes", "probe: there, quickly", ""},
	{"removal", "removeReflector", "v = opened(v)", "all of it, before a reflector goes", "probe: existing nodes, a cordon", ""},
	{"ID change", "changeID", "v = opened(v)", "all of it, before a cluster ID changes", "probe: another cluster ID", ""},
	{"ID gate", "Prove", "if c.AsConfigured { return &Proof{} }", "the others while a cluster ID changes", "probe: another cluster ID", ""},
	{"timer", "proveByTime", "return", "fixed waits where nothing is reported", "probe: timer", ""},
	{"unsupported cluster", "refuse", "return nil", "anything while the cluster is unsupported", "probe: in the way", ""},
	{"hold", "hold", "return nil", "anything while the datastore reports a problem", "probe: in the way", ""},
	{"foreign peer", "foreignPeer", "return nil", "BGPPeers of others", "probe: in the way", ""},
	{"pool unknown", "awaitProvider", "return nil", "orders while the pool is unknown", "probe: too small a pool", ""},
	{"pool unknown", "growPool", "if v.Pool == nil { v.Pool = &ObservedPool{} }", "orders while the pool is unknown", "probe: too small a pool", ""},
	{"pool unknown, smaller", "removeSurplus", "if v.Pool == nil { v.Pool = &ObservedPool{Exists: true} }", "removals while the pool is unknown", "probe: in the way, fewer", ""},
	{"stray label", "onceServed", "return s", "the reflectors before a label goes", "", "the label is a person's doing, and what its removal costs is announced, so the model excuses it: rollout's TestALabelOnOneOfTwoClientsIsTakenAway"},
	{"unready", "unreadySessions", "return", "nodes that only their kubelet has left", "", "a kubelet that dies alone is not in the model: rollout's TestADeadKubeletIsNoReasonToLoseAPacket"},
	{"silent", "proveUnready", "return", "the same, of a node that is promoted", "", "a kubelet that dies alone is not in the model: rollout's TestANodeThatIsNotReadyIsWaitedForWhileItMayBeAlive"},
	{"stray peers", "deleteStrayPeers", "v = opened(v)", "sessions that end, until the reflectors serve without", "", "reassign has waited for the same sessions one reflector at a time: rollout's TestFromEveryTopologyToEveryOther"},
	{"heal", "healRoles", "return nil", "half a role that stays half", "probe: edits", ""},
}

// mutantVariable names the mutation that a binary runs with.
const mutantVariable = "RRPOOL_MUTANT"

// mutantSource goes to each package, openedSource to rollout. To opened, every gate has been waiting long enough.
const (
	mutantSource = "package %s\n\nimport \"os\"\n\nvar mutant = os.Getenv(%q)\n"
	openedSource = `package rollout

import "github.com/rrpool/rrpool/controllers/plan/evidence"

func opened(v *view) *view {
	out, t := *v, *v.target
	t.d.Timer, t.clock = true, evidence.NewClock(v.clock.Now().Add(1<<60))
	out.target, out.ev = &t, evidence.New(v.Cluster, v.Roles, t.network(), evidence.Options{Timer: true, Dedicated: v.d.Dedicated}, t.clock)
	return &out
}
`
)

// sourceFile is a file of the package, read.
type sourceFile struct {
	*ast.File
	set  *token.FileSet
	text []byte
}

func sources(t *testing.T, folder string) map[string]sourceFile {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	out := map[string]sourceFile{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, 0)
		require.NoError(t, err)
		out[name] = sourceFile{f, set, text}
	}
	return out
}

// functions of a file, by name.
func (f sourceFile) functions() map[string]*ast.FuncDecl {
	out := map[string]*ast.FuncDecl{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			out[fn.Name.Name] = fn
		}
	}
	return out
}

// mutate puts each mutation at the beginning of its function.
func mutate(f sourceFile) string {
	text := string(f.text)
	functions := slices.SortedFunc(maps.Values(f.functions()), func(a, b *ast.FuncDecl) int { return int(b.Pos() - a.Pos()) })
	for _, fn := range functions { // from the last, so that the places of the others stay
		at := f.set.Position(fn.Body.Lbrace).Offset + 1
		for _, m := range Mutations {
			if m.Function == fn.Name.Name {
				text = text[:at] + fmt.Sprintf(" if mutant == %q { %s };", m.Name, m.Statement) + text[at:]
			}
		}
	}
	return text
}
