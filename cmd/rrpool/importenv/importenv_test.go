package importenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/test/cli"
)

func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, append([]string{"import-env"}, args...)...)
}

// Whatever the operator's variables are, the answer is a RouteReflectorPool that the apiserver accepts, that is
// paused and that can be sized.
func TestTheEnvironmentBecomesAPool(t *testing.T) {
	linear := func(least, most, perZone int32) v1alpha1.SizingSpec {
		return v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.005", Min: least, Max: most, MinPerZone: perZone}
	}
	for name, tc := range map[string]struct {
		env   string
		args  []string
		holds func(*require.Assertions, v1alpha1.RouteReflectorPoolSpec)
		says  []string
	}{
		"no variable but the datastore: the operator's defaults": {
			env: "DATASTORE_TYPE=incluster",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(linear(3, 10, 1), s.Sizing)
				r.Equal("224.0.0.0", s.Topology.ClusterID)
				r.Equal("topology.kubernetes.io/zone", s.Topology.ZoneLabel)
				r.Equal("rrpool.io/route-reflector", s.BGP.NodeLabel)
			},
			says: []string{`label "calico-route-reflector" is not taken over`},
		},
		"numbers without zones are those of the cluster": {
			env: "ROUTE_REFLECTOR_MIN=6\nROUTE_REFLECTOR_MAX=20\nROUTE_REFLECTOR_CLUSTER_ID=10.1.2.3",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(linear(6, 20, 1), s.Sizing)
				r.Equal("10.1.2.3", s.Topology.ClusterID)
			},
		},
		"a ratio": {
			env: "ROUTE_REFLECTOR_RATIO=0.05",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal("0.05", s.Sizing.Ratio)
			},
		},
		"numbers with zones are those of each zone, three if not given": {
			env: "ROUTE_REFLECTOR_ZONE_LABEL=example.com/zone",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(linear(3, 30, 3), s.Sizing)
				r.Equal("example.com/zone", s.Topology.ZoneLabel)
			},
			says: []string{"its MAX for 3 zones. Give --zones"},
		},
		"zones that are given": {
			env: "ROUTE_REFLECTOR_ZONE_LABEL=zone\nROUTE_REFLECTOR_MIN=2\nROUTE_REFLECTOR_MAX=5", args: []string{"--zones", "4"},
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) { r.Equal(linear(2, 20, 2), s.Sizing) },
		},
		"topology multi counts for the cluster, and becomes Single": {
			env: "ROUTE_REFLECTOR_TOPOLOGY=multi\nROUTE_REFLECTOR_ZONE_LABEL=zone\nROUTE_REFLECTOR_MIN=6\nROUTE_REFLECTOR_MAX=12",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(v1alpha1.TopologySingle, s.Topology.Type)
				r.Equal(linear(6, 12, 1), s.Sizing)
			},
			says: []string{"multi becomes Single"},
		},
		"a number that zones cannot share is rounded up": {
			env:   "ROUTE_REFLECTOR_MIN=5\nROUTE_REFLECTOR_MAX=5",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) { r.Equal(linear(5, 6, 1), s.Sizing) },
			says:  []string{"max is not the operator's 5"},
		},
		"one excluded label": {
			env: `ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=" node-role.kubernetes.io/master= "`,
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/master": ""}}, s.Provider.ExistingNodes.Excluded)
			},
		},
		"an excluded label twice: the last one counts, as in the operator": {
			env: "ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=size=small,size=true",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(map[string]string{"size": "true"}, s.Provider.ExistingNodes.Excluded.MatchLabels)
			},
		},
		"several excluded labels need one that stands for them": {
			env: "ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=spot=true,size=small",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal(map[string]string{"rrpool.io/never-reflect": "true"}, s.Provider.ExistingNodes.Excluded.MatchLabels)
			},
			says: []string{
				"# DO: the operator excludes", "# kubectl label nodes --selector size=small --overwrite rrpool.io/never-reflect=true\n",
				"# kubectl label nodes --selector spot=true --overwrite rrpool.io/never-reflect=true\n",
			},
		},
		"a label of its own": {
			env: "ROUTE_REFLECTOR_NODE_LABEL=example.com/rr=yes",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal("example.com/rr", s.BGP.NodeLabel)
			},
			says: []string{`its value is always "true"`},
		},
		"a label of Kubernetes is not taken over": {
			env: "ROUTE_REFLECTOR_NODE_LABEL=node-role.kubernetes.io/reflector=",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal("rrpool.io/route-reflector", s.BGP.NodeLabel)
			},
			says: []string{`"node-role.kubernetes.io/reflector" is not taken over`},
		},
		"labels that YAML would take for something else": {
			env: "ROUTE_REFLECTOR_NODE_LABEL=true=\nROUTE_REFLECTOR_ZONE_LABEL=1.5",
			holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
				r.Equal("true", s.BGP.NodeLabel)
				r.Equal("1.5", s.Topology.ZoneLabel)
			},
		},
		"variables that have no counterpart are named, and their values are not shown": {
			env:  "DATASTORE_TYPE=kubernetes\nROUTE_REFLECTOR_WAIT_TIMEOUT=5\nROUTE_REFLECTOR_TOPOLGY=multi\nK8S_API_TOKEN=hunter2",
			says: []string{`"ROUTE_REFLECTOR_WAIT_TIMEOUT" has no counterpart`, `"ROUTE_REFLECTOR_TOPOLGY" has no`, `"K8S_API_TOKEN" has no`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, append(tc.args, "--env-file", cli.File(t, tc.env))...)
			require.Zero(t, got.Code, got.Err)
			require.NotContains(t, got.Out, "hunter2")
			for _, words := range tc.says {
				require.Contains(t, got.Out, words)
			}
			pool, err := crd.Read([]byte(got.Out))
			require.NoError(t, err)
			require.Equal(t, v1alpha1.ModePaused, pool.Spec.Mode)
			require.Equal(t, v1alpha1.ProviderExistingNodes, pool.Spec.Provider.Type)
			if tc.holds != nil {
				tc.holds(require.New(t), pool.Spec)
			}
			for _, nodes := range []int{1, 30, 500, 5000} {
				for _, zones := range []int{1, 3} {
					_, err := sizing.Reflectors(pool.Spec.Sizing, nodes, zones)
					require.NoError(t, err, "%d nodes, %d zones", nodes, zones)
				}
			}
		})
	}
}

