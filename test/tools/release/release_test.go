package main

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/notices"
)

// TestMain: called by one of its names, this program is the command line of a release.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "rrpool" || name == "kubectl-rrpool" {
		switch line := strings.Join(os.Args[1:], " "); {
		case line == "version":
			fmt.Println("rrpool v1.2.3 (go)")
		case strings.HasPrefix(line, "__complete"):
			fmt.Println("table")
		default:
			fmt.Println("kubectl rrpool cost")
		}
		os.Exit(0)
	}
	compression = flate.BestSpeed
	os.Exit(m.Run())
}

const testRelease = "v1.2.3"

// page is what users read.
var page = filepath.Join("..", "..", "..", "docs", "install-cli.md")

var host = target{runtime.GOOS, runtime.GOARCH}

// whole makes a release whose program is this one.
func whole(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	entries := []entry{{host.program(), content, true}}
	for _, name := range append(needed, "man/rrpool.1", "man/rrpool-version.1") {
		text := map[string]string{
			"NOTICES.txt":             licences(t),
			"completions/rrpool.bash": "complete -F _x rrpool\n",
			"completions/_rrpool":     "#compdef rrpool\ncompdef _rrpool rrpool\n",
			"completions/rrpool.fish": "complete -c rrpool -f -a table\n",
			"man/rrpool.1":            ".TH RRPOOL 1\n.SH NAME\nrrpool\n",
		}[name]
		entries = append(entries, entry{name, []byte(text + "#"), false})
	}
	entries = append(entries, entry{"completions/kubectl_complete-rrpool", []byte("#!/bin/sh\nexec kubectl rrpool __complete \"$@\"\n"), true})
	seal(t, dir, entries)
	return dir
}

// licences are those of what is linked into this program.
func licences(t *testing.T) string {
	t.Helper()
	built, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	return "\n" + strings.Repeat("=", 72) + "\n" + strings.Join(notices.Linked(built), "\n") + "\n\nPermission is granted\n"
}

// seal packs entries, and writes what belongs to the archive.
func seal(t *testing.T, dir string, entries []entry) {
	t.Helper()
	path := filepath.Join(dir, host.archive(testRelease))
	require.NoError(t, pack(path, time.Unix(1e9, 0), entries))
	for _, e := range entries {
		if e.name == host.program() {
			require.NoError(t, os.WriteFile(path+sbomSuffix, list(t, e.content), 0o600))
		}
	}
	for _, overlay := range overlays {
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName(overlay)), []byte("      - name: manager\n        image: a.example/rrpool-manager:v1.2.3\n"), 0o600))
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	about := building{root: root, source: source{version: testRelease, at: time.Unix(1e9, 0)}}
	require.NoError(t, chart(about, options{out: dir, image: "a.example/rrpool-manager"}))
	require.NoError(t, writePlugin(dir, testRelease, []target{host}))
	require.NoError(t, writeSums(dir))
}

// list is an SBOM of a program.
func list(t *testing.T, program []byte) []byte {
	t.Helper()
	built, err := buildinfo.Read(bytes.NewReader(program))
	require.NoError(t, err)
	components := []map[string]any{{"name": "std", "version": strings.TrimPrefix(built.GoVersion, "go")}}
	for _, m := range built.Deps {
		components = append(components, map[string]any{"name": m.Path, "version": m.Version})
	}
	sum := sha256.Sum256(program)
	content, err := json.Marshal(map[string]any{
		"bomFormat": "CycloneDX", "components": components,
		"metadata": map[string]any{"component": map[string]any{"name": "rrpool", "version": testRelease, "hashes": []any{map[string]any{"alg": "SHA-256", "content": hex.EncodeToString(sum[:])}}}},
	})
	require.NoError(t, err)
	return content
}

func TestAReleaseThatIsWhole(t *testing.T) {
	dir := whole(t)
	var out strings.Builder
	require.NoError(t, check(t.Context(), dir, page, &out))
	require.Contains(t, out.String(), "checked: 6 files have their sums; 1 archives")
	require.Contains(t, out.String(), "used: kubectl rrpool says its version")
	if _, err := exec.LookPath("sha256sum"); err == nil { // what users have
		cmd := exec.Command("sha256sum", "--check", "--strict", sumsFile)
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, string(said))
	}
}

