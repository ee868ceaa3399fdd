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

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// Where the code spells the types of conditions and the names of steps, and the reasons that it does not take from package reason.
var (
	spelled = map[string][]string{
		"../../config/api/v1alpha1": {`Condition\w+ += "(\w+)"`},
		".":                         {`Step\w+ += "(\w+)"`},
		"../plan/rollout":           {`Name: +"([A-Z]\w+)"`, `\bawait(?:TakeOver)?\([^"\n]*"([A-Z]\w+)"`, `\b(?:do|ensure)\("(\w+)"`, `(?:Steady|UnsupportedCluster|ForgetMesh|RemoveStrayLabel|AwaitMeshOwner|InvalidSpec) += "(\w+)"`},
	}
	literal = map[string][]string{
		"../../cloud":     {`Kind = "(\w+)"`},
		"../plan/rollout": {`plan\.Problem(?:If|f)\([^"\n]*"([A-Z]\w+)"`},
	}
)

func TestEveryConditionReasonAndStepIsExplained(t *testing.T) {
	content, err := os.ReadFile("../../docs/runbook/conditions.md")
	require.NoError(t, err)
	page, want, grave := string(content), words(t, spelled), []string(nil)
	for _, of := range reason.All() {
		want = append(want, of.Name)
		if of.Severity != reason.State {
			grave = append(grave, of.Name)
			_, section, _ := strings.Cut(page, "\n### "+of.Name+"\n")
			_, do, _ := strings.Cut(section, "- **Do:** ")
			require.Equal(t, of.Remedy, plain(do)[:len(of.Remedy)], "the section of %s begins with the remedy of the table", of.Name)
		}
	}
	require.Empty(t, unexplained(page, want, grave))
	for _, name := range words(t, literal) {
		require.NotEmpty(t, reason.Of(name).Severity, "%s is in the table of reasons", name)
	}
}

// The alerts name the reasons of the provider's problems by one expression.
func TestTheAlertsKnowTheReasonsOfTheProvider(t *testing.T) {
	rules, err := os.ReadFile("../../config/monitoring/rules.yaml")
	require.NoError(t, err)
	found := regexp.MustCompile(`reason[!=]~"([^"]+)"`).FindAllSubmatch(rules, -1)
	require.Greater(t, len(found), 3)
	for _, match := range found {
		expression := regexp.MustCompile("^(" + string(match[1]) + ")$")
		for _, of := range reason.All() {
			require.Equal(t, of.Severity == reason.Provider, expression.MatchString(of.Name), "%s in %s", of.Name, expression)
		}
	}
}

// plain is Markdown without its marks, in one line.
func plain(text string) string {
	text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}

// Negative control: what is missing from the page, or not of the code, is found.
func TestAPageThatLacksAnythingIsFound(t *testing.T) {
	const (
		row     = "| <a id=\"steady\"></a>Steady | this | that | nothing |\n"
		section = "\n### StepFailed\n\n- **Routing:** safe.\n- **Means:** this,\n  and that.\n- **Do:** nothing.\n"
	)
	explained := []string{"Steady", "StepFailed"}
	require.Empty(t, unexplained(row+section, explained, explained[1:]))
	for page, want := range map[string]string{
		section:             "Steady is explained 0 times",
		row + row + section: "Steady is explained 2 times",
		strings.Replace(row, "that", "", 1) + section:                                          "Steady is explained 0 times",
		strings.Replace(row, "=\"steady", "=\"study", 1) + section:                             "Steady is explained 0 times",
		row + strings.Replace(section, "**Do:**", "", 1):                                       "StepFailed is explained 0 times",
		row + strings.NewReplacer("steady", "stepfailed", "Steady", "StepFailed").Replace(row): "StepFailed is explained 0 times",
		row + section + strings.Replace(section, "StepFailed", "Other", 1):                     "Other is no word of the code",
	} {
		require.Equal(t, []string{want}, unexplained(page, explained, explained[1:]), page)
	}
}

var (
	tableRow = regexp.MustCompile(`(?m)^\| <a id="(\w+)"></a>(\w+) \|(?:[^|\n]*[^|\s][^|\n]*\|){3}$`)
	heading  = regexp.MustCompile(`(?s)^(\w+)\n(?:.*\n)?- \*\*Routing:\*\* .*\n- \*\*Means:\*\* .*\n- \*\*Do:\*\* `)
)

// unexplained is what a page lacks for these words. Each has a row of a table, without an empty cell and with its
// anchor, or a section of its own, which those that a person may have to solve need.
func unexplained(page string, want, grave []string) (out []string) {
	times := map[string]int{}
	for _, name := range want {
		times[name] = 0
	}
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		if strings.HasSuffix(plan.Page(row[2]), "#"+row[1]) && !slices.Contains(grave, row[2]) {
			times[row[2]]++
		}
	}
	for _, part := range strings.Split(page, "\n### ")[1:] {
		if m := heading.FindStringSubmatch(part); m != nil {
			times[m[1]]++
		}
	}
	for name, n := range times {
		if !slices.Contains(want, name) {
			out = append(out, name+" is no word of the code")
		} else if n != 1 {
			out = append(out, fmt.Sprintf("%s is explained %d times", name, n))
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
			files, err := filepath.Glob(filepath.Join(folder, "*.go"))
			require.NoError(t, err)
			var found []string
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(content, -1) {
					found = append(found, string(match[1]))
				}
			}
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
