package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var (
	noon  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	s390x = v1.Platform{OS: "linux", Architecture: "s390x"}
	ours  = stamp{version: "v1.2.3", revision: "0123abcd", created: noon}
)

func must[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// program is a folder with a licence, and a manager of these bytes with its notices.
func program(t *testing.T, content string) (root, binary string) {
	t.Helper()
	root = t.TempDir()
	binary = filepath.Join(root, "manager")
	for path, content := range map[string]string{filepath.Join(root, "LICENSE"): "free", binary: content, noticesOf(binary): "free, too"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, binary
}

// archive makes one for these platforms, and gives its path and what was told.
func archive(t *testing.T, content, base string, s stamp, platforms ...v1.Platform) (path, said string) {
	t.Helper()
	from := must2(openBase(t.Context(), base, s.created))(t)
	defer from.close()
	root, binary := program(t, content)
	var images []platformImage
	for _, p := range platforms {
		images = append(images, platformImage{p, must2(assemble(root, binary, p, from, s))(t)})
	}
	path = filepath.Join(t.TempDir(), "new", "image.tar")
	said = must2(write(path, "rrpool-manager:"+s.tag(), images, s.created))(t)
	return path, said
}

// must2 lets a call with two results be an argument.
func must2[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		return must(t, value, err)
	}
}

// opened is the index in an archive, the one that has all platforms.
func opened(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	dir := must2(unpackLayout(path))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	index := must2(layout.ImageIndexFromPath(dir))(t)
	manifest := must2(index.IndexManifest())(t)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images at the top, where readers expect one", len(manifest.Manifests))
	}
	return must2(index.ImageIndex(manifest.Manifests[0].Digest))(t)
}

// The same source gives the same bytes, and nothing else does.
func TestTheSameSourceGivesTheSameArchive(t *testing.T) {
	bytesOf := func(content string, s stamp) []byte {
		path, _ := archive(t, content, "", s, amd64, s390x)
		return must2(os.ReadFile(path))(t)
	}
	first := bytesOf("program", ours)
	if !bytes.Equal(first, bytesOf("program", ours)) {
		t.Error("the same twice is not the same")
	}
	later, other := ours, ours
	later.created, other.revision = noon.Add(time.Second), "4567"
	for name, second := range map[string][]byte{
		"another program": bytesOf("Program", ours), "another time": bytesOf("program", later), "another revision": bytesOf("program", other),
	} {
		if bytes.Equal(first, second) {
			t.Errorf("%s gives the same bytes: this test would see nothing", name)
		}
	}
}

// What is in the archive is a valid image for each platform, runs as nobody in particular,
// and says what it is.
func TestAnArchiveHasAValidImageForEachPlatform(t *testing.T) {
	path, said := archive(t, "program", "", ours, amd64, s390x)
	index := opened(t, path)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	digest := must2(index.Digest())(t)
	if !strings.Contains(said, "rrpool-manager:v1.2.3 "+digest.String()+"\n") || !strings.Contains(said, "linux/s390x sha256:") {
		t.Errorf("says %s", said)
	}
	manifest := must2(index.IndexManifest())(t)
	for i, want := range []v1.Platform{amd64, s390x} {
		d := manifest.Manifests[i]
		if !d.Platform.Equals(want) || d.ArtifactType != "" {
			t.Errorf("%+v is not just an image for %s", d, want.String())
		}
		config := must2(must2(index.Image(d.Digest))(t).ConfigFile())(t)
		if config.Architecture != want.Architecture || !config.Created.Equal(noon) {
			t.Errorf("%+v", config)
		}
		if got := config.Config; fmt.Sprintln(got.User, got.Entrypoint, got.Labels["org.opencontainers.image.version"]) != "65532:65532 [/manager] v1.2.3\n" {
			t.Errorf("%+v", got)
		}
	}
}

