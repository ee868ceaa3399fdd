// Package release_test installs a release that make release-snapshot has made as its users do.
package release_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/walkthrough"
)

const folderVariable = "RRPOOL_RELEASE"

type plugin struct {
	Spec struct {
		Version   string
		Platforms []struct {
			URI, SHA256, Bin string
			Files            []struct{ From, To string }
		}
	}
}

func made(t *testing.T) (string, plugin) {
	t.Helper()
	folder := os.Getenv(folderVariable)
	if folder == "" {
		t.Skip("needs a release, which takes minutes to compile: make release-snapshot")
	}
	content, err := os.ReadFile(filepath.Join(folder, "rrpool.yaml"))
	require.NoError(t, err)
	var p plugin
	require.NoError(t, yaml.Unmarshal(content, &p))
	require.NotEmpty(t, p.Spec.Platforms)
	return folder, p
}

func shell(t *testing.T, dir, home, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-euc", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + filepath.Join(home, ".local", "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"TERM=dumb", "MANPAGER=cat", "LC_ALL=C.UTF-8",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
	return string(out)
}

func TestEachFileHasItsSumAndIsOfOneVersion(t *testing.T) {
	folder, p := made(t)
	listed := shell(t, folder, t.TempDir(), "sha256sum --check --strict checksums.txt | cut -d: -f1")
	files := shell(t, folder, t.TempDir(), "ls | grep -v checksums.txt")
	require.Equal(t, files, listed)
	for _, name := range []string{"install-iks.yaml", "install-kind.yaml"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Contains(t, string(content), "image: ghcr.io/rrpool/rrpool-manager:"+p.Spec.Version+"\n", name)
	}
	chart := shell(t, folder, t.TempDir(), "tar -xzOf rrpool-"+strings.TrimPrefix(p.Spec.Version, "v")+".tgz rrpool/Chart.yaml rrpool/values.yaml")
	require.Contains(t, chart, "\nappVersion: "+p.Spec.Version+"\n")
	require.Contains(t, chart, "\n  repository: ghcr.io/rrpool/rrpool-manager\n")
}

func TestEachArchiveHasWhatKrewInstallsAndAnSBOMOfItsProgram(t *testing.T) {
	folder, p := made(t)
	for _, platform := range p.Spec.Platforms {
		name := filepath.Base(platform.URI)
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		require.Equal(t, hex.EncodeToString(sum[:]), platform.SHA256, name)
		dir := t.TempDir()
		shell(t, folder, dir, "tar -xzf "+name+" -C "+dir)
		for _, f := range platform.Files {
			require.FileExists(t, filepath.Join(dir, f.From), name)
		}
		require.Equal(t, platform.Bin, platform.Files[0].To)
		program, err := os.ReadFile(filepath.Join(dir, platform.Files[0].From))
		require.NoError(t, err)
		var bom struct {
			Metadata struct {
				Component struct{ Hashes []struct{ Content string } }
			}
			Components []struct{ Name string }
		}
		content, err = os.ReadFile(filepath.Join(folder, name+".cdx.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &bom))
		sum = sha256.Sum256(program)
		require.Equal(t, hex.EncodeToString(sum[:]), bom.Metadata.Component.Hashes[0].Content, name)
		notices, err := os.ReadFile(filepath.Join(dir, "NOTICES.txt"))
		require.NoError(t, err)
		for _, c := range bom.Components {
			require.Regexp(t, `(?m)^`+regexp.QuoteMeta(c.Name)+`(/.*)?$`, string(notices), name)
		}
	}
}

// The page is followed from its first block to its last, in a home without any files but those of the release.
func TestThePageInstallsTheRelease(t *testing.T) {
	folder, p := made(t)
	target := runtime.GOOS + "_" + runtime.GOARCH
	if _, err := os.Stat(filepath.Join(folder, "rrpool_"+strings.TrimPrefix(p.Spec.Version, "v")+"_"+target+".tar.gz")); err != nil {
		t.Skipf("there is no archive for %s", target)
	}
	page, err := os.ReadFile("../../docs/install-cli.md")
	require.NoError(t, err)
	blocks, err := walkthrough.Blocks(page)
	require.NoError(t, err)
	var script strings.Builder
	for _, b := range blocks {
		if b.Place == walkthrough.Here {
			script.WriteString(b.Text)
		}
	}
	text := script.String()
	for name, value := range map[string]string{"version": p.Spec.Version, "target": target} {
		line := regexp.MustCompile(`(?m)^` + name + `=.*$`)
		require.Regexp(t, line, text)
		text = line.ReplaceAllString(text, name+"="+value)
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Log("NOT RUN, there is no man here: man rrpool")
		text = regexp.MustCompile(`(?m)^man .*$`).ReplaceAllString(text, "")
	}
	home := t.TempDir()
	downloads := filepath.Join(home, "Downloads")
	require.NoError(t, os.CopyFS(downloads, os.DirFS(folder)))
	said := shell(t, downloads, home, text)
	require.Contains(t, said, "\nrrpool "+p.Spec.Version+" (")
	require.Contains(t, shell(t, downloads, home, "kubectl-rrpool cost --help"), "kubectl rrpool cost", "kubectl's plugin knows its name")
	require.Contains(t, shell(t, downloads, home, "source ~/.local/share/bash-completion/completions/rrpool; complete -p rrpool"), " rrpool")
}
