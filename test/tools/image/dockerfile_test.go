package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// ofRepository is a file at the top of the repository.
func ofRepository(t *testing.T, name string) string {
	t.Helper()
	return string(must2(os.ReadFile(filepath.Join("..", "..", "..", name)))(t))
}

// judge reads a Dockerfile as BuildKit does, and holds it against what this program does.
func judge(dockerfile, goMod string, files map[string]file) error {
	parsed, err := parser.Parse(strings.NewReader(dockerfile))
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	var faults []error
	for _, w := range parsed.Warnings {
		faults = append(faults, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		faults = append(faults, fmt.Errorf("%s: %s", rule, message))
	}})
	stages, args, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	if len(stages) != 2 {
		return fmt.Errorf("%d stages, not one that builds and one that runs", len(stages))
	}
	faults = append(faults, judgeBases(stages, args, goMod), judgeBuild(stages[0]), judgeFiles(stages[1], files), judgeImage(stages[1]))
	return errors.Join(faults...)
}

// pin is a digest as a variable has it.
var pin = regexp.MustCompile(`^@sha256:[0-9a-f]{64}$`)

// judgeBases: both images can be given by arguments, and are pinned; Go is go.mod's.
func judgeBases(stages []instructions.Stage, args []instructions.ArgCommand, goMod string) error {
	value := map[string]string{}
	for _, command := range args {
		for _, a := range command.Args {
			value[a.Key] = a.ValueString()
		}
	}
	var faults []error
	for i, want := range []string{"${GO_IMAGE}${GO_DIGEST}", "${BASE_IMAGE}${BASE_DIGEST}"} {
		if stages[i].BaseName != want {
			faults = append(faults, fmt.Errorf("stage %d is from %s, not from %s", i, stages[i].BaseName, want))
		}
	}
	for _, name := range []string{"GO_DIGEST", "BASE_DIGEST"} {
		if !pin.MatchString(value[name]) {
			faults = append(faults, fmt.Errorf("%s is %q, which is no digest", name, value[name]))
		}
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(goMod)
	if len(version) != 2 || value["GO_IMAGE"] != "golang:"+version[1] {
		faults = append(faults, fmt.Errorf("GO_IMAGE is %q, go.mod says %v", value["GO_IMAGE"], version))
	}
	if stages[0].Platform != "$BUILDPLATFORM" {
		faults = append(faults, errors.New("the compiler would be emulated: the first stage must be for $BUILDPLATFORM"))
	}
	return errors.Join(faults...)
}

// judgeBuild: the same sources, built by the same line; and the licences of what is linked,
// collected by the same line, too.
func judgeBuild(stage instructions.Stage) error {
	var copied, lines []string
	for _, command := range stage.Commands {
		switch c := command.(type) {
		case *instructions.CopyCommand:
			copied = append(copied, c.SourcePaths...)
		case *instructions.RunCommand:
			lines = append(lines, strings.Join(c.CmdLine, " "))
		}
	}
	collector := accounting("", "")[1]
	if want := slices.Sorted(slices.Values(append([]string{collector}, sources...))); !slices.Equal(slices.Sorted(slices.Values(copied)), want) {
		return fmt.Errorf("built of %v, and not of %v", copied, want)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "GOOS=${TARGETOS} GOARCH=${TARGETARCH} ") || !strings.HasSuffix(lines[0], " -o /out/manager ./cmd/manager") {
		return fmt.Errorf("%q: not a line that builds for the target, and one that collects the licences", lines)
	}
	if want := "go " + strings.Join(accounting("/src", "/out/manager"), " "); lines[1] != want {
		return fmt.Errorf("%q is run, and not %q", lines[1], want)
	}
	return sameBuild("-buildvcs=false " + lines[0])
}

// sameBuild holds a line against our own: static, the same flags, the same stamps.
func sameBuild(line string) error {
	own := strings.Join(arguments(stamp{}), " ")
	var faults []error
	for _, word := range append(meaning(own), "CGO_ENABLED=0") {
		if !slices.Contains(meaning(line), word) {
			faults = append(faults, fmt.Errorf("%q lacks %s", line, word))
		}
	}
	for _, word := range meaning(line) {
		if !slices.Contains(append(meaning(own), "CGO_ENABLED=0"), word) {
			faults = append(faults, fmt.Errorf("%q has %s, which the image's line has not", line, word))
		}
	}
	return errors.Join(faults...)
}

// part is what makes a difference to the binary: flags, settings, and what is stamped.
var part = regexp.MustCompile(`(^|[\s'"])(-s|-w|-trimpath|-race|-tags\S*|-gcflags\S*|-asmflags\S*|-mod\S*|-ldflags|-buildvcs=\S+|CGO_ENABLED=\d|-X\s+[\w./-]+)`)

func meaning(line string) []string {
	var out []string
	for { // matches share the space between them
		found := part.FindStringSubmatchIndex(line)
		if found == nil {
			slices.Sort(out)
			return slices.Compact(out)
		}
		out = append(out, strings.Join(strings.Fields(line[found[4]:found[5]]), " "))
		line = line[found[5]:]
	}
}

// judgeFiles: in the image is what this program puts there, and as it does.
func judgeFiles(stage instructions.Stage, files map[string]file) error {
	from := map[string]string{"manager": "build:/out/manager", "licenses/NOTICES.txt": "build:" + noticesOf("/out/manager"), "licenses/LICENSE": "LICENSE"}
	var got, want []string
	for name, f := range files {
		mode := "0444"
		if f.executable {
			mode = "0555"
		}
		want = append(want, from[name]+" as /"+name+", "+mode)
	}
	for _, command := range stage.Commands {
		if c, ok := command.(*instructions.CopyCommand); ok {
			source := strings.Join(c.SourcePaths, " ")
			if c.From != "" {
				source = c.From + ":" + source
			}
			got = append(got, source+" as "+c.DestPath+", "+c.Chmod)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("it has %q, and not %q", got, want)
	}
	return nil
}

// judgeImage: it runs and is labelled as what this program makes.
func judgeImage(stage instructions.Stage) error {
	made, err := madeConfig()
	if err != nil {
		return err
	}
	var got v1.Config
	got.Labels = map[string]string{}
	for _, command := range stage.Commands {
		switch c := command.(type) {
		case *instructions.LabelCommand:
			for _, l := range c.Labels {
				got.Labels[strings.Trim(l.Key, `"`)] = l.Value
			}
		case *instructions.UserCommand:
			got.User = c.User
		case *instructions.EntrypointCommand:
			got.Entrypoint = c.CmdLine
		case *instructions.RunCommand:
			return errors.New("something is run in the last stage, which has no shell, and may be for another machine")
		}
	}
	want := made.Config
	if !maps.EqualFunc(got.Labels, want.Labels, func(string, string) bool { return true }) {
		return fmt.Errorf("labels %v, not %v", got.Labels, want.Labels)
	}
	if got.User != want.User || !slices.Equal(got.Entrypoint, want.Entrypoint) {
		return fmt.Errorf("runs %q as %q, not %q as %q", got.Entrypoint, got.User, want.Entrypoint, want.User)
	}
	return nil
}

// The Dockerfile is one that BuildKit understands without a warning, and makes what this
// program makes. Where it does not, that is seen.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	dockerfile, goMod := ofRepository(t, "Dockerfile"), ofRepository(t, "go.mod")
	files := must2(filesOf(program(t, "program")))(t)
	if err := judge(dockerfile, goMod, files); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"a word that is none":     {"ENTRYPOINT", "ENTRYPIONT"},
		"a warning":               {" AS build", " as build"},
		"root":                    {"USER 65532:65532", "USER 0:0"},
		"no user":                 {"USER 65532:65532\n", ""},
		"another program":         {`ENTRYPOINT ["/manager"]`, `ENTRYPOINT ["/bin/sh"]`},
		"a label less":            {"org.opencontainers.image.revision", "revision"},
		"a flag less":             {"-trimpath ", ""},
		"a flag more":             {"-trimpath ", "-trimpath -race "},
		"not static":              {"CGO_ENABLED=0 ", ""},
		"a stamp less":            {"-X github.com/rrpool/rrpool/cmd/version.commit=${COMMIT} ", ""},
		"a stamp of another name": {"version.release=", "version.version="},
		"for this machine only":   {"GOARCH=${TARGETARCH} ", ""},
		"emulated":                {"--platform=$BUILDPLATFORM ", ""},
		"a source less":           {"COPY controllers controllers\n", ""}, //nolint:dupword // from and to
		"everything there is":     {"COPY go.mod go.sum ./", "COPY . ."},
		"no collector":            {"COPY test/tools/supply test/tools/supply\n", ""}, //nolint:dupword // from and to
		"licences of another":     {"-notices /out/manager\n", "-notices /out/rrpool\n"},
		"licences not collected":  {" -notices /out/manager\n", " /out/manager\n"},
		"licences not taken":      {"COPY --chmod=0444 --from=build /out/manager.notices.txt /licenses/NOTICES.txt\n", ""},
		"licences elsewhere":      {"/licenses/NOTICES.txt", "/NOTICES.txt"},
		"no licence of our own":   {"COPY --chmod=0444 LICENSE /licenses/LICENSE\n", ""},
		"licences to be changed":  {"--chmod=0444 LICENSE", "--chmod=0666 LICENSE"},
		"another Go":              {"GO_IMAGE=golang:1.", "GO_IMAGE=golang:0."},
		"a digest made of words":  {"GO_DIGEST=@sha256:", "GO_DIGEST=@sha256:latest"},
		"no pin":                  {"${BASE_IMAGE}${BASE_DIGEST}", "${BASE_IMAGE}"},
	} {
		changed := strings.Replace(dockerfile, change[0], change[1], 1)
		if changed == dockerfile {
			t.Errorf("%s: %q is not in the Dockerfile", name, change[0])
		} else if judge(changed, goMod, files) == nil {
			t.Errorf("%s was not seen", name)
		}
	}
}

