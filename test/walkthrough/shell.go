//go:build unix

package walkthrough

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// prelude ends the shell at the first command that fails, as set -e does, except for a plan with exit code 2, "there are changes". Unset
// variables and failures within pipes are failures too.
const prelude = `set -Euo pipefail
trap 'walked=$?; [[ $walked == 2 && $BASH_COMMAND == "rrpool plan"* ]] || exit $walked' ERR
`

// Shell is a bash that runs blocks one after the other.
type Shell struct {
	cmd    *exec.Cmd
	dir    string
	stdin  io.WriteCloser
	typed  *bufio.Reader
	blocks int
	done   chan struct{}
	err    error // valid once done is closed
}

// StartShell starts a bash in a folder, without a user's settings: env is its whole environment, out receives all output. Blocks are written to
// the folder scripts.
func StartShell(scripts, dir string, env []string, out io.Writer) (*Shell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = w.Close() }()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, env, out, out, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting bash: %w", err)
	}
	sh := &Shell{cmd: cmd, dir: scripts, stdin: stdin, typed: bufio.NewReader(r), done: make(chan struct{})}
	go func() {
		sh.err = cmd.Wait()
		close(sh.done)
	}()
	_, err = io.WriteString(stdin, prelude)
	return sh, err
}

// Run runs a block. After a failure the shell has ended.
func (sh *Shell) Run(ctx context.Context, b Block) error {
	sh.blocks++
	// The trap checks the exit code of the script's last command; that of source is ignored.
	script := filepath.Join(sh.dir, fmt.Sprintf("block-%d", sh.blocks))
	if err := os.WriteFile(script, []byte(b.Text+":\n"), 0o600); err != nil {
		return fmt.Errorf("writing a block: %w", err)
	}
	// Commands must not read the shell's input, nor hold the pipe by which the end of a block is signalled.
	if _, err := fmt.Fprintf(sh.stdin, "source %s </dev/null 3>&-\necho done >&3\n", script); err != nil {
		return fmt.Errorf("typing %q: %w", b.First(), err)
	}
	said := make(chan error, 1)
	go func() {
		_, err := sh.typed.ReadString('\n')
		said <- err
	}()
	select {
	case err := <-said:
		if err == nil {
			return nil
		}
		<-sh.done
		return fmt.Errorf("typing the block at line %d, %q: %w", b.Line, b.First(), errors.Join(sh.err, errors.New("its commands failed")))
	case <-ctx.Done():
		sh.Stop()
		return fmt.Errorf("typing the block at line %d, %q: it did not end: %w", b.Line, b.First(), context.Cause(ctx))
	}
}

// Stop ends the shell and all processes that it has started.
func (sh *Shell) Stop() {
	_ = sh.stdin.Close()
	select {
	case <-sh.done:
		return
	case <-time.After(100 * time.Millisecond):
	}
	_ = syscall.Kill(-sh.cmd.Process.Pid, syscall.SIGKILL)
	<-sh.done
}

// Programs creates a folder with only the programs that a page may use: some of the system's, and those in given, by their names.
func Programs(dir string, given map[string]string) error {
	all := map[string]string{}
	for _, name := range strings.Fields("bash basename cat cp cut date diff dirname echo env false grep head id ls mkdir mktemp mv printf rm sed seq sleep sort tail " +
		"tee test touch tr true uniq wc xargs") {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("finding what pages use: %w", err)
		}
		all[name] = path
	}
	maps.Copy(all, given)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for name, path := range all {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("linking %q: %w", name, err)
		}
	}
	return nil
}
