package importenv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/test/cli"
)

func TestEnvFiles(t *testing.T) {
	for name, line := range map[string]string{
		"plain":                     "ROUTE_REFLECTOR_MIN=7",
		"with line ends of Windows": "# settings\r\n\r\nROUTE_REFLECTOR_MIN=7\r\n",
		"exported":                  "export  ROUTE_REFLECTOR_MIN=7",
		"in double quotes":          `ROUTE_REFLECTOR_MIN="7" # seven`,
		"in single quotes":          "ROUTE_REFLECTOR_MIN='7'",
		"with a comment":            "ROUTE_REFLECTOR_MIN=7 # seven",
		"indented":                  "\t ROUTE_REFLECTOR_MIN= 7 ",
		"with a mark of byte order": "\ufeffROUTE_REFLECTOR_MIN=7",
		"the last one counts":       "ROUTE_REFLECTOR_MIN=3\nROUTE_REFLECTOR_MIN=7",
		"among others":              "PATH=/bin\nexporter=1\nEMPTY=\nROUTE_REFLECTOR_MIN=7",
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--env-file", cli.File(t, line))
			require.Zero(t, got.Code, got.Err)
			object, err := crd.Read([]byte(got.Out))
			require.NoError(t, err)
			require.Equal(t, int32(7), object.Spec.Sizing.Min)
		})
	}
}

func TestBadEnvFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		says    []string
	}{
		"no assignment":       {"ROUTE_REFLECTOR_MIN=3\nhello", []string{"line 2", "write NAME=value"}},
		"blanks around":       {"ROUTE_REFLECTOR_MIN = 3", []string{"line 1", "without blanks"}},
		"an open quote":       {`ROUTE_REFLECTOR_MIN="3`, []string{"line 1", "ROUTE_REFLECTOR_MIN", "is not closed"}},
		"words after a quote": {`ROUTE_REFLECTOR_MIN="3"4`, []string{"line 1", "something follows"}},
		"nothing of ours":     {"PATH=/bin", []string{"has no variable of the operator"}},
		"an empty file":       {"", []string{"has no variable of the operator"}},
		"an empty number":     {"ROUTE_REFLECTOR_MIN=", []string{"ROUTE_REFLECTOR_MIN", `""`, "whole number"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--env-file", cli.File(t, tc.content))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
	got := ask(t, "--env-file", "/nonexistent")
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "--env-file", `"/nonexistent"`, "no such file", "give the name of a file")
	got = ask(t, "--env-file", "/nonexistent", "--from-cluster")
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "env-file", "from-cluster")
	secret := ask(t, "--env-file", cli.File(t, "a password: hunter2"))
	require.NotContains(t, secret.Err, "hunter2", "a file that is no env file may hold anything")
}

// A manifest of the operator for Calico's Kubernetes datastore, as its own overlay makes it.
const manifest = `apiVersion: v1
kind: Namespace
metadata: {name: calico-route-reflector-operator-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: calico-route-reflector-operator-controller-manager, namespace: calico-route-reflector-operator-system}
spec:
  template:
    spec:
      containers:
      - {name: proxy, image: kube-rbac-proxy, env: [{name: DATASTORE_TYPE, value: none-of-ours}]}
      - name: manager
        image: controller:latest
        envFrom: [{configMapRef: {name: more}}]
        env:
        - {name: DATASTORE_TYPE, value: kubernetes}
        - {name: KUBECONFIG, value: /etc/kdd/KUBECONFIG}
        - {name: K8S_API_ENDPOINT, valueFrom: {secretKeyRef: {name: kdd-config, key: K8S_API_ENDPOINT}}}
        - {name: K8S_API_TOKEN, value: hunter2}
        - {name: ROUTE_REFLECTOR_MIN, valueFrom: {configMapKeyRef: {name: sizes, key: min}}}
        - {name: ROUTE_REFLECTOR_MAX, value: "7"}
        - {name: ROUTE_REFLECTOR_TOPOLGY, value: multi}
---
apiVersion: v1
kind: Service
metadata: {name: metrics}
`