// makeBuild is the line that make build runs, its variables put in.
func makeBuild(makefile string) string {
	makefile = strings.ReplaceAll(makefile, "\\\n", " ")
	line := regexp.MustCompile(`(?m)^build:.*\n\t(.*)$`).FindStringSubmatch(makefile)
	if line == nil {
		return ""
	}
	return os.Expand(line[1], func(name string) string {
		value := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(strings.Trim(name, "()")) + ` *[:?]?= *(.*)$`).FindStringSubmatch(makefile)
		if value == nil {
			return ""
		}
		return value[1]
	})
}

// make build makes the same binary.
func TestTheMakefileBuildsTheSame(t *testing.T) {
	makefile := ofRepository(t, "Makefile")
	if !strings.Contains(makefile, "-buildvcs=false") {
		t.Error("GOFLAGS of the Makefile lack -buildvcs=false")
	}
	parens := regexp.MustCompile(`\$\((\w+)\)`)
	line := "-buildvcs=false " + makeBuild(parens.ReplaceAllString(makefile, "$${$1}"))
	if err := sameBuild(line); err != nil {
		t.Error(err)
	}
	if sameBuild(strings.Replace(line, "-trimpath", "", 1)) == nil || sameBuild(line+" -race") == nil {
		t.Error("a difference is not seen")
	}
}

