package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	chart     = "config/chart"
	namespace = "rrpool-system"
	keep      = "helm.sh/resource-policy"
)

// helm runs the pinned helm with folders of its own, and gives what it says, in which order ever.
func helm(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	tool, err := helmTool()
	require.NoError(t, err)
	home := t.TempDir()
	command := exec.Command(tool, arguments...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err = command.Run()
	return out.String(), said.String(), err
}

// render is what the chart makes of values, or why it does not.
func render(t *testing.T, arguments ...string) (string, string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "rrpool", path(chart), "--namespace", namespace}, arguments...)...)
}

func rendered(t *testing.T, arguments ...string) []*object {
	t.Helper()
	out, said, err := render(t, arguments...)
	require.NoError(t, err, said)
	return decode(t, []byte(out))
}

// unequal are the differences between what a chart makes and what an overlay is: the
// namespace, which is not the chart's to make, and Helm's own mark apart.
func unequal(made, wanted []*object) []string {
	var out []string
	left := map[string]*object{}
	for _, o := range made {
		o = o.DeepCopy()
		if o.GetKind() == "CustomResourceDefinition" {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", keep)
		}
		left[identity(o)] = o
	}
	for _, want := range wanted {
		id := identity(want)
		have, found := left[id]
		delete(left, id)
		switch {
		case want.GetKind() == "Namespace":
		case !found:
			out = append(out, "not made: "+id)
		default:
			out = append(out, differing(id, have.Object, want.Object)...)
		}
	}
	for id := range left {
		out = append(out, "not wanted: "+id)
	}
	return out
}

// differing are the fields in which two objects are not the same.
func differing(at string, have, want any) []string {
	mine, ok := have.(map[string]any)
	theirs, also := want.(map[string]any)
	if !ok || !also {
		if equality.Semantic.DeepEqual(have, want) {
			return nil
		}
		return []string{at}
	}
	var out []string
	for key := range mine {
		out = append(out, differing(at+"."+key, mine[key], theirs[key])...)
	}
	for key := range theirs {
		if _, ok := mine[key]; !ok {
			out = append(out, at+"."+key)
		}
	}
	return out
}

// with is a kustomization as a user writes it, with a component in it.
func with(t *testing.T, component string) string {
	t.Helper()
	dir := t.TempDir()
	relative := func(folder string) string {
		out, err := filepath.Rel(dir, path(folder))
		require.NoError(t, err)
		return out
	}
	content := "resources: [" + relative(iksOverlay) + "]\ncomponents: [" + relative(iksOverlay+"/components/"+component) + "]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600))
	relativeToRoot, err := filepath.Rel(path(), dir)
	require.NoError(t, err)
	return relativeToRoot
}

func TestTheChartMakesWhatTheOverlaysAre(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays(t) {
		require.Equal(t, build(t, iksOverlay), build(t, overlay), "both overlays are the same, so that the other tests look at one")
	}
	made := rendered(t)
	require.Empty(t, unequal(made, build(t, iksOverlay)))
	require.Equal(t, "keep", first(t, made, "CustomResourceDefinition").GetAnnotations()[keep])
	require.Empty(t, unequal(rendered(t, "--set", "credentials.externalSecret.enabled=true"), build(t, with(t, "external-secret"))))
	require.Empty(t, unequal(rendered(t, "--set", "credentials.trustedProfile.name=a b"), build(t, with(t, "trusted-profile"))))
	const monitored = "monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"
	require.Empty(t, unequal(rendered(t, "--set", monitored), append(build(t, iksOverlay), build(t, "config/monitoring")...)))
}

// Negative controls for the test above: every object of either side, and a field in the middle of one.
func TestADifferenceBetweenChartAndOverlayIsSeen(t *testing.T) {
	t.Parallel()
	made, wanted := rendered(t), build(t, iksOverlay)
	for i, o := range made {
		doctored := slices.Clone(made)
		doctored[i] = o.DeepCopy()
		doctored[i].SetLabels(map[string]string{"other": "label"})
		require.Contains(t, strings.Join(unequal(doctored, wanted), "\n"), identity(o)+".metadata.labels")
		require.Equal(t, []string{"not made: " + identity(o)}, unequal(slices.Concat(made[:i], made[i+1:]), wanted))
	}
	for field, set := range map[string]string{
		"Deployment/rrpool-system/rrpool-manager.spec.replicas": "replicas=3",
		"not made: NetworkPolicy/rrpool-system/rrpool-manager":  "networkPolicy.enabled=false",
	} {
		require.Equal(t, []string{field}, unequal(rendered(t, "--set", set), wanted), set)
	}
}

// In another namespace everything is in that one, and about whoever is the manager there.
func TestTheChartInAnotherNamespace(t *testing.T) {
	out, said, err := helm(t, "template", "any-name", path(chart), "--namespace", "network", "--set", "credentials.externalSecret.enabled=true")
	require.NoError(t, err, said)
	require.NotContains(t, out, namespace)
	require.Empty(t, unequal(decode(t, []byte(strings.ReplaceAll(strings.ReplaceAll(out, "namespace: network", "namespace: "+namespace),
		"system:serviceaccount:network:", "system:serviceaccount:"+namespace+":"))), build(t, with(t, "external-secret"))))
	policedUser(t, decode(t, []byte(out)))
	for _, taken := range []string{"default", "kube-system"} {
		_, said, err = helm(t, "template", "rrpool", path(chart), "--namespace", taken)
		require.Error(t, err)
		require.Contains(t, said, "--namespace "+taken+": rrpool has Roles of its own in default and in kube-system: install it into a namespace of its own")
	}
}

