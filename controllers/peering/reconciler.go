// Package peering reconciles ClusterPeerings: it observes this cluster and the remote
// one, lets the plan decide, applies the decision, and writes the status once at the end.
package peering

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// Datastore is implemented by calico.Adapter.
type Datastore interface {
	// ObservePeering returns what is known of the cluster, or an error while anything is unknown.
	ObservePeering(ctx context.Context, scope plan.DatastoreOptions) (peering.Observed, error)
	// Apply makes one change and reports whether there was anything to change.
	Apply(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error)
	// Try makes a dry run of Apply. calico.Refuses(err) means that Apply would be refused.
	Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error
}

// A ClusterPeering is reconciled again after changePeriod if something was changed, and otherwise after pollPeriod.
const (
	changePeriod = time.Second
	pollPeriod   = 10 * time.Second
)

// remoteTimeout limits the time for reading a remote cluster. If a read fails after slowRead or longer,
// the next one follows after slowReadPause: many clusters that do not answer must not occupy all workers.
const (
	remoteTimeout = 5 * time.Second
	slowRead      = time.Second
	slowReadPause = 30 * time.Second
)

// Reconciler reconciles ClusterPeerings one at a time, but reads their remote clusters concurrently.
type Reconciler struct {
	// mu is held except while remote clusters are read: two ClusterPeerings may need the same object.
	mu sync.Mutex
	// Client writes, and reads the Secrets with kubeconfigs, which are in Namespace.
	Client client.Client
	// Live reads past any cache.
	Live      client.Reader
	Datastore Datastore
	Namespace string
	// Host is the address of this cluster's apiserver in the manager's own kubeconfig.
	Host string

	// The fields below are optional.

	Recorder events.EventRecorder
	// Leading returns why another manager may be writing, nil where none may. It is called before every write.
	Leading func(context.Context) error
	// ReadSide is calico.ReadSide unless a test sets it.
	ReadSide func(context.Context, *rest.Config) (peering.Side, error)
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// ended is when the BGPPeers of a ClusterPeering that is being deleted were last seen, by the name of the ClusterPeering.
	ended map[string]time.Time
	// damping is by the name of the ClusterPeering.
	damping map[string]*damping
	// Wait converts a duration to that of the tests' faster clock.
	Wait func(time.Duration) time.Duration
}

// scope is the state of one reconciliation.
type scope struct {
	object   *v1alpha1.ClusterPeering
	labels   plan.DatastoreOptions
	observed peering.Observed
	desired  peering.Desired
	step     peering.Decision
	// remoteErr is why the remote cluster is not known now, nil if it is known.
	remoteErr error
	// held is why the remote cluster's present declaration is not used, "" if it is used.
	held    string
	changes int
	// left is how long objects that sessions use must not be deleted yet.
	left time.Duration
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object := &v1alpha1.ClusterPeering{}
	if err := r.Live.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) //nolint:wrapcheck // it names the object
	}
	s := &scope{object: object}
	err := r.reconcile(ctx, s)
	if object.DeletionTimestamp != nil && err == nil && s.changes == 0 && s.left <= 0 && s.step.Problem == nil {
		return reconcile.Result{}, r.editFinalizers(ctx, object, controllerutil.RemoveFinalizer)
	}
	if calico.IsConflict(err) {
		err, s.changes = nil, s.changes+1
	} else if patchErr := r.report(ctx, s, err); err == nil {
		err = patchErr
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.changes > 0 {
		return reconcile.Result{RequeueAfter: r.wait(changePeriod)}, nil
	}
	return reconcile.Result{RequeueAfter: max(s.left, 0)}, nil
}

func (r *Reconciler) reconcile(ctx context.Context, s *scope) error {
	if s.object.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(s.object, v1alpha1.PeeringFinalizer) {
		if err := r.editFinalizers(ctx, s.object, controllerutil.AddFinalizer); err != nil {
			return err
		}
	}
	if err := r.gather(ctx, s); err != nil {
		return err
	}
	s.step = peering.Next(s.observed, s.desired)
	r.hold(s)
	if err := r.try(ctx, s); err != nil {
		return err
	}
	return r.apply(ctx, s)
}

