// Package cloud is the interface through which rrpool obtains the nodes that become route reflectors.
// The doc comments are the contract. The suite in test/providertest checks every provider against it.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Provider supplies the nodes that become route reflectors.
//
// No method waits for the cloud to finish something: workers take minutes, and the caller asks again. Every error of a
// Provider is an Error with one of the Kinds. A method returns soon after its ctx ends. A Provider is safe for concurrent use.
type Provider interface {
	// Name is a short lower-case word for logs, metrics and status ("iks").
	Name() string

	// Observe reports what exists now. A pool that does not exist is not an error: Pool.Exists is false. If anything is unknown,
	// Observe returns an error, and the caller must change nothing. Workers whose flavor or options differ from want's are Former.
	Observe(ctx context.Context, want PoolSpec) (Pool, error)

	// Ensure makes at most one change towards want, and says what it did and what it waits for. A further call with the same want
	// goes on from what exists; when nothing is left to do, it returns Done. Ensure never touches a pool that is not ours, and never
	// orders a worker without want's taints. It creates a second pool only if want has other options and the existing pool's options
	// cannot be changed. If the answer to its change is lost, it says what shows whether the change was made, or returns Unavailable.
	Ensure(ctx context.Context, want PoolSpec) (Progress, error)

	// Delete makes at most one change towards there being no pool. If the pool is not ours,
	// it changes nothing and returns a Conflict. If there is no pool, it returns Done.
	Delete(ctx context.Context) (Progress, error)
}

// PoolSpec is the pool that is wanted. A provider that orders no machines refuses flavor, taints and options as InvalidInput.
type PoolSpec struct {
	// Flavor is the machine type, "" for the provider's default.
	Flavor string
	// Zones are where workers are wanted; empty means every zone of the cluster.
	// A zone that is no longer listed leaves the pool once it has no workers.
	Zones []string
	// SizePerZone is the number of workers in each zone, at least 1. If the workers
	// are existing nodes, other zones may have the workers that a zone lacks.
	SizePerZone int
	// Lasting is how many of SizePerZone are not substitutes; 0 means all.
	Lasting int
	// Taints are what every node of the pool has when it joins the cluster. Other taints that the cloud reports stay on the pool.
	Taints []Taint
	// Untainted lists the workers whose nodes lack one of Taints. While there is such a worker, growing the pool is a Conflict.
	Untainted []string
	// TaintsSeen says that the node of a worker has all of Taints. Until then, the
	// provider orders only one worker from a cloud that does not show the pool's taints.
	TaintsSeen bool
	// Ready lists the workers whose nodes are Ready. If no replacement gets Ready, further ones are ordered at longer and longer intervals.
	Ready []string
	// Retire lists the IDs of workers to remove because the pool shrinks. They are no reflectors any more. Only
	// these workers are removed: a pool is never resized in a way that lets the cloud choose the worker to remove.
	Retire []string
	// Replace lists the IDs of dead workers to replace, in the same zone where that is possible.
	Replace []string
	// Stuck lists workers that have been WorkerDeleting for so long that the provider must not wait for them any more.
	Stuck []string
	// Refill allows workers in a zone that is no longer listed, if the other zones' workers cannot be had without them.
	Refill bool
	// Options that the workers are to have.
	Options PoolOptions
	// Known are the IDs of the pools that were seen as ours before. Such a pool
	// counts as existing even if it has lost its label or name, or is not listed.
	Known []string
	// Once says that the caller calls Observe once, and orders nothing. Then a pool of Known that is neither listed
	// nor found is gone. A flavor that the cluster's zones do not have is refused, as it would be in an order.
	Once bool
}

// Record is a text that outlives the process. A provider that orders machines writes each order to the Record before it
// sends the order. A Record comes with the context of a call. Without a Record, the provider keeps the text in memory.
type Record interface {
	Text() string
	Write(ctx context.Context, text string) error
}

type recordKey struct{}

