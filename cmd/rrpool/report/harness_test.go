package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, append([]string{"report", "--request-timeout", "5s"}, args...)...)
}

// unpack gives the content of an archive by name, its headers in their order, and all its bytes without their compression.
func unpack(t *testing.T, content []byte) (files map[string]string, headers []*tar.Header, raw string) {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	plain, err := io.ReadAll(zipped)
	require.NoError(t, err)
	files = map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(plain)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, headers, string(plain)
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		_, name, _ := strings.Cut(header.Name, "/")
		files[name], headers = string(text), append(headers, header)
	}
}

// read gives the content of a file.
func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// api plays an apiserver: objects by the path of their list, and texts.
type api struct {
	lists  map[string][]string
	texts  map[string]string
	refuse func(path string) int

	mu    sync.Mutex
	asked []string
}

var kinds = map[string]string{
	"nodes": "Node", "secrets": "Secret", "pods": "Pod", "deployments": "Deployment", "daemonsets": "DaemonSet", "leases": "Lease", "events": "Event",
	"routereflectorpools": "RouteReflectorPool", "clusterpeerings": "ClusterPeering", "bgppeers": "BGPPeer", "bgpconfigurations": "BGPConfiguration", "caliconodestatuses": "CalicoNodeStatus",
	"ippools": "IPPool", "felixconfigurations": "FelixConfiguration", "clusterinformations": "ClusterInformation", "blockaffinities": "BlockAffinity",
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+path)
	a.mu.Unlock()
	if a.refuse != nil {
		if code := a.refuse(path); code != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			reason := map[int]string{403: "Forbidden", 401: "Unauthorized", 500: "InternalError"}[code]
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no"})
			return
		}
	}
	if text, ok := a.texts[path+"?"+r.URL.Query().Get("previous")]; ok {
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if object := a.object(filepath.Dir(path), filepath.Base(path)); object != nil {
		_ = json.NewEncoder(w).Encode(object)
		return
	}
	list, ok := a.lists[path+"?"+r.URL.Query().Get("labelSelector")]
	if !ok {
		list, ok = a.lists[path]
	}
	switch {
	case !ok:
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server of tests is one
		<-r.Context().Done()
	default:
		items := []any{}
		for _, text := range list {
			items = append(items, parsed(path, text))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": kinds[filepath.Base(path)] + "List", "apiVersion": versionOf(path), "metadata": map[string]any{"resourceVersion": "7"}, "items": items,
		})
	}
}

// object is one of a list, by its name.
func (a *api) object(list, name string) map[string]any {
	for _, text := range a.lists[list] {
		if strings.Contains(text, "{name: "+name+"}") || strings.Contains(text, "{name: "+name+",") {
			return parsed(list, text)
		}
	}
	return nil
}

func parsed(path, text string) map[string]any {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	object["kind"], object["apiVersion"] = kinds[filepath.Base(path)], versionOf(path)
	return object
}

// versionOf is the apiVersion in the path of a list.
func versionOf(path string) string {
	group, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"), "/namespaces/")
	if !strings.Contains(path, "/namespaces/") {
		group = filepath.Dir(group)
	}
	return group
}

// Secrets that are planted wherever they might be. None may be in the archive.
const (
	ibmAPIKey   = "Zx3kQ9vLmN2pR7sT1uWyA4bC6dE8fG0hJ5iKlMnOpQrS" // 44 characters, as IBM Cloud makes them
	bgpPassword = "bgp!"                                         // short, and yet it must go
	helmValue   = "release-value-of-helm"
	bearer      = "abcdefghijklmnop.bearer"
	jsonWebTok  = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	envPassword = "plain-password-of-env"
	argToken    = "token-of-an-argument"
	oldConfig   = "password-in-last-applied"
	noteToken   = "token-of-an-annotation"
	eventWord   = "password-of-an-event"
	urlPassword = "password-of-a-url"
	keyMaterial = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
	otherSecret = "of-another-namespace"
	birdWord    = "bird config word"
	fieldValue  = "value-of-a-field"
	listValue   = "value-in-a-list"
	bearerWord  = "bearer-in-a-field"
	bearerLine  = "Bearer " + bearerWord
)

// readable are the secrets that stand in what a report keeps, and which only redaction
// takes out. The others are in what it never keeps.
var readable = []string{ibmAPIKey, bgpPassword, bearer, jsonWebTok, envPassword, argToken, noteToken, eventWord, urlPassword, keyMaterial, birdWord, fieldValue, listValue, bearerWord}

