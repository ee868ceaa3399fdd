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
	// together is how many blows may be felt at a time.
	together = 2
	// patience is how long blows may be felt after they have ended, and how long one waits until it may fall.
	patience = 2 * time.Minute
	// after is how long a cause counts on when all looks well again.
	after = 2 * time.Second
	// rendered is when what was written last has reached every BIRD, be it that nothing is felt yet.
	rendered = 2 * time.Second
	// glance is the time between two looks at the cluster.
	glance = 300 * time.Millisecond
)

// storm is a run: blow after blow, and what they cost.
type storm struct {
	*cluster
	seed    uint64
	length  time.Duration
	begun   time.Time
	before  apiv3.BGPConfigurationSpec
	ledger  *ledger
	witness *witness
	keeper  *keeper
	// control: what it loses is wanted, so its report is kept, and not shown: whoever looks for losses would take them for real ones.
	control bool

	mu sync.Mutex
	// reflectors is how many there are when all is well: none before the first part is over, and in the last.
	reflectors int
	trouble    []error
	strikes    sync.WaitGroup
	watchers   sync.WaitGroup
}

// strike is a blow that has fallen.
type strike struct {
	blow
	node              string
	begun, ended, off time.Time // off: nothing is felt of it any more
}

func (k *strike) String() string {
	name := k.fault.name
	if k.node != "" {
		name += " (" + k.node + ")"
	}
	return name
}

// play lets the blows of a script fall, until stop ends or the time is over, and waits until nothing is felt of any.
func (s *storm) play(ctx, stop context.Context, script []blow, until time.Time) {
	stop, cancel := context.WithDeadline(stop, until)
	defer cancel()
	for _, b := range script {
		pause(stop, b.after)
		if stop.Err() != nil || s.failed() {
			break
		}
		if b.fault.net && time.Until(until) < netNeeds {
			continue
		}
		node, ok := s.room(stop, b)
		if !ok {
			continue
		}
		k := &strike{blow: b, node: node, begun: time.Now()}
		s.ledger.feel(k)
		s.strikes.Go(func() {
			if err := s.strike(ctx, k); err != nil {
				s.complain(fmt.Errorf("%s, after %s: %w", k, time.Since(k.begun).Round(time.Second), err))
			}
		})
	}
	s.strikes.Wait()
}

// netNeeds is the time that a run must go on when the mesh has taken over: it stays for five minutes.
const netNeeds = 7 * time.Minute

// errLull: the mesh carries everyone until the reflectors have proven that they stay up. Hit again they would never, and nothing could be
// learnt about them; other blows go on falling.
var errLull = errors.New("a lull")

// room waits until a blow may fall, and chooses whom it befalls.
func (s *storm) room(ctx context.Context, b blow) (string, bool) {
	limit := time.Now().Add(patience)
	var last error
	for ctx.Err() == nil && time.Now().Before(limit) && !s.failed() {
		var candidates []string
		if candidates, last = s.candidates(ctx, b.fault); last == nil {
			if b.fault.on == nobody {
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

// candidates are those whom a fault may befall now. At most one reflector is hit at a time, and only when all serve.
func (s *storm) candidates(ctx context.Context, f *fault) ([]string, error) {
	felt := s.ledger.felt()
	if err := f.with(felt); err != nil {
		return nil, err
	}
	if f.on == nobody && !f.grave {
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
		from = now.holders
	}
	if f.grave || f.on == aReflector {
		if err := errors.Join(now.sound(hit, s.wanted()), s.seenSound(ctx)); err != nil {
			return nil, err
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(from), func(n string) bool { return hit[n] })
	if len(candidates) == 0 {
		return nil, errors.New("there is nobody to hit")
	}
	return candidates, nil
}

// seenSound: the manager has seen that the reflectors are well again. Else it would count one more that is down, and have the
// mesh take over for minutes, under which nothing can be learnt about reflectors.
func (s *storm) seenSound(ctx context.Context) error {
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

// with: f may fall while these are felt.
func (f *fault) with(felt []*strike) error {
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

// strike does what the fault does, undoes it after its time, and waits until nothing is felt of it.
func (s *storm) strike(ctx context.Context, k *strike) error {
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
	s.ledger.forget(k)
	s.note("%s: over, %.1f s after its end", k, k.off.Sub(k.ended).Seconds())
	return nil
}

// insist tries until it succeeds: the apiserver may be away.
func (s *storm) insist(ctx context.Context, do func(context.Context, *storm, string) error, node string) error {
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

// healed waits until all is well but for what other blows do.
func (s *storm) healed(ctx context.Context, k *strike) error {
	limit := time.Now().Add(patience)
	for {
		now, err := s.look(ctx)
		if err == nil {
			hit := map[string]bool{}
			for _, other := range s.ledger.felt() {
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

func (s *storm) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reflectors
}

func (s *storm) want(reflectors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reflectors = reflectors
}

// complain: something did not go as it must. The storm ends.
func (s *storm) complain(err error) {
	s.note("TROUBLE: %v", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = append(s.trouble, err)
}

func (s *storm) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.trouble) > 0
}

func (s *storm) note(format string, args ...any) {
	s.ledger.note(fmt.Sprintf("%s %6.1f s  ", time.Now().Format("15:04:05.000"), time.Since(s.begun).Seconds()) + fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
