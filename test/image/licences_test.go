//go:build linux

package image

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/notices"
)

// licenceFile is what a file with a licence or a notice is called at the top of a module.
var licenceFile = regexp.MustCompile(`^(LICEN[CS]E|COPYING|NOTICE)(\.(txt|md))?$`)

// Every platform of the archive has an image that keeps the rules, with a program for that
// platform, and the licences.
func TestEveryPlatformHasAnImageThatKeepsTheRules(t *testing.T) {
	a := made(t)
	images, err := a.images()
	require.NoError(t, err)
	require.NotEmpty(t, images)
	for _, d := range images {
		t.Run(d.Platform.OS+"/"+d.Platform.Architecture, func(t *testing.T) {
			image, root := unpackedFor(t, a, d.Platform.Architecture)
			require.NoError(t, image.judge(root))
			require.Equal(t, d.Platform.Architecture, image.config.Architecture)
			built, err := buildinfo.ReadFile(filepath.Join(root, image.config.Config.Entrypoint[0]))
			require.NoError(t, err)
			require.Contains(t, built.Settings, debug.BuildSetting{Key: "GOOS", Value: d.Platform.OS})
			require.Contains(t, built.Settings, debug.BuildSetting{Key: "GOARCH", Value: d.Platform.Architecture})
			requireLicences(t, root, built)
			t.Logf("%.1f MB compressed", float64(image.compressed())/1e6)
		})
	}
}

// requireLicences: whoever gets the image gets our licence, and those of everything that the
// linker says is in the manager: the very texts that the modules come with.
func requireLicences(t *testing.T, root string, built *debug.BuildInfo) {
	t.Helper()
	read := func(path string) string {
		text, err := textOf(path)
		require.NoError(t, err)
		return text
	}
	require.Equal(t, read("../../LICENSE"), read(filepath.Join(root, "licenses", "LICENSE")))
	file := read(filepath.Join(root, "licenses", "NOTICES.txt"))
	require.NoError(t, notices.Check(built, file))

	linked, texts := notices.Linked(built), notices.Of(file)
	folders := foldersOf(t, linked[1:])
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	folders[linked[0]] = strings.TrimSpace(string(goroot))
	compared, err := sameTexts(texts, folders)
	require.NoError(t, err)
	require.GreaterOrEqual(t, compared, len(linked)-1, "but for one, each has a file with its licence")
	t.Logf("%d licences and notices of %d modules, %d kB", compared, len(linked), len(file)/1000)

	// Each of them, taken away, is missed; so is another text.
	for _, name := range linked {
		require.ErrorContains(t, notices.Check(built, strings.ReplaceAll(file, "\n"+name+"\n", "\n")), "nothing of "+name)
	}
	folders[linked[0]] = otherLicence(t)
	_, err = sameTexts(texts, folders)
	require.ErrorContains(t, err, linked[0]+" has another LICENSE")
}

// otherLicence is the folder of a module that nobody links.
func otherLicence(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("as you like"), 0o600))
	return dir
}

// sameTexts counts the licences and notices at the top of modules, all of which have to be
// among their texts.
func sameTexts(texts map[string][]string, folders map[string]string) (int, error) {
	compared := 0
	for name, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if !licenceFile.MatchString(e.Name()) {
				continue
			}
			text, err := textOf(filepath.Join(folder, e.Name()))
			if err != nil {
				return 0, err
			}
			if !slices.Contains(texts[name], text) {
				return 0, fmt.Errorf("%s has another %s than NOTICES.txt", name, e.Name())
			}
			compared++
		}
	}
	return compared, nil
}

func textOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n")), err
}

// foldersOf are those of modules, named with their versions.
func foldersOf(t *testing.T, modules []string) map[string]string {
	t.Helper()
	arguments := []string{"list", "-m", "-f", "{{with .Replace}}{{.Path}} {{.Version}}{{else}}{{.Path}} {{.Version}}{{end}}\t{{.Dir}}"}
	for _, m := range modules {
		path, _, _ := strings.Cut(m, " ")
		arguments = append(arguments, path)
	}
	said, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(said)) {
		name, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out[name] = folder
	}
	for _, m := range modules {
		require.NotEmpty(t, out[m], "go.mod knows the version that is linked: %s", m)
	}
	return out
}
