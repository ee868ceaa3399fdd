package main

import (
	"bytes"
	"io"
	"os"
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
			says:  "    a_test.go:7: no\nFAIL  p  0.0s\nFAIL  p\nFAIL  p TestA\n    a_test.go:7: no\n1 packages, 0 tests passed, 2 failed, 0 skipped\n",
			fails: true,
		},
		"a test never ended": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`,
			says:  "panic: no\nFAIL  p  0.0s\nFAIL  p\nFAIL  p TestA: did not end\npanic: no\n1 packages, 0 tests passed, 2 failed, 0 skipped\n",
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
	together, single := split([]string{"m/cloud", "m/test/lab", "m/test/labels"}, pattern{regexp.MustCompile(`/test/lab(/|$)`)})
	require.Equal(t, []string{"m/cloud", "m/test/labels"}, together)
	require.Equal(t, []string{"m/test/lab"}, single)
}

// A module of one package: TestEvidence fails for want of evidence in its first run, and
// TestLoss whenever there is a file of that name.
const tests = `package p

import (
	"os"
	"testing"
)

func TestEvidence(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if f, err := os.OpenFile("ran", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
			t.Fatal("no loss can be ruled out: too busy")
		}
	})
}

func TestLoss(t *testing.T) {
	if _, err := os.Stat("loss"); err == nil {
		t.Fatal("a lost 7 of 9")
	}
}
`

func TestWhatShowsNothingIsRepeatedOnce(t *testing.T) {
	const again = "no loss can be ruled out"
	for name, tc := range map[string]struct {
		args  []string
		loss  bool
		says  []string
		fails bool
	}{
		"it shows something the second time": {
			args: []string{"-alone=.", "-again=" + again},
			says: []string{"too busy", "AGAIN p TestEvidence: ", "1 packages, 3 tests passed, 0 failed, 0 skipped"},
		},
		"no second run beside a failure":        {args: []string{"-alone=.", "-again=" + again}, loss: true, fails: true, says: []string{"4 failed", "FAIL  p TestLoss\n    p_test.go:19: a lost 7 of 9"}},
		"no second run for what is not alone":   {args: []string{"-again=" + again}, fails: true, says: []string{"3 failed"}},
		"no second run where it is not asked":   {args: []string{"-alone=."}, fails: true, says: []string{"3 failed"}},
		"no second run for words of other kind": {args: []string{"-alone=.", "-again=lost"}, fails: true, says: []string{"3 failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("go.mod", []byte("module p\n"), 0o600))
			require.NoError(t, os.WriteFile("p_test.go", []byte(tests), 0o600))
			if tc.loss {
				require.NoError(t, os.WriteFile("loss", nil, 0o600))
			}
			var out bytes.Buffer
			err := run(t.Context(), append(tc.args, "./..."), &out, io.Discard)
			require.Equal(t, tc.fails, err != nil, "%v\n%s", err, out.String())
			for _, words := range tc.says {
				require.Contains(t, out.String(), words)
			}
		})
	}
}

func TestAPartSpeaksForTheWholeAndATimeoutIsNoExcuse(t *testing.T) {
	part := failure{name: "p", test: "TestA/part", output: "no evidence"}
	for name, tc := range map[string]struct {
		failures []failure
		want     []repeat
	}{
		"a part, and the whole for it":    {[]failure{part, {name: "p", test: "TestA"}, {name: "p"}}, []repeat{{"p", []string{"TestA"}}}},
		"the whole fails by itself, too":  {[]failure{part, {name: "p", test: "TestA", output: "Error Trace: a_test.go"}, {name: "p"}}, nil},
		"it did not end":                  {[]failure{{"p", "TestA", ": did not end", "no evidence"}, {name: "p"}}, nil},
		"it is a package of another kind": {[]failure{{name: "q", test: "TestA", output: "no evidence"}, {name: "q"}}, nil},
		"a package that does not build":   {[]failure{{name: "p"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := report{failures: tc.failures}
			before := len(r.failures)
			require.Equal(t, tc.want, r.takeBack(pattern{regexp.MustCompile("no evidence")}, []string{"p"}))
			require.Len(t, r.failures, map[bool]int{true: before, false: 0}[tc.want == nil])
		})
	}
}
