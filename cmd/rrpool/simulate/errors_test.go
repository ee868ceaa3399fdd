package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the flag, the value and the remedy.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"no size":                           {nil, []string{"--nodes: missing", "such as --nodes 2000 --zones 3"}},
		"two sizes":                         {[]string{"--nodes", "9", "--clients", "6"}, []string{"--nodes 9 and --clients 6 exclude each other"}},
		"a negative number of nodes":        {[]string{"--nodes", "-5"}, []string{"--nodes", `"-5"`, "use a whole number from 2 to 50000"}},
		"too many nodes":                    {[]string{"--nodes", "50001"}, []string{"--nodes", `"50001"`, "from 2 to 50000"}},
		"a number in words":                 {[]string{"--clients", "many"}, []string{"--clients", `"many"`, "use a whole number"}},
		"no zones":                          {[]string{"--nodes", "9", "--zones", "0"}, []string{"--zones", `"0"`, "from 1 to 100"}},
		"more zones than nodes":             {[]string{"--nodes", "3", "--zones", "4"}, []string{"--zones", "4 zones for 3 nodes", "at most as many"}},
		"more racks than nodes":             {[]string{"--nodes", "3", "--racks", "4"}, []string{"--racks", "4 racks for 3 nodes", "at most as many"}},
		"fewer racks than zones":            {[]string{"--nodes", "90", "--zones", "3", "--racks", "2"}, []string{"--racks", "2 racks in 3 zones", "give at least 3"}},
		"reflectors that zones cannot have": {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "13"}, []string{"--reflectors", "13 reflectors", "3 zones", "use 12 or 15"}},
		"fewer reflectors than zones":       {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "2"}, []string{"--reflectors", "use 3, or other --zones"}},
		"nothing but reflectors":            {[]string{"--nodes", "5", "--reflectors", "5"}, []string{"--reflectors: 5 of 5 nodes", "give fewer"}},
		"no node left to be a client":       {[]string{"--nodes", "3", "--topology", "single"}, []string{"--nodes: 3 nodes are 3 reflectors and no client", "give more"}},
		"too many zones to size for":        {[]string{"--nodes", "90", "--zones", "30"}, []string{"spec.sizing.max: 25", "30 zones", "or give --reflectors"}},
		"more failures than reflectors":     {[]string{"--nodes", "90", "--reflectors", "3", "--fail", "4"}, []string{"--fail: 4 of 3 reflectors", "give at most 3"}},
		"more failures than sizing gives":   {[]string{"--nodes", "90", "--fail", "4", "--topology", "single"}, []string{"--fail: 4 of 3 reflectors", "give at most 3"}},
		"an endless number of failures":     {[]string{"--nodes", "90", "--fail", "11"}, []string{"--fail", `"11"`, "from 1 to 10"}},
		"an unknown topology":               {[]string{"--nodes", "90", "--topology", "ring"}, []string{"--topology", `"ring"`, "auto, single, quorum, hierarchy, multicluster"}},
		"one of all":                        {[]string{"--nodes", "90", "--compare", "--topology", "quorum"}, []string{"--compare and --topology quorum exclude each other", "leave out one"}},
		"a comparison by hand":              {[]string{"--nodes", "90", "--compare", "--per-client", "3"}, []string{"--compare and --per-client 3 exclude each other"}},
		"by hand without reflectors":        {[]string{"--nodes", "90", "--topology", "quorum", "--per-client", "3"}, []string{"--reflectors: missing", "--per-client 3"}},
		"by hand, not a quorum":             {[]string{"--nodes", "90", "--topology", "single", "--reflectors", "5", "--per-client", "3"}, []string{"--per-client: 3", "--topology is single", "quorum only", "--redundancy"}},
		"by hand, more than there are":      {[]string{"--nodes", "90", "--topology", "quorum", "--reflectors", "5", "--per-client", "6"}, []string{"--per-client: 6 of 5 reflectors", "give at most 5"}},
		"by hand, too many groups":          {[]string{"--nodes", "2000", "--topology", "quorum", "--reflectors", "25", "--per-client", "12"}, []string{"--per-client: 12 of 25", "5200300 groups", "at most 300"}},
		"by hand, groups without clients":   {[]string{"--nodes", "90", "--topology", "quorum", "--reflectors", "13", "--per-client", "3"}, []string{"--per-client: 3 of 13", "286 groups", "77 clients", "give more nodes"}},
		"by hand, and redundancy":           {[]string{"--nodes", "90", "--topology", "quorum", "--reflectors", "5", "--per-client", "3", "--redundancy", "2"}, []string{"--per-client 3 and --redundancy exclude each other"}},
		"no redundancy":                     {[]string{"--nodes", "90", "--redundancy", "0"}, []string{"--redundancy", `"0"`, "from 1 to 100"}},
		"an unknown format":                 {[]string{"--nodes", "90", "-o", "csv"}, []string{"--output", `"csv"`, "table, json, yaml"}},
		"an unknown flag":                   {[]string{"--node", "9"}, []string{"unknown flag: --node", "--help lists all flags"}},
		"an argument":                       {[]string{"now"}, []string{`unexpected argument "now"`}},
		"a file that is not there":          {[]string{"--nodes", "9", "-f", "/nonexistent"}, []string{"--filename", `"/nonexistent"`, "no such file", "give the name of a file"}},
		"a file that is no YAML":            {[]string{"--nodes", "9", "-f", cli.File(t, "spec: [")}, []string{"--filename", "this is no YAML"}},
		"a value out of range":              {[]string{"--nodes", "9", "-f", cli.File(t, head+"spec: {topology: {redundancy: 0}}")}, []string{"--filename", "spec.topology.redundancy"}},
		"a quorum on existing nodes":        {[]string{"--nodes", "90", "--topology", "quorum", "-f", cli.File(t, head+"spec: {provider: {type: ExistingNodes}}")}, []string{"--filename", "ExistingNodes", "single only", "leave --topology"}},
		"an output file in no folder":       {[]string{"--nodes", "90", "--output-file", "/nonexistent/x"}, []string{"--output-file", "give a folder that is there"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, append([]string{"simulate"}, tc.args...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out, "no half of an answer")
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}
