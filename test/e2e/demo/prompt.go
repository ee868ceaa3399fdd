//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// patience is how long a command may take on a slow machine.
const patience = 6 * time.Minute

// changes is the exit code of a plan that has any.
const changes = 2

// prompt is where commands are typed, as a user does.
type prompt struct {
	*teller
	cluster
}

// cluster is what it is shown on. Tests have one on which nothing happens.
type cluster interface {
	// Command is rrpool with these arguments.
	Command(ctx context.Context, words ...string) *exec.Cmd
	StartManager(flags ...string) error
	// Checkpoint begins a phase, Packets reports of it what workloads lost to each other.
	Checkpoint(phase string)
	Packets(phase string) probe.Report
	// WaitMesh waits until BIRD has every session of the mesh Established.
	WaitMesh(ctx context.Context) error
}

// inLab is one of real parts.
type inLab struct{ *site.Site }

// Checkpoint implements cluster.
func (c inLab) Checkpoint(phase string) { c.Lab.Checkpoint(phase) }

// Packets implements cluster.
func (c inLab) Packets(phase string) probe.Report {
	return c.Lab.Report().Phase(phase).Only(c.Workers...)
}

// WaitMesh implements cluster.
func (c inLab) WaitMesh(ctx context.Context) error { return c.Lab.WaitMesh(ctx) }

// rrpool types a command, shows what it says, and holds it to its exit code. Of an
// answer that is long for a demonstration only the first lines are shown, if most is not 0.
func (p prompt) rrpool(ctx context.Context, code, most int, words ...string) error {
	return p.run(ctx, &transcript{teller: p.teller, most: most}, code, words)
}

// move is the same for a command that first shows what will be done. Instead of that it
// tells where it can be read.
func (p prompt) move(ctx context.Context, plan string, words ...string) error {
	return p.run(ctx, &transcript{teller: p.teller, plan: plan}, 0, words)
}

func (p prompt) run(ctx context.Context, said *transcript, code int, words []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := "rrpool " + strings.Join(words, " ")
	p.write("", "$ "+line)
	cmd := p.Command(ctx, words...)
	cmd.Stdout, cmd.Stderr = said, said // both through one pipe, so in the order in which they are said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("calling %s: %w", line, err)
	}
	got := cmd.ProcessState.ExitCode()
	if said.end(got == code); got != code {
		return fmt.Errorf("%s ended with code %d instead of %d", line, got, code)
	}
	return nil
}
