//go:build linux

package walkthrough

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting are the functions by which pages count sessions.
var counting = regexp.MustCompile(`(?s)needed\(\) \{.*?\n\}\nestablished\(\) \{.*?\n\}\n`)

// The lab speaks IPv4 only. Here the same lines count what a cluster with IPv6 would answer.
func TestSessionsOverBothFamiliesAreCounted(t *testing.T) {
	const (
		v4    = "a v4=10.0.0.1/24 v6=\nb v4=10.0.0.2/24 v6=\nc v4=10.0.0.3/24 v6="
		v6    = "a v4= v6=fd00::1/64\nb v4= v6=fd00::2/64"
		dual  = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=fd00::2/64\nc v4=10.0.0.3/24 v6=fd00::3/64"
		mixed = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=\nc v4= v6=fd00::3/64\nwithout v4= v6="
	)
	for _, page := range []string{"back-by-hand.md", "migrating.md"} {
		source, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		lines := counting.FindString(string(source))
		require.NotEmpty(t, lines, page)
		for name, tc := range map[string]struct{ bgp, node, needed string }{
			"IPv4":                         {v4, "a", "2"},
			"IPv6":                         {v6, "b", "1"},
			"both":                         {dual, "a", "4"},
			"both, others one":             {mixed, "a", "2"},
			"one, others both":             {mixed, "b", "1"},
			"a node that does not speak":   {mixed, "without", "0"},
			"one that is left out":         {strings.Replace(v4, "\nc v4=10.0.0.3/24 v6=", "", 1), "a", "1"},
			"a name that begins another's": {v4 + "\naa v4=10.0.0.4/24 v6=", "a", "3"},
		} {
			t.Run(page+"/"+name, func(t *testing.T) {
				out, err := walk(t, "statuses=s\nbgp='"+tc.bgp+"'\n"+lines, "needed "+tc.node)
				require.NoError(t, err)
				require.Equal(t, tc.needed+"\n", out)
			})
		}
		out, err := walk(t, "statuses=s\nkubectl() { [[ $5 == *peersV4*peersV6* ]] && printf 'Established\\nConnect\\nEstablished\\n'; }\n"+lines, "established a")
		require.NoError(t, err)
		require.Equal(t, "2\n", out, page)
	}
}
