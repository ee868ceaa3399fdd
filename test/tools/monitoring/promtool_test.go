package monitoring_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
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

// Whatever is changed in an alert, its unit test notices.
func TestEachUnitTestNoticesWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of promtool: make alerts without -short")
	}
	for i, rule := range ruleFile(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			t.Parallel()
			for what, broken := range mutants(t, rule) {
				rules := ruleFile(t)
				rules[i] = broken
				err := testWith(t, rules, rule.Alert)
				require.Error(t, err, "%s: its unit test does not notice: %s", rule.Alert, what)
			}
			require.NoError(t, testWith(t, ruleFile(t), rule.Alert), "negative control: nothing is changed")
		})
	}
}

// A life in peace is quiet because alerts wait, and not because it is none.
func TestPeaceIsNotQuietWithoutWaits(t *testing.T) {
	require.NoError(t, testWith(t, ruleFile(t), "quiet"))
	for i := range ruleFile(t) {
		rules := ruleFile(t)
		switch rules[i].Alert {
		case "RRPoolRedundancyReduced", "RRPoolSessionsMissing", "RRPoolNoLeader", "RRPoolTargetDown", "RRPoolDegraded", "RRPoolRoutingUnsafe", "RRPoolNodesUnserved":
			rules[i].For = nil
			require.Error(t, testWith(t, rules, "quiet"), "%s does not wait", rules[i].Alert)
		}
	}
}

// testWith runs a unit test with other rules.
func testWith(t *testing.T, rules []monitoringv1.Rule, test string) error {
	t.Helper()
	dir := t.TempDir()
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "rrpool", "rules": rules}}})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tests"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600))
	file := filepath.Join(dir, "tests", test+".yaml")
	require.NoError(t, os.WriteFile(file, []byte(content(t, manifest+"tests/"+test+".yaml")), 0o600))
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

// broken gives an expression with each part changed: a clause left out, a comparison turned
// round, a threshold a quarter off, a matcher that matches nothing.
func broken(t *testing.T, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err)
	var out []string
	note := func() { out = append(out, expr.String()) }
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			was := n.Op
			for _, op := range turned[was] {
				n.Op = op
				note()
				n.Op = was
			}
			if was == parser.LAND || was == parser.LUNLESS {
				right, op, matching := n.RHS, n.Op, n.VectorMatching
				n.RHS, n.Op = n.LHS, parser.LAND // x and x is x
				n.VectorMatching = &parser.VectorMatching{Card: parser.CardManyToMany}
				note()
				n.RHS, n.Op, n.VectorMatching = right, op, matching
			}
		case *parser.NumberLiteral:
			if was := n.Val; was > 1 {
				for _, factor := range []float64{.75, 1.25} {
					n.Val = was * factor
					note()
					n.Val = was
				}
			}
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					was := *m
					m.Value = "nothing"
					note()
					*m = was
				}
			}
		}
		return nil
	})
	return out
}

var turned = map[parser.ItemType][]parser.ItemType{
	parser.EQLC: {parser.NEQ},
	parser.LSS:  {parser.GTE, parser.LTE},
	parser.GTR:  {parser.LTE},
}
