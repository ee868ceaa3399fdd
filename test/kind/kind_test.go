//go:build linux

package kind

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/walkthrough"
)

const (
	// modeVariable is published or built: which images the cluster consists of. test/kind/run sets it, and the two others.
	modeVariable     = "RRPOOL_KIND"
	programsVariable = "RRPOOL_KIND_PROGRAMS"
	nodeVariable     = "RRPOOL_KIND_NODE"
	// patience is how long a block, or what it brings about, may take on a slow machine.
	patience = 12 * time.Minute
)

// page is a cluster in which docs/kind.md is typed.
type page struct {
	*testing.T
	cluster Cluster
	probers *Probers
	shell   *walkthrough.Shell
	// said is a file with what the shell has said of a block. It is in the test's log as well.
	said *os.File
	// named are the nodes of whose pods a plan has said in a phase, before anything was done, that they cannot be reached for a moment.
	named map[string][]string
	// instead is what is typed for what the page has: in this mode, on this machine, or because a reader has to choose.
	instead map[string]string
	before  map[string]func()
	after   map[string]func()
}

// Every block of the page is typed, and on the way more is broken than the page asks for. Pairs of pods whose node is being stopped are not
// counted while it is: everything else may lose no two probes in a row.
func TestKind(t *testing.T) {
	mode := os.Getenv(modeVariable)
	if mode == "" {
		t.Skipf("it needs Docker and half an hour: make kind-test runs it, with %s set", modeVariable)
	}
	p := newPage(t)
	p.instead[`kubectl exec --stdin --tty "$from" -- ping "$to"`] = `kubectl exec "$from" -- ping "$to" >"$HOME/ping" 2>&1 &`
	p.instead["rrpool status --watch"] = `rrpool status --watch >"$HOME/watch" 2>&1 &`
	p.instead["> topology.dot"] = `> "$HOME/topology.dot"`
	if mode == "built" {
		p.withoutRegistry()
	}
	p.breakThings()
	source, err := os.ReadFile("../../docs/kind.md")
	require.NoError(t, err)
	blocks, err := walkthrough.Blocks(source)
	require.NoError(t, err)
	t.Cleanup(p.dump)
	for _, b := range blocks {
		p.typed(b)
	}
	require.Empty(t, p.before, "blocks that the page has no more")
	require.Empty(t, p.after, "blocks that the page has no more")
}