func TestABadEnvironmentIsRefusedWithTheVariableOrTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		env  string
		says []string
	}{
		"etcd":                             {"DATASTORE_TYPE=etcdv3", []string{"DATASTORE_TYPE", `"etcdv3"`, "calicoctl datastore migrate"}},
		"a minimum in words":               {"ROUTE_REFLECTOR_MIN=three", []string{"ROUTE_REFLECTOR_MIN", `"three"`, "whole number"}},
		"a maximum beyond all numbers":     {"ROUTE_REFLECTOR_MAX=99999999999999999999", []string{"ROUTE_REFLECTOR_MAX", "whole number"}},
		"a negative minimum":               {"ROUTE_REFLECTOR_MIN=-3", []string{"spec.sizing.min"}},
		"a minimum above the maximum":      {"ROUTE_REFLECTOR_MIN=20", []string{"spec.sizing.min", "must not exceed max"}},
		"a cluster ID that is none":        {"ROUTE_REFLECTOR_CLUSTER_ID=one", []string{"spec.topology.clusterID", "like an IPv4 address"}},
		"a ratio that is no number":        {"ROUTE_REFLECTOR_RATIO=NaN", []string{"spec.sizing.ratio", "such as 0.005"}},
		"a label that is no label":         {"ROUTE_REFLECTOR_NODE_LABEL=\"a b=\"", []string{"spec.bgp.nodeLabel", "must be a label key"}},
		"one label for zone and reflector": {"ROUTE_REFLECTOR_ZONE_LABEL=zone\nROUTE_REFLECTOR_NODE_LABEL=zone=x", []string{"must differ from spec.topology.zoneLabel"}},
		"an excluded key":                  {"ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=a=b,spot", []string{"INCOMPATIBLE_NODE_LABELS", `"a=b,spot"`, "write key=value"}},
		"no assignment":                    {"ROUTE_REFLECTOR_MIN=3\na password: hunter2", []string{"line 2", "write NAME=value"}},
		"blanks before the equals sign":    {"ROUTE_REFLECTOR_MIN = 3", []string{"line 1", "without blanks"}},
		"an open quote":                    {`ROUTE_REFLECTOR_MIN="3`, []string{"line 1"}},
		"words after a quote":              {`ROUTE_REFLECTOR_MIN="3"4`, []string{"line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--env-file", cli.File(t, tc.env))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
			require.NotContains(t, got.Err, "hunter2", "a file that is no env file may hold anything")
		})
	}
}

