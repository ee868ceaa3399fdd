package deploy_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestAWrongValueIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  []string
		says []string
	}{
		"a misspelt key":               {[]string{"replica=3"}, []string{"replica"}},
		"a misspelt key further in":    {[]string{"image.repo=x"}, []string{"image", "repo"}},
		"a key of a wrong kind":        {[]string{"replicas=two"}, []string{"/replicas", "integer"}},
		"no manager at all":            {[]string{"replicas=0"}, []string{"/replicas", "minimum"}},
		"a pull policy that is none":   {[]string{"image.pullPolicy=Sometimes"}, []string{"/image/pullPolicy", "IfNotPresent"}},
		"a digest that is none":        {[]string{"image.digest=v1"}, []string{"/image/digest", "sha256"}},
		"a budget that stops drains":   {[]string{"podDisruptionBudget.maxUnavailable=0"}, []string{"/podDisruptionBudget/maxUnavailable"}},
		"the API key itself":           {[]string{"credentials.apiKey=secret"}, []string{"/credentials", "apiKey"}},
		"an argument that is none":     {[]string{"extraArgs={debug}"}, []string{"/extraArgs/0", "^--"}},
		"a store of an unknown kind":   {[]string{"credentials.externalSecret.secretStoreRef.kind=Vault"}, []string{"/secretStoreRef/kind", "ClusterSecretStore"}},
		"a tag that is a number":       {[]string{"image.tag=0"}, []string{"image.tag: 0 is a number to YAML", "--set-string"}},
		"nothing to scrape":            {[]string{"metrics.enabled=false,monitoring.serviceMonitor.enabled=true"}, []string{"metrics.enabled is false"}},
		"a pool before its kind":       {[]string{"pool.create=true"}, []string{"pool.create", "install with pool.create=false first", "--api-versions"}},
		"a setting of the pool itself": {[]string{"pool.mode=Paused"}, []string{"/pool", "mode"}},
	} {
		t.Run(name, func(t *testing.T) {
			var arguments []string
			for _, set := range c.set {
				arguments = append(arguments, "--set", set)
			}
			_, said, err := render(t, arguments...)
			require.Error(t, err)
			for _, word := range c.says {
				require.Contains(t, said, word)
			}
		})
	}
	_, said, err := render(t, "--kube-version", "1.29.4")
	require.Error(t, err)
	require.Contains(t, said, "policy.enabled: ValidatingAdmissionPolicies need Kubernetes 1.30, this is v1.29.4: set policy.enabled=false")
	_, said, err = render(t, "--kube-version", "1.29.4", "--set", "policy.enabled=false")
	require.NoError(t, err, said)
}

// A pool without a mode would be one that migrates: without a value there is none.
func TestTheModeIsSaid(t *testing.T) {
	for name, c := range map[string]struct{ set, says string }{
		"nothing said":         {"pool.spec.provider.type=IKS", "pool.spec.mode: not said, and the default is RouteReflector"},
		"an empty mode":        {"pool.spec.mode=", "pool.spec.mode: not said"},
		"an empty spec":        {"pool.spec=null", "pool.spec.mode: not said"},
		"both":                 {"pool.spec.mode=Paused,pool.modeByPeople=true", "pool.spec.mode is Paused and pool.modeByPeople is true"},
		"no cluster to ask":    {"pool.modeByPeople=true", "pool.modeByPeople: the mode that is to be kept is in the cluster"},
		"a mode that is given": {"pool.spec.mode=FullMesh", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, said, err := render(t, "--api-versions", "rrpool.io/v1alpha1/RouteReflectorPool", "--set", "pool.create=true,"+c.set)
			if c.says == "" {
				require.NoError(t, err, said)
				require.Contains(t, out, "\n  mode: FullMesh\n")
				return
			}
			require.Error(t, err)
			require.Contains(t, said, c.says)
		})
	}
}

// keysOf are the names of values, in groups that can be left empty together: those that the
// schema asks for, by their depth, so that none is within another, and the others.
func keysOf(schema, values map[string]any, at string, asked map[int][]string) (others []string) {
	required, _, _ := unstructured.NestedStringSlice(schema, "required")
	for key, value := range values {
		name := strings.TrimPrefix(at+"."+key, ".")
		if slices.Contains(required, key) {
			depth := strings.Count(name, ".")
			asked[depth] = append(asked[depth], name)
		} else {
			others = append(others, name)
		}
		below, _ := value.(map[string]any)
		if property, _, _ := unstructured.NestedMap(schema, "properties", key); slices.Contains(required, key) {
			others = append(others, keysOf(property, below, name, asked)...)
		}
	}
	return others
}

