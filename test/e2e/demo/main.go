//go:build linux

// Command demo does rrpool's main job end to end, on real parts, and shows it: a
// cluster of six nodes in three zones moves from the BGP full mesh, with a mesh
// password, onto a dedicated worker pool of route reflectors and back. It ends
// with 0 only when no packet between workloads was lost, as the README
// defines it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// patience is how long a move may take on a slow machine.
const patience = 6 * time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	if err := site.BuildManager(ctx); err != nil {
		return err
	}
	if err := lab.Isolate(ctx, out); err != nil {
		return err
	}
	t := newTeller(out)
	t.title("A Calico cluster on IKS: 6 nodes in 3 zones, BGP full mesh with a password")
	t.say("a network namespace per host, real BIRD and confd, a real apiserver; the IBM Cloud is imitated over HTTP")
	s, err := site.Start(ctx, site.Options{MeshPassword: "a mesh password", Generation: iksserver.VPC, Told: t.say})
	if err != nil {
		return fmt.Errorf("building the cluster: %w", err)
	}
	defer func() { _ = s.Stop() }()
	err = show(ctx, t, s)
	if err != nil {
		dir, dirErr := os.MkdirTemp("", "rrpool-demo-")
		err = errors.Join(err, dirErr, s.Dump(dir), fmt.Errorf("everything about the failure is in %s", dir))
	}
	return err
}

// show moves the cluster there and back.
func show(ctx context.Context, t *teller, s *site.Site) error {
	t.say("every pair of pods exchanges a packet every 10 ms, from now on")
	if err := s.StartManager(); err != nil {
		return err
	}
	t.title("Onto route reflectors: kubectl apply -f config/samples/defaults.yaml")
	s.Lab.Checkpoint("onto route reflectors")
	if err := s.CreatePool(ctx, nil); err != nil {
		return err
	}
	if err := t.follow(ctx, s); err != nil {
		return err
	}
	first := t.table(ctx, s, "onto route reflectors")

	t.title("Back to the mesh: spec.mode: FullMesh")
	s.Lab.Checkpoint("back to the mesh")
	if err := s.SetMode(ctx, v1alpha1.ModeFullMesh); err != nil {
		return err
	}
	if err := t.follow(ctx, s); err != nil {
		return err
	}
	if err := s.Lab.WaitMesh(ctx); err != nil {
		return err
	}
	t.say("the former reflectors have joined the mesh again")
	second := t.table(ctx, s, "back to the mesh")
	if err := errors.Join(first, second); err != nil {
		return err
	}
	t.title("Done: nothing was lost between workloads, there and back")
	return nil
}