// What the schema refuses it names all at once, by the value's place.
func TestAWrongValueIsNamed(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"replica=3": "at '': additional properties 'replica' not allowed", "image.repo=x": "at '/image': additional properties 'repo' not allowed",
		"replicas=two": "at '/replicas': got string, want integer", "image.pullPolicy=Sometimes": "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"image.digest=v1": "at '/image/digest': 'v1' does not match pattern '^(sha256:", "podDisruptionBudget.maxUnavailable=0": "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1",
		"credentials.apiKey=secret": "at '/credentials': additional properties 'apiKey' not allowed", "extraArgs={debug}": "at '/extraArgs/0': 'debug' does not match pattern '^--'",
		"credentials.externalSecret.secretStoreRef.kind=Vault": "at '/credentials/externalSecret/secretStoreRef/kind': value must be one of 'ClusterSecretStore', 'SecretStore'",
		"credentials.trustedProfile.id=a b":                    "at '/credentials/trustedProfile/id': 'a b' does not match", "pool.mode=Paused": "at '/pool': additional properties 'mode' not allowed",
		// A key that is left empty, which to Helm is as good as not there, is missed by its name.
		"image.repository=null": "at '/image': missing property 'repository'", "metrics.enabled=null": "at '/metrics': missing property 'enabled'",
	}
	_, said, err := render(t, "--set", strings.Join(slices.Collect(maps.Keys(refused)), ","))
	require.Error(t, err)
	for set, says := range refused {
		require.Contains(t, said, says, set)
	}
	for set, says := range map[string]string{"replicas=0": "at '/replicas': minimum", "replicas=null,image=null": "missing properties 'image', 'replicas'"} {
		_, said, err := render(t, "--set", set)
		require.Error(t, err)
		require.Contains(t, said, says)
	}
	const none = "extraArgs=null,extraEnv=null,extraVolumes=null,extraVolumeMounts=null,podAnnotations=null,podLabels=null,nodeSelector=null,affinity=null,pool.spec=null"
	_, said, err = render(t, "--set", none)
	require.NoError(t, err, said)

	for name, c := range map[string]struct {
		set  string
		says []string
	}{
		"a tag that is a number": {"image.tag=0", []string{"image.tag: 0 is a number to YAML", "--set-string"}},
		"nothing to scrape":      {"metrics.enabled=false,monitoring.serviceMonitor.enabled=true", []string{"metrics.enabled is false"}},
		"a pool before its kind": {"pool.create=true", []string{"pool.create", "install with pool.create=false first", "--api-versions"}},
		"two names of a profile": {"credentials.trustedProfile.id=Profile-1,credentials.trustedProfile.name=r", []string{"credentials.trustedProfile: give id or name"}},
		// A pool without a mode would be one that migrates: without a value there is none.
		"no mode":                     {"pool.create=true,pool.spec.provider.type=IKS", []string{"pool.spec.mode: not said, and the default is RouteReflector"}},
		"an empty mode":               {"pool.create=true,pool.spec.mode=", []string{"pool.spec.mode: not said"}},
		"an empty spec":               {"pool.create=true,pool.spec=null", []string{"pool.spec.mode: not said"}},
		"a mode of values and people": {"pool.create=true,pool.spec.mode=Paused,pool.modeByPeople=true", []string{"pool.spec.mode is Paused and pool.modeByPeople is true"}},
		"a mode, no cluster to ask":   {"pool.create=true,pool.modeByPeople=true", []string{"pool.modeByPeople: the mode that is to be kept is in the cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := []string{"--set", c.set}
			if strings.HasPrefix(c.set, "pool.create=true,") {
				arguments = append(arguments, "--api-versions", "rrpool.io/v1alpha1/RouteReflectorPool")
			}
			_, said, err := render(t, arguments...)
			require.Error(t, err)
			for _, word := range c.says {
				require.Contains(t, said, word)
			}
		})
	}
	_, said, err = render(t, "--kube-version", "1.29.4")
	require.Error(t, err)
	require.Contains(t, said, "policy.enabled: ValidatingAdmissionPolicies need Kubernetes 1.30, this is v1.29.4: set policy.enabled=false")
	_, said, err = render(t, "--kube-version", "1.29.4", "--set", "policy.enabled=false")
	require.NoError(t, err, said)
}

