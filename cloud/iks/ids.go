package iks

import (
	"fmt"
	"regexp"
	"strings"
)

// The SDK puts ids into addresses unescaped and cleans the path: "DELETE
// …/workerpools/.." would delete the cluster. So an id is checked before any
// address is built from it, also one that the cloud itself gave.
var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	poolPattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,29}[a-z0-9])?$`)
)

func checkID(what, id string) error {
	if !idPattern.MatchString(id) || strings.Contains(id, "..") {
		return fmt.Errorf("%q is not a valid %s id", id, what)
	}
	return nil
}

func checkPoolName(name string) error {
	if !poolPattern.MatchString(name) {
		return fmt.Errorf("%q is not a valid pool name: use a-z, 0-9 and dashes, starting with a letter, at most 31", name)
	}
	return nil
}

// address builds a path with ids in it.
func address(format string, ids ...string) (string, error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		if err := checkID("resource", id); err != nil {
			return "", err
		}
		args[i] = id
	}
	return fmt.Sprintf(format, args...), nil
}
