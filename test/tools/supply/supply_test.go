package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

// tree is a module of files with these contents, each folder with a package.
func tree(t *testing.T, files map[string]string) source {
	t.Helper()
	s := source{dir: t.TempDir()}
	for name, content := range files {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s.packages = append(s.packages, filepath.Dir(path))
	}
	return s
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := assets.ReadLicenseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What is not allowed, not known or not there is a fault, wherever in a module it is.
func TestLicencesAreJudged(t *testing.T) {
	judge, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	mit, gpl, header := text(t, "License/MIT/pristine.txt"), text(t, "License/GPL-3.0/license.txt"), text(t, "Header/Apache-2.0/header.txt")
	for name, tc := range map[string]struct {
		files map[string]string
		fault bool
	}{
		"one that is allowed":                    {map[string]string{"LICENSE": mit, "a/a.go": ""}, false},
		"one that is not":                        {map[string]string{"LICENSE": gpl}, true},
		"none":                                   {map[string]string{"a.go": ""}, true},
		"one that nobody knows":                  {map[string]string{"LICENSE": "do as we say"}, true},
		"one that is not, in a folder":           {map[string]string{"LICENSE": mit, "third_party/x/COPYING": gpl}, true},
		"one that is not, beside one that is":    {map[string]string{"LICENSE": mit, "LICENSE.other": gpl}, true},
		"none but in each of the files":          {map[string]string{"a/a.go": "/*\n" + header + "*/\npackage a\n", "a/a_test.go": ""}, false},
		"none but in one of two files":           {map[string]string{"a/a.go": "/*\n" + header + "*/\npackage a\n", "a/b.go": ""}, true},
		"code that is about licences is no such": {map[string]string{"LICENSE": mit, "license.go": gpl}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := judge.module(tree(t, tc.files))
			if (err != nil) != tc.fault {
				t.Fatalf("found %v, error %v", found, err)
			}
		})
	}
}

// Each licence and notice goes along once, under the names of all who have it.
func TestNoticesAreComplete(t *testing.T) {
	one := tree(t, map[string]string{"LICENSE": "mine\r\n", "NOTICE": "by me", "a/a.go": "", "third/COPYING": "theirs", "license.go": "code"})
	one.version = "v1.0.0"
	two := tree(t, map[string]string{"LICENCE.md": "mine", "a.go": ""})
	two.version = "v2.0.0"
	none := tree(t, map[string]string{"a.go": "// Copyright: ours.\n\n// Licensed as you like.\n\n// Package a does b.\npackage a\n"})
	none.packages = append(none.packages, none.packages[0])
	out := filepath.Join(t.TempDir(), "notices")
	if err := writeNotices(out, map[string]source{"a.example/one": one, "b.example/two": two, "c.example/none": none}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := string(content)
	for text, count := range map[string]int{
		"a.example/one v1.0.0\nb.example/two v2.0.0\n\nmine\n": 1, "by me": 1, "mine": 1, "c.example/none\n\nCopyright: ours.\n\nLicensed as you like.\n": 1, "Licensed as you like.": 1, "does b": 0, "code": 0,
	} {
		if strings.Count(got, text) != count {
			t.Errorf("%q is not there %d times:\n%s", text, count, got)
		}
	}
	silent := tree(t, map[string]string{"a.go": "// Package a does b.\npackage a\n"})
	if err := writeNotices(out, map[string]source{"d.example/silent": silent}); err == nil || !strings.Contains(err.Error(), "d.example/silent") {
		t.Errorf("a module under no licence at all: %v", err)
	}
}

// A binary that is not made of what go.mod says is not judged by go.mod.
func TestOtherModulesThanThoseOfTheSourcesAreSeen(t *testing.T) {
	l := linked{modules: []module{{path: "std"}, {path: "a.example/m", version: "v1.0.0"}}}
	same := map[string]source{"std": {}, "a.example/m": {version: "v1.0.0"}}
	if err := sameModules(l, same); err != nil {
		t.Fatal(err)
	}
	for name, packages := range map[string]map[string]source{
		"another version": {"std": {}, "a.example/m": {version: "v1.0.1"}},
		"one less":        {"std": {}},
		"one more":        {"std": {}, "a.example/m": {version: "v1.0.0"}, "b.example/m": {}},
	} {
		if sameModules(l, packages) == nil {
			t.Error(name)
		}
	}
}

// knownBad is a database that knows something about a module.
func knownBad(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	const id, at = "GO-2026-0001", "2026-01-01T00:00:00Z"
	type m = map[string]any
	for name, content := range map[string]any{
		"index/db.json":      m{"modified": at},
		"index/vulns.json":   []m{{"id": id, "modified": at}},
		"index/modules.json": []m{{"path": module, "vulns": []m{{"id": id, "modified": at}}}},
		"ID/" + id + ".json": m{
			"schema_version": "1.3.1", "id": id, "modified": at, "published": at, "details": "made up",
			"affected": []m{{
				"package":            m{"name": module, "ecosystem": "Go"},
				"ranges":             []m{{"type": "SEMVER", "events": []m{{"introduced": "0"}}}},
				"ecosystem_specific": m{"imports": []m{{"path": module}}},
			}},
		},
	} {
		content, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

// The scan finds what its database knows, and passes what it does not know.
func TestAScanFindsWhatItsDatabaseKnows(t *testing.T) {
	scanner, err := exec.CommandContext(t.Context(), "go", "-C", "../govulncheck", "tool", "-n", "govulncheck").Output()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		from, says string
		fails      bool
	}{
		"a module that is linked":  {knownBad(t, "github.com/google/licenseclassifier/v2"), "FAILED, ", true},
		"a module that is not":     {knownBad(t, "a.example/other"), "", false},
		"a database of no meaning": {"file:///nonexistent", "FAILED, govulncheck", true},
	} {
		t.Run(name, func(t *testing.T) {
			says, err := scan(t.Context(), strings.TrimSpace(string(scanner)), tc.from, self)
			if (err != nil) != tc.fails || !strings.HasPrefix(says, tc.says) || tc.says == "" && says != "" {
				t.Fatalf("says %q, error %v", says, err)
			}
		})
	}
}

// Where there is no database, or something that is none answers, the scan has not been.
func TestADatabaseThatCannotBeAskedIsSeen(t *testing.T) {
	answers := map[int]bool{http.StatusOK: true, http.StatusForbidden: false}
	for code, want := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(server.Close)
		if err := reachable(t.Context(), server.URL); (err == nil) != want {
			t.Errorf("%d: %v", code, err)
		}
	}
	if reachable(t.Context(), "http://127.0.0.1:1") == nil {
		t.Error("nobody is there")
	}
}
