package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// stageName is a folder in the release while it is being made, and in one that failed.
const stageName = ".stage"

// sbomSuffix is added to the name of an archive.
const sbomSuffix = ".cdx.json"

// assemble makes the release.
func assemble(ctx context.Context, o options, out io.Writer) error {
	src, err := sourceOf(ctx, o.root, o.version)
	if err != nil {
		return err
	}
	if err := empty(o.out); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "release %s of commit %s\n", src.version, src.commit)
	stage := filepath.Join(o.out, stageName)
	b := building{root: filepath.Join(stage, "sources"), stage: stage, tools: filepath.Join(stage, "tools"), source: src}
	if err := errors.Join(copySources(ctx, o.root, b.root), tools(ctx, o.root, b.tools)); err != nil {
		return err
	}
	if err := b.document(ctx); err != nil {
		return err
	}
	for _, t := range o.targets {
		started := time.Now()
		if err := b.compile(ctx, t); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "built %s in %s\n", t, time.Since(started).Round(time.Second))
	}
	if err := b.account(ctx, o.targets); err != nil {
		return err
	}
	for _, t := range o.targets {
		if err := b.archive(o.out, t); err != nil {
			return err
		}
	}
	if err := again(ctx, b, o.targets[0], filepath.Join(o.out, o.targets[0].archive(src.version))); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s: built and packed twice, in two folders: the same bytes\n", o.targets[0])
	return errors.Join(
		manifests(ctx, b, o),
		chart(b, o),
		writePlugin(o.out, src.version, o.targets),
		os.RemoveAll(b.stage),
		writeSums(o.out),
	)
}

// archive packs what was built for a target, with its SBOM beside it.
func (b building) archive(dir string, t target) error {
	entries, err := b.entries(t)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, t.archive(b.source.version))
	if err := pack(path, b.source.at, entries); err != nil {
		return err
	}
	content, err := os.ReadFile(b.program(t) + sbomSuffix)
	if err != nil {
		return fmt.Errorf("reading the SBOM: %w", err)
	}
	if err := os.WriteFile(path+sbomSuffix, content, 0o644); err != nil { //nolint:gosec // G306: for everybody
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	return nil
}

// empty makes a folder for a release. It takes away an earlier release, and nothing else.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking into the folder for the release: %w", err)
	}
	ours := len(entries) == 0
	for _, e := range entries {
		ours = ours || e.Name() == sumsFile || e.Name() == stageName
	}
	if !ours {
		return fmt.Errorf("-out: %q has something else than a release in it: name another folder", dir)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, stageName), 0o755)); err != nil { //nolint:gosec // G301: for everybody
		return fmt.Errorf("emptying the folder for the release: %w", err)
	}
	return nil
}

// again makes a target's archive a second time, from a copy of the sources that is
// somewhere else. It has to be the same.
func again(ctx context.Context, b building, t target, first string) error {
	top, err := os.MkdirTemp("", "rrpool-release-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(top) }()
	other := building{root: filepath.Join(top, "sources"), stage: filepath.Join(top, "stage"), tools: b.tools, source: b.source}
	if err := copySources(ctx, b.root, other.root); err != nil {
		return err
	}
	if err := errors.Join(other.document(ctx), other.compile(ctx, t), other.account(ctx, []target{t})); err != nil {
		return fmt.Errorf("making %s again: %w", t, err)
	}
	if err := other.archive(top, t); err != nil {
		return err
	}
	return same(first, filepath.Join(top, filepath.Base(first)))
}

// same compares two archives and their SBOMs.
func same(first, second string) error {
	for _, suffix := range []string{"", sbomSuffix} {
		one, err := digest(first + suffix)
		if err != nil {
			return err
		}
		two, err := digest(second + suffix)
		if err != nil {
			return err
		}
		if one != two {
			return fmt.Errorf("%s is not reproducible: made again from the same sources it has other bytes (%s and %s)", filepath.Base(first)+suffix, one, two)
		}
	}
	return nil
}
