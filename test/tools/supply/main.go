// Command supply says what is linked into binaries: under which licences, in a CycloneDX
// SBOM beside each of them, with -notices in a file with the texts of the licences, and
// whether the same sources give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", "../../..", "folder of the main module")
	flag.StringVar(&o.version, "version", "", "version that the SBOM gives to what is built of the main module; default: what Go wrote into the binary")
	flag.BoolVar(&o.notices, "notices", false, "write the texts of the licences beside each binary, too")
	flag.Parse()
	if err := run(context.Background(), o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	root, version string
	notices       bool
}

func run(ctx context.Context, o options, args []string) error {
	if len(args) == 1 && args[0] == "reproduce" {
		return reproduce(ctx, o.root)
	}
	if len(args) > 1 && args[0] == "vulnerabilities" {
		return vulnerabilities(ctx, o.root, args[1:])
	}
	if len(args) == 0 {
		return errors.New("name the binaries, or reproduce, or vulnerabilities and the binaries")
	}
	judge, err := newJudge()
	if err != nil {
		return err
	}
	for _, binary := range args {
		if err := inspect(ctx, o, binary, judge); err != nil {
			return err
		}
	}
	return nil
}

// inspect judges what is in a binary, and writes its SBOM.
func inspect(ctx context.Context, o options, binary string, judge *judge) error {
	linked, err := modulesIn(binary)
	if err != nil {
		return err
	}
	packages, err := packagesOf(ctx, o.root, linked)
	if err != nil {
		return err
	}
	if err := sameModules(linked, packages); err != nil {
		return fmt.Errorf("%s is not what its sources say: %w", binary, err)
	}
	told, err := judge.all(linked, packages)
	if err != nil {
		return fmt.Errorf("licences in %s:\n%w", binary, err)
	}
	if o.version != "" {
		linked.version = o.version
	}
	if o.notices {
		if err := writeNotices(binary+".notices.txt", packages); err != nil {
			return err
		}
	}
	out := binary + ".cdx.json"
	if err := writeSBOM(out, binary, linked); err != nil {
		return err
	}
	fmt.Printf("%s: %d modules; licences: %s; SBOM: %s\n", filepath.Base(binary), len(linked.modules), told, filepath.Base(out))
	return nil
}

// all judges the modules of a binary, notes their licences, and counts these in words.
func (j *judge) all(l linked, packages map[string]source) (string, error) {
	var faults []error
	count := map[string]int{}
	for i := range l.modules {
		m := &l.modules[i]
		var fault error
		m.licences, fault = j.module(packages[m.path])
		if fault != nil {
			faults = append(faults, fmt.Errorf("module %s: %w", m.path, fault))
		}
		for _, name := range m.licences {
			count[name]++
		}
	}
	var told []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		told = append(told, fmt.Sprintf("%s %d", name, count[name]))
	}
	return strings.Join(told, ", "), errors.Join(faults...)
}
