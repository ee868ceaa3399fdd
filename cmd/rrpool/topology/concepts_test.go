package topology

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// The pictures in docs/concepts.md are what the command draws of one cluster in the two modes:
// -update draws them anew.
func TestThePicturesOfTheConcepts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "concepts.md"))
	require.NoError(t, err)
	for name, mode := range map[string]string{"concepts-mesh.svg": "FullMesh", "concepts-reflectors.svg": "RouteReflector"} {
		object := "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\nspec: {mode: " + mode + "}\n"
		got := askIn(t, iostreams.Streams{In: strings.NewReader(object)}, "topology", "--nodes", "90", "--zones", "3", "-f", "-")
		require.Zero(t, got.Code, got.Err)
		path := filepath.Join(docs, "pictures", name)
		if flag.Lookup("update").Value.String() == "true" {
			require.NoError(t, os.WriteFile(path, []byte(got.Out), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "go test -update draws it")
		require.Equal(t, string(want), got.Out, name)
		require.Contains(t, string(page), "(pictures/"+name+")")
	}
}

var bySize = regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`)

// And the table of sessions by size is what it counts.
func TestTheSessionsOfTheConcepts(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(docs, "concepts.md"))
	require.NoError(t, err)
	rows := bySize.FindAllStringSubmatch(strings.ReplaceAll(string(content), ",", ""), -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		var drawn struct {
			Mesh  struct{ Nodes, Sessions int }
			Zones []struct{ Reflectors []struct{ Name string } }
			Links []struct {
				To       string
				Sessions int
			}
		}
		got := ask(t, "topology", "--nodes", row[1], "--zones", "3", "-o", "json")
		require.NoError(t, json.Unmarshal([]byte(got.Out), &drawn), got.Err)
		reflectors, sessions := 0, 0
		for _, zone := range drawn.Zones {
			reflectors += len(zone.Reflectors)
		}
		for _, link := range drawn.Links {
			sessions += link.Sessions
		}
		ofClient := (sessions - reflectors*(reflectors-1)/2) / drawn.Mesh.Nodes
		said := fmt.Sprint(drawn.Mesh.Sessions, drawn.Mesh.Nodes-1, reflectors, sessions, ofClient)
		require.Equal(t, strings.Join(row[2:], " "), said, "%s nodes", row[1])
	}
}
