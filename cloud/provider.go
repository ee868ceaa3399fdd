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

	// Observe reports what exists now. A pool that does not exist is not an error: Pool.Exists is false. When
	// anything is unknown Observe returns an error and the caller must change nothing. Of want, zones, flavor
	// and options count: workers that have another flavor, or other options, are Former.
	Observe(ctx context.Context, want PoolSpec) (Pool, error)

	// Ensure takes at most one mutating step towards want and says what it did and what it waits for. Called again
	// with the same want it continues from what exists; when all is there it does nothing and returns Done. It
	// never creates a second pool, but where a pool's flavor and options cannot be changed and others are wanted, never touches a pool that is not ours, and never lets a worker without want's
	// taints come into being. Where the answer to its step is lost it says what shows whether it was made, or returns Unavailable.
	Ensure(ctx context.Context, want PoolSpec) (Progress, error)

	// Delete takes at most one step towards there being no pool. A pool that is
	// not ours is left alone and reported as Conflict; no pool is Done.
	Delete(ctx context.Context) (Progress, error)
}

// PoolSpec is the pool that is wanted. A provider that orders no machines, but takes nodes that are there, cannot
// give them a flavor, taints or options: it refuses them as InvalidInput.
type PoolSpec struct {
	// Flavor is the machine type; empty means the provider's default.
	Flavor string
	// Zones to have workers in; empty means every zone of the cluster. A zone that
	// is no longer listed is given up once it has no workers.
	Zones []string
	// SizePerZone is the number of workers in each zone, at least 1. Where zones have
	// only so many nodes to take, their share may go to others.
	SizePerZone int
	// Lasting is how many of these are there to stay; the others are substitutes. 0: all.
	Lasting int
	// Taints every node of the pool carries from its first moment. What others have put
	// on the pool stays, as far as the cloud reports it.
	Taints []Taint
	// Untainted lists the workers whose nodes lack one of Taints. While there is
	// one, the pool is not grown: the call returns Conflict.
	Untainted []string
	// TaintsSeen: the node of one of the pool's workers carries all of Taints. While there is none, a cloud that does not
	// show the pool's taints is asked for one worker only.
	TaintsSeen bool
	// Ready lists the workers whose nodes are Ready. Where those that replace others never are, they are replaced ever more slowly.
	Ready []string
	// Retire lists worker ids to be removed for good because the pool shrinks. The caller has already taken them
	// out of service. Only these go: a pool is never shrunk in a way that lets the cloud choose which worker goes.
	Retire []string
	// Replace lists worker ids that are dead and are to be exchanged for new
	// workers, in the same zone where that is possible.
	Replace []string
	// Stuck lists workers that have been going away for so long that nothing waits for them any more.
	Stuck []string
	// Refill: workers may come to a zone that is no longer listed, where the others cannot be had without them.
	Refill bool
	// Options that the workers are to have.
	Options PoolOptions
	// Known are the IDs of the pools that were seen as ours before. One of these that bears another label or name, or is not
	// listed, is not taken for absent.
	Known []string
	// Once: there is one look, and nothing is ordered by it, so what of Known is neither listed nor found is gone. A flavor
	// that the cluster's zones do not have is refused as it would be when it is ordered.
	Once bool
}

// Record is a text of the provider's that outlives the process: one that orders machines writes there what it asks for
// before it does. It comes with the context of a call; without one the provider remembers by itself.
type Record interface {
	Text() string
	Write(ctx context.Context, text string) error
}

type recordKey struct{}

