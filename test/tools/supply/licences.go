package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences under which something may be linked in: those that ask for no
// more than a notice, and MPL-2.0, which covers its own files only.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD", "Unlicense", "CC0-1.0", "Zlib", "MPL-2.0"}

// licenceFile is what a file with a licence is called.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)

// least is the confidence below which a licence is not known.
const least = 0.9

// judge tells licences by their texts.
type judge struct {
	texts *classifier.Classifier
	known map[string][]string // by file
}

func newJudge() (*judge, error) {
	texts, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("reading the texts of licences: %w", err)
	}
	return &judge{texts: texts, known: map[string][]string{}}, nil
}

// module gives the licences of what is linked of a module: that of the module, and those
// in the folders of packages, which may have come from elsewhere. Something under no
// licence, or under one that is not allowed, is an error.
func (j *judge) module(s source) ([]string, error) {
	var out []string
	var faults []error
	for _, folder := range s.folders() {
		found, err := j.folder(folder)
		if err != nil {
			faults = append(faults, err)
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 && len(faults) == 0 {
		return j.headers(s)
	}
	return out, errors.Join(faults...)
}

// headers are the licences that the files of a module are under by their own words, where
// it has no file with one. Each of them must say so.
func (j *judge) headers(s source) ([]string, error) {
	var out []string
	for _, dir := range s.packages {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("looking for licences: %w", err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			names, err := j.header(file)
			if err != nil {
				return nil, fmt.Errorf("no licence in %s: %w", s.dir, err)
			}
			out = append(out, names...)
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, fmt.Errorf("no licence in %s", s.dir)
	}
	return out, nil
}

func (j *judge) header(file string) ([]string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // G304: of the module cache
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", file, err)
	}
	found, err := j.texts.MatchFrom(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("telling the licence of %q: %w", file, err)
	}
	for _, m := range found.Matches {
		if m.MatchType == "Header" && m.Confidence >= least && slices.Contains(allowed, m.Name) {
			return []string{m.Name}, nil
		}
	}
	return nil, fmt.Errorf("%s says of none that is allowed", filepath.Base(file))
}

func (j *judge) folder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for a licence: %w", err)
	}
	var out []string
	var faults []error
	for _, e := range entries {
		// Code may be about licences; a licence is no code.
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		names, err := j.file(filepath.Join(dir, e.Name()))
		if err != nil {
			faults = append(faults, err)
		}
		out = append(out, names...)
	}
	return out, errors.Join(faults...)
}

func (j *judge) file(path string) ([]string, error) {
	names, known := j.known[path]
	if !known {
		content, err := os.ReadFile(path) //nolint:gosec // G304: of the module cache
		if err != nil {
			return nil, fmt.Errorf("reading a licence: %w", err)
		}
		if names, err = j.names(content); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		j.known[path] = names
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			return names, fmt.Errorf("%s is %s, which is none of %s", path, name, strings.Join(allowed, ", "))
		}
	}
	return names, nil
}

// names are the licences that a text has.
func (j *judge) names(content []byte) ([]string, error) {
	found, err := j.texts.MatchFrom(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("telling a licence: %w", err)
	}
	var out []string
	for _, m := range found.Matches {
		if m.MatchType == "License" && m.Confidence >= least {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, errors.New("a licence that is not known")
	}
	return out, nil
}
