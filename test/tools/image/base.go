package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsFile is the first of the files in which Go looks for the roots of certificates.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// nonroot is who the manager is unless the cluster says otherwise, as in distroless images.
const nonroot = "65532"

// bases are images to build on, one for each platform.
type bases struct {
	index    v1.ImageIndex // nil: made here
	name     string
	made     v1.Image
	unpacked string // a folder to be removed
}

func (b bases) close() {
	if b.unpacked != "" {
		_ = os.RemoveAll(b.unpacked)
	}
}

// openBase finds the base: a folder or a tar with an OCI layout, or an image of a
// registry. Without one, a base is made that is the same for all platforms.
func openBase(ctx context.Context, given string, at time.Time) (bases, error) {
	if given == "" {
		made, err := makeBase(at)
		return bases{made: made}, err
	}
	b := bases{name: given}
	info, err := os.Stat(given)
	switch {
	case err == nil && info.IsDir():
		b.index, err = layout.ImageIndexFromPath(given)
	case err == nil:
		if b.unpacked, err = unpackLayout(given); err == nil {
			b.index, err = layout.ImageIndexFromPath(b.unpacked)
		}
	case strings.Contains(given, "@"):
		b.index, err = pull(ctx, given)
	default:
		err = errors.New("it is no folder and no file; an image of a registry is named by its digest: name@sha256:<digest>")
	}
	if err != nil {
		b.close()
		return bases{}, fmt.Errorf("opening the base image %q: %w", given, err)
	}
	return b, nil
}

func pull(ctx context.Context, given string) (v1.ImageIndex, error) {
	digest, err := name.NewDigest(given)
	if err != nil {
		return nil, err
	}
	found, err := remote.Get(digest, remote.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if found.MediaType.IsIndex() {
		return found.ImageIndex()
	}
	image, err := found.Image()
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image}), nil
}

// of gives the base for one platform.
func (b bases) of(platform v1.Platform) (v1.Image, error) {
	if b.index == nil {
		return b.made, nil
	}
	var others []string
	found, err := search(b.index, platform, &others)
	if err == nil && found == nil {
		err = fmt.Errorf("it has no image for this platform, only for: %s", strings.Join(others, ", "))
	}
	if err == nil {
		err = hasRoots(found)
	}
	if err != nil {
		return nil, fmt.Errorf("base image %q: %w", b.name, err)
	}
	return found, nil
}

// search looks through an index, and the indexes in it. What is passed over goes to others.
func search(index v1.ImageIndex, platform v1.Platform, others *[]string) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Manifests {
		if d.MediaType.IsIndex() {
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if found, err := search(inner, platform, others); found != nil || err != nil {
				return found, err
			}
		}
		if !d.MediaType.IsImage() {
			continue
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		is, err := platformOf(image)
		if err != nil {
			return nil, err
		}
		if is.Satisfies(platform) {
			return image, nil
		}
		*others = append(*others, is.String())
	}
	return nil, nil
}

// platformOf believes the image, not the index: not every index says.
func platformOf(image v1.Image) (v1.Platform, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return v1.Platform{}, err
	}
	return *config.Platform(), nil
}

// makeBase makes what a static program needs of a system: names for its user, and roots of
// certificates. No registry is asked. The roots are Mozilla's as the Go project publishes
// them, in a module with a checksum: they do not depend on the machine that builds.
func makeBase(at time.Time) (v1.Image, error) {
	made, err := layer(map[string]file{
		"etc/passwd": {content: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":" + nonroot + ":nonroot:/:/sbin/nologin\n")},
		"etc/group":  {content: []byte("root:x:0:\nnonroot:x:" + nonroot + ":\n")},
		rootsFile:    {content: roots()},
	}, at)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(image, mutate.Addendum{Layer: made, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "users and certificates"}})
}

// roots are those that may be trusted without a condition: a file cannot say "only what
// was issued before that day".
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}
