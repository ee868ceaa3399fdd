package monitoring_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../../.."
	manifest = root + "/config/monitoring/"
	runbook  = "https://github.com/rrpool/rrpool/blob/main/docs/runbook/"
)

func content(t *testing.T, path string) string {
	t.Helper()
	out, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(out)
}

// ruleFile is what Prometheus reads, in the operator's words: they are the same.
func ruleFile(t *testing.T) []monitoringv1.Rule {
	t.Helper()
	var spec monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict([]byte(content(t, manifest+"rules.yaml")), &spec))
	require.Len(t, spec.Groups, 1)
	return spec.Groups[0].Rules
}

// metrics are the labels of each metric that the manager registers, as docs/metrics.md, which is made from that, has them.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(content(t, root+"/docs/metrics.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name := strings.Trim(cells[0], "| `")
		var labels []string
		for label := range strings.SplitSeq(strings.Trim(cells[2], "-"), ", ") {
			if label != "" {
				labels = append(labels, strings.Trim(label, "`"))
			}
		}
		if cells[1] == "histogram" {
			out[name+"_bucket"] = append(slices.Clone(labels), "le")
			out[name+"_sum"], out[name+"_count"] = labels, labels
			continue
		}
		out[name] = labels
	}
	require.Contains(t, out, "rrpool_leader")
	return out
}

// names are the files of a folder that match, without their extension.
func names(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	var out []string
	for _, path := range found {
		out = append(out, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	}
	return out
}

func TestEachAlertCanBeActedUpon(t *testing.T) {
	known := metrics(t)
	for _, rule := range ruleFile(t) {
		require.Regexp(t, "^RRPool[A-Z]", rule.Alert)
		require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], rule.Alert)
		require.NotNil(t, rule.For, rule.Alert)
		require.Equal(t, []string{"description", "runbook_url", "summary"}, slices.Sorted(maps.Keys(rule.Annotations)), rule.Alert)
		require.Equal(t, runbook+rule.Alert+".md", rule.Annotations["runbook_url"])
		require.Contains(t, content(t, root+"/docs/runbook/"+rule.Alert+".md"), "Severity: "+rule.Labels["severity"]+".")
		require.Empty(t, problems(rule.Expr.String(), known), rule.Alert)
	}
}

// No page without its alert, no alert without its page and its unit test.
func TestAlertsPagesAndUnitTestsAreTheSame(t *testing.T) {
	var alerts []string
	for _, rule := range ruleFile(t) {
		alerts = append(alerts, rule.Alert)
	}
	slices.Sort(alerts)
	require.Equal(t, alerts, names(t, root+"/docs/runbook/RRPool*.md"))
	require.Equal(t, alerts, names(t, manifest+"tests/RRPool*.yaml"))
}

// The table of docs/monitoring.md has them all, with the same severity.
func TestTheTableOfAlertsIsTheirs(t *testing.T) {
	var want, have []string
	for _, rule := range ruleFile(t) {
		want = append(want, rule.Alert+" "+rule.Labels["severity"])
	}
	for line := range strings.Lines(content(t, root+"/docs/monitoring.md")) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && strings.HasPrefix(line, "| [RRPool") {
			name, _, _ := strings.Cut(strings.TrimPrefix(cells[0], "| ["), "]")
			have = append(have, name+" "+cells[1])
		}
	}
	require.ElementsMatch(t, want, have)
}

func TestARunbookAnswersTheSameQuestions(t *testing.T) {
	for _, name := range names(t, root+"/docs/runbook/RRPool*.md") {
		page, at := content(t, root+"/docs/runbook/"+name+".md"), 0
		for _, part := range []string{
			"# " + name + "\n", "**What it means.**", "**Is routing safe now?**", "\n## Look first\n", "\n## What to do\n", "\n**What not to do.** ", "\n**When it clears.** ",
		} {
			next := strings.Index(page[at:], part)
			require.GreaterOrEqual(t, next, 0, "%s: %q is missing, or comes too early", name, part)
			at += next + len(part)
		}
		require.Less(t, strings.Count(page, "\n"), 60, "%s: a page for the night is short", name)
	}
}

// From the operator's object to the manager's port: every name on the way is one that is there.
func TestTheServiceMonitorLeadsToTheManagers(t *testing.T) {
	var monitor monitoringv1.ServiceMonitor
	require.NoError(t, yaml.UnmarshalStrict([]byte(content(t, manifest+"servicemonitor.yaml")), &monitor))
	require.Equal(t, metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}, monitor.TypeMeta)
	var service corev1.Service
	require.NoError(t, yaml.UnmarshalStrict([]byte(content(t, manifest+"service.yaml")), &service))
	var manager appsv1.Deployment
	require.NoError(t, yaml.UnmarshalStrict([]byte(content(t, root+"/config/manager/deployment.yaml")), &manager))

	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(service.Labels)))
	require.Equal(t, monitor.Namespace, service.Namespace)
	require.Equal(t, service.Namespace, manager.Namespace)
	require.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(manager.Spec.Template.Labels)))
	require.Len(t, monitor.Spec.Endpoints, 1)
	require.Equal(t, monitor.Spec.Endpoints[0].Port, service.Spec.Ports[0].Name)
	var ports []string
	for _, port := range manager.Spec.Template.Spec.Containers[0].Ports {
		ports = append(ports, port.Name)
	}
	require.Contains(t, ports, service.Spec.Ports[0].TargetPort.String())
	for _, rule := range ruleFile(t) {
		if rule.Alert == "RRPoolTargetDown" { // the job of a ServiceMonitor without jobLabel is the Service
			require.Contains(t, rule.Expr.String(), `job="`+service.Name+`"`)
		}
	}
}

var turned = map[parser.ItemType]parser.ItemType{parser.EQLC: parser.NEQ, parser.LSS: parser.GTE, parser.GTR: parser.LTE, parser.GTE: parser.LSS}

// broken gives an expression with each comparison turned round, each clause left out, each threshold moved by a quarter, and each
// matcher made to match nothing.
func broken(t *testing.T, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err)
	var out []string
	note := func() { out = append(out, expr.String()) }
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			was := *n
			if op, ok := turned[was.Op]; ok {
				n.Op = op
				note()
			}
			if was.Op.IsSetOperator() { // x and x is x
				n.Op, n.RHS, n.VectorMatching = parser.LAND, was.LHS, &parser.VectorMatching{Card: parser.CardManyToMany}
				note()
			}
			*n = was
		case *parser.NumberLiteral:
			was := n.Val
			for _, factor := range []float64{.75, 1.25} {
				if n.Val = was * factor; was > 1 || was > 0 && was < 1 {
					note()
				}
			}
			n.Val = was
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

// promtoolVariable names Prometheus' promtool; test/tools/prometheus builds it.
const promtoolVariable = "RRPOOL_PROMTOOL"

func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv(promtoolVariable)
	if program == "" {
		t.Skipf("%s names no promtool: make alerts builds it", promtoolVariable)
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
