package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// sources are what the command line is built of.
var sources = []string{"go.mod", "go.sum", "cloud", "cmd", "config", "controllers"}

// source is what a release is made of.
type source struct {
	version string // v1.2.3
	commit  string // ends with -dirty when the sources were changed after it
	at      time.Time
}

// plain is a version that is also a name of files and the tag of an image: those have no
// plus sign.
var plain = regexp.MustCompile(`^v[0-9A-Za-z.-]+$`)

// sourceOf reads the last commit, which is there in a shallow clone too. Where the version
// is not given, it is one as Go makes for a commit without a tag.
func sourceOf(ctx context.Context, root, given string) (source, error) {
	said, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, fmt.Errorf("reading the last commit, of which the release is made: %w", err)
	}
	hash, seconds, _ := strings.Cut(said, " ")
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("reading the time of the last commit: %w", err)
	}
	changed, err := git(ctx, root, append([]string{"status", "--porcelain", "--"}, sources...)...)
	if err != nil {
		return source{}, fmt.Errorf("looking for changes since the last commit: %w", err)
	}
	s := source{version: given, commit: hash, at: time.Unix(epoch, 0).UTC()}
	dirty := ""
	if changed != "" {
		dirty = "-dirty"
		s.commit += dirty
	}
	if given == "" {
		s.version = "v0.0.0-" + s.at.Format("20060102150405") + "-" + hash[:12] + dirty
		return s, nil
	}
	if _, err := version.ParseSemantic(given); err != nil || !plain.MatchString(given) {
		return s, fmt.Errorf("-version: %q is no version: use for example v1.2.3 or v1.3.0-rc.1", given)
	}
	return s, nil
}

// date is the commit's, as the programs tell it.
func (s source) date() string { return s.at.Format(time.RFC3339) }

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output() //nolint:gosec // G204: our own arguments
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
