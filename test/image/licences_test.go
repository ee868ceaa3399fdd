//go:build linux

package image

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// licenceFile is what a file with a licence or a notice is called at the top of a module.
var licenceFile = regexp.MustCompile(`^(LICEN[CS]E|License|COPYING|NOTICE)(\.(txt|md))?$`)

// Every platform of the archive has an image that keeps the rules, with a program for that platform, and the licences.
func TestEveryPlatformHasAnImageThatKeepsTheRules(t *testing.T) {
	a := made(t)
	for _, d := range a.images(t) {
		t.Run(d.Platform.OS+"/"+d.Platform.Architecture, func(t *testing.T) {
			image, root := a.image(t, d.Platform.Architecture)
			require.NoError(t, image.judge(root))
			require.Equal(t, d.Platform.Architecture, image.config.Architecture)
			built, err := buildinfo.ReadFile(filepath.Join(root, image.config.Config.Entrypoint[0]))
			require.NoError(t, err)
			require.Contains(t, built.Settings, debug.BuildSetting{Key: "GOOS", Value: d.Platform.OS})
			require.Contains(t, built.Settings, debug.BuildSetting{Key: "GOARCH", Value: d.Platform.Architecture})
			requireLicences(t, root, built)
			require.Greater(t, strings.Count(textOf(t, filepath.Join(root, rootsFile)), "BEGIN CERTIFICATE"), 100)
		})
	}
}

// requireLicences holds the image to have our licence, and the licences and notices that come with all that is linked.
func requireLicences(t *testing.T, root string, built *debug.BuildInfo) {
	t.Helper()
	require.Equal(t, textOf(t, "../../LICENSE"), textOf(t, filepath.Join(root, "licenses", "LICENSE")))
	notices := textOf(t, filepath.Join(root, "licenses", "NOTICES.txt"))
	texts := licencesOf(t, built)
	require.GreaterOrEqual(t, len(texts), len(built.Deps), "all modules but one have a file with their licence, and Go has one")
	missing := func(notices string) []string {
		var out []string
		for file, text := range texts {
			if !strings.Contains(notices, text) {
				out = append(out, file)
			}
		}
		return out
	}
	require.Empty(t, missing(notices))
	for file, text := range texts {
		require.Contains(t, missing(strings.ReplaceAll(notices, text, "")), file, "negative control: a text that is taken away is missed")
		break
	}
	for _, m := range built.Deps {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(m.Path)+`(/.*)?$`, notices, "each module that is linked is named")
	}
}

// licencesOf are the licences and notices of Go and of the modules that are linked, by their files.
func licencesOf(t *testing.T, built *debug.BuildInfo) map[string]string {
	t.Helper()
	arguments := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, m := range built.Deps {
		arguments = append(arguments, m.Path)
	}
	folders, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	require.NoError(t, err)
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	out := map[string]string{}
	for _, folder := range append(strings.Fields(string(folders)), strings.TrimSpace(string(goroot))) {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			if licenceFile.MatchString(e.Name()) {
				out[filepath.Join(folder, e.Name())] = textOf(t, filepath.Join(folder, e.Name()))
			}
		}
	}
	return out
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
}
