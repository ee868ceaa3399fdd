package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// pluginFile is the manifest for krew, which wants it to be called as the plugin is.
const pluginFile = "rrpool.yaml"

const (
	krewVersion = "krew.googlecontainertools.github.com/v1alpha2"
	home        = "https://github.com/rrpool/rrpool"
)

// plugin is a manifest as krew reads it, see
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type plugin struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   pluginName `json:"metadata"`
	Spec       pluginSpec `json:"spec"`
}

type pluginName struct {
	Name string `json:"name"`
}

type pluginSpec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Files    []move   `json:"files"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// move takes a file of the archive to where it is installed.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

const description = `Takes a Calico cluster from the full BGP mesh to route reflectors and back,
without losing a packet: looks whether the cluster is fit for it, shows what
would happen and what it would cost, starts it and watches it. The work is done
by the manager of rrpool, which the cluster has to run; check, simulate, cost
and plan are useful without it.
`

const caveats = `The cluster has to run the manager of rrpool: ` + home + `.
To begin with: kubectl rrpool check --pre
For completion, put kubectl_complete-rrpool of the archive onto your PATH.
`

// writePlugin writes the manifest, with the sums of the archives that are there.
func writePlugin(dir, release string, targets []target) error {
	p := plugin{
		APIVersion: krewVersion, Kind: "Plugin", Metadata: pluginName{"rrpool"},
		Spec: pluginSpec{
			Version: release, Homepage: home, ShortDescription: "Route reflectors for Calico, without losing a packet",
			Description: description, Caveats: caveats,
		},
	}
	for _, t := range targets {
		sum, err := digest(filepath.Join(dir, t.archive(release)))
		if err != nil {
			return err
		}
		p.Spec.Platforms = append(p.Spec.Platforms, platform{
			Selector: selector{map[string]string{"os": t.os, "arch": t.arch}},
			URI:      home + "/releases/download/" + release + "/" + t.archive(release),
			SHA256:   sum,
			Files:    []move{{t.program(), t.plugin()}, {"LICENSE", "."}, {"NOTICES.txt", "."}},
			Bin:      t.plugin(),
		})
	}
	content, err := yaml.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing the manifest for krew: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, pluginFile), content, 0o644); err != nil { //nolint:gosec // G306: for everybody
		return fmt.Errorf("writing the manifest for krew: %w", err)
	}
	return nil
}

// readPlugin reads a manifest, strictly, and holds it to krew's rules.
func readPlugin(dir string) (plugin, error) {
	var p plugin
	content, err := os.ReadFile(filepath.Join(dir, pluginFile)) //nolint:gosec // G304: of the release
	if err != nil {
		return p, fmt.Errorf("reading the manifest for krew: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, &p); err != nil {
		return p, fmt.Errorf("reading the manifest for krew: %w", err)
	}
	if err := p.validate(); err != nil {
		return p, fmt.Errorf("krew would refuse %s: %w", pluginFile, err)
	}
	return p, nil
}

var (
	safeName = regexp.MustCompile(`^[\w-]+$`)
	shaForm  = regexp.MustCompile(`^[a-f0-9]{64}$`)
	// archiveForm: krew opens these two kinds.
	archiveForm = regexp.MustCompile(`^https://\S+\.(tar\.gz|zip)$`)
)

// validate has the rules that krew documents and its index asks for.
func (p plugin) validate() error {
	var faults []error
	rule := func(kept bool, format string, args ...any) {
		if !kept {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	rule(p.APIVersion == krewVersion, "apiVersion is %q", p.APIVersion)
	rule(p.Kind == "Plugin", "kind is %q", p.Kind)
	rule(p.Metadata.Name+".yaml" == pluginFile && safeName.MatchString(p.Metadata.Name), "metadata.name %q is not that of the file", p.Metadata.Name)
	_, err := version.ParseSemantic(p.Spec.Version)
	rule(err == nil && strings.HasPrefix(p.Spec.Version, "v"), "spec.version %q is no version such as v1.2.3", p.Spec.Version)
	rule(p.Spec.Homepage != "", "spec.homepage is empty")
	short := p.Spec.ShortDescription
	rule(short != "" && len(short) <= 80 && !strings.ContainsAny(short, "\r\n"), "spec.shortDescription %q is not one short line", short)
	rule(len(p.Spec.Platforms) > 0, "spec.platforms is empty")
	for _, one := range p.Spec.Platforms {
		faults = append(faults, one.validate())
	}
	return errors.Join(faults...)
}

func (p platform) validate() error {
	faults := []error{p.Selector.validate()}
	if !archiveForm.MatchString(p.URI) {
		faults = append(faults, errors.New("uri is no address of an archive"))
	}
	if !shaForm.MatchString(p.SHA256) {
		faults = append(faults, fmt.Errorf("sha256 %q is none", p.SHA256))
	}
	for _, m := range p.Files {
		if m.From == "" || m.To == "" || m.To != filepath.Clean(m.To) {
			faults = append(faults, fmt.Errorf("files: %+v", m))
		}
	}
	if !slices.ContainsFunc(p.Files, func(m move) bool { return m.To == p.Bin }) {
		faults = append(faults, fmt.Errorf("bin %q is none of files", p.Bin))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("platform %s: %w", p.URI, err)
	}
	return nil
}

func (s selector) validate() error {
	for key := range s.MatchLabels {
		if key != "os" && key != "arch" {
			return fmt.Errorf("selector: %q is neither os nor arch", key)
		}
	}
	if len(s.MatchLabels) == 0 {
		return errors.New("selector is empty")
	}
	return nil
}

// target of a platform, and the name of its archive.
func (p platform) target() (of target, archive string) {
	return target{p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]}, p.URI[strings.LastIndex(p.URI, "/")+1:]
}
