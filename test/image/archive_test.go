//go:build linux

package image

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type descriptor struct {
	Digest   string `json:"digest"`
	Size     int    `json:"size"`
	Platform struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

type contents struct {
	manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	config struct {
		Architecture string `json:"architecture"`
		Config       struct {
			User       string
			Entrypoint []string
			Env        []string
		} `json:"config"`
	}
}

// archive is the folder of an OCI layout. It is read here from the specification, and not with what has written it.
type archive string

func (a archive) path(d descriptor) string {
	return filepath.Join(string(a), "blobs", strings.Replace(d.Digest, ":", "/", 1))
}

func (a archive) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	content, err := os.ReadFile(a.path(d))
	require.NoError(t, err)
	require.Len(t, content, d.Size)
	sum := sha256.Sum256(content)
	require.Equal(t, d.Digest, "sha256:"+hex.EncodeToString(sum[:]))
	return content
}

// images are what there is, one for each platform.
func (a archive) images(t *testing.T) []descriptor {
	t.Helper()
	var top, index struct {
		Manifests []descriptor `json:"manifests"`
	}
	content, err := os.ReadFile(filepath.Join(string(a), "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &top))
	require.Len(t, top.Manifests, 1, "readers expect one")
	require.NoError(t, json.Unmarshal(a.blob(t, top.Manifests[0]), &index))
	require.NotEmpty(t, index.Manifests)
	return index.Manifests
}

// image finds the one for Linux on an architecture, and unpacks its layers into a folder, one over the other.
func (a archive) image(t *testing.T, architecture string) (found contents, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, d := range a.images(t) {
		if d.Platform.OS != "linux" || d.Platform.Architecture != architecture {
			continue
		}
		require.NoError(t, json.Unmarshal(a.blob(t, d), &found.manifest))
		require.NoError(t, json.Unmarshal(a.blob(t, found.manifest.Config), &found.config))
		for _, layer := range found.manifest.Layers {
			a.blob(t, layer) // it has its sum
			require.Empty(t, oddities(tar(t, "--numeric-owner", "-tvzf", a.path(layer))))
			tar(t, "-xpzf", a.path(layer), "-C", dir)
		}
		return found, dir
	}
	require.FailNow(t, "no image for linux/"+architecture)
	return found, dir
}

func tar(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tar", arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// file is the line of a folder or file of root's that is neither setuid nor setgid, as tar lists them.
var file = regexp.MustCompile(`^[d-]([r-][w-][x-]){3} 0/`)

// oddities are what an image of ours has no use for, in a list of tar.
func oddities(list string) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(list), "\n"), file.MatchString)
}

func TestLayersBringFilesOnly(t *testing.T) {
	for _, odd := range []string{"-rwsr-xr-x 0/0 8 2026-01-01 00:00 su", "-r-xr-xr-x 65532/65532 8 2026-01-01 00:00 manager", "brw-rw-rw- 0/0 8,0 2026-01-01 00:00 sda"} {
		require.Equal(t, []string{odd}, oddities("drwxr-xr-x 0/0 0 2026-01-01 00:00 etc/\n"+odd+"\n-r--r--r-- 0/0 8 2026-01-01 00:00 etc/passwd\n"))
	}
}

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
	// The licences and notices of Go and of the modules that are linked, by their files.
	arguments := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, m := range built.Deps {
		arguments = append(arguments, m.Path)
	}
	folders, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	require.NoError(t, err)
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	texts := map[string]string{}
	licenceFile := regexp.MustCompile(`^(LICEN[CS]E|License|COPYING|NOTICE)(\.(txt|md))?$`) // at the top of a module
	for _, folder := range append(strings.Fields(string(folders)), strings.TrimSpace(string(goroot))) {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			if licenceFile.MatchString(e.Name()) {
				texts[filepath.Join(folder, e.Name())] = textOf(t, filepath.Join(folder, e.Name()))
			}
		}
	}
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

func textOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
}

func (c contents) judge(root string) error {
	var faults []error
	// The kubelet refuses what it cannot tell from root: runAsNonRoot needs a number.
	user, _, _ := strings.Cut(c.config.Config.User, ":")
	if uid, err := strconv.Atoi(user); err != nil || uid == 0 {
		faults = append(faults, fmt.Errorf("runs as %q: the kubelet takes that for root", c.config.Config.User))
	}
	return errors.Join(append(faults, judgeEntrypoint(root, c.config.Config.Entrypoint), judgeFiles(root))...)
}

// judgeEntrypoint: one program, for everyone, that needs nothing else.
func judgeEntrypoint(root string, entrypoint []string) error {
	if len(entrypoint) == 0 || !filepath.IsAbs(entrypoint[0]) {
		return fmt.Errorf("the entrypoint is %q, no absolute path", entrypoint)
	}
	path := filepath.Join(root, entrypoint[0])
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the entrypoint: %w", err)
	}
	if info.Mode()&0o005 != 0o005 {
		return fmt.Errorf("%s is %s: a user that is not its owner cannot run it", entrypoint[0], info.Mode())
	}
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the entrypoint: %w", err)
	}
	defer program.Close() //nolint:errcheck // only read
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it asks for a loader", entrypoint[0])
		}
	}
	return nil
}

// judgeFiles: all users may read, none may write.
func judgeFiles(root string) error {
	var faults []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (info.Mode()&0o022 != 0 || info.Mode()&0o004 == 0) {
			faults = append(faults, fmt.Errorf("%s is %s", strings.TrimPrefix(path, root), info.Mode()))
		}
		return err
	})
	return errors.Join(append(faults, err)...)
}

// Each rule refuses what breaks it. The program is bash, which needs a loader.
func TestWhatIsWrongWithAnImageIsSeen(t *testing.T) {
	bash, err := os.ReadFile("/bin/bash")
	require.NoError(t, err)
	script := []byte("#!/bin/sh\nexec /bin/true\n")
	for says, tc := range map[string]struct {
		user, entrypoint string
		mode             os.FileMode
		program          []byte
	}{
		`runs as "0"`:            {"0", "/manager", 0o555, bash},
		`runs as ""`:             {"", "/manager", 0o555, bash},
		`runs as "nonroot"`:      {"nonroot", "/manager", 0o555, bash},
		"cannot run it":          {"65532:65532", "/manager", 0o700, bash},
		"/manager is -rwxrwxrwx": {"65532:65532", "/manager", 0o777, bash},
		"no such file":           {"65532:65532", "/other", 0o555, bash},
		"no absolute path":       {"65532:65532", "manager", 0o555, bash},
		"bad magic number":       {"65532:65532", "/manager", 0o555, script},
		"asks for a loader":      {"65532:65532", "/manager", 0o555, bash},
	} {
		image, root := contents{}, t.TempDir()
		image.config.Config.User, image.config.Config.Entrypoint = tc.user, []string{tc.entrypoint}
		require.NoError(t, os.Chmod(root, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "manager"), tc.program, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(root, "manager"), tc.mode))
		require.ErrorContains(t, image.judge(root), says)
	}
}
