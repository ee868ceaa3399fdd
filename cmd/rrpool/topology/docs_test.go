package topology

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

const docs = "../../../docs"

var blocks = regexp.MustCompile("(?s)\n```(yaml|console|json)\n(.*?)```\n")

func docsPage(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docs, "topology.md"))
	require.NoError(t, err)
	return string(content)
}

// block gives the first block of a kind that begins so.
func block(t *testing.T, kind, begins string) string {
	t.Helper()
	for _, match := range blocks.FindAllStringSubmatch(docsPage(t), -1) {
		if match[1] == kind && strings.HasPrefix(match[2], begins) {
			return match[2]
		}
	}
	require.Fail(t, "docs/topology.md has no such block", "%s %s", kind, begins)
	return ""
}

func docsRole(t *testing.T) rbacv1.ClusterRole {
	t.Helper()
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict([]byte(block(t, "yaml", "apiVersion: rbac")), &role))
	return role
}

func TestTheExampleOfTheDocs(t *testing.T) {
	command, output, _ := strings.Cut(block(t, "console", "$ rrpool topology"), "\n")
	got := askIn(t, iostreams.Streams{}, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...)
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, output, got.Out)
}

// The pictures in the docs are what the command draws: -update draws them anew.
func TestThePicturesOfTheDocs(t *testing.T) {
	all := scenes(t)
	for file, scene := range map[string]string{
		"topology-migrated.svg": "three-reflectors", "topology-failing.svg": "failing", "topology-migrating.svg": "migrating", "topology-large.svg": "large",
	} {
		path := filepath.Join(docs, "pictures", file)
		got := rendered(t, all[scene], "svg")
		if flag.Lookup("update").Value.String() == "true" {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "go test -update draws it")
		require.Equal(t, string(want), got, file)
		require.Contains(t, docsPage(t), "(pictures/"+file+")")
	}
}

// Those of the topologies, on pages of their own, are what a reader gets.
func TestThePicturesOfTheTopologies(t *testing.T) {
	for kind, flags := range map[string]string{
		"single":       "--nodes 500 --zones 3 --reflectors 3",
		"quorum":       "--nodes 2000 --zones 3 --topology quorum --reflectors 9",
		"hierarchy":    "--nodes 5000 --zones 3 --topology hierarchy",
		"multicluster": "--nodes 500 --zones 3 --topology multicluster --reflectors 3",
	} {
		name := "topology-" + kind + ".svg"
		path := filepath.Join(docs, "pictures", name)
		args := append([]string{"topology"}, strings.Fields(flags)...)
		got := ask(t, args...)
		require.Zero(t, got.Code, got.Err)
		if flag.Lookup("update").Value.String() == "true" {
			require.NoError(t, os.WriteFile(path, []byte(got.Out), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "go test -update draws it")
		require.Equal(t, string(want), got.Out, name)
		require.Contains(t, docsPage(t), "[`rrpool topology "+flags+"`](pictures/"+name+")")
	}
}

// The docs name no flag that is not, and each format and word of the legend.
func TestWhatTheDocsName(t *testing.T) {
	page, help := docsPage(t), ask(t, "topology", "--help").Out
	flags := regexp.MustCompile("--[a-z][a-z-]+").FindAllString(page, -1)
	require.NotEmpty(t, flags)
	for _, flag := range slices.Compact(slices.Sorted(slices.Values(flags))) {
		require.Contains(t, help, flag+" ")
	}
	for _, format := range formats {
		require.Contains(t, page, "`"+format+"`")
	}
	for _, state := range states {
		require.Contains(t, page, looks[state].words)
	}
	require.Contains(t, page, schema)
}
