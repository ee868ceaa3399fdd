//go:build linux

package kind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Phase is the result of the probes in one phase. The program in test/kind/probe reports it for its pod.
type Phase struct {
	Name       string
	Sent, Lost int
	// LongestRun is the greatest number of probes that one pair lost in a row.
	LongestRun int
	// LongestSilence is the longest time in which a prober did not get to send.
	LongestSilence time.Duration
	// Machine is how many probes of the control pairs were lost, which the machine loses. Losses of other pairs at these times prove nothing.
	Machine int
	// Pairs is the number of probed pairs. Unconnected lost all probes, Broken lost two or more in a row.
	Pairs               int
	Unconnected, Broken []Pair
}

// Pair is one direction between the pods of two nodes.
type Pair struct {
	From, To   string
	LongestRun int
	// Text describes the pair with its outages.
	Text string
}

// Probers are pods that probe each other: one on every worker, each controlled by a stream of kubectl exec.
type Probers struct {
	cluster Cluster
	phase   string
	streams map[string]*stream
	// ended are the results of ended pods.
	ended []Phase
}

// stream is the running program of test/kind/probe in a node's pod.
type stream struct {
	address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// NewProbers returns Probers without pods.
func NewProbers(cluster Cluster) *Probers {
	return &Probers{cluster: cluster, phase: "before", streams: map[string]*stream{}}
}

// Manifest is the DaemonSet of the pods.
const Manifest = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: probes, namespace: default}
spec:
  selector: {matchLabels: {app: probes}}
  template:
    metadata: {labels: {app: probes}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: probe
        image: rrpool-probe:dev
        imagePullPolicy: Never
        securityContext: {capabilities: {add: [SYS_NICE]}}
`

// Start starts probes from and to the pods of all nodes that have a pod and are not probed yet.
func (p *Probers) Start(ctx context.Context) error {
	const format = `jsonpath={range .items[?(@.status.phase=="Running")]}{.spec.nodeName} {.metadata.name} {.status.podIP}{"\n"}{end}`
	out, err := p.cluster.Ask(ctx, "get", "pods", "--selector", "app=probes", "--output", format)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		var node, pod, address string
		if _, err := fmt.Sscan(line, &node, &pod, &address); err != nil {
			return fmt.Errorf("reading %q: %w", line, err)
		}
		if p.streams[node] != nil {
			continue
		}
		if err := p.start(ctx, node, pod, address); err != nil {
			return fmt.Errorf("probing from %s: %w", node, err)
		}
	}
	return nil
}

func (p *Probers) start(ctx context.Context, node, pod, address string) error {
	s := &stream{address: address, cmd: p.cluster.Kubectl(ctx, "exec", "--stdin", pod, "--", "/probe", "from", node, address)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	err = s.say("phase", p.phase)
	for other, o := range p.streams {
		err = errors.Join(err, s.say("add", other, o.address), o.say("add", node, address))
	}
	p.streams[node] = s
	return err
}

func (s *stream) say(words ...string) error {
	_, err := fmt.Fprintln(s.in, strings.Join(words, " "))
	return err
}

func (s *stream) report() (all []Phase, err error) {
	if err := s.say("report"); err != nil {
		return nil, err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(line, &all)
}

// Phase begins a phase.
func (p *Probers) Phase(name string) error {
	p.phase = name
	var errs []error
	for _, s := range p.streams {
		errs = append(errs, s.say("phase", name))
	}
	return errors.Join(errs...)
}

// Stop ends all probes from and to a node. Earlier losses count.
func (p *Probers) Stop(node string) error {
	s := p.streams[node]
	if s == nil {
		return fmt.Errorf("nothing probes from %s", node)
	}
	delete(p.streams, node)
	said, err := s.report()
	p.ended = append(p.ended, said...)
	for _, other := range p.streams {
		err = errors.Join(err, other.say("remove", node))
	}
	_ = s.in.Close()
	_ = s.cmd.Wait()
	return err
}

// Report returns the results of all pods, added up by phase, in the order of the phases.
func (p *Probers) Report() ([]Phase, error) {
	all, errs := slices.Clone(p.ended), []error(nil)
	for node, s := range p.streams {
		said, err := s.report()
		if err != nil {
			errs = append(errs, fmt.Errorf("asking the pod on %s what it lost: %w", node, err))
		}
		all = append(all, said...)
	}
	var sums []Phase
	for _, one := range all {
		i := slices.IndexFunc(sums, func(sum Phase) bool { return sum.Name == one.Name })
		if i < 0 {
			i = len(sums)
			sums = append(sums, Phase{Name: one.Name})
		}
		sum := &sums[i]
		sum.Sent, sum.Lost, sum.Pairs, sum.Machine = sum.Sent+one.Sent, sum.Lost+one.Lost, sum.Pairs+one.Pairs, sum.Machine+one.Machine
		sum.LongestRun, sum.LongestSilence = max(sum.LongestRun, one.LongestRun), max(sum.LongestSilence, one.LongestSilence)
		sum.Unconnected, sum.Broken = append(sum.Unconnected, one.Unconnected...), append(sum.Broken, one.Broken...)
	}
	return sums, errors.Join(errs...)
}