var everything = []string{
	"--set", "credentials.externalSecret.enabled=true", "--set", "credentials.secretName=key", "--set", "credentials.secretKey=k",
	"--set", "pool.create=true", "--set", "pool.spec.mode=Paused", "--api-versions", "rrpool.io/v1alpha1/RouteReflectorPool",
	"--set", "image.repository=icr.io/x/rrpool-manager", "--set", "image.digest=sha256:" + strings.Repeat("0", 64), "--set", "imagePullSecrets[0].name=icr",
	"--set", "nodeSelector.a=b", "--set", "podAnnotations.a=b", "--set", "podLabels.a=b", "--set", "extraArgs={--zap-log-level=debug}",
	"--set", "credentials.trustedProfile.name=a b",
	"--set", "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128", "--set", "metrics.certificateSecret=tls",
	"--set", "extraVolumes[0].name=etcd,extraVolumes[0].secret.secretName=calico-etcd,extraVolumeMounts[0].name=etcd,extraVolumeMounts[0].mountPath=/etcd",
}

// Whatever values say, the apiserver takes it, and the pods under the profile restricted.
func TestAllThatTheChartCanMakeIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	externalSecrets(t, c)
	objects := rendered(t, everything...)
	for _, o := range objects {
		_, err := c.try(t, o)
		require.NoError(t, err, identity(o))
	}
	_, err := c.try(t, podOf(t, first(t, objects, "Deployment")))
	require.NoError(t, err)
	deployment := manifest(t, first(t, objects, "Deployment"))
	for _, part := range []string{
		"image: icr.io/x/rrpool-manager@sha256:000", "name: icr", "--metrics-cert-dir=/etc/rrpool/metrics", "mountPath: /etc/rrpool/metrics",
		"secretName: tls", "secretName: calico-etcd", "mountPath: /etcd", "mountPath: /var/run/secrets/tokens", "--zap-log-level=debug", "name: HTTPS_PROXY", "--leader-elect", "name: POD_NAMESPACE",
	} {
		require.Contains(t, deployment, part)
	}
	require.Contains(t, manifest(t, first(t, objects, "ExternalSecret")), "name: key")
	require.Contains(t, manifest(t, first(t, objects, "RouteReflectorPool")), "credentials:\n        trustedProfile:\n          name: a b\n      credentialsSecretRef:\n        key: k\n        name: key\n")
	require.Empty(t, c.warnings.all())

	quiet := manifest(t, first(t, rendered(t, "--set", "metrics.enabled=false"), "Deployment"))
	require.Contains(t, quiet, "- --metrics-bind-address=0\n")
	require.NotContains(t, quiet, ":8443")
}

func TestTheChartIsLinted(t *testing.T) {
	said, stderr, err := helm(t, "lint", "--strict", path(chart), "--namespace", namespace)
	require.NoError(t, err, said+stderr)
	require.NotContains(t, said, "[WARNING]")

	spoilt := filepath.Join(t.TempDir(), "rrpool")
	require.NoError(t, os.CopyFS(spoilt, os.DirFS(path(chart))))
	require.NoError(t, os.WriteFile(filepath.Join(spoilt, "values.yaml"), []byte("replicas: none\n"), 0o600))
	_, _, err = helm(t, "lint", "--strict", spoilt, "--namespace", namespace)
	require.Error(t, err, "negative control")
}

// passed are values that are handed on as they are; further keys of theirs need no default.
var passed = []string{"resources", "affinity", "nodeSelector", "podAnnotations", "podLabels", "pool.spec", "remoteRef", "tlsConfig", "labels"}

// oddities are values that values.yaml does not show, or that no template reads.
func oddities(schema, values map[string]any, templates, at string) []string {
	var out []string
	properties, _, _ := unstructured.NestedMap(schema, "properties")
	for key, property := range properties {
		name := strings.TrimPrefix(at+"."+key, ".")
		value, shown := values[key]
		below, deeper := value.(map[string]any)
		switch {
		case name == "global":
		case !shown:
			out = append(out, name+" is not in values.yaml")
		case !regexp.MustCompile(`[."]` + key + `\b`).MatchString(templates):
			out = append(out, name+" is read by no template")
		case deeper && !slices.ContainsFunc(passed, func(p string) bool { return strings.HasSuffix(name, p) }):
			out = append(out, oddities(property.(map[string]any), below, templates, name)...) //nolint:forcetypeassert // it is a schema
		}
	}
	return out
}

func TestEveryValueIsShownAndRead(t *testing.T) {
	var schema, values map[string]any
	require.NoError(t, json.Unmarshal([]byte(text(t, path(chart, "values.schema.json"))), &schema))
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, path(chart, "values.yaml"))), &values))
	var templates strings.Builder
	for _, pattern := range []string{"*.yaml", "*.tpl", "*.txt"} {
		files, err := filepath.Glob(path(chart, "templates", pattern))
		require.NoError(t, err)
		for _, file := range files {
			templates.WriteString(text(t, file))
		}
	}
	require.Empty(t, oddities(schema, values, templates.String(), ""))

	doctored := strings.ReplaceAll(templates.String(), ".certificateSecret", ".certificate")
	require.Equal(t, []string{"metrics.certificateSecret is read by no template"}, oddities(schema, values, doctored, ""), "negative control")
	unstructured.RemoveNestedField(values, "metrics", "enabled")
	require.Equal(t, []string{"metrics.enabled is not in values.yaml"}, oddities(schema, values, templates.String(), ""), "negative control")
}
