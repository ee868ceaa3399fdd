package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartFile is a version's chart for Helm, which wants versions without a v.
func chartFile(release string) string { return "rrpool-" + strings.TrimPrefix(release, "v") + ".tgz" }

// chart packs config/chart as helm package does, with the version and the image of the
// release in it, but so that the same commit gives the same bytes.
func chart(b building, o options) error {
	dir := filepath.Join(b.root, "config", "chart")
	set := map[string]map[string]string{
		"Chart.yaml":  {"version": strings.TrimPrefix(b.source.version, "v"), "appVersion": b.source.version},
		"values.yaml": {"  repository": o.image},
	}
	var entries []entry
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))) //nolint:gosec // G304: of the sources
		if err != nil {
			return err
		}
		for key, value := range set[name] {
			line := regexp.MustCompile(`(?m)^` + key + `: .*$`)
			if n := len(line.FindAll(content, -1)); n != 1 {
				return fmt.Errorf("%s has %q %d times", name, strings.TrimSpace(key), n)
			}
			content = line.ReplaceAll(content, []byte(key+": "+value))
		}
		entries = append(entries, entry{path.Join("rrpool", name), content, false})
		return nil
	})
	if err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	return pack(filepath.Join(o.out, chartFile(b.source.version)), b.source.at, entries)
}

// checkChart: the chart is of the release, and so is the manager that it starts.
func checkChart(dir, release string) error {
	inside, err := unpack(filepath.Join(dir, chartFile(release)))
	if err != nil {
		return err
	}
	var about struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal(inside["rrpool/Chart.yaml"].content, &about); err != nil {
		return fmt.Errorf("%s: reading Chart.yaml: %w", chartFile(release), err)
	}
	var values struct {
		Image struct{ Repository, Tag string }
	}
	if err := yaml.Unmarshal(inside["rrpool/values.yaml"].content, &values); err != nil {
		return fmt.Errorf("%s: reading values.yaml: %w", chartFile(release), err)
	}
	if about.Name != "rrpool" || "v"+about.Version != release || about.AppVersion != release {
		return fmt.Errorf("%s is of %+v", chartFile(release), about)
	}
	if !strings.Contains(values.Image.Repository, "/") || values.Image.Tag != "" {
		return fmt.Errorf("%s starts %+v, and not the manager of the release", chartFile(release), values.Image)
	}
	return nil
}
