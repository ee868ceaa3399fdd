package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheClosingLinesNameWhatDidNotRunAndWhatFailed(t *testing.T) {
	cases := map[string]struct {
		events string
		says   string
		fails  bool
	}{
		"all is well": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1.25}`,
			says: "ok    p  1.2s\n1 packages, 1 tests passed, 0 failed, 0 skipped\n",
		},
		"a test was skipped": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: needs bird\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			says: "ok    p  0.0s\nSKIP  p TestA: a_test.go:7: needs bird\n1 packages, 0 tests passed, 0 failed, 1 skipped\n",
		},
		"a test failed": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			says:  "    a_test.go:7: no\nFAIL  p  0.0s\nFAIL  p\nFAIL  p TestA\n1 packages, 0 tests passed, 2 failed, 0 skipped\n",
			fails: true,
		},
		"a test never ended": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`,
			says:  "panic: no\nFAIL  p  0.0s\nFAIL  p\nFAIL  p TestA: did not end\n1 packages, 0 tests passed, 2 failed, 0 skipped\n",
			fails: true,
		},
		"a package does not build": {
			events: `{"Action":"build-output","ImportPath":"p","Output":"p/a.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"fail","Package":"p"}`,
			says:  "p/a.go:1: syntax error\nFAIL  p  0.0s\nFAIL  p\n1 packages, 0 tests passed, 1 failed, 0 skipped\n",
			fails: true,
		},
		"a package without tests": {
			events: `{"Action":"skip","Package":"p"}`,
			says:   "0 packages, 0 tests passed, 0 failed, 0 skipped\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			results := newReport(&out)
			require.NoError(t, results.read(strings.NewReader(tc.events)))
			require.Equal(t, tc.fails, results.close() != nil)
			require.Equal(t, tc.says, out.String())
		})
	}
}

func TestPackagesThatNeedTheMachineAreSetApart(t *testing.T) {
	together, single := split([]string{"m/cloud", "m/test/lab", "m/test/labels"}, regexp.MustCompile(`/test/lab(/|$)`))
	require.Equal(t, []string{"m/cloud", "m/test/labels"}, together)
	require.Equal(t, []string{"m/test/lab"}, single)
}
