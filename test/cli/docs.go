package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Page returns a page of docs, for a test of a package two folders below cmd.
func Page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name+".md"))
	require.NoError(t, err)
	return string(content)
}

var block = regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)```\n")

// Blocks returns the code blocks of a page in a language.
func Blocks(t *testing.T, page, language string) []string {
	t.Helper()
	var out []string
	for _, match := range block.FindAllStringSubmatch(Page(t, page), -1) {
		if match[1] == language {
			out = append(out, match[2])
		}
	}
	require.NotEmpty(t, out, "docs/%s.md: %s", page, language)
	return out
}

// Roles returns the Roles and, as Roles without a namespace, the ClusterRoles of a page.
func Roles(t *testing.T, page string) (out []rbacv1.Role) {
	t.Helper()
	for _, text := range Blocks(t, page, "yaml") {
		for document := range strings.SplitSeq(text, "---\n") {
			var role rbacv1.Role
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &role))
			out = append(out, role)
		}
	}
	return out
}

// RequireExamples requires that each example of a page is the answer of ask to its command. A line of … stands for omitted lines.
func RequireExamples(t *testing.T, page string, ask func(args ...string) Answer) {
	t.Helper()
	for _, example := range Blocks(t, page, "console") {
		command, output, _ := strings.Cut(example, "\n")
		got := ask(strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...).Out
		for i, part := range strings.Split(output, "…\n") {
			before, after, found := strings.Cut(got, part)
			require.True(t, found, "%s says\n%s\nand not\n%s", command, got, part)
			require.False(t, i == 0 && before != "", "%s begins with\n%s", command, before)
			got = after
		}
		if !strings.HasSuffix(output, "…\n") {
			require.Empty(t, got, command)
		}
	}
}