var planted = append([]string{helmValue, oldConfig, otherSecret}, readable...)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// world is a cluster with rrpool at work, and with secrets all over the place.
func world() *api {
	const inSystem = "/api/v1/namespaces/rrpool-system/"
	crd := "/apis/crd.projectcalico.org/v1/"
	log := strings.Join([]string{
		`{"level":"info","msg":"asking the cloud","Authorization":"Bearer ` + bearer + `"}`,
		`level=error msg="request failed" url=https://user:` + urlPassword + `@cloud.example.com/v1 token=` + jsonWebTok,
		`the cloud said: key ` + ibmAPIKey + ` is wrong`,
		`{"headers":"{\"apikey\":\"` + ibmAPIKey + `\"}"}`,
		`bird: password "` + birdWord + `";`,
		`-----BEGIN RSA PRIVATE KEY-----`, keyMaterial, `-----END RSA PRIVATE KEY-----`,
		`session with 10.0.0.1 uses ` + bgpPassword,
		`step DisableMesh: the mesh is switched off`,
	}, "\n") + "\n"
	return &api{
		texts: map[string]string{
			"/version?":                                 `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`,
			inSystem + "pods/rrpool-manager-a/log?":     log,
			inSystem + "pods/rrpool-manager-a/log?true": "panic: before the restart, with " + ibmAPIKey + "\n",
		},
		lists: map[string][]string{
			"/apis/rrpool.io/v1alpha1/routereflectorpools": {`{metadata: {name: default}, spec: {mode: RouteReflector, sizing: {min: 3, max: 10, minPerZone: 1}, topology: {zoneLabel: zone}, bgp: {nodeLabel: x, passwordSecretRef: {name: bgp, key: password}}}}`},
			"/apis/rrpool.io/v1alpha1/clusterpeerings":     {`{metadata: {name: cluster-b}, spec: {remote: {kubeconfigSecretRef: {name: cluster-b, key: kubeconfig}}}}`},
			"/api/v1/nodes": {
				`{metadata: {name: node-0, labels: {zone: a}, managedFields: [{manager: kubelet}], annotations: {projectcalico.org/IPv4Address: 10.0.0.1/24, note: "token=` + noteToken + `"}}, spec: {taints: [{key: a, effect: NoSchedule}]},
  status: {conditions: [{type: Ready, status: "True"}], addresses: [{type: InternalIP, address: 10.0.0.1}], images: [{names: [too-much]}]}}`,
				`{metadata: {name: node-1}, status: {conditions: [{type: Ready, status: "False"}]}}`,
			},
			crd + "bgppeers":            {`{metadata: {name: rrpool-clients}, spec: {nodeSelector: "!has(x)", peerSelector: has(x), password: {secretKeyRef: {name: bgp, key: password}}}}`},
			crd + "bgpconfigurations":   {`{metadata: {name: default}, spec: {nodeToNodeMeshEnabled: false}}`},
			crd + "caliconodestatuses":  {`{metadata: {name: rrpool-node-0}, spec: {node: node-0}}`},
			crd + "ippools":             {`{metadata: {name: pool}, spec: {cidr: 10.1.0.0/16}}`},
			crd + "felixconfigurations": {`{metadata: {name: default}, spec: {apikey: ` + fieldValue + `, list: [{privateKey: ` + listValue + `, credentialsFile: /etc/key}], text: "a ` + bearerLine + `"}}`},
			crd + "clusterinformations": {`{metadata: {name: default}, spec: {calicoVersion: v3.31.0}}`},
			crd + "blockaffinities":     {`{metadata: {name: node-0-10-1-0-0-26}, spec: {cidr: 10.1.0.0/26, node: node-0}}`},
			inSystem + "secrets": {
				`{metadata: {name: rrpool-ibmcloud, namespace: rrpool-system, annotations: {kubectl.kubernetes.io/last-applied-configuration: ` + oldConfig + `}}, type: Opaque, data: {apikey: ` + encoded(ibmAPIKey) + `}}`,
				`{metadata: {name: sh.helm.release.v1.rrpool, namespace: rrpool-system}, type: helm.sh/release.v1, data: {release: ` + encoded(helmValue) + `}}`,
			},
			"/api/v1/namespaces/kube-system/secrets": {
				`{metadata: {name: bgp, namespace: kube-system}, data: {password: ` + encoded(bgpPassword) + `}}`,
				`{metadata: {name: unrelated, namespace: kube-system}, data: {secret: ` + encoded(otherSecret) + `}}`,
			},
			"/api/v1/namespaces/calico-system/secrets": {},
			"/apis/apps/v1/namespaces/rrpool-system/deployments": {`{metadata: {name: rrpool-manager, namespace: rrpool-system, annotations: {kubectl.kubernetes.io/last-applied-configuration: ` + oldConfig + `}},
  spec: {replicas: 2, template: {spec: {containers: [{name: manager, image: "registry/rrpool-manager:v1", args: [--leader-elect, "--api-token=` + argToken + `"],
    env: [{name: IBMCLOUD_API_KEY, value: ` + envPassword + `}, {name: DATASTORE_TYPE, value: kubernetes}, {name: FROM, valueFrom: {secretKeyRef: {name: rrpool-ibmcloud, key: apikey}}}]}]}}}}`},
			inSystem + "pods": {`{metadata: {name: rrpool-manager-a, namespace: rrpool-system}, spec: {nodeName: node-0, containers: [{name: manager, image: "registry/rrpool-manager:v1"}]},
  status: {phase: Running, containerStatuses: [{name: manager, restartCount: 2}]}}`},
			"/apis/coordination.k8s.io/v1/namespaces/rrpool-system/leases": {`{metadata: {name: rrpool-manager}, spec: {holderIdentity: rrpool-manager-a}}`},
			"/apis/apps/v1/daemonsets?k8s-app=calico-node":                 {`{metadata: {name: calico-node, namespace: kube-system}, spec: {template: {spec: {containers: [{name: calico-node, image: "calico/node:v3.31.0"}]}}}}`},
			"/api/v1/pods?k8s-app=calico-node":                             {`{metadata: {name: calico-node-x, namespace: kube-system, annotations: {a: b}}, spec: {nodeName: node-0, volumes: []}, status: {phase: Running}}`},
			"/apis/events.k8s.io/v1/namespaces/default/events":             {`{metadata: {name: e1, namespace: default}, regarding: {kind: RouteReflectorPool, name: default}, note: "password=` + eventWord + `"}`, `{metadata: {name: e2}, regarding: {kind: Pod, name: web}, note: nothing of ours}`},
			"/apis/events.k8s.io/v1/namespaces/rrpool-system/events":       {},
			"/apis/events.k8s.io/v1/namespaces/calico-system/events":       {},
			"/apis/events.k8s.io/v1/namespaces/kube-system/events":         {`{metadata: {name: e3}, regarding: {kind: Pod, name: calico-node-x}, note: Unhealthy}`, `{metadata: {name: e4}, regarding: {kind: Pod, name: dns}, note: nothing of ours}`},
		},
	}
}

