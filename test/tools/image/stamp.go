package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// sources are what the manager is built of; the Dockerfile copies the same.
var sources = []string{"go.mod", "go.sum", "cloud", "cmd", "config", "controllers"}

// stamp says which source an image is of.
type stamp struct {
	version  string // of the release, may be empty
	revision string // ends with -dirty when the sources were changed after it
	created  time.Time
}

// stampOf takes the time from SOURCE_DATE_EPOCH or from the last commit, so that the same
// source gives the same image whenever it is built.
func stampOf(ctx context.Context, root, version string) (stamp, error) {
	s := stamp{version: version}
	commit, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, fmt.Errorf("reading the last commit, which gives the image its revision and its time: %w", err)
	}
	revision, seconds, _ := strings.Cut(commit, " ")
	changed, err := git(ctx, root, append([]string{"status", "--porcelain", "--"}, sources...)...)
	if err != nil {
		return s, fmt.Errorf("looking for changes since the last commit: %w", err)
	}
	if s.revision = revision; changed != "" {
		s.revision += "-dirty"
	}
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		seconds = given
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", seconds)
	}
	s.created = time.Unix(epoch, 0).UTC()
	return s, nil
}

// tag is what the image is called in the archive.
func (s stamp) tag() string {
	if s.version == "" {
		return "dev"
	}
	return s.version
}

func (s stamp) date() string { return s.created.Format(time.RFC3339) }

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output() //nolint:gosec // G204: our own arguments
	return strings.TrimSpace(string(out)), err
}