// A key that is left empty, which to Helm is as good as not there, is none, or missed by its name.
func TestAKeyThatIsLeftEmptyIsNoneOrMissed(t *testing.T) {
	t.Parallel()
	var schema, values map[string]any
	require.NoError(t, json.Unmarshal([]byte(text(t, path(chart, "values.schema.json"))), &schema))
	require.NoError(t, yaml.Unmarshal([]byte(text(t, path(chart, "values.yaml"))), &values))
	empty := func(folder string, names []string) (string, error) {
		arguments := append([]string{"template", "rrpool", folder, "--namespace", namespace, "--set", "credentials.externalSecret.enabled=true"}, monitored...)
		_, said, err := helm(t, append(arguments, "--set", strings.Join(names, "=null,")+"=null")...)
		return said, err
	}
	asked := map[int][]string{}
	others := keysOf(schema, values, "", asked)
	require.Subset(t, others, []string{"extraArgs", "extraEnv", "podAnnotations", "podLabels", "pool.spec", "monitoring.dashboard.labels"})
	said, err := empty(path(chart), others)
	require.NoError(t, err, said)
	require.Len(t, asked, 4)
	for _, names := range asked {
		said, err := empty(path(chart), names)
		require.Error(t, err)
		for _, name := range names {
			require.Regexp(t, "missing propert.*'"+name[strings.LastIndex(name, ".")+1:]+"'", said, name)
		}
	}

	spoilt := filepath.Join(t.TempDir(), "rrpool")
	require.NoError(t, os.CopyFS(spoilt, os.DirFS(path(chart))))
	deployment := filepath.Join(spoilt, "templates", "deployment.yaml")
	require.NoError(t, os.WriteFile(deployment, []byte(strings.ReplaceAll(text(t, deployment), " | default list", "")), 0o600))
	_, err = empty(spoilt, others)
	require.Error(t, err, "negative control")
}

// everything is a set of values with all that the chart can make.
var everything = []string{
	"--set", "credentials.externalSecret.enabled=true", "--set", "credentials.secretName=key", "--set", "credentials.secretKey=k",
	"--set", "pool.create=true", "--set", "pool.spec.mode=Paused", "--api-versions", "rrpool.io/v1alpha1/RouteReflectorPool",
	"--set", "image.repository=icr.io/x/rrpool-manager", "--set", "image.digest=sha256:" + strings.Repeat("0", 64), "--set", "imagePullSecrets[0].name=icr",
	"--set", "nodeSelector.a=b", "--set", "podAnnotations.a=b", "--set", "podLabels.a=b", "--set", "extraArgs={--zap-log-level=debug}",
	"--set", "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128", "--set", "metrics.certificateSecret=tls",
}

// Whatever values say, the apiserver takes it, and the pods under the profile restricted.
func TestAllThatTheChartCanMakeIsAccepted(t *testing.T) {
	c, _ := deployed(t, iksOverlay)
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
		"secretName: tls", "--zap-log-level=debug", "name: HTTPS_PROXY", "--leader-elect", "name: POD_NAMESPACE",
	} {
		require.Contains(t, deployment, part)
	}
	require.Contains(t, manifest(t, first(t, objects, "ExternalSecret")), "name: key")
	require.Contains(t, manifest(t, first(t, objects, "RouteReflectorPool")), "credentialsSecretRef:\n        key: k\n        name: key\n")
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

// A chart that is packaged is the same chart, and of files with the same times the same bytes.
func TestTheChartIsPackaged(t *testing.T) {
	t.Parallel()
	pack := func(of time.Time) (string, []byte) {
		dir, sources := t.TempDir(), filepath.Join(t.TempDir(), "rrpool")
		require.NoError(t, os.CopyFS(sources, os.DirFS(path(chart))))
		require.NoError(t, filepath.WalkDir(sources, func(name string, _ fs.DirEntry, _ error) error { return os.Chtimes(name, of, of) }))
		_, said, err := helm(t, "package", sources, "--version", "1.2.3", "--app-version", "v1.2.3", "--destination", dir)
		require.NoError(t, err, said)
		file := filepath.Join(dir, "rrpool-1.2.3.tgz")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		return file, content
	}
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	file, once := pack(when)
	_, again := pack(when)
	require.True(t, bytes.Equal(once, again), "the same bytes")
	_, later := pack(when.Add(time.Hour))
	require.False(t, bytes.Equal(once, later), "negative control")
	out, said, err := helm(t, "template", "rrpool", file, "--namespace", namespace)
	require.NoError(t, err, said)
	require.Equal(t, []string{"Deployment/rrpool-system/rrpool-manager.spec.template.spec.containers"},
		unequal(decode(t, []byte(out)), build(t, iksOverlay)))
	require.Contains(t, out, "image: rrpool-manager:v1.2.3\n")
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
