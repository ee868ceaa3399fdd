package check

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
	docs "github.com/rrpool/rrpool/test/docs/links"
)

// readDefinition reads our CRD, once: it is long.
var readDefinition = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := os.ReadFile("../../../config/crd/rrpool.io_routereflectorpools.yaml")
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	return out, yaml.Unmarshal(content, out)
})

// ownDefinition is our CRD as an apiserver has it that has taken it.
func ownDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	read, err := readDefinition()
	require.NoError(t, err)
	out := read.DeepCopy()
	out.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return out
}

// Each scene is kept once as the table that people read, one of them for a narrow terminal, and one as JSON.
func TestOutputs(t *testing.T) {
	all := scenes(t)
	for _, name := range []string{"iks", "iks-before-installation", "kind", "broken", "blind"} {
		cli.Golden(t, name+".golden", shown(t, all[name], "table", iostreams.Streams{}))
	}
	narrow := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
	cli.Golden(t, "broken60.golden", shown(t, all["broken"], "table", narrow))
	cli.Golden(t, "iks.json.golden", shown(t, all["iks"], "json", iostreams.Streams{}))
	for _, colour := range []string{iostreams.Red, iostreams.Yellow, iostreams.Green, iostreams.Dim} {
		require.Contains(t, shown(t, all["broken"], "table", iostreams.Streams{Terminal: true, Width: 100}), colour)
	}
}

// A narrow terminal gets narrow lines, whatever the scene, and never half a link.
func TestTerminals(t *testing.T) {
	for name, f := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{60, 80, 200} {
				got := shown(t, f, "table", iostreams.Streams{Terminal: true, Width: width, Getenv: cli.Environment("NO_COLOR", "1")})
				require.NotContains(t, got, "\x1b", "NO_COLOR")
				cli.RequireWidth(t, got, width)
			}
		})
	}
}

// Every warning and error has a link to a section that is there, and what is right has none.
func TestLinks(t *testing.T) {
	for name, f := range scenes(t) {
		for _, g := range judge(f, "rrpool").Groups {
			for _, c := range g.Checks {
				bad := c.Status == Warning || c.Status == Error
				require.Equal(t, bad, c.Link != "", "%s: %s", name, c.ID)
				if bad {
					require.True(t, anchored(t, c.Link), "%s: %s", name, c.Link)
				}
			}
		}
	}
}

// anchored says whether a link leads to a page of ours, and to a heading if it names one.
func anchored(t *testing.T, link string) bool {
	t.Helper()
	return docs.Leads(os.DirFS("../../.."), "docs/"+strings.TrimPrefix(link, plan.Docs)) == nil
}