// ignored tells whether a file is kept from a daemon.
func ignored(t *testing.T, rules, path string) bool {
	t.Helper()
	patterns := must2(ignorefile.ReadAll(bytes.NewBufferString(rules)))(t)
	return must2(must2(patternmatcher.New(patterns))(t).MatchesOrParentMatches(path))(t)
}

// A daemon gets what the Dockerfile copies, and nothing else.
func TestADaemonGetsTheSourcesOnly(t *testing.T) {
	rules := ofRepository(t, ".dockerignore")
	for path, want := range map[string]bool{
		"go.mod": false, "go.sum": false, "LICENSE": false, "cmd/manager/main.go": false, "config/api/v1alpha1/doc.go": false,
		"bin/manager": true, ".git/HEAD": true, ".ci/run": true, "test/lab/lab.go": true, "test/tools/supply/go.mod": false, "test/tools/supply/main.go": false, "test/tools/image/main.go": true, "docs/image.md": true,
		"apikey": true, "config/overlays/iks/secret/apikey": true, "cmd/manager/main_test.go": true,
	} {
		if ignored(t, rules, path) != want {
			t.Errorf("%s: ignored %v", path, !want)
		}
	}
	for _, source := range sources {
		if ignored(t, rules, source) {
			t.Errorf("%s is kept from the daemon", source)
		}
	}
	if ignored(t, "", "bin/manager") {
		t.Error("without rules, all is sent: this test would see nothing")
	}
}