// WithRecord returns ctx with a record.
func WithRecord(ctx context.Context, r Record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

// RecordOf returns the record of ctx, nil for none.
func RecordOf(ctx context.Context) Record {
	r, _ := ctx.Value(recordKey{}).(Record)
	return r
}

// PoolOptions are further options of a pool, named as in spec.provider.iks. The provider decides about
// empty ones. If a cloud does not have an option, it is refused as InvalidInput before anything is ordered.
type PoolOptions struct {
	OperatingSystem string
	// SecurityGroups are what workers get in addition to the cluster's, by id.
	SecurityGroups []string
	// Networks are what workers are attached to, by zone.
	Networks               map[string]Network
	WorkerVolumeEncryption WorkerVolumeEncryption
	DedicatedHostPoolID    string
}

// Network is a subnet (VPC), or a private VLAN and usually a public one (classic), by id.
type Network struct{ SubnetID, PrivateVLAN, PublicVLAN string }

// WorkerVolumeEncryption is the root key that encrypts the workers' volumes, and where the key is kept.
type WorkerVolumeEncryption struct{ KMSInstanceID, RootKeyID, KMSAccountID string }

// Taint is a node taint.
type Taint struct{ Key, Value, Effect string }

// Pool is the pool as it exists in the cloud.
type Pool struct {
	Exists bool
	// Owned is true when the pool was created by rrpool for this cluster.
	Owned bool
	// Unmarked says how to put back the label of a pool that is ours by its ID but has lost its
	// label; "" for any other pool. Such a pool is not Owned, and nothing in it is changed.
	Unmarked string
	// Mark says what is missing for a pool that is not Owned to be ours, and how to add it.
	Mark string
	ID   string
	// IDs are the IDs of all our pools, sorted. This Pool stands for all of them.
	IDs []string
	// Gone are the IDs in PoolSpec.Known of pools that do not exist any more.
	Gone []string
	Name string
	// Flavor is the machine type of the pool's workers. With PoolSpec.Once and no pool, it is the flavor that a new pool would have.
	Flavor string
	// Options are the pool's options, as far as the cloud reports them.
	Options PoolOptions
	// SizePerZone is the size that the cloud has been asked for. A provider that orders nothing derives it from the workers.
	SizePerZone int
	// Zones are the pool's zones, sorted.
	Zones []string
	// ClusterZones are all zones in which the cluster has workers or may have some, sorted.
	ClusterZones []string
	// Emptied is the name of another pool of ours, which this pool has replaced and Ensure is to delete; "" for none.
	Emptied string
	// Taints are what every node of the pool gets. They may be some minutes old; a provider reads them again before it orders workers.
	Taints []Taint
	// TaintsUnknown says that the cloud does not report the pool's taints, and has not acknowledged a change of them lately.
	TaintsUnknown bool
	// Leaving is what the cloud says about a pool that is being deleted; "" for any other.
	Leaving string
	// Autoscaled says that something else resizes this pool.
	Autoscaled bool
	// Workers, sorted by ID. Deleted workers are left out, and so are those of a pool that is not ours.
	Workers []Worker
	// Problems are sentences about what a person may have to solve, sorted ("worker w1: over quota …").
	Problems []string
}

// WorkerState is the state of a worker.
type WorkerState string

// The worker states.
const (
	// WorkerProvisioning means that the worker is ordered, but not a usable node yet.
	WorkerProvisioning WorkerState = "Provisioning"
	// WorkerDeployed means that the worker is a healthy node, as the cloud sees it.
	WorkerDeployed WorkerState = "Deployed"
	// WorkerUnhealthy means that the worker is deployed, but not healthy as the cloud sees it.
	WorkerUnhealthy WorkerState = "Unhealthy"
	// WorkerFailed means that the worker will not become a node, and has to be replaced.
	WorkerFailed WorkerState = "Failed"
	// WorkerDeleting means that the worker is being deleted.
	WorkerDeleting WorkerState = "Deleting"
)

// Worker is one machine of the pool.
type Worker struct {
	ID string `json:"id"`
	// NodeName is the name of the Node, "" if the cloud does not report it.
	NodeName string      `json:"node,omitempty"`
	Zone     string      `json:"zone"`
	Flavor   string      `json:"flavor,omitempty"`
	State    WorkerState `json:"state"`
	// Message is what the cloud says about the worker.
	Message string `json:"message,omitempty"`
	// Outdated says what an update of the worker would change ("1.31.1_1500 to 1.31.2_1510"), "" for no update.
	Outdated string `json:"outdated,omitempty"`
	// Former says that the worker lacks the wanted flavor or options, which Outdated names, and is to be replaced.
	Former bool `json:"former,omitempty"`
	// DeleteFailed says that the worker is WorkerDeleting, but the cloud has given up deleting it.
	DeleteFailed bool `json:"-"`
	// Physical says that the worker is bare metal, which a cloud may take days to set up.
	Physical bool `json:"-"`
	// LeavingSince is since when the caller has seen the worker WorkerDeleting. A provider does not set it.
	LeavingSince time.Time `json:"-"`
}

// Progress says what one call of Ensure or Delete did.
type Progress struct {
	// Done says that nothing was changed, because nothing is left to do.
	Done bool
	// Did names the one change made, "" for none ("created pool route-reflectors").
	Did string
	// WaitingFor names what has to happen in the cloud, "" for nothing.
	WaitingFor string
}

// Kind classifies an error by what the caller should do about it.
type Kind string

// The kinds.
const (
	// NotFound says that something does not exist. A retry alone does not help.
	NotFound Kind = "NotFound"
	// Conflict says that something exists but is not ours, or is managed by something else. A person decides.
	Conflict Kind = "Conflict"
	// InvalidInput says that the request can never succeed. A person changes the spec.
	InvalidInput Kind = "InvalidInput"
	// Unsupported says that rrpool cannot handle this kind of cluster, whatever the spec.
	Unsupported Kind = "Unsupported"
	// Unauthorized says that credentials are missing, wrong or lack a permission. Retry slowly.
	Unauthorized Kind = "Unauthorized"
	// QuotaExceeded says that the account may not have more. Retry slowly.
	QuotaExceeded Kind = "QuotaExceeded"
	// Unexpected says that the cloud does not do what it acknowledged, or that workers
	// come or go without an order. A person should look; the caller asks again later.
	Unexpected Kind = "Unexpected"
	// RateLimited says to ask again after Error.RetryAfter.
	RateLimited Kind = "RateLimited"
	// Unavailable says that the cloud does not answer, or that its answer makes no sense. Retry with back-off.
	Unavailable Kind = "Unavailable"
)

// Error is the only type of error that a Provider returns. It never holds a credential.
type Error struct {
	Kind Kind
	// Op is what was being done ("creating worker pool \"rr\"").
	Op string
	// Message is for people: the cloud's own words where there are any, and the remedy.
	Message string
	// Code is the cloud's error code. Subject is what the error is about, if the cloud says it ("cluster"). Both may be "".
	Code, Subject string
	// RetryAfter is the least time to wait before another try; if it is 0, the caller decides.
	RetryAfter time.Duration
	// Err is the cause, may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Message == "" && e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Kind, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err, or "" if err holds no Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Is reports whether err is a cloud error of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// RetryAfter returns the wait that err asks for, 0 if it asks for none.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// InvalidSpec is the error for a PoolSpec that can never be fulfilled.
func InvalidSpec(format string, args ...any) error {
	return &Error{Kind: InvalidInput, Op: "checking the wanted pool", Message: fmt.Sprintf(format, args...)}
}

// Interrupted is the error of a call whose context has ended.
func Interrupted(ctx context.Context, op string) error {
	return &Error{Kind: Unavailable, Op: op, Message: "interrupted", Err: ctx.Err()}
}

// Capped joins the first five items for a message, and counts the rest.
func Capped(items []string, separator string) string {
	const most = 5
	if len(items) > most {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(items, separator)
}
