package pool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the code spells the words that end up as a condition's type or reason, or as a
// step's name. problems are those that a person may have to solve.
var (
	spelled = map[string][]string{
		"../../config/api/v1alpha1": {`Condition\w+ += "(\w+)"`},
		".": {
			`condition\(metav1\.Condition\w+, "(\w+)"`, `reason, message := "(\w+)"`, `Step\w+ += "(\w+)"`,
			`rollout\.Step\{\s*Name: "(\w+)"`,
		},
		"../plan/rollout": {`Name: +"([A-Z]\w+)"`, `\.step\("(\w+)"`, `\bdo\("(\w+)"`, `(?:Steady|UnsupportedCluster) += "(\w+)"`},
	}
	problems = map[string][]string{
		"../../cloud":      {`Kind = "(\w+)"`},
		".":                {`Reason\w+ += "(\w+)"`},
		"../calico":        {`Reason\w+ += "(\w+)"`},
		"../plan/topology": {`Reason\w+ += "(\w+)"`},
		"../plan/rollout":  {`Problem\{Reason: "(\w+)"`},
	}
)

func TestEveryConditionReasonAndStepIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook/conditions.md")
	require.NoError(t, err)
	grave := words(t, problems)
	require.Empty(t, unexplained(string(page), slices.Concat(words(t, spelled), grave), grave))
}

// Negative control: what is missing from the page, or not of the code, is found.
func TestAPageThatLacksAnythingIsFound(t *testing.T) {
	const (
		row     = "| <a id=\"steady\"></a>Steady | this | that | nothing |\n"
		section = "\n### StepFailed\n\n- **Routing:** safe.\n- **Means:** this,\n  and that.\n- **Do:** nothing.\n"
	)
	explained := []string{"Steady", "StepFailed"}
	require.Empty(t, unexplained(row+section, explained, explained[1:]))
	for want, page := range map[string]string{
		"Steady is explained 0 times":          section,
		"Steady is explained 2 times":          row + row + section,
		"Steady has an empty cell":             strings.Replace(row, "that", "", 1) + section,
		"Steady has another anchor":            strings.Replace(row, "=\"steady", "=\"study", 1) + section,
		"StepFailed does not say **Do:**":      row + strings.Replace(section, "**Do:**", "", 1),
		"StepFailed does not say **Routing:**": row + strings.Replace(section, "**Routing:**", "", 1),
		"StepFailed has no section":            row + strings.NewReplacer("steady", "stepfailed", "Steady", "StepFailed").Replace(row),
		"Other is no word of the code":         row + section + strings.Replace(section, "StepFailed", "Other", 1),
	} {
		require.Contains(t, strings.Join(unexplained(page, explained, explained[1:]), "\n"), want)
	}
}

var (
	tableRow = regexp.MustCompile(`(?m)^\| <a id="(\w+)"></a>(\w+) \|(.*)\|$`)
	heading  = regexp.MustCompile(`(?m)^### (\w+)$`)
)

// unexplained is what a page lacks for these words. Each has a row of a table, or a section
// of its own, which those that a person may have to solve need.
func unexplained(page string, want, grave []string) []string {
	times := map[string]int{}
	out := append(faultyRows(page, grave, times), faultySections(page, times)...)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(want))) {
		if times[name] != 1 {
			out = append(out, fmt.Sprintf("%s is explained %d times", name, times[name]))
		}
	}
	for name := range times {
		if !slices.Contains(want, name) {
			out = append(out, name+" is no word of the code")
		}
	}
	return out
}

// faultyRows counts the names in the tables, and says what is wrong with a row.
func faultyRows(page string, grave []string, times map[string]int) []string {
	var out []string
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		name := row[2]
		times[name]++
		if anchor := strings.ToLower(name); row[1] != anchor {
			out = append(out, name+" has another anchor, "+row[1])
		}
		cells := strings.Split(row[3], "|")
		if len(cells) != 3 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			out = append(out, name+" has an empty cell, or not four")
		}
		if slices.Contains(grave, name) {
			out = append(out, name+" has no section of its own")
		}
	}
	return out
}

// faultySections counts the names with a section, and says what a section lacks.
func faultySections(page string, times map[string]int) []string {
	var out []string
	sections := heading.FindAllStringSubmatchIndex(page, -1)
	for i, at := range sections {
		name, end := page[at[2]:at[3]], len(page)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		times[name]++
		for _, part := range []string{"**Routing:** ", "**Means:** ", "**Do:** "} {
			if strings.Count(page[at[1]:end], "\n- "+part) != 1 {
				out = append(out, name+" does not say "+part)
			}
		}
	}
	return out
}

// words are those that the patterns find, each of which must find some.
func words(t *testing.T, patterns map[string][]string) []string {
	t.Helper()
	var out []string
	for folder, all := range patterns {
		for _, pattern := range all {
			found := find(t, folder, regexp.MustCompile(pattern))
			require.NotEmpty(t, found, "%s finds nothing in %s", pattern, folder)
			for _, word := range found {
				if folder == "../../cloud" {
					word = "Cloud" + word
				}
				if word != "CloudConflict" { // has a reason of its own
					out = append(out, word)
				}
			}
		}
	}
	return out
}

func find(t *testing.T, folder string, pattern *regexp.Regexp) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range pattern.FindAllSubmatch(content, -1) {
			out = append(out, string(match[1]))
		}
	}
	return out
}
