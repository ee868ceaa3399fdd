//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

const (
	// seedVariable repeats the chaos of a seed; without it, each run has its own.
	seedVariable = "RRPOOL_CHAOS_SEED"
	// timeVariable is how long it takes, from the beginning of the migration to the end of the return: 5m unless set.
	timeVariable = "RRPOOL_CHAOS_TIME"
	// wayBack is the part of it that is left for coming to rest, and for the return.
	wayBack = 70 * time.Second
	// faultsThere and faultsBack is how many faults happen on the way: each makes that longer.
	faultsThere, faultsBack = 3, 3
	// rest is how long the manager must write nothing in the end.
	rest = 10 * time.Second
)

// A cluster is migrated, runs, and is taken back, while everything around it breaks: BIRD, links, hosts, the apiserver, etcd, the
// manager and the cloud, and a person changes what is ours. Nothing is lost between nodes that were not themselves cut off.
func TestChaos(t *testing.T) {
	length := 5 * time.Minute
	if v := os.Getenv(timeVariable); v != "" {
		var err error
		length, err = time.ParseDuration(v)
		require.NoError(t, err, timeVariable)
	}
	s := newRun(t, length)
	ctx := t.Context()
	end := s.begun.Add(length)

	s.note("onto reflectors")
	require.NoError(t, s.keeper.start())
	require.NoError(t, s.CreatePool(ctx, hasty))
	arrived, arrive := context.WithCancel(ctx)
	s.occurrences.Go(func() {
		defer arrive()
		s.wait(ctx, "route reflectors", time.Now().Add(limit+length), ready)
	})
	s.play(ctx, arrived, draw(s.seed, there, faultsThere), end)
	if !s.failed() {
		s.want(3)
		s.note("on reflectors")
		s.play(ctx, ctx, draw(s.seed, onReflectors, 10_000), end.Add(-wayBack))
	}
	s.settle(ctx, "on reflectors")
	if !s.failed() {
		s.want(0)
		s.note("back to the mesh")
		s.takeBack(ctx)
	}
	s.settle(ctx, "back on the mesh")
	s.compare(ctx)
	require.NoError(t, s.finish())
}

// newRun prepares a run in a cluster on the mesh, without a manager.
func newRun(t *testing.T, length time.Duration) *chaosRun {
	t.Helper()
	lab.SkipLong(t)
	seed := uint64(time.Now().UnixNano()) % 1_000_000
	if v := os.Getenv(seedVariable); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	t.Logf("%s=%d %s=%s", seedVariable, seed, timeVariable, length)
	_, built := site.ForTest(t, site.Options{MeshPassword: "s3cret"})
	ctx, cancel := context.WithCancel(t.Context())
	s := &chaosRun{cluster: &cluster{Site: built, t: t, ctx: ctx}, seed: seed, length: length, begun: time.Now()}
	s.before = s.configuration(ctx)
	s.record = &record{checkpoint: s.Lab.Checkpoint, events: map[*fault]int{}}
	s.record.open()
	s.keeper = &keeper{site: built, note: s.note, away: true}
	s.observer = s.startObserver(ctx)
	s.watchers.Go(func() { s.keeper.run(ctx) })
	s.watchers.Go(func() { s.observer.watchCloud(ctx) })
	t.Cleanup(func() {
		cancel()
		s.watchers.Wait()
		_ = s.Lab.ControlPlane().ResumeEtcd()
	})
	return s
}

// wait waits until the pool is as asked.
func (s *chaosRun) wait(ctx context.Context, what string, until time.Time, is func(*v1alpha1.RouteReflectorPool) bool) {
	var last *v1alpha1.RouteReflectorPool
	for !s.failed() {
		if o, err := s.Pool(ctx); err == nil {
			if last = o; is(o) {
				return
			}
		}
		if ctx.Err() != nil || time.Now().After(until) {
			s.complain(fmt.Errorf("waiting for %s: %s", what, site.Describe(last)))
		}
		pause(ctx, glance)
	}
}

// settle waits until the manager has nothing to do, everything is well, and nothing is written any more.
func (s *chaosRun) settle(ctx context.Context, where string) {
	if s.failed() {
		return
	}
	s.wait(ctx, "rest "+where, time.Now().Add(limit+time.Minute), s.atRest)
	from := time.Now()
	for !s.failed() {
		pause(ctx, time.Second)
		writes, err := s.Lab.ControlPlane().Writes(site.User(), from)
		for _, w := range writes {
			if !w.Lease() {
				from = w.Time.Add(time.Microsecond)
			}
		}
		now, sees := s.look(ctx)
		if err = errors.Join(err, sees); err == nil {
			err = now.sound(nil, s.wanted())
		}
		if err == nil && time.Since(from) > rest {
			s.note("at rest %s: %s without a write", where, rest)
			return
		}
		if time.Since(from) > patience {
			s.complain(fmt.Errorf("coming to rest %s: %w", where, err))
		}
	}
}

// takeBack goes back to the mesh, amid what may happen to a cluster on its way.
func (s *chaosRun) takeBack(ctx context.Context) {
	if err := s.insist(ctx, func(ctx context.Context, s *chaosRun, _ string) error { return s.SetMode(ctx, v1alpha1.ModeFullMesh) }, ""); err != nil {
		s.complain(err)
		return
	}
	until := time.Now().Add(limit)
	home, arrive := context.WithCancel(ctx)
	s.occurrences.Go(func() {
		defer arrive()
		s.wait(ctx, "the mesh", until, content)
	})
	s.play(ctx, home, draw(s.seed, back, faultsBack), until)
}

// compare: the mesh is as it was, with its password, whatever a person has done to our notes of it. What cannot be known is a password
// that the notes had, when a person has removed these and switched the mesh on without it.
func (s *chaosRun) compare(ctx context.Context) {
	if s.failed() {
		return
	}
	now := s.configuration(ctx)
	switch {
	case s.record.happened(notesLost) == 0 && !reflect.DeepEqual(now, s.before):
		s.complain(fmt.Errorf("the BGPConfiguration is %+v, and was %+v", now, s.before))
	case s.record.happened(meshSwitchedOn) == 0 && !reflect.DeepEqual(now.NodeMeshPassword, s.before.NodeMeshPassword):
		s.complain(fmt.Errorf("the mesh has the password %+v, and had %+v", now.NodeMeshPassword, s.before.NodeMeshPassword))
	}
}

func (s *chaosRun) configuration(ctx context.Context) apiv3.BGPConfigurationSpec {
	s.t.Helper()
	c, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
	require.NoError(s.t, err)
	return c.Spec
}

// atRest: the manager has nothing to do, or, in a run that is too short for it, only lets the reflectors prove for five minutes that
// they stay up before it switches the mesh off again.
func (s *chaosRun) atRest(o *v1alpha1.RouteReflectorPool) bool {
	waiting := proving(o)
	if s.length < netNeeds && len(waiting) > 0 {
		s.note("the mesh stays on: the manager waits for %s", strings.Join(waiting, ", "))
		return true
	}
	return content(o)
}

// proving is what the manager waits for when it is nothing but reflectors to stay up.
func proving(o *v1alpha1.RouteReflectorPool) []string {
	waiting := o.Status.Step.WaitingFor
	if o.Status.Step.Name != "AwaitSessions" || slices.ContainsFunc(waiting, func(w string) bool { return !strings.HasSuffix(w, "to stay up for 5m0s") }) {
		return nil
	}
	return waiting
}

// content: the manager has nothing to do.
func content(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady"
}
