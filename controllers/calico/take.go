package calico

import (
	"slices"
	"strconv"
	"strings"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
			s.take(u.Value, false)
		}
	}
}

// put takes in what one of our own requests has returned. It is newer than what
// was listed before but has not arrived yet.
func (s *store) put(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.take(o, true) {
		delete(s.relisted[o.GetObjectKind().GroupVersionKind().Kind], o.GetName())
	}
}

// forget takes in a deletion of our own.
func (s *store) forget(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(kind, name)
}

// take keeps an object unless a newer one is known, and says whether it did. One
// that was found and not brought by a watch may have been written at any time.
func (s *store) take(object any, found bool) bool {
	switch o := object.(type) {
	case *apiv3.BGPPeer:
		if old := s.peers[o.Name]; old != nil && !s.supersedes(apiv3.KindBGPPeer, o, old) {
			return false
		}
		s.peers[o.Name] = o
		s.signal()
	case *apiv3.BGPConfiguration:
		return s.takeConfig(o)
	case *apiv3.CalicoNodeStatus:
		return s.takeStatus(o, found)
	case *libapiv3.BlockAffinity:
		s.takeBlock(o)
	}
	return true
}

func (s *store) takeConfig(o *apiv3.BGPConfiguration) bool {
	if o.Name != defaultConfig || s.config != nil && !s.supersedes(apiv3.KindBGPConfiguration, o, s.config) {
		return false
	}
	s.config = o
	s.signal()
	return true
}

func (s *store) takeStatus(o *apiv3.CalicoNodeStatus, found bool) bool {
	const kind = apiv3.KindCalicoNodeStatus
	if !isReport(o) {
		s.drop(kind, o.Name)
		return false
	}
	old := s.statuses[o.Name]
	if old != nil && !s.supersedes(kind, o, old.object) {
		return false
	}
	s.statuses[o.Name] = old.next(o, s.now(), found || s.relisted[kind][o.Name] == o.ResourceVersion)
	s.signal()
	return true
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

// older compares resource versions, which are numbers in both datastores. What
// cannot be compared is not older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// supersedes reports whether one version of an object replaces another.
func (s *store) supersedes(kind string, after, before metav1.Object) bool {
	a, b := after.GetResourceVersion(), before.GetResourceVersion()
	return a != b && (!older(a, b) || s.relisted[kind][after.GetName()] == a)
}

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
