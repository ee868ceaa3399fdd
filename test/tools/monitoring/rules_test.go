package monitoring_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

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
