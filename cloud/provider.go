// Package cloud is the port through which rrpool obtains the nodes that become route reflectors. The doc comments
// are the contract; the suite in test/providertest holds every provider to it.
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
// No method blocks waiting for the cloud to finish something: workers take minutes, and the caller asks again.
// Every error that leaves a Provider is an Error, of one of the Kinds. A method honours ctx: it returns soon after
// ctx ends. A Provider is safe for concurrent use.
type Provider interface {
	// Name is a short lower-case word for logs, metrics and status ("iks").
	Name() string

	// Observe reports what exists now. A pool that does not exist is not an error: Pool.Exists is false. Where anything
	// is unknown Observe returns an error, and the caller must change nothing. Workers with another flavor or other
	// options than want's are Former.
	Observe(ctx context.Context, want PoolSpec) (Pool, error)

	// Ensure makes at most one change towards want, and says what it did and what it waits for. Called again with the
	// same want it goes on from what exists; when all is there it does nothing and returns Done. It never touches a pool
	// that is not ours, never orders a worker without want's taints, and creates a second pool only where other options
	// are wanted, and a pool's cannot be changed. Where the answer to its change is lost it says what shows whether it
	// was made, or returns Unavailable.
	Ensure(ctx context.Context, want PoolSpec) (Progress, error)

	// Delete makes at most one change towards there being no pool. A pool that is not ours is left as it is, and is a
	// Conflict; no pool is Done.
	Delete(ctx context.Context) (Progress, error)
}

// PoolSpec is the pool that is wanted. A provider that orders no machines refuses flavor, taints and options as InvalidInput.
type PoolSpec struct {
	// Flavor is the machine type; empty means the provider's default.
	Flavor string
	// Zones to have workers in; empty means every zone of the cluster. A zone that is no longer listed leaves the pool
	// once it has no workers.
	Zones []string
	// SizePerZone is the number of workers in each zone, at least 1. Where the workers are existing nodes, other zones may
	// have those that a zone lacks.
	SizePerZone int
	// Lasting is how many of these are no substitutes; 0 for all.
	Lasting int
	// Taints that every node of the pool has when it joins the cluster. Others that the cloud reports stay on the pool.
	Taints []Taint
	// Untainted lists the workers whose nodes lack one of Taints. While there is one, growing the pool is a Conflict.
	Untainted []string
	// TaintsSeen says that the node of a worker has all of Taints. Until then, a cloud that does not show the pool's taints
	// is asked for one worker only.
	TaintsSeen bool
	// Ready lists the workers whose nodes are Ready. Replacements of which none gets Ready are ordered ever more slowly.
	Ready []string
	// Retire lists the IDs of workers to remove because the pool shrinks. They are no reflectors any more. Only these go: a
	// pool is never resized so that the cloud chooses the worker to go.
	Retire []string
	// Replace lists the IDs of dead workers to replace, in the same zone where that is possible.
	Replace []string
	// Stuck lists workers that have been WorkerDeleting for so long that nothing waits for them any more.
	Stuck []string
	// Refill allows workers in a zone that is no longer listed, where the others cannot be had without them.
	Refill bool
	// Options that the workers are to have.
	Options PoolOptions
	// Known are the IDs of the pools that were seen as ours before. Such a pool still exists when it has lost its label or
	// name, or is not listed.
	Known []string
	// Once says that Observe is called once, and nothing is ordered: a pool of Known that is neither listed nor found is
	// gone, and a flavor that the cluster's zones do not have is refused as an order of it would be.
	Once bool
}

// Record is a text that outlives the process. A provider that orders machines writes there what it asks for before it
// does. It comes with the context of a call; without one the provider keeps it in memory.
type Record interface {
	Text() string
	Write(ctx context.Context, text string) error
}

type recordKey struct{}

