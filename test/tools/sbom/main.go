// Command sbom writes a list of what is linked into programs beside each of them, as CycloneDX JSON: the same for the
// same program, so without a date or a serial number.
//
//	sbom [-version v1.2.3] program...
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
)

type object = map[string]any

func main() {
	version := flag.String("version", "", "version of the programs; default: what Go wrote into them")
	flag.Parse()
	for _, program := range flag.Args() {
		if err := write(program, *version); err != nil {
			fmt.Fprintln(os.Stderr, "sbom:", err)
			os.Exit(1)
		}
	}
}

func write(program, version string) error {
	content, err := os.ReadFile(program) //nolint:gosec // G304: named on the command line
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what is linked into %q: %w", program, err)
	}
	if version == "" {
		version = built.Main.Version
	}
	components := []object{component("std", strings.TrimPrefix(built.GoVersion, "go"), "")}
	for _, m := range built.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m.Path, m.Version, m.Sum))
	}
	var linked []any
	for _, c := range components {
		linked = append(linked, c["bom-ref"])
	}
	sum := sha256.Sum256(content)
	out, err := json.MarshalIndent(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": object{"component": object{
			"bom-ref": built.Path, "type": "application", "name": path.Base(built.Path), "version": version,
			"hashes": []object{{"alg": "SHA-256", "content": hex.EncodeToString(sum[:])}},
		}},
		"components":   components,
		"dependencies": []object{{"ref": built.Path, "dependsOn": linked}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the SBOM of %q: %w", program, err)
	}
	return os.WriteFile(program+".cdx.json", append(out, '\n'), 0o644) //nolint:gosec // G306: it is published
}

// component is a module; sum is that of go.sum, which is no hash of a file.
func component(name, version, sum string) object {
	url := "pkg:golang/" + name + "@" + version
	c := object{"bom-ref": url, "type": "library", "name": name, "version": version, "purl": url}
	if sum != "" {
		c["properties"] = []object{{"name": "go:sum", "value": sum}}
	}
	return c
}
