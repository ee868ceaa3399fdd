package calico

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
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
	// relisted holds, by name, the revision in which a status report was listed
	// last: such a report may be of any age.
	relisted map[string]string

	peers    map[string]*apiv3.BGPPeer
	config   *apiv3.BGPConfiguration
	statuses map[string]*report
	blocks   map[string]block
}

func newStore(now func() time.Time) *store {
	return &store{
		now: now, changes: make(chan struct{}, 1), synced: make(chan struct{}),
		fares: map[string]fare{}, relisted: map[string]string{},
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
	var failing []error
	for _, kind := range watched {
		if err := s.fares[kind].err; err != nil {
			failing = append(failing, fmt.Errorf("watching %s: %w", kind, err))
		}
	}
	switch {
	case len(failing) > 0:
		return errors.Join(failing...)
	case s.shutOff:
		return errors.New("watching Calico's objects: stopped")
	case !s.inSync:
		return errors.New("watching Calico's objects: not all are listed yet")
	}
	return nil
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

// listed remembers which status reports came with a list.
func (s *store) listed(kind string, found []*model.KVPair) {
	if kind != apiv3.KindCalicoNodeStatus {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.relisted)
	for _, kvp := range found {
		if key, ok := kvp.Key.(model.ResourceKey); ok {
			s.relisted[key.Name] = kvp.Revision
		}
	}
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

// OnUpdates implements api.SyncerCallbacks.
func (s *store) OnUpdates(updates []api.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutOff {
		return
	}
	for _, u := range updates {
		key, ok := u.Key.(model.ResourceKey)
		if !ok {
			continue
		}
		if u.Value == nil {
			s.drop(key.Kind, key.Name)
		} else {
			s.take(u.Value)
		}
	}
}

// put takes in what one of our own writes has returned.
func (s *store) put(object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(object)
}

// forget takes in a deletion of our own.
func (s *store) forget(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(kind, name)
}

// take keeps an object unless a newer one is known.
func (s *store) take(object any) {
	switch o := object.(type) {
	case *apiv3.BGPPeer:
		if old := s.peers[o.Name]; old == nil || supersedes(o.ResourceVersion, old.ResourceVersion) {
			s.peers[o.Name] = o
			s.signal()
		}
	case *apiv3.BGPConfiguration:
		if o.Name == defaultConfig && (s.config == nil || supersedes(o.ResourceVersion, s.config.ResourceVersion)) {
			s.config = o
			s.signal()
		}
	case *apiv3.CalicoNodeStatus:
		s.takeStatus(o)
	case *libapiv3.BlockAffinity:
		s.takeBlock(o)
	}
}

func (s *store) takeStatus(o *apiv3.CalicoNodeStatus) {
	if !isReport(o) {
		s.drop(apiv3.KindCalicoNodeStatus, o.Name)
		return
	}
	old := s.statuses[o.Name]
	if old != nil && !supersedes(o.ResourceVersion, old.object.ResourceVersion) {
		return
	}
	s.statuses[o.Name] = old.next(o, s.now(), s.relisted[o.Name] == o.ResourceVersion)
	s.signal()
}

func (s *store) takeBlock(o *libapiv3.BlockAffinity) {
	// Blocks come and go with pods: no step waits for one, so none is signaled.
	if b, ok := blockOf(o); ok {
		s.blocks[o.Name] = b
	} else {
		delete(s.blocks, o.Name)
	}
}

func (s *store) drop(kind, name string) {
	switch kind {
	case apiv3.KindBGPPeer:
		delete(s.peers, name)
	case apiv3.KindBGPConfiguration:
		if name != defaultConfig {
			return
		}
		s.config = nil
	case apiv3.KindCalicoNodeStatus:
		if s.statuses[name] == nil {
			return
		}
		delete(s.statuses, name)
	case libapiv3.KindBlockAffinity:
		delete(s.blocks, name)
		return
	}
	s.signal()
}

// signal says that something has changed, once until somebody listens.
func (s *store) signal() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// older compares resource versions, which are numbers in both datastores. What
// cannot be compared is not older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// supersedes reports whether revision a replaces revision b.
func supersedes(a, b string) bool { return a != b && !older(a, b) }

// reports gives the status reports of ours, sorted by name.
func (s *store) reports() []*report {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*report, 0, len(s.statuses))
	for _, r := range s.statuses {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *report) int { return strings.Compare(a.object.Name, b.object.Name) })
	return out
}