// What the other tests believe about apiservers, seen on a real one: a user without any right gets a sentence, one
// with some a report of what may be read, and with the rights of the docs everything is in it.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "reporter")
	// A cluster with a manager.
	inSystem := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "rrpool-system"} }
	labels := map[string]string{"k8s-app": "calico-node"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "manager", Image: "image", Env: []corev1.EnvVar{{Name: "IBMCLOUD_API_KEY", Value: envPassword}, {Name: "NOTE", Value: "it was " + ibmAPIKey + " and " + bgpPassword}},
	}}}}
	a.Create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "calico-system"}},
		&corev1.Secret{ObjectMeta: inSystem("rrpool-ibmcloud"), StringData: map[string]string{"apikey": ibmAPIKey}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp", Namespace: "calico-system"}, StringData: map[string]string{"password": bgpPassword}},
		&appsv1.Deployment{ObjectMeta: inSystem("rrpool-manager"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "calico-node", Namespace: "calico-system", Labels: labels},
			Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: pod},
		},
	)
	a.Node("node-r", "z1", "10.0.0.9")
	a.Calico("kind: BGPPeer\nmetadata: {name: p}\nspec: {peerIP: 192.0.2.1, asNumber: 65000, password: {secretKeyRef: {name: bgp, key: password}}}")
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	asked := func() cli.Answer {
		_ = os.Remove(path)
		return ask(t, "--output-file", path, "--kubeconfig", a.Kubeconfig())
	}

	got := asked()
	require.Equal(t, 1, got.Code)
	lines := strings.Split(strings.TrimSpace(got.Err), "\n")
	cli.RequireSentence(t, lines[len(lines)-1]+"\n", "may not list", "ask for a ClusterRole")
	require.NoFileExists(t, path)

	written := cli.Roles(t, "report")
	require.Empty(t, written[0].Namespace)
	a.Grant(written[0].ObjectMeta, written[0].Rules[0])
	a.Eventually(asked, func(got cli.Answer) bool { return got.Code == 0 })
	files, _, raw := unpack(t, read(t, path))
	require.Contains(t, files["objects/nodes.yaml"], "name: node-r")
	require.Contains(t, files["index.txt"], `may not list bgppeers.crd.projectcalico.org`)

	for _, role := range written {
		a.Grant(role.ObjectMeta, role.Rules...)
	}
	a.Eventually(asked, func(got cli.Answer) bool {
		files, _, raw = unpack(t, read(t, path))
		return got.Code == 0 && !strings.Contains(files["index.txt"], "may not")
	})
	require.Subset(t, slices.Collect(maps.Keys(files)), []string{"objects/secrets.yaml", "objects/bgppeers.yaml", "objects/manager-deployments.yaml", "objects/calico-node-daemonsets.yaml", "snapshot.yaml"})
	require.Contains(t, files["snapshot.yaml"], "step:\n")
	require.NotContains(t, files["objects/nodes.yaml"], "managedFields")
	for _, secret := range []string{ibmAPIKey, bgpPassword, envPassword} {
		require.NotContains(t, raw, secret)
	}
	require.Contains(t, files["objects/manager-deployments.yaml"], "IBMCLOUD_API_KEY")
}

// The docs name each file of the golden report.
func TestWhatTheDocsSay(t *testing.T) {
	index := read(t, filepath.Join("testdata", "index.txt"))
	for _, match := range regexp.MustCompile(`(?m)^ {2}(objects/\S+|snapshot.yaml), `).FindAllStringSubmatch(string(index), -1) {
		require.Contains(t, cli.Page(t, "report"), "`"+strings.TrimPrefix(match[1], "objects/")+"`")
	}
}
