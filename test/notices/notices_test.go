package notices_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/notices"
)

var program = &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
	{Path: "a.example/one", Version: "v1.0.0"},
	{Path: "b.example/was", Version: "v2.0.0", Replace: &debug.Module{Path: "b.example/is", Version: "v2.0.1"}},
}}

// file is as it should be; the second text is that of two.
var file = strings.ReplaceAll(`This program contains the following works of others, under these licences.

RULE
a.example/one v1.0.0

Written by one.

RULE
a.example/one v1.0.0
b.example/is v2.0.1

Permission is hereby granted

RULE
std 1.26.8

Redistribution and use
`, "RULE", strings.Repeat("=", 72))

func TestTextsAreFoundByTheirOwners(t *testing.T) {
	require.Equal(t, map[string][]string{
		"a.example/one v1.0.0": {"Written by one.", "Permission is hereby granted"},
		"b.example/is v2.0.1":  {"Permission is hereby granted"},
		"std 1.26.8":           {"Redistribution and use"},
	}, notices.Of(file))
	require.NoError(t, notices.Check(program, file))
}

// Negative controls: whatever is linked and has no licence is named.
func TestWhatHasNoLicenceIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ was, becomes, says string }{
		"a module that is not there":  {"b.example/is v2.0.1\n", "", "nothing of b.example/is v2.0.1"},
		"another version of it":       {"b.example/is v2.0.1\n", "b.example/is v2.0.0\n", "nothing of b.example/is v2.0.1"},
		"Go's own library":            {"std 1.26.8", "std 1.26.7", "nothing of std 1.26.8"},
		"a name without a text":       {"Redistribution and use", "", "nothing of std 1.26.8"},
		"a text that is no licence":   {"Redistribution and use", "Hello", `no licence of std 1.26.8, but "Hello"`},
		"a licence that others have":  {"a.example/one v1.0.0\nb", "b", `no licence of a.example/one v1.0.0, but "Written by one."`},
		"an empty file":               {file, "", "nothing of std 1.26.8"},
		"names without any structure": {strings.Repeat("=", 72), "", "nothing of std 1.26.8"},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := strings.ReplaceAll(file, tc.was, tc.becomes)
			require.NotEqual(t, file, spoilt, "nothing was spoiled")
			require.ErrorContains(t, notices.Check(program, spoilt), tc.says)
		})
	}
}
