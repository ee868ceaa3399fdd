// Package monitoring_test lets reflectors die in the lab, scrapes the manager meanwhile,
// and has Prometheus' own promtool say which alerts of config/monitoring fire.
package monitoring_test
