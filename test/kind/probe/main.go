//go:build linux

// Command probe runs in the pods of the kind test. "probe from NAME ADDRESS" probes other pods as the lines on its standard input say (add NAME ADDRESS,
// remove NAME, phase NAME, report) until that ends; a report is a line of JSON. "probe wait" waits to be ended: it is the pod's own process.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rrpool/rrpool/test/kind"
	"github.com/rrpool/rrpool/test/lab/probe"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 3 && arguments[0] == "from" {
		return probeFrom(arguments[1], arguments[2], os.Stdin, os.Stdout)
	}
	if len(arguments) != 1 || arguments[0] != "wait" {
		return errors.New(`say "from NAME ADDRESS" or "wait"`)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
	return nil
}

func probeFrom(name, address string, in io.Reader, out io.Writer) error {
	own, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("reading the pod's own address: %w", err)
	}
	p := probe.New(0, 0)
	here := func(do func() error) error { return do() }
	if err := errors.Join(p.Control(here), p.Add(name, own, here)); err != nil {
		return err
	}
	var phases []string
	for lines := bufio.NewScanner(in); lines.Scan(); {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "add":
			other, address, _ := strings.Cut(rest, " ")
			target, err := netip.ParseAddr(address)
			if err != nil {
				return fmt.Errorf("reading the address of %q: %w", other, err)
			}
			err = p.Add(other, target, nil)
			if err != nil {
				return err
			}
		case "remove":
			err = p.Remove(rest)
		case "phase":
			phases = append(phases, rest)
			p.Checkpoint(rest)
		case "report":
			err = json.NewEncoder(out).Encode(summarize(p.Report(), phases))
		default:
			err = fmt.Errorf("%q is no command", lines.Text())
		}
		if err != nil {
			return err
		}
	}
	return p.Stop()
}

func summarize(report probe.Report, phases []string) []kind.Phase {
	var all []kind.Phase
	for _, name := range phases {
		narrowed := report.Phase(name)
		sum := kind.Phase{Name: name, Pairs: len(narrowed.Pairs), Machine: narrowed.OwnLoss()}
		sum.Sent, sum.Lost = narrowed.Totals()
		for _, pair := range narrowed.Pairs {
			sum.LongestRun = max(sum.LongestRun, pair.LongestRun)
			sum.LongestSilence = max(sum.LongestSilence, pair.LongestSilence)
			said := kind.Pair{From: pair.From, To: pair.To, LongestRun: pair.LongestRun, Text: pair.String()}
			if pair.Unconnected {
				sum.Unconnected = append(sum.Unconnected, said)
			} else if narrowed.Broken(pair) {
				sum.Broken = append(sum.Broken, said)
			}
		}
		all = append(all, sum)
	}
	return all
}