func TestEnvFilesAreReadAsPeopleWriteThem(t *testing.T) {
	for name, line := range map[string]string{
		"plain":                   "ROUTE_REFLECTOR_MIN=7",
		"line ends of Windows":    "# settings\r\n\r\nROUTE_REFLECTOR_MIN=7\r\n",
		"exported":                "export  ROUTE_REFLECTOR_MIN=7",
		"in double quotes":        `ROUTE_REFLECTOR_MIN="7" # seven`,
		"in single quotes":        "ROUTE_REFLECTOR_MIN='7'",
		"with a comment":          "ROUTE_REFLECTOR_MIN=7 # seven",
		"indented":                "\t ROUTE_REFLECTOR_MIN= 7 ",
		"with a byte order mark":  "\ufeffROUTE_REFLECTOR_MIN=7",
		"the last one counts":     "ROUTE_REFLECTOR_MIN=3\nROUTE_REFLECTOR_MIN=7",
		"among others, one empty": "PATH=/bin\nexporter=1\nEMPTY=\nROUTE_REFLECTOR_MIN=7",
	} {
		t.Run(name, func(t *testing.T) {
			e, err := ofEnvFile([]byte(line))
			require.NoError(t, err)
			require.Equal(t, "7", e.values["ROUTE_REFLECTOR_MIN"])
		})
	}
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: calico-route-reflector-operator-controller-manager, namespace: calico-route-reflector-operator-system}
spec:
  template:
    spec:
      containers:
      - {name: proxy, image: kube-rbac-proxy, env: [{name: DATASTORE_TYPE, value: not-the-operator}]}
      - name: manager
        image: mhmxs/calico-route-reflector-operator:v0.1.0
        envFrom: [{configMapRef: {name: more}}]
        env:
        - {name: DATASTORE_TYPE, value: kubernetes}
        - {name: K8S_API_ENDPOINT, valueFrom: {secretKeyRef: {name: kdd-config, key: K8S_API_ENDPOINT}}}
        - {name: K8S_API_TOKEN, value: hunter2}
        - {name: ROUTE_REFLECTOR_MIN, valueFrom: {configMapKeyRef: {name: sizes, key: min}}}
        - {name: ROUTE_REFLECTOR_MAX, value: "7"}
        - {name: ROUTE_REFLECTOR_ZONE_LABEL, value: topology.kubernetes.io/zone}
