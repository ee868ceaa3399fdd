// Package monitoring has no code: its tests hold config/monitoring to what Prometheus, its
// operator and Grafana read.
package monitoring