func newPage(t *testing.T) *page {
	t.Helper()
	dir := t.TempDir()
	p := &page{
		T: t, cluster: Cluster{Programs: os.Getenv(programsVariable)}, named: map[string][]string{},
		instead: map[string]string{}, before: map[string]func(){}, after: map[string]func(){},
	}
	given := map[string]string{"kind": filepath.Join(p.cluster.Programs, "kind"), "kubectl": filepath.Join(p.cluster.Programs, "kubectl")}
	for _, name := range []string{"docker", "make", "go", "git", "gcc"} {
		given[name], _ = exec.LookPath(name) // what of them is needed says so itself
	}
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	commands := filepath.Join(dir, "programs")
	require.NoError(t, walkthrough.Programs(commands, given))
	p.cluster.Env = append(os.Environ(), "PATH="+commands, "HOME="+dir, "LANG=C.UTF-8")
	p.said, err = os.OpenFile(filepath.Join(dir, "said"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(t, err)
	p.shell, err = walkthrough.StartShell(dir, repository, p.cluster.Env, io.MultiWriter(t.Output(), p.said))
	require.NoError(t, err)
	t.Cleanup(p.shell.Stop)
	p.probers = NewProbers(p.cluster)
	return p
}

// withoutRegistry replaces what the page fetches. All of it is said in the log where it is typed.
func (p *page) withoutRegistry() {
	manifest := filepath.Join(p.cluster.Programs, "src", "github.com", "projectcalico", "calico", "manifests", "calico.yaml")
	const url = "kubectl create -f https://raw.githubusercontent.com/projectcalico/calico/v3.31.0/manifests/"
	p.instead["kind create cluster"] = "kind create cluster --image " + os.Getenv(nodeVariable)
	p.instead[url+"operator-crds.yaml\n"] = ""
	p.instead[url+"tigera-operator.yaml\n"] = ""
	p.instead["kubectl create -f config/overlays/kind/calico.yaml"] = `sed -e '/CALICO_IPV4POOL_IPIP/{n;s/Always/Never/}' -e 's/# \(- name: CALICO_IPV4POOL_CIDR\)/\1/' ` +
		`-e 's|#   value: "192.168.0.0/16"|  value: "10.244.0.0/16"|' ` + manifest + ` | kubectl create -f -`
	p.instead["--namespace calico-system"] = "--namespace kube-system"
	p.instead["docker build --tag rrpool-manager:dev ."] = "docker load --input bin/rrpool-manager-image.tar"
	p.instead["make build"] = "ls bin/rrpool # make build needs a network for Go modules that are not there yet: it was built before"
}

// breakThings says what happens between the blocks of the page, and what is checked.
func (p *page) breakThings() {
	p.after["kubectl wait --for=condition=Ready nodes"] = func() {
		p.run("kind load docker-image rrpool-probe:dev --name rrpool")
		p.run("kubectl apply -f - <<'YAML'\n" + Manifest + "YAML\nkubectl rollout status daemonset/probes --timeout=5m")
		require.NoError(p, p.probers.Start(p.Context()))
		p.phase("mesh")
	}
	p.before["rrpool migrate"] = func() { p.phase("migrate") }
	p.after["rrpool migrate"] = func() {
		require.Equal(p, "false", p.ask("get", "bgpconfigurations.crd.projectcalico.org", "default", "--output", "jsonpath={.spec.nodeToNodeMeshEnabled}"))
		p.phase("on reflectors")
		require.Len(p, p.reflectors(), 3)
	}
	var stopped string
	p.before["docker stop"] = func() {
		stopped = p.aWorker()
		p.instead["rrpool-worker3"] = stopped
		require.NoError(p, p.probers.Stop(stopped))
		p.phase("a reflector stopped")
	}
	p.after["docker stop"] = func() {
		p.wait("the stopped reflector has a substitute", func() bool {
			now := p.reflectors()
			return len(now) == 3 && !slices.Contains(now, stopped)
		})
		p.phase("a reflector started again")
	}
	p.after["docker start"] = func() {
		p.run("kubectl wait --for=condition=Ready nodes --all --timeout=10m\nkubectl rollout status daemonset/probes --timeout=5m")
		require.NoError(p, p.probers.Start(p.Context()))
		p.settled()
		p.beyondThePage()
	}
	p.before["rrpool rollback"] = func() { p.phase("rollback") }
	p.after["rrpool rollback"] = func() {
		require.Empty(p, p.reflectors())
		p.requireModest()
		p.phase("uninstall")
	}
	p.before["kind delete cluster"] = p.judge
}

// beyondThePage does what an administrator and bad luck do besides.
func (p *page) beyondThePage() {
	p.phase("a reflector drained")
	drained := p.aWorker()
	p.run("kubectl drain " + drained + " --ignore-daemonsets --delete-emptydir-data --force --timeout=5m")
	time.Sleep(time.Minute) // what the rollout does about a node without workloads, it has begun by then
	p.run("kubectl uncordon " + drained)
	p.settled()

	p.phase("calico-node evicted from all reflectors")
	p.run(`for node in $(kubectl get nodes --selector rrpool.io/route-reflector --output jsonpath='{.items[*].metadata.name}'); do
  read -r namespace pod <<<"$(kubectl get pods --all-namespaces --selector k8s-app=calico-node --field-selector spec.nodeName=$node --output jsonpath='{.items[0].metadata.namespace} {.items[0].metadata.name}')"
  echo '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"'$pod'","namespace":"'$namespace'"}}' |
    kubectl create --raw /api/v1/namespaces/$namespace/pods/$pod/eviction -f - &
  evictions+=($!)
done
wait "${evictions[@]}"`)
	p.settled()

	p.phase("the acting manager deleted")
	p.run(`leader=$(kubectl --namespace rrpool-system get leases --output jsonpath='{.items[0].spec.holderIdentity}')
kubectl --namespace rrpool-system delete pod "${leader%_*}"
kubectl --namespace rrpool-system rollout status deployment/rrpool-manager --timeout=5m`)
	p.settled()
}

// settled waits until the cluster is where spec.mode wants it, and all of Calico's agents run.
func (p *page) settled() {
	p.run("sleep 10\nkubectl wait rrp/default --for=condition=Ready --timeout=10m")
	p.wait("every calico-node is ready", func() bool {
		return !strings.Contains(p.ask("get", "pods", "--all-namespaces", "--selector", "k8s-app=calico-node", "--output",
			`jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`), "False")
	})
}

// requireModest checks that the manager lacked no right, and did not crash.
func (p *page) requireModest() {
	p.Helper()
	require.NotContains(p, p.ask("--namespace", "rrpool-system", "logs", "--selector", "app.kubernetes.io/name=rrpool", "--tail=-1", "--prefix"), "forbidden")
	require.Equal(p, "0 0", p.ask("--namespace", "rrpool-system", "get", "pods", "--output", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"))
}

// costs finds what a plan says beforehand is lost: the pods of one node, at one step, for about two seconds.
var costs = regexp.MustCompile(`\b\d+ pods? on (\S+) at [A-Z]`)

// most is the longest row of probes that the plan's "about 2 seconds" may be, on a slow machine.
const most = 400

// evidence is how long a pair may go without a probe before a report proves less than the lab's do. It is said, and fails nothing here: five nodes
// start and stop pods on this machine meanwhile.
const evidence = 500 * time.Millisecond

func (p *page) judge() {
	phases, err := p.probers.Report()
	require.NoError(p, err)
	for _, sum := range phases {
		p.Logf("%-42s %4d pairs %8d probes %5d lost, at most %d in a row; longest time without a probe %s",
			sum.Name, sum.Pairs, sum.Sent, sum.Lost, sum.LongestRun, sum.LongestSilence.Round(time.Millisecond))
		if sum.Machine > 0 {
			p.Logf("%s: the machine itself lost %d probes, as the control pairs show; what pairs lost meanwhile is not counted", sum.Name, sum.Machine)
		}
		if sum.LongestSilence > evidence {
			p.Logf("%s: no loss can be ruled out while nothing was sent: the machine was too busy", sum.Name)
		}
	}
	for _, sum := range phases {
		assert.Empty(p, sum.Unconnected, sum.Name)
		for _, pair := range sum.Broken {
			named := p.named[sum.Name]
			said := (slices.Contains(named, pair.From) || slices.Contains(named, pair.To)) && pair.LongestRun <= most
			p.Logf("%s: as the plan said beforehand: %t: %s", sum.Name, said, pair.Text)
			assert.True(p, said, pair.Text)
		}
	}
}

func (p *page) phase(name string) {
	p.Helper()
	p.Logf("=== %s", name)
	require.NoError(p, p.probers.Phase(name))
}

func (p *page) typed(b walkthrough.Block) {
	p.Helper()
	each(b.Text, p.before)
	for theirs, ours := range p.instead {
		if strings.Contains(b.Text, theirs) {
			p.Logf("line %d: in place of %q: %q", b.Line, theirs, ours)
			b.Text = strings.ReplaceAll(b.Text, theirs, ours)
		}
	}
	p.Logf("--- line %d: %s", b.Line, b.First())
	begun := time.Now()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	require.NoError(p, p.said.Truncate(0))
	require.NoError(p, p.shell.Run(ctx, b))
	heard, err := os.ReadFile(p.said.Name())
	require.NoError(p, err)
	for _, found := range costs.FindAllSubmatch(heard, -1) {
		p.named[p.probers.phase] = append(p.named[p.probers.phase], string(found[1]))
	}
	p.Logf("--- took %s", time.Since(begun).Round(time.Second))
	each(b.Text, p.after)
}

func each(text string, do map[string]func()) {
	for words, f := range do {
		if strings.Contains(text, words) {
			delete(do, words)
			f()
		}
	}
}

func (p *page) run(text string) {
	p.Helper()
	p.typed(walkthrough.Block{Text: text + "\n"})
}

func (p *page) ask(arguments ...string) string {
	p.Helper()
	out, err := p.cluster.Ask(p.Context(), arguments...)
	require.NoError(p, err)
	return out
}

func (p *page) reflectors() []string {
	return strings.Fields(p.ask("get", "nodes", "--selector", Reflectors, "--output", "jsonpath={.items[*].metadata.name}"))
}

// aWorker is a reflector without which the cluster keeps its apiserver.
func (p *page) aWorker() string {
	return p.ask("get", "nodes", "--selector", Reflectors+Workers, "--output", "jsonpath={.items[0].metadata.name}")
}

func (p *page) wait(what string, until func() bool) {
	p.Helper()
	require.Eventually(p, until, patience, time.Second, what)
}

func (p *page) dump() {
	if p.Failed() {
		cmd := exec.Command(filepath.Join(p.cluster.Programs, "kind"), "export", "logs", "--name", "rrpool")
		cmd.Env = p.cluster.Env
		out, err := cmd.CombinedOutput()
		pool, _ := p.cluster.Ask(context.Background(), "get", "rrp", "--output", "yaml")
		p.Logf("%s%v\n%s", out, err, pool)
	}
}