`

func TestManifests(t *testing.T) {
	documents := "kind: Namespace\nmetadata: {name: x}\n---\n" + deployment + "---\nkind: Service\nspec: {selector: {app: x}, ports: [{port: 80}]}\n"
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(deployment), "\n", "\n  ") + "\n"
	asJSON, err := yaml.YAMLToJSON([]byte(list))
	require.NoError(t, err)
	for name, content := range map[string]string{
		"one": deployment, "several documents": documents, "a list": list, "a list in JSON": string(asJSON),
		"line ends of Windows": strings.ReplaceAll(documents, "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--file", cli.File(t, content), "--zones", "2")
			require.Zero(t, got.Code, got.Err)
			pool, err := crd.Read([]byte(got.Out))
			require.NoError(t, err)
			require.Equal(t, int32(14), pool.Spec.Sizing.Max)
			for _, name := range []string{"envFrom", "ROUTE_REFLECTOR_MIN", "K8S_API_ENDPOINT"} {
				require.Contains(t, got.Out, fmt.Sprintf("DO: the value of %q is in a Secret, a ConfigMap or the pod", name))
			}
			require.NotContains(t, got.Out, "hunter2")
		})
	}
	two := strings.Replace(deployment, "controller-manager", "other", 1)
	for name, tc := range map[string]struct {
		content string
		says    []string
	}{
		"no YAML":                    {"kind: [", []string{"cannot be read as a Deployment", "kubectl get deployment"}},
		"nothing":                    {"", []string{"no Deployment with variables"}},
		"another object":             {"kind: Pod", []string{"no Deployment with variables"}},
		"a Deployment without a pod": {"kind: Deployment\nspec: 3", []string{"cannot be read as a Deployment"}},
		"two operators":              {deployment + "---\n" + two, []string{"controller-manager", "operator-other", "give --file"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--file", cli.File(t, tc.content))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, append(tc.says, "--file")...)
		})
	}
}

// apiserver answers lists of these objects, by path; an int is an error code.
func apiserver(t *testing.T, lists map[string]any) string {
	t.Helper()
	return cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code, refused := lists[r.URL.Path].(int); refused {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: "Forbidden", Code: int32(code)})
			return
		}
		kind, version := "DeploymentList", "apps/v1"
		if strings.HasSuffix(r.URL.Path, "nodes") {
			kind, version = "NodeList", "v1"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "items": lists[r.URL.Path]})
	}))
}

func TestFromTheCluster(t *testing.T) {
	const deployments, nodes = "/apis/apps/v1/deployments", "/api/v1/nodes"
	var operator, other map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(deployment), &operator))
	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(strings.ReplaceAll(deployment, "ROUTE_REFLECTOR", "X"), "route-reflector-operator:", "node:")), &other))
	zone := func(name string) any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"topology.kubernetes.io/zone": name}}}
	}
	got := ask(t, "--from-cluster", "--kubeconfig", apiserver(t, map[string]any{
		deployments: []any{other, operator}, nodes: []any{zone("a"), zone("b"), zone("a"), map[string]any{}},
	}))
	require.Zero(t, got.Code, got.Err)
	pool, err := crd.Read([]byte(got.Out))
	require.NoError(t, err)
	require.Equal(t, int32(21), pool.Spec.Sizing.Max, "two zones, and nodes without one")
	for name, tc := range map[string]struct {
		lists map[string]any
		says  []string
	}{
		"no operator":              {map[string]any{deployments: []any{other}}, []string{"no Deployment with variables", "give its own manifest"}},
		"Deployments are not read": {map[string]any{deployments: 403}, []string{"may not list deployments.apps"}},
		"nodes are not read":       {map[string]any{deployments: []any{operator}, nodes: 403}, []string{"may not list nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--from-cluster", "--kubeconfig", apiserver(t, tc.lists))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

func TestFlags(t *testing.T) {
	for name, tc := range map[string]struct{ args, says []string }{
		"none":                  {nil, []string{"env-file", "file", "from-cluster"}},
		"two at once":           {[]string{"--env-file", "x", "--from-cluster"}, []string{"env-file", "from-cluster"}},
		"a file that is absent": {[]string{"--env-file", "/nonexistent"}, []string{"--env-file", `"/nonexistent"`, "no such file", "give the name of a file"}},
		"no zones":              {[]string{"--from-cluster", "--zones", "0"}, []string{"--zones", "from 1 to 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, tc.args...)
			require.Equal(t, 1, got.Code)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// Whatever is in an env file, it becomes an object that an apiserver accepts, or an error. No value but those of
// the operator's own variables is shown: passwords are among the others.
func FuzzEnvImport(f *testing.F) {
	for _, seed := range []string{
		"ROUTE_REFLECTOR_MIN=3\nROUTE_REFLECTOR_MAX=10\nROUTE_REFLECTOR_RATIO=0.005\nROUTE_REFLECTOR_TOPOLOGY=multi\n",
		"export ROUTE_REFLECTOR_NODE_LABEL=\"a/b=c\" # why\r\nROUTE_REFLECTOR_ZONE_LABEL='zone'\r\nDATASTORE_TYPE=kubernetes\r\nETCD_PASSWORD=hush-hush\r\n",
		"ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=a=b,c=,a=d\nROUTE_REFLECTOR_CLUSTER_ID=224.0.0.0\nROUTE_REFLECTOR_WAIT_TIMEOUT=2147483647",
		"ROUTE_REFLECTOR_CLUSTER_ID=::1", "ROUTE_REFLECTOR_RATIO=5e-3", "ROUTE_REFLECTOR_RATIO=0x1p-9", "ROUTE_REFLECTOR_NODE_LABEL==",
		"ROUTE_REFLECTOR_EXTRA=a\u2028spec: {mode: FullMesh}\n", "ROUTE_REFLECTOR_TOPOLOGY=\x1b[2J\u0085mode: FullMesh", "ROUTE_REFLECTOR_NODE_LABEL=yes=no",
		"\ufeffROUTE_REFLECTOR_MIN=\"3", "hush-hush", "ROUTE_REFLECTOR_ZONE_LABEL=true\nROUTE_REFLECTOR_NODE_LABEL=1=1", "ROUTE_REFLECTOR_NODE_LABEL=a\u2028kind: x.kubernetes.io/=", "",
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, zones uint8) {
		e, err := ofEnvFile([]byte(text))
		if err != nil {
			require.Regexp(t, `^line \d+ is no assignment`, err.Error())
			return
		}
		text, err = translate(e, int(zones%8))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		pool, err := crd.Read([]byte(text))
		require.NoError(t, err, "%s", text)
		require.Equal(t, "default", pool.Name)
		require.Equal(t, v1alpha1.ModePaused, pool.Spec.Mode)
		for name, value := range e.values {
			if !strings.HasPrefix(name, "ROUTE_REFLECTOR_") && strings.HasPrefix(value, "hush") && len(value) > 8 {
				require.NotContains(t, text, value)
			}
		}
	})
}
