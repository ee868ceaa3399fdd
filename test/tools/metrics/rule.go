package main

import "strings"

const envelope = `# Made by make docs from rules.yaml: do not edit. For the Prometheus Operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: rrpool
  namespace: rrpool-system
  labels:
    app.kubernetes.io/name: rrpool
spec:
`

// wrap puts the rules of Prometheus into the object that its operator reads, which holds them as they are.
func wrap(rules string) string {
	var out strings.Builder
	out.WriteString(envelope)
	for line := range strings.Lines(rules) {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			out.WriteString("\n")
		default:
			out.WriteString("  " + line)
		}
	}
	return out.String()
}
