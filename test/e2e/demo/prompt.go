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
)

// patience is how long a command may take on a slow machine.
const patience = 6 * time.Minute

// changes is the exit code of a plan that has any.
const changes = 2

// prompt is where commands are typed, as a user does.
type prompt struct {
	*teller
	site *site.Site
}

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
	p.write("\n$ %s\n", line)
	cmd := p.site.Command(ctx, words...)
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
