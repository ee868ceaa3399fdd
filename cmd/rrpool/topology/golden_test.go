package topology

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

// ending is that of a file in a format, so that the goldens can be looked at.
var ending = map[string]string{"svg": ".svg", "dot": ".dot", "mermaid": ".mmd", "json": ".json", "html": ".html"}

func TestPictures(t *testing.T) {
	for name, n := range scenes(t) {
		for _, format := range formats {
			t.Run(name+"/"+format, func(t *testing.T) {
				cli.Golden(t, filepath.Join(name, "golden"+ending[format]), rendered(t, n, format))
			})
		}
	}
}

// The same cluster gives the same bytes, in whatever order its parts are found.
func TestThePictureDoesNotDependOnTheOrder(t *testing.T) {
	all := map[string]observed{
		"failing": failing(), "migrating": migrating(), "rolled-back": rolledBack(), "ordered": ordered(), "weird": weird(), "quorum": quorum(), "racks": racks(), "dual": dual(),
	}
	for _, name := range []string{"topology-quorum-by-size", "topology-hierarchy-failing", "topology-changing"} {
		o, err := seated[name]()
		require.NoError(t, err)
		all[name] = o
	}
	for name, o := range all {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for _, format := range formats {
				want[format] = rendered(t, live(o), format)
				require.Equal(t, want[format], rendered(t, live(o), format), "twice")
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				random.Shuffle(len(o.Nodes), func(i, j int) { o.Nodes[i], o.Nodes[j] = o.Nodes[j], o.Nodes[i] })
				random.Shuffle(len(o.Peers), func(i, j int) { o.Peers[i], o.Peers[j] = o.Peers[j], o.Peers[i] })
				for _, format := range formats {
					require.Equal(t, want[format], rendered(t, live(o), format))
				}
			}
		})
	}
}

// The command gives what the goldens hold, and the same twice.
func TestTheCommandIsDeterministic(t *testing.T) {
	for _, format := range formats {
		args := []string{"topology", "--nodes", "2000", "--zones", "3", "--reflectors", "33", "-o", format}
		first, second := ask(t, args...), ask(t, args...)
		require.Zero(t, first.Code, first.Err)
		require.Empty(t, first.Err)
		require.Equal(t, first, second)
		cli.Golden(t, filepath.Join("invented-large", "golden"+ending[format]), first.Out)
	}
	require.Equal(t, ask(t, "topology", "--nodes", "9", "-o", "svg").Out, ask(t, "topology", "--nodes", "9").Out, "svg is the default")
}

// What -o json shows adds up.
func TestTheModelAddsUp(t *testing.T) {
	for name, n := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			var read Network
			require.NoError(t, json.Unmarshal([]byte(rendered(t, n, "json")), &read))
			require.Equal(t, schema, read.SchemaVersion)
			groups, clients, sums := map[string]Group{}, 0, map[string]int{}
			for _, zone := range read.Zones {
				for _, g := range zone.Groups {
					require.NotContains(t, groups, g.ID)
					groups[g.ID] = g
					clients += g.Clients
					require.LessOrEqual(t, g.All+g.Some+g.None+g.NotKnown, g.Clients)
				}
			}
			for _, l := range read.Links {
				require.NotEqual(t, l.Group == "", l.Reflector == "", "one beginning")
				require.LessOrEqual(t, l.Established+l.Unknown, l.Expected)
				if l.Group != "" {
					require.Contains(t, groups, l.Group)
				}
				sums[l.To] += l.Expected
				if l.Reflector != "" {
					sums[l.Reflector] += l.Expected
				}
			}
			for _, zone := range read.Zones {
				for _, r := range zone.Reflectors {
					require.Equal(t, r.Expected, sums[r.Name], r.Name)
				}
			}
			require.Equal(t, n.clients(), clients)
		})
	}
}
