//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
)

const (
	// together is how many faults may be felt at a time.
	together = 2
	// patience is how long faults may be felt after they have ended, and how long one waits until it may happen.
	patience = 2 * time.Minute
	// after is how long a cause counts on when all looks well again.
	after = 2 * time.Second
	// rendered is when what was written last has reached every BIRD, be it that nothing is felt yet.
	rendered = 2 * time.Second
	// glance is the time between two looks at the cluster.
	glance = 300 * time.Millisecond
)

// chaosRun is a run: fault after fault, and what they cost.
type chaosRun struct {
	*cluster
	seed     uint64
	length   time.Duration
	begun    time.Time
	before   apiv3.BGPConfigurationSpec
	record   *record
	observer *observer
	keeper   *keeper
	// control: what it loses is wanted, so its report is not shown: it would be taken for a real one.
	control bool

	mu sync.Mutex
	// reflectors is how many there are when all is well: none before the first part is over, and in the last.
	reflectors  int
	problems    []error
	occurrences sync.WaitGroup
	watchers    sync.WaitGroup
}

type occurrence struct {
	planned
	node              string
	begun, ended, off time.Time // off: nothing is felt of it any more
}

func (k *occurrence) String() string {
	name := k.fault.name
	if k.node != "" {
		name += " (" + k.node + ")"
	}
	return name
}

// play lets the faults of a script happen, until stop ends or the time is over, and waits until nothing is felt of any.
func (s *chaosRun) play(ctx, stop context.Context, script []planned, until time.Time) {
	stop, cancel := context.WithDeadline(stop, until)
	defer cancel()
	for _, b := range script {
		pause(stop, b.after)
		if stop.Err() != nil || s.failed() {
			break
		}
		node, ok := s.room(stop, b)
		if !ok {
			continue
		}
		k := &occurrence{planned: b, node: node, begun: time.Now()}
		s.record.feel(k)
		s.occurrences.Go(func() {
			if err := s.carryOut(ctx, k); err != nil {
				s.complain(fmt.Errorf("%s, after %s: %w", k, time.Since(k.begun).Round(time.Second), err))
			}
		})
	}
	s.occurrences.Wait()
}

// netNeeds is the time that a run must go on when the mesh has taken over: it stays for five minutes.
const netNeeds = 7 * time.Minute

// errLull: the mesh carries all nodes until the reflectors have proven that they stay up. Hit again they would never, and nothing could be
// learnt about them; other faults go on.
var errLull = errors.New("a lull")

// room waits until a fault may happen, and chooses its node.
func (s *chaosRun) room(ctx context.Context, b planned) (string, bool) {
	limit := time.Now().Add(patience)
	var last error
	for ctx.Err() == nil && time.Now().Before(limit) && !s.failed() {
		var candidates []string
		if candidates, last = s.candidates(ctx, b.fault); last == nil {
			if b.fault.on == noNode {
				return "", true
			}
			return candidates[b.pick%uint64(len(candidates))], true
		}
		if errors.Is(last, errLull) {
			return "", false
		}
		pause(ctx, glance)
	}
	if ctx.Err() == nil && !s.failed() {
		s.complain(fmt.Errorf("no room for %q within %s: %w", b.fault.name, patience, last))
	}
	return "", false
}

// candidates are the nodes that a fault may happen to now. At most one reflector is hit at a time, and only when all serve.
func (s *chaosRun) candidates(ctx context.Context, f *fault) ([]string, error) {
	felt := s.record.felt()
	if err := f.with(felt); err != nil {
		return nil, err
	}
	if f.on == noNode && !f.grave {
		return nil, nil
	}
	now, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	hit := map[string]bool{}
	for _, k := range felt {
		hit[k.node] = true
	}
	from := s.Workers
	if f.on == aReflector {
		from = now.reflectors
	}
	if f.grave || f.on == aReflector {
		if err := errors.Join(now.sound(hit, s.wanted()), s.seenSound(ctx)); err != nil {
			return nil, err
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(from), func(n string) bool { return hit[n] })
	if len(candidates) == 0 {
		return nil, errors.New("there is no node to hit")
	}
	return candidates, nil
}

// seenSound: the manager has seen that the reflectors are well again. Else it would count one more that is down, and have the
// mesh take over for minutes, under which nothing can be learnt about reflectors.
func (s *chaosRun) seenSound(ctx context.Context) error {
	o, err := s.Pool(ctx)
	if err != nil {
		return err
	}
	if len(proving(o)) > 0 && time.Until(s.begun.Add(s.length)) > netNeeds {
		return errLull
	}
	if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReflectorsEstablished) {
		return fmt.Errorf("the manager sees: %s", site.Describe(o))
	}
	return nil
}

// with: f may happen while these are felt.
func (f *fault) with(felt []*occurrence) error {
	if len(felt) >= together {
		return fmt.Errorf("%d are felt", len(felt))
	}
	for _, k := range felt {
		if k.fault.grave || f.grave || k.fault == f || k.fault.on == aReflector && f.on == aReflector {
			return fmt.Errorf("%s is felt", k)
		}
	}
	return nil
}

// carryOut does what the fault does, undoes it after its time, and waits until nothing is felt of it.
func (s *chaosRun) carryOut(ctx context.Context, k *occurrence) error {
	s.note("%s", k)
	ends := time.Now().Add(k.hold)
	for {
		if err := s.insist(ctx, k.fault.begin, k.node); err != nil {
			return fmt.Errorf("beginning: %w", err)
		}
		if k.fault.again == 0 || time.Now().Add(k.fault.again).After(ends) {
			break
		}
		pause(ctx, k.fault.again)
	}
	pause(ctx, time.Until(ends))
	if k.fault.end != nil {
		if err := s.insist(ctx, k.fault.end, k.node); err != nil {
			return fmt.Errorf("ending: %w", err)
		}
	}
	k.ended = time.Now()
	pause(ctx, rendered)
	if err := s.healed(ctx, k); err != nil {
		return err
	}
	pause(ctx, after)
	s.record.forget(k)
	s.note("%s: over, %.1f s after its end", k, k.off.Sub(k.ended).Seconds())
	return nil
}

// insist tries until it succeeds: the apiserver may be away.
func (s *chaosRun) insist(ctx context.Context, do func(context.Context, *chaosRun, string) error, node string) error {
	limit := time.Now().Add(patience)
	for {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := do(try, s, node)
		cancel()
		if err == nil || ctx.Err() != nil || time.Now().After(limit) {
			return err
		}
		pause(ctx, glance)
	}
}

// healed waits until all is well but for what other faults do.
func (s *chaosRun) healed(ctx context.Context, k *occurrence) error {
	limit := time.Now().Add(patience)
	for {
		now, err := s.look(ctx)
		if err == nil {
			hit := map[string]bool{}
			for _, other := range s.record.felt() {
				if other != k {
					hit[other.node] = true
				}
			}
			err = now.sound(hit, s.wanted())
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(limit):
			return fmt.Errorf("not healed within %s: %w", patience, err)
		}
		pause(ctx, glance)
	}
}

func (s *chaosRun) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reflectors
}

func (s *chaosRun) want(reflectors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reflectors = reflectors
}

// complain: something did not go as it must. The run ends.
func (s *chaosRun) complain(err error) {
	s.note("PROBLEM: %v", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, err)
}

func (s *chaosRun) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.problems) > 0
}

func (s *chaosRun) note(format string, args ...any) {
	s.t.Logf("%s %6.1f s  "+format, append([]any{time.Now().Format("15:04:05.000"), time.Since(s.begun).Seconds()}, args...)...)
}

func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