// WithRecord is ctx with a record.
func WithRecord(ctx context.Context, r Record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

// RecordOf gives the record of ctx, nil for none.
func RecordOf(ctx context.Context) Record {
	r, _ := ctx.Value(recordKey{}).(Record)
	return r
}

// PoolOptions are further options of a pool, under the names of spec.provider.iks; what is empty is left to the provider.
// A cloud refuses an option that it does not have as InvalidInput before it orders anything.
type PoolOptions struct {
	OperatingSystem string
	// SecurityGroups that workers get beside the cluster's, by id.
	SecurityGroups []string
	// Networks that workers are attached to, by zone.
	Networks               map[string]Network
	WorkerVolumeEncryption WorkerVolumeEncryption
	DedicatedHostPoolID    string
}

// Network is a subnet (VPC), or a private VLAN and mostly a public one (classic), by id.
type Network struct{ SubnetID, PrivateVLAN, PublicVLAN string }

// WorkerVolumeEncryption is the root key that the workers' volumes are encrypted with, and where it is kept.
type WorkerVolumeEncryption struct{ KMSInstanceID, RootKeyID, KMSAccountID string }

// Taint is a node taint.
type Taint struct{ Key, Value, Effect string }

// Pool is what exists.
type Pool struct {
	Exists bool
	// Owned is true when the pool was created by rrpool for this cluster.
	Owned bool
	// Unmarked says that the pool is ours by its ID but has lost its label, and how to put that back; "" for any other
	// pool. It is not Owned: nothing is changed there.
	Unmarked string
	// Mark says what makes a pool that is not Owned ours.
	Mark string
	ID   string
	// IDs are those of all our pools, which this one stands for, sorted.
	IDs []string
	// Gone are those of PoolSpec.Known that exist no more.
	Gone []string
	Name string
	// Flavor is the machine type of its workers; with PoolSpec.Once, that which a pool to be made would have.
	Flavor string
	// Options, as far as the cloud reports them.
	Options PoolOptions
	// SizePerZone is the size that the cloud has been asked for. A provider that orders nothing derives it from the workers.
	SizePerZone int
	// Zones of the pool, sorted.
	Zones []string
	// ClusterZones are all zones the cluster has workers in or may have, sorted.
	ClusterZones []string
	// Emptied is the name of a pool of ours that this one has replaced, and that Ensure is to delete, "" for none.
	Emptied string
	// Taints every node of the pool gets. They may be some minutes old; before a provider orders workers it asks again.
	Taints []Taint
	// TaintsUnknown says that the cloud does not report the pool's taints, and has not acknowledged any lately.
	TaintsUnknown bool
	// Leaving is what the cloud says of a pool that is being deleted; "" for any other.
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
	// WorkerProvisioning is ordered, and not yet a usable node.
	WorkerProvisioning WorkerState = "Provisioning"
	// WorkerDeployed is a healthy node for the cloud.
	WorkerDeployed WorkerState = "Deployed"
	// WorkerUnhealthy is deployed, and not healthy for the cloud.
	WorkerUnhealthy WorkerState = "Unhealthy"
	// WorkerFailed does not become a node, and has to be replaced.
	WorkerFailed WorkerState = "Failed"
	// WorkerDeleting is being deleted.
	WorkerDeleting WorkerState = "Deleting"
)

// Worker is one machine of the pool.
type Worker struct {
	ID string `json:"id"`
	// NodeName is the name of the Node where the cloud reports it, else "".
	NodeName string      `json:"node,omitempty"`
	Zone     string      `json:"zone"`
	Flavor   string      `json:"flavor,omitempty"`
	State    WorkerState `json:"state"`
	// Message is what the cloud says about it.
	Message string `json:"message,omitempty"`
	// Outdated says what an update would change ("1.31.1_1500 to 1.31.2_1510"), "" for no update.
	Outdated string `json:"outdated,omitempty"`
	// Former says that it has not the wanted flavor or options, as Outdated says, and is replaced by one that has.
	Former bool `json:"former,omitempty"`
	// DeleteFailed says that it is WorkerDeleting, and the cloud has given that up.
	DeleteFailed bool `json:"-"`
	// Physical says that it is bare metal, which a cloud may take days to set up.
	Physical bool `json:"-"`
	// LeavingSince is since when the caller has seen it WorkerDeleting. A provider does not set it.
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

// Kind classes an error by what the caller should do about it.
type Kind string

// The kinds.
const (
	// NotFound says that something does not exist. A retry alone does not help.
	NotFound Kind = "NotFound"
	// Conflict says that it exists and is not ours, or something else manages it. A person decides.
	Conflict Kind = "Conflict"
	// InvalidInput says that the request can never succeed. A person changes the spec.
	InvalidInput Kind = "InvalidInput"
	// Unsupported says that rrpool cannot handle this kind of cluster, whatever the spec.
	Unsupported Kind = "Unsupported"
	// Unauthorized says that credentials are missing, wrong or lack a permission. Retry slowly.
	Unauthorized Kind = "Unauthorized"
	// QuotaExceeded says that the account may not have more. Retry slowly.
	QuotaExceeded Kind = "QuotaExceeded"
	// Unexpected says that the cloud does not do what it acknowledged, or that workers come or go without an order. A person
	// looks; it is asked again later.
	Unexpected Kind = "Unexpected"
	// RateLimited says to ask again after Error.RetryAfter.
	RateLimited Kind = "RateLimited"
	// Unavailable says that the cloud does not answer, or not sensibly. Retry with back-off.
	Unavailable Kind = "Unavailable"
)

// Error is the only error type that leaves a Provider. It never holds a credential.
type Error struct {
	Kind Kind
	// Op is what was being done ("creating worker pool \"rr\"").
	Op string
	// Message is for people: the cloud's own words where there are any, and the remedy.
	Message string
	// Code is the cloud's own, and Subject what it is about where the cloud says that ("cluster"); "" for none.
	Code, Subject string
	// RetryAfter is the least time before another try; 0 leaves it to the caller.
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

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf gives the kind of err, or "" when err holds no Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Is reports whether err is a cloud error of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// RetryAfter gives the wait that err asks for, 0 when it asks for none.
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
