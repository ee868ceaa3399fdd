package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// assemble puts the manager on its base.
func assemble(root, binary string, platform v1.Platform, from bases, s stamp) (v1.Image, error) {
	base, err := from.of(platform)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(root, binary)
	if err != nil {
		return nil, err
	}
	own, err := layer(files, s.created)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(base, mutate.Addendum{Layer: own, History: v1.History{Created: v1.Time{Time: s.created}, CreatedBy: "manager"}})
	if err != nil {
		return nil, fmt.Errorf("adding the manager: %w", err)
	}
	if image, err = configure(image, base, platform, from.name, s); err != nil {
		return nil, err
	}
	return image, nil
}

// filesOf are what goes onto the base: the manager, and the licences of it and of what is
// linked into it. The Dockerfile copies the same.
func filesOf(root, binary string) (map[string]file, error) {
	out := map[string]file{}
	for name, f := range map[string]struct {
		path       string
		executable bool
	}{
		"manager":              {binary, true},
		"licenses/LICENSE":     {filepath.Join(root, "LICENSE"), false},
		"licenses/NOTICES.txt": {noticesOf(binary), false},
	} {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return nil, fmt.Errorf("reading what becomes /%s: %w", name, err)
		}
		out[name] = file{content: content, executable: f.executable}
	}
	return out, nil
}

// fits refuses an image that is larger than allowed, compressed.
func fits(image v1.Image, limit float64) error {
	size, err := compressed(image)
	if err == nil && megabytes(size) > limit {
		err = fmt.Errorf("it has %.1f MB compressed, and -limit allows %g: find out what has grown", megabytes(size), limit)
	}
	return err
}

// configure says how the image runs, and what it is. The Dockerfile says the same.
func configure(image, base v1.Image, platform v1.Platform, baseName string, s stamp) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: s.created}
	config.Config.User = nonroot + ":" + nonroot
	config.Config.Entrypoint, config.Config.Cmd = []string{"/manager"}, nil
	config.Config.WorkingDir = "/"
	labels := map[string]string{}
	maps.Copy(labels, config.Config.Labels)
	maps.Copy(labels, map[string]string{
		"org.opencontainers.image.title":    "rrpool manager",
		"org.opencontainers.image.source":   "https://github.com/rrpool/rrpool",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  s.tag(),
		"org.opencontainers.image.revision": s.revision,
		"org.opencontainers.image.created":  s.date(),
	})
	if baseName != "" {
		digest, err := base.Digest()
		if err != nil {
			return nil, fmt.Errorf("reading the base's digest: %w", err)
		}
		labels["org.opencontainers.image.base.digest"] = digest.String()
	}
	config.Config.Labels = labels
	return mutate.ConfigFile(image, config)
}

// compressed is what is pulled: the layers, the configuration and the manifest.
func compressed(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, fmt.Errorf("reading the manifest: %w", err)
	}
	size, err := image.Size()
	if err != nil {
		return 0, fmt.Errorf("reading the manifest's size: %w", err)
	}
	size += manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	return size, nil
}

func megabytes(size int64) float64 { return float64(size) / 1e6 }