// Negative controls: whatever is wrong with a release is seen, and named.
func TestAReleaseThatIsNotWholeIsSeen(t *testing.T) {
	archive := host.archive(testRelease)
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"a byte of the archive": {func(t *testing.T, dir string) {
			t.Helper()
			edit(t, filepath.Join(dir, archive), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}, archive + " has the sum"},
		"a byte of the manifests": {func(t *testing.T, dir string) {
			t.Helper()
			edit(t, filepath.Join(dir, "install-iks.yaml"), func(b []byte) []byte { b[0]++; return b })
		}, "install-iks.yaml has the sum"},
		"a file that is gone": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, pluginFile)))
		}, pluginFile},
		"a file that nobody knows": {func(t *testing.T, dir string) { t.Helper(); change(t, dir, "more", []byte("x"), false) }, "more has no sum"},
		"no sums":                  {func(t *testing.T, dir string) { t.Helper(); change(t, dir, sumsFile, nil, false) }, "no sum is there"},
		"an SBOM without a module": {func(t *testing.T, dir string) {
			t.Helper()
			edit(t, filepath.Join(dir, archive+sbomSuffix), func(b []byte) []byte {
				return bytes.Replace(b, []byte("sigs.k8s.io/yaml"), []byte("sigs.k8s.io/other"), 1)
			})
			require.NoError(t, writeSums(dir))
		}, "the SBOM lacks sigs.k8s.io/yaml"},
		"an SBOM of another program": {func(t *testing.T, dir string) {
			t.Helper()
			edit(t, filepath.Join(dir, archive+sbomSuffix), func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"content":"`), []byte(`"content":"0`), 1)
			})
			require.NoError(t, writeSums(dir))
		}, "not about this program"},
		"a sum for krew that is none": {func(t *testing.T, dir string) {
			t.Helper()
			edit(t, filepath.Join(dir, pluginFile), func(b []byte) []byte { return bytes.Replace(b, []byte("sha256: "), []byte("sha256: f"), 1) })
			require.NoError(t, writeSums(dir))
		}, "krew would refuse rrpool.yaml"},
		"a sum for krew that is another": {func(t *testing.T, dir string) {
			t.Helper()
			sum, err := digest(filepath.Join(dir, archive))
			require.NoError(t, err)
			edit(t, filepath.Join(dir, pluginFile), func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(sum), []byte(strings.Repeat("ab", 32))) })
			require.NoError(t, writeSums(dir))
		}, "the manifest for krew has the sum abab"},
		"a manager of another version": {func(t *testing.T, dir string) {
			t.Helper()
			change(t, dir, "install-kind.yaml", []byte("        image: a.example/rrpool-manager:v1.2.4\n"), true)
		}, "install-kind.yaml does not start the manager v1.2.3"},
		"a chart of another version": {func(t *testing.T, dir string) {
			t.Helper()
			other := building{root: filepath.Join("..", "..", ".."), source: source{version: "v1.2.4"}}
			require.NoError(t, chart(other, options{out: dir, image: "a.example/rrpool-manager"}))
			require.NoError(t, os.Rename(filepath.Join(dir, chartFile("v1.2.4")), filepath.Join(dir, chartFile(testRelease))))
			require.NoError(t, writeSums(dir))
		}, "rrpool-1.2.3.tgz is of"},
		"a chart with an image that nobody publishes": {func(t *testing.T, dir string) {
			t.Helper()
			own := building{root: filepath.Join("..", "..", ".."), source: source{version: testRelease}}
			require.NoError(t, chart(own, options{out: dir, image: "rrpool-manager"}))
			require.NoError(t, writeSums(dir))
		}, "rrpool-1.2.3.tgz starts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := whole(t)
			tc.spoil(t, dir)
			require.ErrorContains(t, check(t.Context(), dir, page, &strings.Builder{}), tc.says)
		})
	}
}

// Negative controls: an archive is opened, and its program is run.
func TestAnArchiveThatIsNotWholeIsSeen(t *testing.T) {
	without := func(name string) func([]entry) []entry {
		return func(in []entry) []entry {
			var out []entry
			for _, e := range in {
				if e.name != name {
					out = append(out, e)
				}
			}
			return out
		}
	}
	with := func(name string, to func(*entry)) func([]entry) []entry {
		return func(in []entry) []entry {
			for i := range in {
				if in[i].name == name {
					to(&in[i])
				}
			}
			return in
		}
	}
	for name, tc := range map[string]struct {
		spoil func([]entry) []entry
		says  string
	}{
		"no licence":                      {without("LICENSE"), "LICENSE is not in it"},
		"no notices":                      {without("NOTICES.txt"), "NOTICES.txt is not in it"},
		"a module without its licence":    {with("NOTICES.txt", func(e *entry) { e.content = bytes.Replace(e.content, []byte("sigs.k8s.io/yaml"), []byte("other"), 1) }), "NOTICES.txt has nothing of sigs.k8s.io/yaml"},
		"no manual":                       {without("man/rrpool.1"), "man/rrpool.1 is not in it"},
		"a program that cannot be run":    {with("rrpool", func(e *entry) { e.program = false }), "rrpool cannot be executed"},
		"a completion that bash refuses":  {with("completions/rrpool.bash", func(e *entry) { e.content = []byte("complete (\n") }), "bash completes"},
		"a completion for something else": {with("completions/rrpool.bash", func(e *entry) { e.content = []byte("complete -F _x pool\n") }), "bash completes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := whole(t)
			inside, err := unpack(filepath.Join(dir, host.archive(testRelease)))
			require.NoError(t, err)
			var entries []entry
			for _, e := range inside {
				entries = append(entries, e)
			}
			seal(t, dir, tc.spoil(entries))
			require.ErrorContains(t, check(t.Context(), dir, page, &strings.Builder{}), tc.says)
		})
	}
}

// A program that was stamped with another version, and one for another platform.
func TestAProgramThatIsNotTheOneIsSeen(t *testing.T) {
	dir := whole(t)
	p, err := readPlugin(dir)
	require.NoError(t, err)
	p.Spec.Version = "v1.2.4"
	_, err = use(t.Context(), dir, page, p)
	require.ErrorContains(t, err, `rrpool says its version: it says "rrpool v1.2.3 (go)`)

	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	path := filepath.Join(dir, host.archive(testRelease)) + sbomSuffix
	require.NoError(t, checkProgram(content, host, path, testRelease, licences(t)))
	require.ErrorContains(t, checkProgram(content, target{"plan9", host.arch}, path, testRelease, licences(t)), "the program has GOOS="+host.os)
}

func edit(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := how(bytes.Clone(content))
	require.NotEqual(t, content, changed, "nothing was spoiled")
	require.NoError(t, os.WriteFile(path, changed, 0o600))
}

// change writes a file into a release; summed: its sum is right.
func change(t *testing.T, dir, name string, content []byte, summed bool) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	if summed {
		require.NoError(t, writeSums(dir))
	}
}

// Negative controls: the page is followed to the letter.
func TestAPageThatDoesNotWorkIsSeen(t *testing.T) {
	dir := whole(t)
	p, err := readPlugin(dir)
	require.NoError(t, err)
	said, err := use(t.Context(), dir, page, p)
	require.NoError(t, err)
	require.Contains(t, said, "used: all 4 blocks of install-cli.md that can be run here")
	for name, tc := range map[string]struct{ was, becomes, says string }{
		"another name for the archive":  {`tar -xzf "rrpool_`, `tar -xzf "rr_`, "rr_1.2.3"},
		"a file that is not in it":      {"cp completions/rrpool.bash", "cp completions/bash", "completions/bash"},
		"a manual where man looks not":  {".local/share/man", ".local/man1", "man rrpool"},
		"the program where nobody does": {"install -m 0755 rrpool ~/.local/bin/rrpool", "install -m 0755 rrpool ~/rrpool", "rrpool version"},
		"a version that nobody chooses": {"version=v0.1.0", "release=v0.1.0", "does not say version="},
	} {
		if _, err := exec.LookPath("man"); err != nil && tc.says == "man rrpool" {
			continue
		}
		spoilt := filepath.Join(t.TempDir(), "install-cli.md")
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(content), tc.was)
		require.NoError(t, os.WriteFile(spoilt, []byte(strings.ReplaceAll(string(content), tc.was, tc.becomes)), 0o600))
		_, err = use(t.Context(), dir, spoilt, p)
		require.ErrorContains(t, err, tc.says, name)
	}
}
