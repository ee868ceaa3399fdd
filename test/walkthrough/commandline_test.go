package walkthrough

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// check parses a call with a program of its own: flags that were given stay given.
func check(c Call) error {
	return c.Check(command.New(iostreams.Program, iostreams.System()))
}

// Whatever a page says to type, the program has.
func TestEveryCallOfAPageIsUnderstood(t *testing.T) {
	all := pages(t)
	calls := 0
	for _, page := range all {
		source, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, c := range Calls(source) {
			calls++
			require.NoError(t, check(c), "%s:%d", page, c.Line)
		}
	}
	require.Greater(t, calls, 80)
	t.Logf("%d calls in %d pages", calls, len(all))
}

func TestCallsOfAPage(t *testing.T) {
	const page = "Type `rrpool status --watch`, not `rrpool-manager` nor `rrpool.io/pool`.\n\n```sh\nrrpool plan \\\n  --nodes 5   # a remark\nkubectl get rrp\n" +
		"a=$(rrpool cost -o json | jq .)\n```\n\n```console\n$ kubectl rrpool check\nrrpool is not typed here\n```\n\n```yaml\nrrpool nor here\n```\n"
	require.Equal(t, []Call{
		{Text: "status --watch"}, {Line: 4, Text: "plan     --nodes 5"}, {Line: 6, Text: "cost -o json"}, {Line: 11, Text: "check"},
	}, Calls([]byte(page)))
}

func TestACallThatIsWrongIsFound(t *testing.T) {
	for wrong, says := range map[string]string{
		"statsu":              `"statsu"`,
		"status --wach":       "--wach",
		"plan --nodes five":   "five",
		"plan now":            "now",
		"plan --mode Mesh":    "Mesh",
		"migrate -f":          "needs an argument",
		"topology -o picture": "picture",
	} {
		t.Run(wrong, func(t *testing.T) {
			require.ErrorContains(t, check(Call{Line: 1, Text: wrong}), says)
		})
	}
	require.NoError(t, check(Call{Text: "migrate -f"}), "in a sentence")
	for _, right := range []string{"", "status -v", "plan -f 'a file.yaml' >plan.txt", "plan --nodes 500 --zones 3"} {
		require.NoError(t, check(Call{Text: right}), right)
	}
}