// A registry takes the archive and gives the same back; docker load's own format, beside
// it, has this machine's image.
func TestARegistryGivesBackWhatItWasGiven(t *testing.T) {
	path, _ := archive(t, "program", "", ours, amd64, s390x)
	index := opened(t, path)
	to := must2(name.ParseReference(host(t) + "/rrpool-manager:v1.2.3"))(t)
	if err := remote.WriteIndex(to, index); err != nil {
		t.Fatal(err)
	}
	back := must2(remote.Index(to))(t)
	if err := validate.Index(back); err != nil {
		t.Error(err)
	}
	if got, want := must2(back.Digest())(t), must2(index.Digest())(t); got != want {
		t.Errorf("%s came back as %s", want, got)
	}
	tag := must2(name.NewTag("rrpool-manager:v1.2.3"))(t)
	loaded := must2(tarball.ImageFromPath(path, &tag))(t)
	if err := validate.Image(loaded); err != nil {
		t.Error(err)
	}
	if got := must2(loaded.ConfigFile())(t); got.Config.User != "65532:65532" {
		t.Errorf("%+v", got)
	}
}

// host is a registry on loopback.
func host(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A byte that changed on its way is seen.
func TestAnArchiveWithAChangedByteIsNotValid(t *testing.T) {
	path, _ := archive(t, strings.Repeat("program", 1000), "", ours, amd64)
	dir := must2(unpackLayout(path))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := check(dir); err != nil {
		t.Fatal(err)
	}
	blobs := must2(filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*")))(t)
	for _, blob := range blobs {
		content := must2(os.ReadFile(blob))(t)
		content[len(content)/2] ^= 1
		if err := os.WriteFile(blob, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if check(dir) == nil {
			t.Errorf("a bit of %s changed, and nobody saw it", filepath.Base(blob))
		}
		content[len(content)/2] ^= 1
		if err := os.WriteFile(blob, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// check holds a layout against its digests: each blob has that of its name. The validator
// takes some of what a layout says of itself for granted.
func check(dir string) error {
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		if err != nil {
			return err
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != filepath.Base(blob) {
			return fmt.Errorf("%s has the digest %s", filepath.Base(blob), got)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	return validate.Index(index)
}

// A base is taken from a folder, a file or a registry; the image names it.
func TestAnotherBaseIsTakenWhereverItIs(t *testing.T) {
	theirs := stamp{revision: "base", created: noon}
	file, _ := archive(t, "of the base", "", theirs, amd64, s390x)
	dir := must2(unpackLayout(file))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	to := must2(name.ParseReference(host(t) + "/base:v1"))(t)
	index := opened(t, file)
	if err := remote.WriteIndex(to, index); err != nil {
		t.Fatal(err)
	}
	pinned := to.Context().Digest(must2(index.Digest())(t).String()).String()
	for name, base := range map[string]string{"a folder": dir, "a file": file, "a registry": pinned} {
		t.Run(name, func(t *testing.T) {
			path, _ := archive(t, "program", base, ours, s390x)
			mine := opened(t, path)
			image := must2(mine.Image(must2(mine.IndexManifest())(t).Manifests[0].Digest))(t)
			if err := validate.Image(image); err != nil {
				t.Error(err)
			}
			if layers := must2(image.Layers())(t); len(layers) != 3 {
				t.Errorf("%d layers, not the base's two and one more", len(layers))
			}
			config := must2(image.ConfigFile())(t)
			want := must2(search(index, s390x, new([]string)))(t)
			if got := config.Config.Labels["org.opencontainers.image.base.digest"]; got != must2(want.Digest())(t).String() {
				t.Errorf("it is said to be on %s", got)
			}
			if config.Architecture != "s390x" || config.Config.Labels["org.opencontainers.image.revision"] != "0123abcd" {
				t.Errorf("%+v", config)
			}
		})
	}
	for name, base := range map[string]string{"a tag": to.String(), "nothing": filepath.Join(dir, "none"), "no archive": filepath.Join(dir, "oci-layout")} {
		if _, err := openBase(t.Context(), base, noon); err == nil {
			t.Errorf("%s was taken for a base", name)
		}
	}
}

// A base for another machine, or without certificates, is refused by name.
func TestABaseThatWouldNotDoIsRefused(t *testing.T) {
	path, _ := archive(t, "of the base", "", ours, amd64)
	from := must2(openBase(t.Context(), path, noon))(t)
	defer from.close()
	if _, err := from.of(s390x); err == nil || !strings.Contains(err.Error(), "only for: linux/amd64") {
		t.Errorf("another platform: %v", err)
	}
	for content, says := range map[string]string{"": "no /etc/ssl/certs", "roots": "no certificate in"} {
		files := map[string]file{"etc/passwd": {}}
		if content != "" {
			files[rootsFile] = file{content: []byte(content)}
		}
		image := must2(mutate.AppendLayers(empty.Image, must2(layer(files, noon))(t)))(t)
		if err := hasRoots(image); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	root, binary := program(t, "program")
	from := must2(openBase(t.Context(), "", noon))(t)
	image := must2(assemble(root, binary, amd64, from, ours))(t)
	if err := fits(image, 60); err != nil {
		t.Error(err)
	}
	if err := fits(image, 0.01); err == nil || !strings.Contains(err.Error(), "-limit allows 0.01") {
		t.Error(err)
	}
}

// What is asked for wrongly is refused with the flag and the value.
func TestWrongFlagsAreNamed(t *testing.T) {
	for given, says := range map[string]string{
		"-platforms=windows/amd64":  `"windows/amd64" is no platform`,
		"-platforms=linux":          `"linux" is no platform`,
		"-platforms=linux/amd64,":   `"" is no platform`,
		"manager":                   `unexpected argument "manager"`,
		"-platforms=linux/a/b/c/d5": "is no platform",
	} {
		if _, err := parse([]string{given}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", given, err)
		}
	}
	if o := must2(parse([]string{"-platforms=linux/amd64,linux/s390x", "-root=x"}))(t); len(o.platforms) != 2 || o.output != "x/bin/rrpool-manager-image.tar" {
		t.Errorf("%+v", o)
	}
}

// The time is that of the last commit unless SOURCE_DATE_EPOCH says another.
func TestTheTimeIsThatOfTheCommit(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	s := must2(stampOf(t.Context(), "../../..", ""))(t)
	if s.created.IsZero() || s.tag() != "dev" || len(strings.TrimSuffix(s.revision, "-dirty")) != 40 {
		t.Errorf("%+v", s)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if s := must2(stampOf(t.Context(), "../../..", "v1.2.3"))(t); s.date() != "1970-01-02T00:00:00Z" || s.tag() != "v1.2.3" {
		t.Errorf("%+v", s)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "noon")
	if _, err := stampOf(t.Context(), "../../..", ""); err == nil || !strings.Contains(err.Error(), `"noon"`) {
		t.Error(err)
	}
	if _, err := stampOf(t.Context(), t.TempDir(), ""); err == nil {
		t.Error("there is no commit")
	}
}

// Names as containerd knows them.
func TestShortNamesAreMadeFull(t *testing.T) {
	got := map[string]string{}
	want := map[string]string{
		"rrpool-manager:dev":       "docker.io/library/rrpool-manager:dev",
		"me/rrpool-manager:dev":    "docker.io/me/rrpool-manager:dev",
		"localhost/manager:dev":    "localhost/manager:dev",
		"us.icr.io/me/manager:dev": "us.icr.io/me/manager:dev",
		"registry:5000/manager:v1": "registry:5000/manager:v1",
	}
	for short := range want {
		got[short] = fullName(short)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// No file of a base leads out of the folder that it is unpacked into.
func TestABaseStaysInItsFolder(t *testing.T) {
	dir := t.TempDir()
	root := must2(os.OpenRoot(dir))(t)
	defer func() { _ = root.Close() }()
	err := unpackOne(root, "../outside", strings.NewReader("x"))
	if _, stat := os.Stat(filepath.Join(filepath.Dir(dir), "outside")); err == nil || !errors.Is(stat, os.ErrNotExist) {
		t.Errorf("%v, %v", err, stat)
	}
}

// madeConfig is the configuration of what this program makes.
func madeConfig() (*v1.ConfigFile, error) {
	image, err := configure(empty.Image, empty.Image, amd64, "", ours)
	if err != nil {
		return nil, err
	}
	return image.ConfigFile()
}
