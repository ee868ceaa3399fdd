//go:build linux

package reflector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout is how long BIRD may take to read its configuration and answer.
	startTimeout = 2 * time.Minute
	// answerTimeout is how long it may take to answer while it works.
	answerTimeout = 5 * time.Minute
	// askEvery is how often it is asked for its status while it is measured.
	askEvery = 100 * time.Millisecond
	// birdPort is BGP's.
	birdPort = 179
)

// bird is a running BIRD.
type bird struct {
	cmd    *exec.Cmd
	dir    string
	socket string
	ended  chan struct{} // closed when it has ended
}

// startBIRD starts it as calico-node does, and returns when it answers.
func startBIRD(ctx context.Context, dir, config string) (*bird, error) {
	b := &bird{dir: dir, socket: filepath.Join(dir, "bird.ctl"), ended: make(chan struct{})}
	log, err := os.Create(b.log())
	if err != nil {
		return nil, fmt.Errorf("opening BIRD's log: %w", err)
	}
	defer log.Close()                                                      //nolint:errcheck // BIRD has its own
	b.cmd = exec.Command("bird", "-R", "-s", b.socket, "-d", "-c", config) //nolint:gosec // G204: ours
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}   // it must not outlive us
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting BIRD: %w", err)
	}
	go func() {
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	if err := b.awaitStart(ctx); err != nil {
		b.stop()
		return nil, fmt.Errorf("starting BIRD: %w: %s", err, b.lastWords())
	}
	return b, nil
}

func (b *bird) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := b.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-b.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends BIRD without a word to its peers.
func (b *bird) stop() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

func (b *bird) log() string { return filepath.Join(b.dir, "bird.log") }

// lastWords is the end of the log, for errors.
func (b *bird) lastWords() string {
	text, err := os.ReadFile(b.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// ask asks for BIRD's status over its control socket and waits for the answer, as calico-node's readiness probe does.
func (b *bird) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	if err != nil {
		return fmt.Errorf("reaching BIRD: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing to do about it
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintln(conn, "show status"); err != nil {
		return fmt.Errorf("asking BIRD: %w", err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "0013 ") { // Daemon is up and running
			return nil
		}
	}
	return errors.Join(errors.New("BIRD's answer ends early"), lines.Err())
}

// slowest asks again and again until ctx ends, and returns how long the slowest answer took, the one that is still missing included.
func (b *bird) slowest(ctx context.Context) time.Duration {
	var most time.Duration
	for {
		began := time.Now()
		_ = b.ask(ctx)
		most = max(most, time.Since(began))
		select {
		case <-ctx.Done():
			return most
		case <-time.After(askEvery):
		}
	}
}

// cpu is the time that BIRD has spent on a processor.
func (b *bird) cpu() (time.Duration, error) {
	text, err := os.ReadFile(b.proc("schedstat"))
	if err != nil {
		return 0, fmt.Errorf("reading BIRD's CPU time: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 1 {
		return 0, fmt.Errorf("reading BIRD's CPU time: %q", text)
	}
	spent, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading BIRD's CPU time: %w", err)
	}
	return time.Duration(spent), nil
}

// peakMemory is the most that BIRD ever had resident, in bytes.
func (b *bird) peakMemory() (int64, error) {
	text, err := os.ReadFile(b.proc("status"))
	if err != nil {
		return 0, fmt.Errorf("reading BIRD's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading BIRD's memory: %w", err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("reading BIRD's memory: the kernel does not say VmHWM")
}

func (b *bird) proc(name string) string {
	return fmt.Sprintf("/proc/%d/%s", b.cmd.Process.Pid, name)
}
