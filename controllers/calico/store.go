package calico

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// defaultConfig is the name of the objects that apply to the whole cluster, such as BGPConfiguration "default".
const defaultConfig = "default"

// watchStatus is the state of the watch of one kind.
type watchStatus struct {
	// missing is true where the API does not have the kind.
	missing bool
	// err is why the kind cannot be listed or watched at the moment.
	err error
	// relisted has the revisions of the last list, by name. A listed object replaces the known one even if its revision is lower, as after a
	// backup was restored. A listed report may have been written at any time.
	relisted map[string]string
	// unwatched is true from a list until the next watch.
	unwatched bool
	// mustList is true where a watch from the last revision could miss changes.
	mustList bool
}

// store has the last known objects. The syncer fills it. Our own writes fill it too, so that what was written is observed next.
type store struct {
	now     func() time.Time
	changes chan struct{}
	synced  chan struct{}

	mu            sync.Mutex
	stopped       bool
	inSync        bool
	watchStatuses map[string]*watchStatus

	peers    map[string]*apiv3.BGPPeer
	config   *apiv3.BGPConfiguration
	statuses map[string]*report
	blocks   map[string]block
	// nodes are Calico's Nodes. There are none without an etcd of Calico's own.
	nodes  map[string]*libapiv3.Node
	routes routesRead
	// unread are fields that cannot be read, by kind and name of their object.
	unread map[string]string
	// locked is true while ClusterInformation says that the datastore must not be used. frozen is another reason why nothing may be written, ""
	// for none. locationErr is why it is not known where the objects are, nil if it is known.
	locked      bool
	frozen      string
	locationErr error
	// version and clusterType are calicoVersion and clusterType of ClusterInformation. clusterType names how Calico was installed.
	version, clusterType string
	// seenBGP is true once any report has shown an Established session to this process.
	seenBGP bool
}

func newStore(now func() time.Time) *store {
	s := &store{
		now: now, changes: make(chan struct{}, 1), synced: make(chan struct{}), watchStatuses: map[string]*watchStatus{},
		peers: map[string]*apiv3.BGPPeer{}, statuses: map[string]*report{}, blocks: map[string]block{}, nodes: map[string]*libapiv3.Node{}, unread: map[string]string{},
	}
	for _, kind := range append([]string{libapiv3.KindNode}, watched...) {
		s.watchStatuses[kind] = &watchStatus{}
	}
	return s
}

// stop ends updates by the syncer: the objects known then stay.
func (s *store) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// ready returns why the stored objects may be incomplete or out of date, nil if they are not.
func (s *store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failing := s.failures()
	switch {
	case failing != nil:
		return failing
	case s.stopped:
		return errors.New("watching Calico's objects: stopped")
	case !s.inSync:
		return errors.New("watching Calico's objects: not all are listed yet")
	}
	return nil
}

// writable returns why nothing may be written, nil where it may.
func (s *store) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.lockProblem(); p != nil {
		return errors.New("nothing is written: " + p.Message)
	}
	return s.locationErr
}

// lockProblem returns the problem of a locked or frozen datastore, nil for none.
func (s *store) lockProblem() *plan.Problem {
	return plan.ProblemIf(s.frozen != "" || s.locked, reason.DatastoreLocked,
		"%s: nothing is changed until that is over, not even to bring the mesh back", cmp.Or(s.frozen, lockedMessage))
}

// freeze sets why nothing may be written, "" to allow writes.
func (s *store) freeze(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen != why {
		s.frozen = why
		s.signal()
	}
}

// setRoutes sets what was read about routes. If that read failed, pools and settings stay as in the read before.
func (s *store) setRoutes(routes routesRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if routes.unknown != "" {
		routes.pools, routes.settings = s.routes.pools, s.routes.settings
	}
	if !reflect.DeepEqual(s.routes, routes) {
		s.routes = routes
		s.signal()
	}
}

// setLocationErr sets why it is not known where the objects are, nil if it is known.
func (s *store) setLocationErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.locationErr == nil) != (err == nil) {
		s.signal()
	}
	s.locationErr = err
}

// requireLists requires a new list of every kind before it is watched again.
func (s *store) requireLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchStatuses {
		w.mustList = true
	}
}

// calicoNodes returns Calico's Nodes by name. The Nodes must not be changed.
func (s *store) calicoNodes() map[string]*libapiv3.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.nodes)
}

