package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// overlays become install-iks.yaml and install-kind.yaml.
var overlays = []string{"iks", "kind"}

// manifests renders each overlay with the image of the release.
func manifests(ctx context.Context, b building, o options) error {
	said, err := exec.CommandContext(ctx, "go", "-C", filepath.Join(o.root, "test", "tools", "kustomize"), "tool", "-n", "kustomize").Output() //nolint:gosec // G204: our own tool
	if err != nil {
		return fmt.Errorf("building kustomize: %w", err)
	}
	var faults []error
	for _, overlay := range overlays {
		if err := b.manifest(ctx, strings.TrimSpace(string(said)), overlay, o); err != nil {
			faults = append(faults, fmt.Errorf("rendering overlay %s: %w", overlay, err))
		}
	}
	return errors.Join(faults...)
}

func (b building) manifest(ctx context.Context, kustomize, overlay string, o options) error {
	dir := filepath.Join(b.stage, "manifests", overlay)
	base, err := filepath.Rel(dir, filepath.Join(b.root, "config", "overlays", overlay))
	if err != nil {
		return err
	}
	type image struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	}
	kustomization, err := yaml.Marshal(struct {
		Resources []string `json:"resources"`
		Images    []image  `json:"images"`
	}{[]string{filepath.ToSlash(base)}, []image{{"rrpool-manager", o.image, b.source.version}}})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), kustomization, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, kustomize, "build", dir) //nolint:gosec // G204: the tool that we built
	var complaint strings.Builder
	cmd.Stderr = &complaint
	content, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, complaint.String())
	}
	head := "# rrpool " + b.source.version + ", from config/overlays/" + overlay + ": kubectl apply --server-side -f " + manifestName(overlay) + "\n"
	return os.WriteFile(filepath.Join(o.out, manifestName(overlay)), append([]byte(head), content...), 0o644) //nolint:gosec // G306: for everybody
}

func manifestName(overlay string) string { return "install-" + overlay + ".yaml" }
