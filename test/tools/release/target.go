package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a platform that the command line is compiled for.
type target struct{ os, arch string }

// all targets. s390x and ppc64le are where OpenShift and IBM Cloud have people. What is
// none of linux/amd64 is compiled here; docs/release.md says what was run of it.
var all = []target{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"linux", "ppc64le"},
	{"linux", "s390x"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
}

func (t target) String() string { return t.os + "_" + t.arch }

// program is what the command line is called there.
func (t target) program() string {
	if t.os == "windows" {
		return "rrpool.exe"
	}
	return "rrpool"
}

// plugin is what kubectl calls the same program.
func (t target) plugin() string { return "kubectl-" + t.program() }

// archive of a version (v1.2.3) for the target.
func (t target) archive(version string) string {
	name := "rrpool_" + strings.TrimPrefix(version, "v") + "_" + t.String()
	if t.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// targets reads a list of names, separated by commas or spaces; none are all.
func targets(names string) ([]target, error) {
	var out []target
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		i := slices.IndexFunc(all, func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is no target: use some of %v", name, all)
		}
		if !slices.Contains(out, all[i]) {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 {
		return all, nil
	}
	return out, nil
}
