package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
)

// An archive depends on what is in it and on the time that it is given, and on nothing else.
func TestArchivesAreReproducible(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	entries := []entry{{"b/c", []byte("text"), false}, {"a", []byte("program"), true}}
	turned := slices.Clone(entries)
	slices.Reverse(turned)
	for _, name := range []string{"x.tar.gz", "x.zip"} {
		one, two := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), name)
		for path, in := range map[string][]entry{one: entries, two: turned} {
			require.NoError(t, pack(path, at, in))
			require.NoError(t, os.WriteFile(path+sbomSuffix, nil, 0o600))
		}
		require.NoError(t, same(one, two), name)
		inside, err := unpack(one)
		require.NoError(t, err)
		require.Equal(t, map[string]entry{"a": entries[1], "b/c": entries[0]}, inside)

		require.NoError(t, pack(two, at.Add(time.Hour), entries))
		require.ErrorContains(t, same(one, two), "is not reproducible", "negative control")
	}
}

// Krew takes regular files only, and so do we.
func TestALinkInAnArchiveIsSeen(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("rrpool", filepath.Join(dir, "kubectl-rrpool")))
	path := filepath.Join(t.TempDir(), "x.tar.gz")
	out, err := exec.Command("tar", "-C", dir, "-czf", path, "kubectl-rrpool").CombinedOutput()
	require.NoError(t, err, string(out))
	_, err = unpack(path)
	require.ErrorContains(t, err, "kubectl-rrpool is no regular file")
}

func TestTargets(t *testing.T) {
	got, err := targets("")
	require.NoError(t, err)
	require.Equal(t, all, got)
	got, err = targets("windows_amd64, linux_s390x windows_amd64")
	require.NoError(t, err)
	require.Equal(t, []target{{"windows", "amd64"}, {"linux", "s390x"}}, got)
	require.Equal(t, "rrpool_1.2.3_windows_amd64.zip", got[0].archive("v1.2.3"))
	require.Equal(t, "rrpool_1.2.3_linux_s390x.tar.gz", got[1].archive("v1.2.3"))
	require.Equal(t, "kubectl-rrpool.exe", got[0].plugin())
	_, err = targets("linux_mips")
	require.ErrorContains(t, err, `"linux_mips" is no target: use some of [linux_amd64 `)
}

// repository makes one with a commit, and a clone of it that knows only that.
func repository(t *testing.T) string {
	t.Helper()
	origin, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	for _, line := range []string{
		"git init -q", "mkdir cmd && echo 1 > cmd/a && git add . && git commit -qm one", "echo 2 > cmd/a && git commit -qam two",
		"git clone -q --depth=1 file://" + origin + " " + clone,
	} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = origin
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_COMMITTER_DATE=2026-11-22T10:00:00+01:00",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return clone
}

// Without a tag, in a clone of one commit, there is a version that krew and image
// registries take, and it says when the sources were changed.
func TestTheVersionOfACommit(t *testing.T) {
	root := repository(t)
	s, err := sourceOf(t.Context(), root, "")
	require.NoError(t, err)
	require.Regexp(t, `^v0\.0\.0-20261122090000-[0-9a-f]{12}$`, s.version)
	_, err = version.ParseSemantic(s.version)
	require.NoError(t, err)
	require.Regexp(t, `^[0-9a-f]{40}$`, s.commit)
	require.Equal(t, "2026-11-22T09:00:00Z", s.date())

	require.NoError(t, os.WriteFile(filepath.Join(root, "note"), nil, 0o600))
	s, err = sourceOf(t.Context(), root, "v1.3.0-rc.1")
	require.NoError(t, err)
	require.Equal(t, "v1.3.0-rc.1", s.version)
	require.NotContains(t, s.commit, "-dirty", "the note is no source")

	require.NoError(t, os.WriteFile(filepath.Join(root, "cmd", "new"), nil, 0o600))
	s, err = sourceOf(t.Context(), root, "")
	require.NoError(t, err)
	require.Regexp(t, `-dirty$`, s.version)
	require.Regexp(t, `-dirty$`, s.commit)

	for _, bad := range []string{"1.2.3", "v1.2", "latest", "v1.2.3+build", "v1.2.3 -X a=b"} {
		_, err := sourceOf(t.Context(), root, bad)
		require.ErrorContains(t, err, "is no version: use for example v1.2.3", bad)
	}
	_, err = sourceOf(t.Context(), t.TempDir(), "")
	require.ErrorContains(t, err, "not a git repository")
}

// An earlier release makes room for a new one; nothing else does.
func TestOnlyAReleaseIsTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	require.NoError(t, empty(dir), "it need not be there")
	require.NoError(t, empty(dir), "one that was not finished")
	require.NoError(t, os.Remove(filepath.Join(dir, stageName)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600))
	require.ErrorContains(t, empty(dir), "has something else than a release in it")
	require.FileExists(t, filepath.Join(dir, "letter"))
}

// Each of krew's rules, broken.
func TestKrewsRules(t *testing.T) {
	good := func() plugin {
		return plugin{
			APIVersion: krewVersion, Kind: "Plugin", Metadata: pluginName{"rrpool"},
			Spec: pluginSpec{Version: "v1.2.3", Homepage: home, ShortDescription: "one", Platforms: []platform{{
				Selector: selector{map[string]string{"os": "linux"}}, URI: "https://a/x.zip", SHA256: "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
				Files: []move{{"rrpool", "kubectl-rrpool"}}, Bin: "kubectl-rrpool",
			}}},
		}
	}
	require.NoError(t, good().validate())
	for name, tc := range map[string]struct {
		spoil func(*plugin)
		says  string
	}{
		"an older form":              {func(p *plugin) { p.APIVersion = "v1" }, "apiVersion"},
		"another kind":               {func(p *plugin) { p.Kind = "Plug" }, "kind"},
		"another name than the file": {func(p *plugin) { p.Metadata.Name = "pool" }, "metadata.name"},
		"a version without v":        {func(p *plugin) { p.Spec.Version = "1.2.3" }, "spec.version"},
		"no home":                    {func(p *plugin) { p.Spec.Homepage = "" }, "spec.homepage"},
		"two lines":                  {func(p *plugin) { p.Spec.ShortDescription = "a\nb" }, "spec.shortDescription"},
		"nowhere to run":             {func(p *plugin) { p.Spec.Platforms = nil }, "spec.platforms"},
		"no archive":                 {func(p *plugin) { p.Spec.Platforms[0].URI = "https://a/x" }, "uri"},
		"no sum":                     {func(p *plugin) { p.Spec.Platforms[0].SHA256 = "ABC" }, "sha256"},
		"a path that is not clean":   {func(p *plugin) { p.Spec.Platforms[0].Files[0].To = "./kubectl-rrpool" }, "files"},
		"nothing installed":          {func(p *plugin) { p.Spec.Platforms[0].Files = nil }, "bin"},
		"another program":            {func(p *plugin) { p.Spec.Platforms[0].Bin = "rrpool" }, "bin"},
		"no platform":                {func(p *plugin) { p.Spec.Platforms[0].Selector = selector{} }, "selector is empty"},
		"a platform by libc":         {func(p *plugin) { p.Spec.Platforms[0].Selector.MatchLabels["libc"] = "musl" }, "libc"},
	} {
		p := good()
		tc.spoil(&p)
		require.ErrorContains(t, p.validate(), tc.says, name)
	}
}
