package monitoring_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
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

// metrics are the labels of each metric that the manager registers, as docs/metrics.md,
// which is made from that, has them.
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