// failures returns why kinds cannot be listed or watched, nil where all can. The caller holds the lock.
func (s *store) failures() error {
	failing := []error{s.locationErr}
	for _, kind := range slices.Sorted(maps.Keys(s.watchStatuses)) {
		if s.watchStatuses[kind].mustList {
			failing = append(failing, fmt.Errorf("watching %s: it is to be listed anew", kind))
		}
		if err := s.watchStatuses[kind].err; err != nil {
			failing = append(failing, fmt.Errorf("watching %s: %w", kind, err))
		}
	}
	return errors.Join(failing...)
}

// setWatchStatus sets whether a kind is missing or failing, and signals if either has changed.
func (s *store) setWatchStatus(kind string, missing bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchStatuses[kind]
	if w.missing != missing || (w.err == nil) != (err == nil) {
		s.signal()
	}
	w.missing, w.err = missing, err
}

// watchStatus returns a copy of the state of a kind's watch.
func (s *store) watchStatus(kind string) watchStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.watchStatuses[kind]
}

// listed notes the revisions of the objects in a new list of a kind.
func (s *store) listed(kind string, found []*model.KVPair) {
	revisions := make(map[string]string, len(found))
	for _, kvp := range found {
		if key, ok := kvp.Key.(model.ResourceKey); ok {
			revisions[key.Name] = kvp.Revision
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchStatuses[kind]
	w.relisted, w.unwatched, w.mustList = revisions, true, false
}

// mayWatch reports whether a kind may be watched without a new list. After a failure it may not, because events of the watch may be old. Reports
// need a new list after any end of a watch, because their time of arrival counts.
func (s *store) mayWatch(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchStatuses[kind]
	may := w.err == nil && !w.mustList && (w.unwatched || kind != apiv3.KindCalicoNodeStatus)
	if may {
		w.unwatched = false
	}
	return may
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

// signal announces a change on changes, unless one is announced already.
func (s *store) signal() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// mayRequest reports whether a reporter is to be asked for a new report. live is the report as the API has it now. If live is filled in but the
// store has it as cleared, the answer has not arrived yet: clearing the report would lose it. If live is cleared, the reporter has refreshRetry
// to answer; after that, mayRequest notes the time of the new request.
func (s *store) mayRequest(live *apiv3.CalicoNodeStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.statuses[live.Name]
	asked := r != nil && !r.cleared.IsZero()
	if !isCleared(live) {
		return !asked
	}
	if !asked || s.now().Sub(r.requested) < refreshRetry {
		return false
	}
	again := *r
	again.requested = s.now()
	s.statuses[live.Name] = &again
	return true
}

// OnUpdates implements api.SyncerCallbacks.
func (s *store) OnUpdates(updates []api.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	for _, u := range updates {
		switch key, ok := u.Key.(model.ResourceKey); {
		case !ok:
		case u.Value == nil:
			s.drop(key.Kind, key.Name)
		default:
			s.upsert(u.Value, false)
		}
	}
}

// put keeps an object that one of our own requests has returned. The object
// is newer than the last list, even if the objects of that list arrive later.
func (s *store) put(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchStatuses[o.GetObjectKind().GroupVersionKind().Kind]
	if s.upsert(o, true) && w != nil {
		delete(w.relisted, o.GetName())
	}
}

// forget removes an object that we have deleted or have not found.
func (s *store) forget(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(kind, name)
}

// upsert keeps an object unless a newer version is known, and reports whether it did. If found, the object was returned by a request of ours, not
// by a watch, and may have been written at any time.
func (s *store) upsert(object any, found bool) bool {
	switch o := object.(type) {
	case *apiv3.BGPPeer:
		return upsertIn(s, apiv3.KindBGPPeer, s.peers, o)
	case *apiv3.BGPConfiguration:
		return s.upsertConfig(o)
	case *apiv3.CalicoNodeStatus:
		return s.upsertReport(o, found)
	case *libapiv3.Node:
		return upsertIn(s, libapiv3.KindNode, s.nodes, o)
	case *apiv3.ClusterInformation:
		s.upsertInformation(o)
	case *unstructured.Unstructured:
		s.upsertBlock(o)
	}
	return true
}

func (s *store) upsertConfig(o *apiv3.BGPConfiguration) bool {
	if o.Name != defaultConfig {
		s.noteUnread(apiv3.KindBGPConfiguration, o)
	}
	if o.Name != defaultConfig || s.config != nil && !s.supersedes(apiv3.KindBGPConfiguration, o, s.config) {
		return false
	}
	s.config = o
	s.noteUnread(apiv3.KindBGPConfiguration, o)
	s.signal()
	return true
}

func upsertIn[T metav1.Object](s *store, kind string, known map[string]T, o T) bool {
	if old, ok := known[o.GetName()]; ok && !s.supersedes(kind, o, old) {
		return false
	}
	known[o.GetName()] = o
	s.noteUnread(kind, o)
	s.signal()
	return true
}

// upsertBlock does not signal: blocks come and go with pods, and no step waits for one.
func (s *store) upsertBlock(o *unstructured.Unstructured) {
	delete(s.blocks, o.GetName())
	if b, ok := blockOf(o); ok {
		s.blocks[o.GetName()] = b
	}
}

func (s *store) upsertInformation(o *apiv3.ClusterInformation) {
	if o.Name != defaultConfig {
		return
	}
	s.version, s.clusterType = o.Spec.CalicoVersion, o.Spec.ClusterType
	if locked := !ptr.Deref(o.Spec.DatastoreReady, true); s.locked != locked {
		s.locked = locked
		s.signal()
	}
}

func (s *store) upsertReport(o *apiv3.CalicoNodeStatus, found bool) bool {
	const kind = apiv3.KindCalicoNodeStatus
	if !isReport(o) {
		s.drop(kind, o.Name)
		s.noteUnread(kind, o)
		return false
	}
	old := s.statuses[o.Name]
	if old != nil && !s.supersedes(kind, o, old.object) {
		return false
	}
	s.statuses[o.Name] = old.next(o, s.now(), found || s.watchStatuses[kind].relisted[o.Name] == o.ResourceVersion)
	s.signal()
	return true
}

func (s *store) drop(kind, name string) {
	s.setUnread(kind, name, "")
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
	case libapiv3.KindNode:
		delete(s.nodes, name)
	case libapiv3.KindBlockAffinity:
		delete(s.blocks, name)
		return
	case apiv3.KindClusterInformation: // a lock stays: a migration may have deleted the old group
		return
	}
	s.signal()
}

// older reports whether resource version a is older than b. Resource versions
// are numbers in both datastores. If a or b is not a number, a is not older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// supersedes reports whether version after of an object replaces version before. An older version does so only if it is from the last list.
func (s *store) supersedes(kind string, after, before metav1.Object) bool {
	a, b := after.GetResourceVersion(), before.GetResourceVersion()
	return a != b && (!older(a, b) || s.watchStatuses[kind].relisted[after.GetName()] == a)
}

// reports returns our status reports, sorted by name.
func (s *store) reports() []*report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.statuses), func(a, b *report) int { return strings.Compare(a.object.Name, b.object.Name) })
}

