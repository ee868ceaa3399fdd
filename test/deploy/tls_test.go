package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unverified are the names of fields that make a client talk to any server: of crypto/tls, of
// client-go, and of the SDK of IBM Cloud.
var unverified = []string{"InsecureSkipVerify", "Insecure", "InsecureSkipTLSVerify", "SSLDisable", "VerifyPeerCertificate", "VerifyConnection"}

// asTheUserSays is where the choice of a user's own kubeconfig is handed on, for the command
// line. The manager takes no such kubeconfig.
const asTheUserSays = "controllers/calico/client.go: InsecureSkipTLSVerify"

// trusting are the fields of that kind that a file gives a value.
func trusting(t *testing.T, name, source string) []string {
	t.Helper()
	var src any
	if source != "" {
		src = source
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	require.NoError(t, err)
	var out []string
	given := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			e = s.Sel
		}
		if id, ok := e.(*ast.Ident); ok && slices.Contains(unverified, id.Name) {
			out = append(out, id.Name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			given(n.Key)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				given(e)
			}
		case *ast.UnaryExpr: // &c.InsecureSkipVerify
			given(n.X)
		}
		return true
	})
	return out
}

// No code of the product can be made to talk to a server that cannot prove who it is.
func TestNoCodeTalksToAnybody(t *testing.T) {
	var found []string
	count := 0
	for _, folder := range []string{"cloud", "cmd", "config", "controllers"} {
		require.NoError(t, filepath.WalkDir(path(folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			count++
			at, err := filepath.Rel(path(), name)
			for _, field := range trusting(t, name, "") {
				found = append(found, at+": "+field)
			}
			return err
		}))
	}
	require.Equal(t, []string{asTheUserSays}, found)
	require.Greater(t, count, 100, "the code was looked at")
	for _, source := range []string{
		"package p\nvar c = tls.Config{InsecureSkipVerify: true}",
		"package p\nfunc f(c *tls.Config) { c.InsecureSkipVerify = no() }",
		"package p\nfunc f(c *tls.Config) { flag(&c.InsecureSkipVerify) }",
		"package p\nvar c = rest.TLSClientConfig{Insecure: true}",
		"package p\nvar c = bluemix.Config{SSLDisable: true}",
	} {
		require.Len(t, trusting(t, "doctored.go", source), 1, "negative control: %s", source)
	}
}
