package rollout

import (
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page lists all rules in the order in which they are tried, with a sentence on each.
func TestArchitectureListsEveryRuleInItsOrder(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	require.NoError(t, err)
	var listed, rules []string
	for _, m := range regexp.MustCompile("(?m)^1\\. `([\\w`, ]+)`: \\w.*\\.$").FindAllSubmatch(page, -1) {
		listed = append(listed, strings.Split(string(m[1]), "`, `")...)
	}
	for _, r := range slices.Concat(reflectRules, meshRules) {
		name := runtime.FuncForPC(reflect.ValueOf(r).Pointer()).Name()
		rules = append(rules, name[strings.LastIndexByte(name, '.')+1:])
	}
	require.Equal(t, rules, listed)
}
