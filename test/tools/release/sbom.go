package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rrpool/rrpool/test/notices"
)

// sbom is what is read of a CycloneDX file.
type sbom struct {
	Format   string `json:"bomFormat"`
	Metadata struct {
		Component struct {
			Name, Version string
			Hashes        []struct{ Alg, Content string }
		}
	}
	Components []struct {
		Name, Version string
	}
}

// checkProgram: a program is of its target, and its SBOM lists what the linker says is in
// it, no more and no less. The licences of all that are with it.
func checkProgram(content []byte, t target, path, release, licences string) error {
	built, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading what is in the program: %w", err)
	}
	want := map[string]string{"GOOS": t.os, "GOARCH": t.arch}
	for _, s := range built.Settings {
		if value, known := want[s.Key]; known && s.Value != value {
			return fmt.Errorf("the program has %s=%s", s.Key, s.Value)
		}
	}
	listed, err := readSBOM(path, content, release)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range listed.Components {
		names = append(names, c.Name+" "+c.Version)
	}
	return errors.Join(sameList(notices.Linked(built), names), notices.Check(built, licences))
}

// readSBOM reads an SBOM, which has to be about this very program.
func readSBOM(path string, program []byte, release string) (sbom, error) {
	var listed sbom
	raw, err := os.ReadFile(path) //nolint:gosec // G304: of the release
	if err != nil {
		return listed, fmt.Errorf("reading the SBOM: %w", err)
	}
	if err := json.Unmarshal(raw, &listed); err != nil {
		return listed, fmt.Errorf("reading the SBOM: %w", err)
	}
	sum := sha256.Sum256(program)
	about := listed.Metadata.Component
	if listed.Format != "CycloneDX" || about.Version != release || len(about.Hashes) != 1 || about.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		return listed, fmt.Errorf("the SBOM is about %s %s %v, and not about this program", about.Name, about.Version, about.Hashes)
	}
	return listed, nil
}

// sameList names what is linked and not listed, and the reverse.
func sameList(linked, listed []string) error {
	var faults []error
	for _, name := range linked {
		if !slices.Contains(listed, name) {
			faults = append(faults, fmt.Errorf("the SBOM lacks %s, which is linked", name))
		}
	}
	for _, name := range listed {
		if !slices.Contains(linked, name) {
			faults = append(faults, fmt.Errorf("the SBOM has %s, which is not linked", name))
		}
	}
	return errors.Join(faults...)
}