// WithRecord is ctx with a record.
func WithRecord(ctx context.Context, r Record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

// RecordOf gives the record that came with ctx, nil for none.
func RecordOf(ctx context.Context) Record {
	r, _ := ctx.Value(recordKey{}).(Record)
	return r
}

// PoolOptions are what else can be chosen for a pool, under the names of spec.provider.iks; what is empty is left to
// the provider. A cloud that does not know one that is given refuses it as InvalidInput before it orders anything.
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
	// Unmarked says that the pool is ours by its ID, does not show it any more, and how to mark it again; "" for any other
	// pool. It is not Owned: nothing is changed there meanwhile.
	Unmarked string
	// Mark says what a pool that is not Owned lacks, and how to mark it as ours.
	Mark string
	ID   string
	// IDs are those of all pools of ours that this one stands for, sorted.
	IDs []string
	// Gone are those of PoolSpec.Known that exist no more.
	Gone []string
	Name string
	// Flavor is the machine type of its workers, or those that it would get, where PoolSpec.Once asks for a pool that does not exist.
	Flavor string
	// Options, as far as the cloud reports them.
	Options PoolOptions
	// SizePerZone is the size the cloud has been asked for, per zone. A provider
	// that orders nothing reports what its workers amount to.
	SizePerZone int
	// Zones of the pool, sorted.
	Zones []string
	// ClusterZones are all zones the cluster has workers in or may have, sorted.
	ClusterZones []string
	// Emptied is the name of a pool of ours that has given way to this one, and that Ensure has yet to delete, "" for none.
	Emptied string
	// Taints every node of the pool gets. A provider may report them some minutes
	// late, but never relies on that when it makes workers.
	Taints []Taint
	// TaintsUnknown: the cloud does not report the pool's taints, and has not acknowledged any of late.
	TaintsUnknown bool
	// Leaving is why the pool is on its way out, in the cloud's words; "" when it is not.
	Leaving string
	// Autoscaled says that something else resizes this pool.
	Autoscaled bool
	// Workers, sorted by ID. Deleted workers are left out, and so are those of a pool that is not ours.
	Workers []Worker
	// Problems are conditions a person may have to solve, in plain words, sorted ("worker w1: over quota …").
	Problems []string
}

// WorkerState is the state of a worker as far as rrpool needs it.
type WorkerState string

// The worker states.
const (
	// WorkerProvisioning: ordered, not yet a usable node.
	WorkerProvisioning WorkerState = "Provisioning"
	// WorkerDeployed: the cloud considers it a healthy node.
	WorkerDeployed WorkerState = "Deployed"
	// WorkerUnhealthy: deployed, but the cloud reports it as not healthy.
	WorkerUnhealthy WorkerState = "Unhealthy"
	// WorkerFailed: it will not become a node without being replaced.
	WorkerFailed WorkerState = "Failed"
	// WorkerDeleting: it is going away.
	WorkerDeleting WorkerState = "Deleting"
)

// Worker is one machine of the pool.
type Worker struct {
	ID string `json:"id"`
	// NodeName is the Kubernetes node's name where the cloud reports it, else "".
	NodeName string      `json:"node,omitempty"`
	Zone     string      `json:"zone"`
	Flavor   string      `json:"flavor,omitempty"`
	State    WorkerState `json:"state"`
	// Message is what the cloud says about it.
	Message string `json:"message,omitempty"`
	// Outdated says from which version to which the cloud would update it ("1.31.1_1500 to 1.31.2_1510"), "" for no update.
	Outdated string `json:"outdated,omitempty"`
	// Former: it has not the wanted flavor or options, as Outdated says, and gives way to a worker that has.
	Former bool `json:"former,omitempty"`
	// DeleteFailed: it is WorkerDeleting, and the cloud has given that up.
	DeleteFailed bool `json:"-"`
	// Physical: it is a machine of its own, which a cloud may take days to set up.
	Physical bool `json:"-"`
	// LeavingSince is since when the caller has seen it WorkerDeleting. A provider does not set it.
	LeavingSince time.Time `json:"-"`
}

// Progress says what one call of Ensure or Delete did.
type Progress struct {
	// Done: nothing was changed because nothing is left to do.
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
	// NotFound: the named thing does not exist. Retrying alone does not help.
	NotFound Kind = "NotFound"
	// Conflict: it exists but is not ours, or something else manages it. A person decides.
	Conflict Kind = "Conflict"
	// InvalidInput: the request can never succeed as it is. A person changes the spec.
	InvalidInput Kind = "InvalidInput"
	// Unsupported: the cluster is of a kind that rrpool cannot handle, and no setting changes that.
	Unsupported Kind = "Unsupported"
	// Unauthorized: credentials are missing, wrong or lack a permission. Retry slowly.
	Unauthorized Kind = "Unauthorized"
	// QuotaExceeded: the account may not have more. Retry slowly.
	QuotaExceeded Kind = "QuotaExceeded"
	// Unexpected: the cloud does not do what it acknowledged, or workers come or go that nobody asked for. What no failure
	// explains is asked for again later; a person looks.
	Unexpected Kind = "Unexpected"
	// RateLimited: ask again after Error.RetryAfter.
	RateLimited Kind = "RateLimited"
	// Unavailable: the cloud does not answer, or not sensibly. Retry with back-off.
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
