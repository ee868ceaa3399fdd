package iostreams

import (
	"fmt"
	"strings"
)

// Number counts something: "1 node", "3 nodes".
func Number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Named is how many items of a list Few names.
const Named = 3

// Few names the first three of a list and counts the rest.
func Few(items []string) string {
	if len(items) <= Named {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:Named], ", "), len(items)-Named)
}
