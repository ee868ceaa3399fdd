package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what a binary is made of as CycloneDX JSON: the same for the same
// binary, so without a date or a serial number.
func writeSBOM(out, binary string, l linked) error {
	sum, err := digest(binary)
	if err != nil {
		return err
	}
	root := cyclonedx.Component{
		BOMRef: l.main, Type: cyclonedx.ComponentTypeApplication, Name: path.Base(l.main), Version: l.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}},
	}
	var components []cyclonedx.Component
	var refs []string
	for _, m := range l.modules {
		ref := "pkg:golang/" + m.path + "@" + m.version
		c := cyclonedx.Component{BOMRef: ref, Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: ref}
		var licences cyclonedx.Licenses
		for _, name := range m.licences {
			licences = append(licences, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: name}})
		}
		c.Licenses = &licences
		if m.sum != "" { // of go.sum; it is no hash of a file
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.sum}}
		}
		components, refs = append(components, c), append(refs, ref)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: l.main, Dependencies: &refs}}
	file, err := os.Create(out) //nolint:gosec // G304: beside the binary
	if err != nil {
		return fmt.Errorf("writing the SBOM of %q: %w", binary, err)
	}
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the SBOM of %q: %w", binary, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing the SBOM of %q: %w", binary, err)
	}
	return nil
}

// digest is the SHA-256 of a file.
func digest(name string) (string, error) {
	content, err := os.ReadFile(name) //nolint:gosec // G304: a binary of ours
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
