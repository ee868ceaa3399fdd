//go:build unix

package walkthrough

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// walk types blocks in a shell that has the usual programs and, as rrpool, one that ends with the number it is given.
func walk(t *testing.T, blocks ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	rrpool := dir + "/rrpool"
	require.NoError(t, os.WriteFile(rrpool, []byte("#!/usr/bin/env bash\nexit $2\n"), 0o700))
	require.NoError(t, Programs(dir+"/bin", map[string]string{"rrpool": rrpool}))
	var out strings.Builder
	sh, err := StartShell(dir, dir, []string{"PATH=" + dir + "/bin"}, &out)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, block := range blocks {
		if err = sh.Run(ctx, Block{Line: 7, Text: block + "\n"}); err != nil {
			break
		}
	}
	sh.Stop()
	return out.String(), err
}

func TestTheFirstFailureEndsTheWalk(t *testing.T) {
	for name, tc := range map[string]struct{ block, says string }{
		"a command that is not there":     {"ibmcloud login\necho on", "command not found"},
		"a command that fails":            {"echo first\nfalse\necho on", "first"},
		"in the middle of a pipe":         {"false | cat\necho on", ""},
		"in a substitution":               {"a=$(ls /nonexistent)\necho on", "nonexistent"},
		"in a function":                   {"f() { false; true; }\nf\necho on", ""},
		"an unset variable":               {"echo $unset\necho on", "unbound variable"},
		"a syntax error":                  {"if true; then\necho on", "syntax error"},
		"a plan that fails":               {"rrpool plan 1\necho on", ""},
		"a check that ends as a plan may": {"rrpool check 2\necho on", ""},
		"an end":                          {"exit 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := walk(t, tc.block, "echo on")
			require.ErrorContains(t, err, "typing the block at line 7")
			require.Contains(t, out, tc.says)
			require.NotContains(t, out, "on\n")
		})
	}
}
