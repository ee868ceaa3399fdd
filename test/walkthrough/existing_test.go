//go:build linux

package walkthrough

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

// Where no cloud is, nodes with workloads become reflectors and stop. The first is the control plane's, which runs no pods, so nothing is lost
// by anyone.
func TestExistingNodes(t *testing.T) {
	skipWalk(t)
	nodes := append([]lab.NodeSpec{{Name: "control-plane", Zone: "zone-1", Labels: map[string]string{controlPlane: ""}, Taints: controlPlaneTaint()}}, lab.Workers(6)...)
	ctx, s := site.ForTest(t, site.Options{Nodes: nodes, Bare: true})
	runtime := s.StartRuntime()
	w := newWalker(t, s)
	w.after["rrpool migrate"] = func() {
		require.NoError(t, runtime.Err())
		requireReflected(t, ctx, s, "control-plane", "worker-1", "worker-2")
	}
	w.after["rrpool rollback"] = func() { requireMeshed(t, ctx, s) }
	w.walk(blocksOf(t, "docs/existing-nodes.md"))
	requireNothingLost(t, s)
}

// The same on nodes as kind makes them from our file, and everything is removed in the end.
func TestKind(t *testing.T) {
	skipWalk(t)
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{Nodes: kindNodes(t), Bare: true})
	s.StartRuntime()
	w := newWalker(t, s)
	w.after["rrpool migrate"] = func() {
		current, err := s.CurrentReflectors(ctx)
		require.NoError(t, err)
		requireReflected(t, ctx, s, current...)
	}
	w.after["rrpool rollback"] = func() { requireMeshed(t, ctx, s) }
	w.after["kubectl delete -k"] = func() {
		_, err := s.Pool(ctx)
		require.Error(t, err, "the CRD is gone")
	}
	w.walk(blocksOf(t, "docs/kind.md",
		"make build", "kind create cluster --config config/overlays/kind/cluster.yaml",
		"kubectl create -f https://raw.githubusercontent.com/projectcalico/calico/v3.31.0/manifests/operator-crds.yaml",
		"kubectl --namespace calico-system exec daemonset/calico-node --container calico-node -- birdcl -s /var/run/calico/bird.ctl show protocols",
		"kubectl apply -f - <<'YAML'", "docker build --tag rrpool-manager:dev .", "docker stop rrpool-worker3", "docker start rrpool-worker3",
		"kind delete cluster --name rrpool"))
	requireNothingLost(t, s)
}

// kindNodes are named as kind names them.
func kindNodes(t *testing.T) []lab.NodeSpec {
	t.Helper()
	text, err := os.ReadFile("../../config/overlays/kind/cluster.yaml")
	require.NoError(t, err)
	var cluster struct {
		Name  string
		Nodes []struct {
			Role   string
			Labels map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &cluster))
	var specs []lab.NodeSpec
	names := map[string]int{}
	for _, n := range cluster.Nodes {
		spec := lab.NodeSpec{Name: cluster.Name + "-" + n.Role, Zone: n.Labels["topology.kubernetes.io/zone"]}
		if names[n.Role]++; names[n.Role] > 1 {
			spec.Name += string(rune('0' + names[n.Role]))
		}
		if spec.Pods = 1; n.Role == "control-plane" {
			spec.Pods, spec.Labels, spec.Taints = 0, map[string]string{controlPlane: ""}, controlPlaneTaint()
		}
		specs = append(specs, spec)
	}
	return specs
}

func controlPlaneTaint() []corev1.Taint {
	return []corev1.Taint{{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}}
}

// counting are the functions by which pages count sessions.
var counting = regexp.MustCompile(`(?s)needed\(\) \{.*?\n\}\nestablished\(\) \{.*?\n\}\n`)

// The lab speaks IPv4 only. Here the same lines count what a cluster with IPv6 would answer.
func TestSessionsOverBothFamiliesAreCounted(t *testing.T) {
	const (
		v4    = "a v4=10.0.0.1/24 v6=\nb v4=10.0.0.2/24 v6=\nc v4=10.0.0.3/24 v6="
		v6    = "a v4= v6=fd00::1/64\nb v4= v6=fd00::2/64"
		dual  = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=fd00::2/64\nc v4=10.0.0.3/24 v6=fd00::3/64"
		mixed = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=\nc v4= v6=fd00::3/64\nwithout v4= v6="
	)
	for _, page := range []string{"back-by-hand.md", "migrating.md"} {
		source, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		lines := counting.FindString(string(source))
		require.NotEmpty(t, lines, page)
		for name, tc := range map[string]struct{ bgp, node, needed string }{
			"IPv4":                         {v4, "a", "2"},
			"IPv6":                         {v6, "b", "1"},
			"both":                         {dual, "a", "4"},
			"both, others one":             {mixed, "a", "2"},
			"one, others both":             {mixed, "b", "1"},
			"a node that does not speak":   {mixed, "without", "0"},
			"one that is left out":         {strings.Replace(v4, "\nc v4=10.0.0.3/24 v6=", "", 1), "a", "1"},
			"a name that begins another's": {v4 + "\naa v4=10.0.0.4/24 v6=", "a", "3"},
		} {
			t.Run(page+"/"+name, func(t *testing.T) {
				out, err := walk(t, "statuses=s\nbgp='"+tc.bgp+"'\n"+lines, "needed "+tc.node)
				require.NoError(t, err)
				require.Equal(t, tc.needed+"\n", out)
			})
		}
		out, err := walk(t, "statuses=s\nkubectl() { [[ $5 == *peersV4*peersV6* ]] && printf 'Established\\nConnect\\nEstablished\\n'; }\n"+lines, "established a")
		require.NoError(t, err)
		require.Equal(t, "2\n", out, page)
	}
}
