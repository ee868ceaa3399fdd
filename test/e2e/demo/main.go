//go:build linux

// Command demo migrates a lab cluster of six nodes in three zones from the BGP full mesh, with a mesh password, to a dedicated worker pool of
// route reflectors and back, and shows the commands and their output. It exits with 0 only if no packet between workloads was lost, as the README
// defines it, and each command had the expected exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/programs"
)

// patience is how long a command may take on a slow machine.
const patience = 6 * time.Minute

// The phases of the probes.
const (
	phaseThere = "onto route reflectors"
	phaseBack  = "back to the mesh"
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
	begun := time.Now()
	d := demo{say: func(text string) { fmt.Printf("%6.1fs  %s\n", time.Since(begun).Seconds(), text) }}
	title("A Calico cluster on IKS: 6 nodes in 3 zones, BGP full mesh with a password")
	d.say("network namespaces, real BIRD and confd, a real apiserver; the IBM Cloud is imitated over HTTP")
	var err error
	d.Site, err = site.Start(ctx, site.Options{MeshPassword: "a mesh password", Generation: iksserver.VPC, Progress: d.say})
	if err != nil {
		return fmt.Errorf("building the cluster: %w", err)
	}
	defer func() { _ = d.Stop() }()
	if err = d.show(ctx); err != nil {
		dir, dirErr := os.MkdirTemp("", "rrpool-demo-")
		err = errors.Join(err, dirErr, d.Dump(dir), fmt.Errorf("everything about the failure is in %s", dir))
	}
	return err
}

func title(text string) { fmt.Printf("\n== %s\n", text) }

// demo is the cluster, and the folder and environment of commands.
type demo struct {
	*site.Site
	// say prints a line about events outside of the commands, with the seconds since the start.
	say func(text string)
}

// show migrates the cluster and back, and evaluates lost packets at the end.
func (d demo) show(ctx context.Context) error {
	d.say("every pair of pods exchanges a packet every 10 ms, from now on")
	title("Is it fit, and what would happen?")
	if err := d.rrpool(ctx, 0, "check --pre"); err != nil {
		return err
	}
	if err := d.StartManager(); err != nil {
		return err
	}
	d.say("the manager is started: a process with the rights of config/rbac, and no more")
	if err := d.rrpool(ctx, 2, "plan"); err != nil { // 2: there are changes
		return err
	}
	title("Onto route reflectors")
	d.Lab.Checkpoint(phaseThere)
	if err := d.rrpool(ctx, 0, "migrate --yes", "status", "cost --context rrpool --hourly-price 0.11"); err != nil {
		return err
	}
	there := d.packets(phaseThere)
	title("Back to the mesh")
	d.Lab.Checkpoint(phaseBack)
	if err := d.rrpool(ctx, 0, "rollback --yes"); err != nil {
		return err
	}
	if err := d.Lab.WaitMesh(ctx); err != nil {
		return err
	}
	d.say("BIRD has every mesh session Established, those of the former reflectors too")
	if err := d.rrpool(ctx, 0, "status"); err != nil {
		return err
	}
	ending, err := verdict(there, d.packets(phaseBack))
	if err == nil {
		title(ending)
	}
	return err
}

// rrpool runs commands, shows their output, and checks their exit code.
func (d demo) rrpool(ctx context.Context, code int, commands ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, command := range commands {
		fmt.Printf("\n$ rrpool %s\n", command)
		cmd := d.Command(ctx, strings.Fields(command)...)
		cmd.Stdout = struct{ io.Writer }{os.Stdout} // a pipe: on a terminal its progress bar would overwrite other lines
		cmd.Stderr = cmd.Stdout
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
			return errors.Join(fmt.Errorf("rrpool %s did not end with code %d", command, code), err)
		}
	}
	return nil
}

// packets prints the result of the probes between workloads in a phase.
func (d demo) packets(phase string) probe.Report {
	report := d.Lab.Report().Phase(phase).Only(d.Workers...)
	sent, lost := report.Totals()
	longest := 0
	for _, pair := range report.Pairs {
		longest = max(longest, pair.LongestRun)
	}
	fmt.Printf("\nPAIRS OF PODS  PACKETS SENT  LOST  MOST LOST IN A ROW\n%13d  %12d  %4d  %18d\n", len(report.Pairs), sent, lost, longest)
	return report
}

// verdict returns the closing line, or an error if there is a loss as the README defines it. Single packets may be lost while BIRD replaces a kernel route.
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