// hold delays the deletion of objects that sessions use until all nodes must have ended the sessions: nodes learn of each kind of object separately, and a
// session without its filter accepts all routes.
func (r *Reconciler) hold(s *scope) {
	name, now := s.object.Name, r.now()
	if r.ended == nil {
		r.ended = map[string]time.Time{}
	}
	if !s.desired.Deleted || len(s.step.Actions) == 0 {
		delete(r.ended, name)
		return
	}
	ends := slices.DeleteFunc(slices.Clone(s.step.Actions), func(a plan.Action) bool { _, is := a.(plan.DeletePeer); return !is })
	if _, known := r.ended[name]; !known || len(ends) > 0 {
		r.ended[name] = now
	}
	if s.left = r.ended[name].Add(r.wait(peering.ApplyTime)).Sub(now); s.left > 0 {
		s.step.Actions = ends
	}
}

func (r *Reconciler) wait(d time.Duration) time.Duration {
	if r.Wait == nil {
		return d
	}
	return r.Wait(d)
}

func (r *Reconciler) leading(ctx context.Context) error {
	if r.Leading == nil {
		return nil
	}
	return r.Leading(ctx)
}

// gather reads what the decision depends on. It reads the remote cluster first, as mu is released meanwhile.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	var remote *peering.Side
	if s.object.DeletionTimestamp == nil {
		remote, s.remoteErr = r.remote(ctx, s.object)
	}
	pool := &v1alpha1.RouteReflectorPool{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, pool)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading RouteReflectorPool %q: %w", v1alpha1.SingletonName, err)
	}
	s.desired = peering.Desired{Name: s.object.Name, NotReflecting: notReflecting(pool), Deleted: s.object.DeletionTimestamp != nil}
	s.labels = plan.DatastoreOptions{RoleLabel: pool.Spec.BGP.NodeLabel, ZoneLabel: pool.Spec.Topology.ZoneLabel, CalicoAPI: pool.Status.CalicoAPI}
	if s.observed, err = r.Datastore.ObservePeering(ctx, s.labels); err != nil {
		return fmt.Errorf("observing the cluster: %w", err)
	}
	s.observed.Remote = remote
	spec := s.object.Spec
	s.desired.Pods, s.desired.KeepNextHop = ptr.Deref(spec.Advertise.Pods, true), spec.NextHop == v1alpha1.NextHopNodes
	if ref := spec.PasswordSecretRef; ref.Name != "" {
		s.desired.Password = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if err := r.gatherServices(ctx, s); err != nil {
		return err
	}
	if s.desired.Allowed, err = parsed("spec.remote.allowedCIDRs", spec.Remote.AllowedCIDRs, peering.ParseCIDR); err != nil && !s.desired.Deleted {
		return err
	}
	if s.observed.Apiservers, err = r.apiservers(ctx); err != nil && !s.desired.Deleted {
		return err
	}
	r.damp(s)
	return nil
}

// apiservers returns the addresses by which pods, or the manager, reach this cluster's apiserver.
func (r *Reconciler) apiservers(ctx context.Context) ([]netip.Addr, error) {
	var found discoveryv1.EndpointSlice
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
	if err := r.Live.Get(ctx, key, &found); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the apiserver's addresses, EndpointSlice %s: %w", key, err)
	}
	var texts []string
	if host, err := url.Parse(r.Host); err == nil {
		texts = append(texts, host.Hostname())
	}
	for _, e := range found.Endpoints {
		texts = append(texts, e.Addresses...)
	}
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil { // host names are left out
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out, nil
}

// notReflecting returns why the cluster has no lasting reflectors, "" if it has some.
func notReflecting(pool *v1alpha1.RouteReflectorPool) string {
	switch {
	case pool.Name == "":
		return "there is no RouteReflectorPool in this cluster: its reflectors are what peers with the remote cluster"
	case pool.DeletionTimestamp != nil:
		return "the RouteReflectorPool of this cluster is being deleted"
	case pool.Spec.Mode != v1alpha1.ModeRouteReflector:
		return fmt.Sprintf("the RouteReflectorPool of this cluster has spec.mode %s: set it to RouteReflector, or delete the ClusterPeering", pool.Spec.Mode)
	case pool.Spec.Rollout.Gate == v1alpha1.GateTimer:
		return "the RouteReflectorPool of this cluster has spec.rollout.gate Timer, with which no session is observed: set it to " + string(v1alpha1.GateSessions)
	}
	return ""
}

