package deploy_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// pages are those that a user types from.
var pages = []string{"docs/kind.md", "docs/existing-nodes.md", "docs/operations.md"}

// explained are pages that name fields and keys, and are mostly read.
var explained = append([]string{"docs/concepts.md", "docs/faq.md", "docs/migrating.md"}, pages...)

// page is what one of them says.
func page(t *testing.T, name string) string {
	t.Helper()
	return text(t, path(name))
}

// written finds YAML: blocks of its own, and what commands are fed with.
var written = []*regexp.Regexp{
	regexp.MustCompile("(?s)\n *```yaml\n(.*?\n) *```\n"),
	regexp.MustCompile(`(?s)<<'YAML'\n(.*?\n) *YAML\n`),
}

// objectsOf are those that a page has in full. That a key is given once only is
// checked as well: the apiserver never sees the first of two.
func objectsOf(t *testing.T, text string) []*object {
	t.Helper()
	var out []*object
	for _, pattern := range written {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			for document := range strings.SplitSeq(match[1], "\n---\n") {
				o := &object{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o.Object), document)
				require.NotEmpty(t, o.GetKind(), "a block is an object, in full:\n%s", document)
				out = append(out, o)
			}
		}
	}
	return out
}

func TestEveryObjectOfAPageIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	for _, name := range pages {
		objects := objectsOf(t, page(t, name))
		require.NotEmpty(t, objects, name)
		for _, o := range objects {
			_, err := c.try(t, o)
			require.NoError(t, err, "%s: %s", name, identity(o))
		}
	}
	require.Empty(t, c.warnings.all())
}

var patch = regexp.MustCompile(`kubectl patch rrp default --type=merge -p '(\{.*?\})'`)

func TestEveryPatchOfAPageIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	sample := read(t, samples[kindOverlay])[0]
	_, err := c.apply(t, sample)
	require.NoError(t, err)
	try := func(content string) error {
		require.True(t, json.Valid([]byte(content)), content)
		o := options(metav1.DryRunAll)
		_, err := c.of(t, sample).Patch(t.Context(), sample.GetName(), types.MergePatchType, []byte(content), o)
		return err
	}
	for _, name := range pages {
		found := patch.FindAllStringSubmatch(page(t, name), -1)
		require.NotEmpty(t, found, name)
		for _, match := range found {
			require.NoError(t, try(match[1]), "%s: %s", name, match[1])
		}
	}
	require.Error(t, try(`{"spec":{"mode":"Mesh"}}`))
	require.Error(t, try(`{"spec":{"modes":"FullMesh"}}`))
}

var field = regexp.MustCompile("`((?:spec|status)\\.[\\w.]+)")

func TestEveryFieldThatAPageNamesExists(t *testing.T) {
	schema := ownSchema(t)
	for _, name := range explained {
		found := field.FindAllStringSubmatch(page(t, name), -1)
		require.NotEmpty(t, found, name)
		for _, match := range found {
			// Of a node, and of Calico's Installation.
			if match[1] == "spec.unschedulable" || strings.HasPrefix(match[1], "spec.calicoNetwork") {
				continue
			}
			require.True(t, has(schema, strings.Split(match[1], ".")), "%s: %s", name, match[1])
		}
	}
	require.False(t, has(schema, []string{"spec", "provider", "existingNodes", "promotions"}))
}

// ownSchema is that of the RouteReflectorPool.
func ownSchema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, path("config/crd/rrpool.io_routereflectorpools.yaml"))), &crd))
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func has(schema apiextensionsv1.JSONSchemaProps, names []string) bool {
	if len(names) == 0 {
		return true
	}
	if schema.Items != nil {
		schema = *schema.Items.Schema
	}
	next, ok := schema.Properties[names[0]]
	return ok && has(next, names[1:])
}

var key = regexp.MustCompile(`\brrpool\.io/[a-z][a-z0-9-]*`)

// Keys that are said to be written are spelled as the code spells them.
func TestEveryKeyThatAPageNamesIsInTheCode(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"config/api", "controllers"} {
		require.NoError(t, filepath.WalkDir(path(folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name)
			code.Write(content)
			return err
		}))
	}
	quoted := func(key string) bool {
		return strings.Contains(code.String(), `"`+key+`"`) || strings.Contains(code.String(), "default="+key+"\n")
	}
	for _, name := range explained {
		for _, found := range key.FindAllString(page(t, name), -1) {
			require.True(t, quoted(found) || found == "rrpool.io/v1alpha1", "%s: %s", name, found)
		}
	}
	require.True(t, quoted("rrpool.io/reflector-since"))
	require.False(t, quoted("rrpool.io/reflector"))
}
