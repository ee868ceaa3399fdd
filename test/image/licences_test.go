//go:build linux

package image

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/notices"
)

// licenceFile is what a file with a licence or a notice is called at the top of a module.
var licenceFile = regexp.MustCompile(`^(LICEN[CS]E|COPYING|NOTICE)(\.(txt|md))?$`)

// Whoever gets the image gets our licence, and those of everything that the linker says is
// in the manager: the very texts that the modules come with.
func TestLicencesOfAllThatIsLinkedAreInTheImage(t *testing.T) {
	image, root := unpacked(t)
	read := func(path string) string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
	}
	require.Equal(t, read("../../LICENSE"), read(filepath.Join(root, "licenses", "LICENSE")))
	built, err := buildinfo.ReadFile(filepath.Join(root, image.config.Config.Entrypoint[0]))
	require.NoError(t, err)
	file := read(filepath.Join(root, "licenses", "NOTICES.txt"))
	require.NoError(t, notices.Check(built, file))

	linked, texts := notices.Linked(built), notices.Of(file)
	folders := foldersOf(t, linked[1:])
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	folders[linked[0]] = strings.TrimSpace(string(goroot))
	compared := 0
	for name, folder := range folders {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			if licenceFile.MatchString(e.Name()) {
				require.Contains(t, texts[name], read(filepath.Join(folder, e.Name())), "%s has another %s", name, e.Name())
				compared++
			}
		}
	}
	require.GreaterOrEqual(t, compared, len(linked)-1, "but for one, each has a file with its licence")
	t.Logf("%d licences and notices of %d modules, %d kB", compared, len(linked), len(file)/1000)

	// Each of them, taken away, is missed.
	for _, name := range linked {
		require.ErrorContains(t, notices.Check(built, strings.ReplaceAll(file, "\n"+name+"\n", "\n")), "nothing of "+name)
	}
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
