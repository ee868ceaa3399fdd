package monitoring_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// promtoolVariable names Prometheus' promtool; test/tools/prometheus builds it.
const promtoolVariable = "RRPOOL_PROMTOOL"

func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv(promtoolVariable)
	if program == "" {
		t.Skipf("%s names no promtool: make monitoring builds it", promtoolVariable)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	return string(out), err
}

func TestPrometheusTakesTheRules(t *testing.T) {
	out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", manifest+"rules.yaml")
	require.NoError(t, err, out)
	_, err = promtool(t, "check", "rules", manifest+"service.yaml")
	require.Error(t, err, "the check checks")
}

func TestEachUnitTestOfAnAlertPasses(t *testing.T) {
	for _, name := range names(t, manifest+"tests/*.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := promtool(t, "test", "rules", manifest+"tests/"+name+".yaml")
			require.NoError(t, err, out)
		})
	}
}

// Whatever is changed in an alert, its unit test notices. The others are left out, and what
// the test expects of them: that is another test's business, and costs minutes.
func TestEachUnitTestNoticesWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of promtool: make alerts without -short")
	}
	for _, rule := range ruleFile(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			t.Parallel()
			var unnoticed []string
			for what, broken := range mutants(t, rule) {
				if testWith(t, []monitoringv1.Rule{broken}, rule.Alert, only(t, rule.Alert)) == nil {
					unnoticed = append(unnoticed, what)
				}
			}
			require.Empty(t, unnoticed, "%s: its unit test does not notice what is changed", rule.Alert)
			require.NoError(t, testWith(t, []monitoringv1.Rule{rule}, rule.Alert, only(t, rule.Alert)), "negative control: nothing is changed")
		})
	}
}

// Ordinary operation fires no alert because alerts wait, and not because nothing happens.
func TestPeaceIsNotQuietWithoutWaits(t *testing.T) {
	require.NoError(t, testWith(t, ruleFile(t), "quiet", unitTest(t, "quiet")))
	for i := range ruleFile(t) {
		rules := ruleFile(t)
		switch rules[i].Alert {
		case "RRPoolRedundancyReduced", "RRPoolSessionsMissing", "RRPoolNoLeader", "RRPoolTargetDown", "RRPoolDegraded", "RRPoolRoutingUnsafe", "RRPoolNodesUnserved":
			rules[i].For = nil
			require.Error(t, testWith(t, rules, "quiet", unitTest(t, "quiet")), "%s does not wait", rules[i].Alert)
		}
	}
}

func unitTest(t *testing.T, alert string) string {
	t.Helper()
	return content(t, manifest+"tests/"+alert+".yaml")
}

// only is the unit test of an alert without what it says of others.
func only(t *testing.T, alert string) string {
	t.Helper()
	var file map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(unitTest(t, alert)), &file))
	for _, test := range file["tests"].([]any) {
		queries := test.(map[string]any)["promql_expr_test"].([]any)
		for _, query := range queries {
			samples := query.(map[string]any)["exp_samples"].([]any)
			query.(map[string]any)["exp_samples"] = slices.DeleteFunc(samples, func(sample any) bool {
				return !strings.Contains(sample.(map[string]any)["labels"].(string), `alertname="`+alert+`"`)
			})
		}
	}
	out, err := yaml.Marshal(file)
	require.NoError(t, err)
	return string(out)
}

// testWith runs a unit test with other rules.
func testWith(t *testing.T, rules []monitoringv1.Rule, name, test string) error {
	t.Helper()
	dir := t.TempDir()
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "rrpool", "rules": rules}}})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tests"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600))
	file := filepath.Join(dir, "tests", name+".yaml")
	require.NoError(t, os.WriteFile(file, []byte(test), 0o600))
	out, err := promtool(t, "test", "rules", file)
	if err == nil {
		return nil
	}
	require.Contains(t, out, "FAILED", "the rules are rules")
	require.NotContains(t, out, "could not parse")
	return errors.New(out)
}

// mutants are what may be wrong with an alert.
func mutants(t *testing.T, rule monitoringv1.Rule) map[string]monitoringv1.Rule {
	t.Helper()
	out := map[string]monitoringv1.Rule{}
	change := func(what string, f func(*monitoringv1.Rule)) {
		broken := *rule.DeepCopy()
		f(&broken)
		out[what] = broken
	}
	duration := func(d string) *monitoringv1.Duration { x := monitoringv1.Duration(d); return &x }
	change("it does not wait", func(r *monitoringv1.Rule) { r.For = nil })
	change("it waits for a day more", func(r *monitoringv1.Rule) { r.For = duration("36h") })
	if rule.KeepFiringFor != nil {
		change("it is over at once", func(r *monitoringv1.Rule) { r.KeepFiringFor = nil })
		change("it goes on for a day", func(r *monitoringv1.Rule) {
			nonEmpty := monitoringv1.NonEmptyDuration("1d")
			r.KeepFiringFor = &nonEmpty
		})
	}
	change("it is harmless", func(r *monitoringv1.Rule) { r.Labels = map[string]string{"severity": "none"} })
	for _, expr := range broken(t, rule.Expr.String()) {
		change(expr, func(r *monitoringv1.Rule) { r.Expr = intstr.FromString(expr) })
	}
	require.Greater(t, len(out), 3)
	return out
}
