//go:build linux

// Command assets builds what the lab runs (etcd, kube-apiserver, Calico's confd and reporter), and what people type
// (kubectl, calicoctl), into the cache when it is missing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := lab.Prepare(ctx, os.Stderr)
	if err == nil {
		_, err = controlplane.Clients(ctx, os.Stderr)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}
