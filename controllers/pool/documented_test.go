package pool_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Where the code spells the words that end up as a condition's type or reason, or as a
// step's name. troubles are those that may want a person.
var (
	spelled = map[string][]string{
		"../../config/api/v1alpha1": {`Condition\w+ += "(\w+)"`},
		".": {
			`condition\(kind, metav1\.Condition\w+, "(\w+)"`, `reason, message := "(\w+)"`, `Step\w+ += "(\w+)"`,
			`rollout\.Step\{Name: "(\w+)"`,
		},
		"../plan/rollout": {`Name: +"([A-Z]\w+)"`, `\.step\("(\w+)"`, `(?:Steady|Refused) += "(\w+)"`},
	}
	troubles = map[string][]string{
		"../../cloud":      {`Kind = "(\w+)"`},
		".":                {`Reason\w+ += "(\w+)"`},
		"../calico":        {`Reason\w+ += "(\w+)"`},
		"../plan/topology": {`Reason\w+ += "(\w+)"`},
		"../plan/rollout":  {`Problem\{Reason: "(\w+)"`},
	}
)

func TestEveryConditionReasonAndStepHasItsPage(t *testing.T) {
	grave := words(t, troubles)
	require.Empty(t, wrong(t, os.DirFS("../../docs"), slices.Concat(words(t, spelled), grave), grave))
}

// Negative control: a runbook that lacks anything is caught.
func TestARunbookThatLacksAnythingIsCaught(t *testing.T) {
	const good = "# NAME\n\n**Is routing safe now?** Yes.\n\n- **Means:** This.\n- **Meanwhile:** Nothing.\n- **Do:** Nothing.\n"
	page := func(name, text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "NAME", name))}
	}
	index := &fstest.MapFile{Data: []byte("- [Steady](Steady.md): x\n- [StepFailed](StepFailed.md): x\n- [RRPoolAlert](RRPoolAlert.md): x\n")}
	whole := fstest.MapFS{
		"runbook/README.md": index, "runbook/Steady.md": page("Steady", good), "runbook/StepFailed.md": page("StepFailed", good),
		"runbook/RRPoolAlert.md": page("RRPoolAlert", "anything"),
	}
	look := func(docs fs.FS) []string {
		return wrong(t, docs, []string{"Steady", "StepFailed"}, []string{"StepFailed"})
	}
	require.Empty(t, look(whole))
	for want, file := range map[string]fstest.MapFS{
		"Steady has no page":                     {"runbook/Steady.md": nil},
		"Other is no word of the code":           {"runbook/Other.md": page("Other", good)},
		"Steady is not its own heading":          {"runbook/Steady.md": page("Other", good)},
		"StepFailed does not say **Do:**":        {"runbook/StepFailed.md": page("StepFailed", strings.Replace(good, "**Do:**", "", 1))},
		"StepFailed does not say whether":        {"runbook/StepFailed.md": page("StepFailed", strings.Replace(good, "safe", "fine", 1))},
		"RRPoolAlert is in the index 0 times":    {"runbook/README.md": page("", "[Steady](Steady.md) [StepFailed](StepFailed.md)")},
		"the index has Other, which has no page": {"runbook/README.md": page("", string(index.Data)+"[Other](Other.md)")},
		"StepFailed is in the index 2 times":     {"runbook/README.md": page("", string(index.Data)+"[StepFailed](StepFailed.md)")},
	} {
		broken := maps.Clone(whole)
		maps.Copy(broken, file)
		maps.DeleteFunc(broken, func(_ string, f *fstest.MapFile) bool { return f == nil })
		require.Contains(t, strings.Join(look(broken), "\n"), want)
	}
}

// wrong is what the runbook below docs lacks for these words. Pages of alerts, which begin
// with RRPool, are only looked for in the index.
func wrong(t *testing.T, docs fs.FS, want, grave []string) []string {
	t.Helper()
	out := wrongIndex(t, docs, want)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(want))) {
		content, err := fs.ReadFile(docs, plan.Page(name))
		if err != nil {
			out = append(out, name+" has no page")
			continue
		}
		out = append(out, wrongPage(name, string(content), slices.Contains(grave, name))...)
	}
	return out
}

// wrongIndex holds the index to the pages, and the pages to the words.
func wrongIndex(t *testing.T, docs fs.FS, want []string) []string {
	t.Helper()
	index, err := fs.ReadFile(docs, "runbook/README.md")
	require.NoError(t, err)
	pages, err := fs.Glob(docs, "runbook/*.md")
	require.NoError(t, err)
	var out []string
	indexed := map[string]int{}
	for _, match := range regexp.MustCompile(`\]\((\w+)\.md\)`).FindAllSubmatch(index, -1) {
		name := string(match[1])
		indexed[name]++
		if !slices.Contains(pages, plan.Page(name)) {
			out = append(out, "the index has "+name+", which has no page")
		}
	}
	for _, file := range pages {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" {
			continue
		}
		if indexed[name] != 1 {
			out = append(out, fmt.Sprintf("%s is in the index %d times", name, indexed[name]))
		}
		if !slices.Contains(want, name) && !strings.HasPrefix(name, "RRPool") {
			out = append(out, name+" is no word of the code")
		}
	}
	return out
}

func wrongPage(name, text string, grave bool) []string {
	var out []string
	text, ok := strings.CutPrefix(text, "# "+name+"\n\n")
	if !ok {
		out = append(out, name+" is not its own heading")
	}
	if grave && !strings.HasPrefix(text, "**Is routing safe now?** ") {
		out = append(out, name+" does not say whether routing is safe in its first line")
	}
	for _, part := range []string{"**Means:** ", "**Meanwhile:** ", "**Do:** "} {
		if strings.Count("\n"+text, "\n- "+part) != 1 {
			out = append(out, name+" does not say "+part)
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
