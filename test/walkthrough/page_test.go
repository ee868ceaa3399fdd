package walkthrough

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlocksOfAPage(t *testing.T) {
	const page = "# A page\n\n## With `this`\n\n```sh\na=1\nb\n```\n\n```console\n$ not typed\n```\n\n1. in a list:\n\n   ```sh\n   c <<E\n     indented\n   E\n   ```\n\n" +
		"# Then\n\n<!-- not run: needs Docker -->\n```sh\ndocker run\n```\n\n<!-- on every node -->\n```sh\ncalicoctl node status\n```\n"
	blocks, err := Blocks([]byte(page))
	require.NoError(t, err)
	require.Equal(t, []Block{
		{Line: 6, Heading: "With `this`", Text: "a=1\nb\n"},
		{Line: 17, Heading: "With `this`", Text: "c <<E\n  indented\nE\n"},
		{Line: 26, Heading: "Then", Text: "docker run\n", Place: Nowhere, Reason: "needs Docker"},
		{Line: 31, Heading: "Then", Text: "calicoctl node status\n", Place: EveryNode},
	}, blocks)
	require.Equal(t, "c <<E", blocks[1].First())
}

func TestABlockCannotHide(t *testing.T) {
	for name, tc := range map[string]struct{ page, says string }{
		"behind another word for shell":               {"```bash\na\n```\n", `line 1: a fence says "bash"`},
		"behind no word at all":                       {"text\n\n```\na\n```\n", `line 3: a fence says ""`},
		"behind an unknown comment":                   {"<!-- skip: slow -->\n```sh\na\n```\n", `line 1: "<!-- skip: slow -->" is neither`},
		"without a reason":                            {"<!-- not run: -->\n```sh\na\n```\n", "is neither"},
		"behind a comment that is not directly above": {"<!-- not run: slow -->\n\n```sh\na\n```\n", "line 1: <!-- not run: slow --> does not stand"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Blocks([]byte(tc.page))
			require.ErrorContains(t, err, tc.says)
		})
	}
}