func TestManifests(t *testing.T) {
	_, deployment, _ := strings.Cut(manifest, "---\n")
	deployment, _, _ = strings.Cut(deployment, "---\n")
	indented := "  " + strings.ReplaceAll(strings.TrimSpace(deployment), "\n", "\n  ")
	for name, content := range map[string]string{
		"several documents":    manifest,
		"one":                  deployment,
		"a list":               "apiVersion: v1\nkind: List\nitems:\n-" + indented[1:],
		"a list of its kind":   "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n-" + strings.Replace(indented[1:], "\n  kind: Deployment", "", 1),
		"line ends of Windows": strings.ReplaceAll(manifest, "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--file", cli.File(t, content))
			require.Zero(t, got.Code, got.Err)
			object, err := crd.Read([]byte(got.Out))
			require.NoError(t, err)
			require.Equal(t, int32(7), object.Spec.Sizing.Max)
			require.NotContains(t, got.Out, "hunter2", "what is not needed is not shown")
			if name != "a list of its kind" {
				cli.Golden(t, filepath.Join("manifest", "pool.golden"), got.Out)
			}
		})
	}
}

func TestBadManifests(t *testing.T) {
	bare := `{kind: Deployment, apiVersion: apps/v1, metadata: {name: %s}, spec: {template: {spec: {containers: [{name: a, env: [%s]}]}}}}`
	set := `{name: ROUTE_REFLECTOR_MIN, value: "3"}`
	for name, tc := range map[string]struct {
		content string
		says    []string
	}{
		"no YAML":                 {"kind: [", []string{"this is no YAML"}},
		"no Deployment":           {"kind: Pod", []string{"has no Deployment", "kubectl get deployment"}},
		"nothing":                 {"", []string{"has no Deployment"}},
		"another Deployment":      {fmt.Sprintf(bare, "web", ""), []string{"Deployment web", "no container"}},
		"a Deployment that is no": {"kind: Deployment\nspec: 3", []string{"this is no Deployment"}},
		"two":                     {fmt.Sprintf(bare, "one", set) + "\n---\n" + fmt.Sprintf(bare, "two", set), []string{"Deployment one, container a and Deployment two, container a", "leave one of them"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--file", cli.File(t, tc.content))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, append(tc.says, "--file")...)
		})
	}
}

func TestFromCluster(t *testing.T) {
	got := ask(t, "--from-cluster", "--kubeconfig", cli.Serve(t, operated(6, 0, 1)))
	require.Zero(t, got.Code, got.Err)
	object, err := crd.Read([]byte(got.Out))
	require.NoError(t, err)
	require.Equal(t, int32(30), object.Spec.Sizing.Max, "its nodes are in three zones")
	require.Equal(t, int32(3), object.Spec.Sizing.MinPerZone)
	cli.Golden(t, filepath.Join("manifest", "cluster.golden"), got.Out)

	two := operated(6)
	two.put(deploymentsPath, strings.Replace(fmt.Sprintf(deployment, 1), "-system}", "-too}", 1))
	ours := world(3)
	ours.put(deploymentsPath, `{kind: Deployment, apiVersion: apps/v1, metadata: {name: rrpool-manager, namespace: rrpool-system}, spec: {template: {spec: {containers: [{name: manager, image: rrpool-manager, env: [{name: DATASTORE_TYPE, value: kubernetes}]}]}}}}`)
	ibm := world(3)
	ibm.put(deploymentsPath, `{kind: Deployment, apiVersion: apps/v1, metadata: {name: rr-operator, namespace: kube-system}, spec: {template: {spec: {containers: [{name: rr-operator, image: registry/rr-operator}]}}}}`)
	for name, tc := range map[string]struct {
		a    *api
		says []string
	}{
		"two operators":       {two, []string{"--from-cluster", "-system/", "-too/", "give --file"}},
		"ours is not theirs":  {ours, []string{"has no Deployment of the operator", "choose another --context"}},
		"one without a word":  {ibm, []string{"Deployment kube-system/rr-operator sets none", "give --env-file"}},
		"may not read it":     {&api{refuse: map[string]int{deploymentsPath: 403}}, []string{"may not list deployments.apps", "kubectl auth can-i list deployments.apps"}},
		"not logged in":       {&api{refuse: map[string]int{deploymentsPath: 401}}, []string{"log in again"}},
		"zones may not count": {func() *api { a := operated(3); a.refuse[nodesPath] = 403; return a }(), []string{"may not list nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, "--from-cluster", "--kubeconfig", cli.Serve(t, tc.a))
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}