// gatherServices reads the service ranges of this cluster, and those that ClusterPeerings advertise.
func (r *Reconciler) gatherServices(ctx context.Context, s *scope) error {
	var all v1alpha1.ClusterPeeringList
	if err := r.Live.List(ctx, &all); err != nil {
		return fmt.Errorf("listing ClusterPeerings: %w", err)
	}
	own, err := r.serviceCIDRs(ctx)
	if err != nil {
		return err
	}
	s.desired.OwnServices = slices.Concat(own, s.observed.OtherClusterIPs)
	if len(s.observed.OtherClusterIPs) > 0 {
		own = s.observed.OtherClusterIPs
	}
	for i := range all.Items {
		p := &all.Items[i]
		if !advertisesServices(p) {
			continue
		}
		cidrs, err := parsed("spec.advertise.serviceCIDRs", p.Spec.Advertise.ServiceCIDRs, peering.ParseRange)
		if err != nil && p.Name == s.object.Name {
			return err
		}
		if err != nil {
			cidrs = s.observed.Services // invalid: what is announced now stays
		} else if len(cidrs) == 0 {
			cidrs = own
		}
		s.desired.Announce = append(s.desired.Announce, cidrs...)
		if p.Name == s.object.Name {
			s.desired.Services, s.desired.ServiceCIDRs = true, cidrs
		}
	}
	return nil
}

func advertisesServices(p *v1alpha1.ClusterPeering) bool {
	return p.DeletionTimestamp == nil && ptr.Deref(p.Spec.Advertise.Services, true)
}

// serviceCIDRs returns the ranges of Kubernetes' ServiceCIDRs, none before Kubernetes 1.33.
func (r *Reconciler) serviceCIDRs(ctx context.Context) ([]netip.Prefix, error) {
	var found networkingv1.ServiceCIDRList
	err := r.Live.List(ctx, &found)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	var out []netip.Prefix
	for _, c := range found.Items {
		cidrs, err := parsed("spec.cidrs of ServiceCIDR "+c.Name, c.Spec.CIDRs, peering.ParseCIDR)
		if err != nil {
			return nil, err
		}
		out = append(out, cidrs...)
	}
	return out, nil
}

// specError means that a value of the spec cannot be used.
type specError struct{ error }

// try makes a dry run of all that the step would create or change, before any write: a BGPFilter or an IPPool without its BGPPeer is useless.
func (r *Reconciler) try(ctx context.Context, s *scope) error {
	for _, action := range s.step.Actions {
		switch action.(type) {
		case plan.PutFilter, plan.PutIPPool, plan.PutPeer, plan.AnnounceServices:
		default:
			continue
		}
		err := r.Datastore.Try(ctx, s.labels, action)
		switch {
		case calico.Untriable(err): // only the write shows whether it is allowed
		case calico.Refuses(err):
			s.step.Problem = plan.Problemf("WriteRefused", "the datastore would not let rrpool %s, so nothing is written: %v: correct that value", plan.Details(action), err)
			s.step.Actions = nil
			return nil
		case err != nil:
			return fmt.Errorf("trying whether the datastore lets rrpool %s: %w", plan.Details(action), err)
		}
	}
	return nil
}

// apply applies the step's actions in order and stops at the first error.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	for _, action := range s.step.Actions {
		if err := r.leading(ctx); err != nil {
			return err
		}
		changed, err := r.Datastore.Apply(ctx, s.labels, action)
		if err != nil {
			return fmt.Errorf("trying to %s: %w", action, err)
		}
		if !changed {
			continue
		}
		s.changes++
		log.FromContext(ctx).Info(action.String(), "event", "PeeringChanged")
		if _, asks := action.(plan.RefreshStatus); !asks && r.Recorder != nil {
			r.Recorder.Eventf(s.object, nil, corev1.EventTypeNormal, "PeeringChanged", "Peer", "%s", action)
		}
	}
	return nil
}

func (r *Reconciler) editFinalizers(ctx context.Context, object *v1alpha1.ClusterPeering, edit func(client.Object, string) bool) error {
	before := object.DeepCopy()
	if !edit(object, v1alpha1.PeeringFinalizer) {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, object, patch)); err != nil {
		return fmt.Errorf("writing the finalizers of ClusterPeering %q: %w", object.Name, err)
	}
	return nil
}

// report writes the status if it has changed.
func (r *Reconciler) report(ctx context.Context, s *scope, failure error) error {
	status := s.status(failure)
	if equality.Semantic.DeepEqual(s.object.Status, status) {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	before := s.object.DeepCopy()
	s.object.Status = status
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, s.object, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("writing the status of ClusterPeering %q: %w", s.object.Name, err)
	}
	return nil
}
