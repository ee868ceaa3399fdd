//go:build linux

// Command demo does rrpool's main job end to end, on real parts, and shows it as a
// user sees it, on the command line: a cluster of six nodes in three zones moves from
// the BGP full mesh, with a mesh password, onto a dedicated worker pool of route
// reflectors and back. It ends with 0 only when no packet between workloads was lost,
// as the README defines it, and each command ended with its exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/programs"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := programs.Build(ctx, os.Stdout, "manager", "rrpool", "etcd", "kube-apiserver", "calico-node"); err != nil {
		return err
	}
	if err := lab.Isolate(ctx, os.Stdout); err != nil {
		return err
	}
	return demonstrate(ctx, iostreams.System())
}

func demonstrate(ctx context.Context, to iostreams.Streams) error {
	t := newConsole(to)
	t.title("A Calico cluster on IKS: 6 nodes in 3 zones, BGP full mesh with a password")
	t.say("network namespaces, real BIRD and confd, a real apiserver; the IBM Cloud is imitated over HTTP")
	s, err := site.Start(ctx, site.Options{MeshPassword: "a mesh password", Generation: iksserver.VPC, Progress: t.say})
	if err != nil {
		return fmt.Errorf("building the cluster: %w", err)
	}
	defer func() { _ = s.Stop() }()
	err = show(ctx, prompt{t, s})
	if err != nil {
		dir, dirErr := os.MkdirTemp("", "rrpool-demo-")
		err = errors.Join(err, dirErr, s.Dump(dir), fmt.Errorf("everything about the failure is in %s", dir))
	}
	return err
}

// show moves the cluster there and back. Lost packets are judged at the end.
func show(ctx context.Context, p prompt) error {
	p.say("every pair of pods exchanges a packet every 10 ms, from now on")
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.migrate(ctx); err != nil {
		return err
	}
	there := p.packets(phaseThere)
	if err := p.rollback(ctx); err != nil {
		return err
	}
	ending, err := verdict(there, p.packets(phaseBack))
	if err == nil {
		p.title(ending)
	}
	return err
}

// The phases of which packets are counted.
const (
	phaseThere = "onto route reflectors"
	phaseBack  = "back to the mesh"
)

// prepare asks before anything is changed.
func (p prompt) prepare(ctx context.Context) error {
	p.title("Is it fit, and what would happen?")
	if err := p.rrpool(ctx, 0, 0, "check", "--pre", "-o", "short"); err != nil {
		return err
	}
	if err := p.StartManager(); err != nil {
		return err
	}
	p.write("")
	p.say("the manager is started: a process with the rights of config/rbac, and no more")
	return p.rrpool(ctx, changes, 0, "plan")
}

func (p prompt) migrate(ctx context.Context) error {
	p.title("Onto route reflectors")
	p.Lab.Checkpoint(phaseThere)
	if err := p.rrpool(ctx, 0, 0, "migrate", "--yes"); err != nil {
		return err
	}
	for _, command := range []struct {
		words string
		most  int
	}{
		{"status", 16},
		{"cost --context rrpool --hourly-price 0.11", 15},
	} {
		if err := p.rrpool(ctx, 0, command.most, strings.Fields(command.words)...); err != nil {
			return err
		}
	}
	return nil
}

func (p prompt) rollback(ctx context.Context) error {
	p.title("Back to the mesh")
	p.Lab.Checkpoint(phaseBack)
	if err := p.rrpool(ctx, 0, 0, "rollback", "--yes"); err != nil {
		return err
	}
	if err := p.Lab.WaitMesh(ctx); err != nil {
		return err
	}
	p.write("")
	p.say("BIRD has every mesh session Established, those of the former reflectors too")
	return p.rrpool(ctx, 0, 8, "status")
}

// packets shows what the probes between workloads saw in a phase.
func (p prompt) packets(phase string) probe.Report {
	report := p.Lab.Report().Phase(phase).Only(p.Workers...)
	sent, lost := report.Totals()
	longest := 0
	for _, pair := range report.Pairs {
		longest = max(longest, pair.LongestRun)
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"PAIRS OF PODS", "PACKETS SENT", "LOST", "MOST LOST IN A ROW"})
	w.AppendRow(table.Row{len(report.Pairs), sent, lost, longest})
	w.SetColumnConfigs([]table.ColumnConfig{iostreams.Right(1), iostreams.Right(2), iostreams.Right(3), iostreams.Right(4)})
	p.write(append([]string{""}, strings.Split(w.Render(), "\n")...)...)
	return report
}

// verdict is how it ends: with an error where there is a loss as the README defines it. Single packets may be lost, where BIRD swaps
// a route in the kernel.
func verdict(there, back probe.Report) (string, error) {
	if err := there.ZeroLoss(); err != nil {
		return "", fmt.Errorf("%s: %w", phaseThere, err)
	}
	if err := back.ZeroLoss(); err != nil {
		return "", fmt.Errorf("%s: %w", phaseBack, err)
	}
	sent, lost := there.Totals()
	sentBack, lostBack := back.Totals()
	if lost+lostBack > 0 {
		return fmt.Sprintf("Done: %d of %d packets between workloads were lost, no two in a row, there and back", lost+lostBack, sent+sentBack), nil
	}
	return "Done: nothing was lost between workloads, there and back", nil
}