// source is the api.Client of the syncer. It notes which kinds are missing or failing. The syncer itself retries for ever, and does not tell a
// kind that is not installed from a kind without objects.
type source struct {
	api.Client
	store *store
}

// List implements api.Client. It always asks for the latest revision: an apiserver's cache may lag behind.
func (s *source) List(ctx context.Context, list model.ListInterface, _ string) (*model.KVPairList, error) {
	found, err := s.Client.List(ctx, list, "")
	kind := kindOf(list)
	switch {
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		s.store.setWatchStatus(kind, true, nil)
		return &model.KVPairList{}, nil
	case err != nil:
		s.store.setWatchStatus(kind, false, err)
	default:
		s.store.listed(kind, found.KVPairs)
		s.store.setWatchStatus(kind, false, nil)
	}
	return found, err //nolint:wrapcheck // the syncer looks at the error's type
}

// Watch implements api.Client. If mayWatch forbids a watch, Watch returns an error that makes the syncer list first.
func (s *source) Watch(ctx context.Context, list model.ListInterface, options api.WatchOptions) (api.WatchInterface, error) {
	kind := kindOf(list)
	if !s.store.mayWatch(kind) {
		return nil, apierrors.NewResourceExpired("the watch was interrupted") //nolint:wrapcheck // the syncer looks at the error's type
	}
	w, err := s.Client.Watch(ctx, list, options)
	// If the API no longer has the revision, the kind is not failing: the syncer lists it at once.
	if err != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		s.store.setWatchStatus(kind, false, err)
	}
	return w, err //nolint:wrapcheck // the syncer looks at the error's type
}

func kindOf(list model.ListInterface) string {
	options, _ := list.(model.ResourceListOptions)
	return options.Kind
}
