package migrate

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

var blocks = regexp.MustCompile("(?s)\n```(yaml|console|text)\n(.*?)```\n")

// readDocs gives the blocks of docs/migrate.md by language.
func readDocs(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/migrate.md")
	require.NoError(t, err)
	found := map[string]string{}
	for _, match := range blocks.FindAllStringSubmatch(string(content), -1) {
		found[match[1]] = match[2]
	}
	return found
}

func theRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	found := readDocs(t)
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict([]byte(found["yaml"]), &role))
	return &role
}

func TestTheExampleOfTheDocs(t *testing.T) {
	found := readDocs(t)
	command, output, _ := strings.Cut(found["console"], "\n")
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
	got := s.play(t, iostreams.Streams{}, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...)
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, output, got.Out)
	require.Equal(t, found["text"], got.Err)
}
