package calico

import (
	"errors"
	"fmt"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
)

// defaultConfig is the name of the BGPConfiguration that holds for the cluster.
const defaultConfig = "default"

// fare is how the watch of one kind fares.
type fare struct {
	// missing: the API does not know the kind.
	missing bool
	// err is why it cannot be listed or watched at the moment.
	err error
}

// store holds the last known objects. The syncer fills it, and so do our own
// writes, so that what we wrote is what we observe next.
type store struct {
	now     func() time.Time
	changes chan struct{}
	synced  chan struct{}

	mu      sync.Mutex
	opened  bool
	shutOff bool
	inSync  bool
	fares   map[string]fare
	// relisted holds, by kind and name, the revision in which an object was
	// listed last. What a list says holds, even where its revision is lower than
	// one seen before, as after a restored backup; and a report may be of any age.
	relisted map[string]map[string]string
	// unwatched kinds have been listed and not been watched since.
	unwatched map[string]bool

	peers    map[string]*apiv3.BGPPeer
	config   *apiv3.BGPConfiguration
	statuses map[string]*report
	blocks   map[string]block
}

func newStore(now func() time.Time) *store {
	return &store{
		now: now, changes: make(chan struct{}, 1), synced: make(chan struct{}),
		fares: map[string]fare{}, relisted: map[string]map[string]string{}, unwatched: map[string]bool{},
		peers: map[string]*apiv3.BGPPeer{}, statuses: map[string]*report{}, blocks: map[string]block{},
	}
}

func (s *store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return errors.New("starting the Calico adapter: it was started before")
	}
	s.opened = true
	return nil
}

// shut keeps what is known and takes in nothing more.
func (s *store) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutOff = true
}

// ready gives the reason why the store may not be relied upon, nil for none.
func (s *store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failing := s.failures()
	switch {
	case failing != nil:
		return failing
	case s.shutOff:
		return errors.New("watching Calico's objects: stopped")
	case !s.inSync:
		return errors.New("watching Calico's objects: not all are listed yet")
	}
	return nil
}

// failures are the reasons why kinds cannot be listed or watched.
func (s *store) failures() error {
	var failing []error
	for _, kind := range watched {
		if err := s.fares[kind].err; err != nil {
			failing = append(failing, fmt.Errorf("watching %s: %w", kind, err))
		}
	}
	return errors.Join(failing...)
}

// fare notes how a kind fares and signals when that has changed.
func (s *store) fare(kind string, is fare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.fares[kind]
	s.fares[kind] = is
	if was.missing != is.missing || (was.err == nil) != (is.err == nil) {
		s.signal()
	}
}

func (s *store) failing(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fares[kind].err != nil
}

func (s *store) missing(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fares[kind].missing
}

// listed remembers what came with a list.
func (s *store) listed(kind string, found []*model.KVPair) {
	revisions := make(map[string]string, len(found))
	for _, kvp := range found {
		if key, ok := kvp.Key.(model.ResourceKey); ok {
			revisions[key.Name] = kvp.Revision
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relisted[kind], s.unwatched[kind] = revisions, true
}

// fresh reports whether a kind has been listed and not been watched since, once.
func (s *store) fresh(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.unwatched[kind]
	delete(s.unwatched, kind)
	return was
}

// OnStatusUpdated implements api.SyncerCallbacks.
func (s *store) OnStatusUpdated(status api.SyncStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == api.InSync && !s.inSync {
		s.inSync = true
		close(s.synced)
		s.signal()
	}
}

// signal says that something has changed, once until somebody listens.
func (s *store) signal() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// blankFor is how long a report of ours has been blank since its reporter was
// last asked.
func (s *store) blankFor(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.statuses[name]
	if r == nil || r.blank.IsZero() {
		return 0
	}
	return s.now().Sub(r.asked)
}

// askedAgain begins the wait for a blank report anew.
func (s *store) askedAgain(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.statuses[name]; r != nil {
		again := *r
		again.asked = s.now()
		s.statuses[name] = &again
	}
}
