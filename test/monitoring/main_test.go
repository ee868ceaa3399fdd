//go:build linux

// Package monitoring_test lets reflectors die in the lab, scrapes the manager meanwhile,
// and has Prometheus' own promtool say which alerts of config/monitoring fire.
package monitoring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

// promtoolVariable names Prometheus' promtool.
const promtoolVariable = "RRPOOL_PROMTOOL"

func TestMain(m *testing.M) {
	if os.Getenv(lab.ChaosVariable) != "" {
		err := programs.Build(context.Background(), os.Stderr, "manager") // in the namespaces, which have no network, nothing can be built
		if os.Getenv(promtoolVariable) == "" {
			err = errors.Join(err, errors.New(promtoolVariable+" names no promtool: make alerts builds it"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	lab.Main(m)
}
