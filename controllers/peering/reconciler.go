// Package peering reconciles ClusterPeerings: it gathers what is true here and in the remote cluster, lets the plan decide,
// applies that, and reports once at the end.
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

// Datastore is Calico.
type Datastore interface {
	// ObservePeering gives everything known at this moment, or an error when any of it is unknown.
	ObservePeering(ctx context.Context, scope plan.DatastoreOptions) (peering.Observed, error)
	// Apply makes one change and says whether there was anything to change.
	Apply(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error)
	// Try asks whether Apply would be refused, and changes nothing. See calico.Refuses.
	Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error
}

// How soon to look again: after a change of our own, and otherwise.
const (
	again = time.Second
	look  = 10 * time.Second
)

// remoteTimeout bounds one look at a remote cluster. After one that failed and took slowLook or more, the next comes after a pause:
// many clusters that hang must not take all workers.
const (
	remoteTimeout = 5 * time.Second
	slowLook      = time.Second
	pause         = 30 * time.Second
)

// Reconciler makes one ClusterPeering after the other as its spec wants it.
type Reconciler struct {
	// mu is held but for looks at remote clusters: what two ClusterPeerings need may be the same object, or overlap.
	mu sync.Mutex
	// Client writes, and reads the Secrets with kubeconfigs, which are in Namespace.
	Client client.Client
	// Live reads past any cache.
	Live      client.Reader
	Datastore Datastore
	Namespace string
	// Host is the apiserver of this cluster, as the manager's own kubeconfig has it.
	Host string

	// All that follows may be left out.

	Recorder events.EventRecorder
	// Leading gives the reason why another manager may be writing, nil for none. It is asked before every write.
	Leading func(context.Context) error
	// ReadSide is calico.ReadSide unless a test sets it.
	ReadSide func(context.Context, *rest.Config) (peering.Side, error)
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// ended is when the BGPPeers of a ClusterPeering that is being deleted were last seen, by its name.
	ended map[string]time.Time
	// damping has what remote clusters have declared, by the name of the ClusterPeering.
	damping map[string]*damping
	// Wait is how long a time really takes, for tests with a fast clock.
	Wait func(time.Duration) time.Duration
}

// scope is one reconciliation.
type scope struct {
	object   *v1alpha1.ClusterPeering
	labels   plan.DatastoreOptions
	observed peering.Observed
	desired  peering.Desired
	step     peering.Decision
	// remoteErr is why the remote cluster is not known now, nil where it is.
	remoteErr error
	// held is why what the remote cluster declares now is not taken, "" where it is.
	held    string
	changes int
	// left is how long what sessions needed has yet to stay.
	left time.Duration
}

// Reconcile takes one ClusterPeering a step further.
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
		return reconcile.Result{RequeueAfter: r.wait(again)}, nil
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

// hold leaves what sessions needed for as long as nodes may take to end them: they learn of each kind of objects by itself, and a
// session without its filter lets everything in.
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

// gather fills in what the decision depends on: the remote cluster first, as others may write while it is looked at.
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

// apiservers are the addresses by which pods, or the manager, reach this cluster's apiserver.
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
		if a, err := netip.ParseAddr(text); err == nil { // else it is a name
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out, nil
}

// notReflecting is why the cluster has no reflectors that last.
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

// gatherServices finds the ranges of services of this cluster, and which of them any ClusterPeering advertises.
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
	if announced := s.observed.OtherClusterIPs; len(announced) > 0 {
		own = announced
	}
	for i := range all.Items {
		p := &all.Items[i]
		if p.DeletionTimestamp != nil || !ptr.Deref(p.Spec.Advertise.Services, true) {
			continue
		}
		cidrs, err := parsed("spec.advertise.serviceCIDRs", p.Spec.Advertise.ServiceCIDRs, peering.ParseRange)
		switch {
		case err != nil && p.Name == s.object.Name:
			return err
		case err != nil: // what is announced for it stays
			cidrs = s.observed.Services
		case len(cidrs) == 0:
			cidrs = own
		}
		s.desired.Announce = append(s.desired.Announce, cidrs...)
		if p.Name == s.object.Name {
			s.desired.Services, s.desired.ServiceCIDRs = true, cidrs
		}
	}
	return nil
}

// serviceCIDRs are those that Kubernetes knows, none before Kubernetes 1.33.
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

// specError is a value of the spec that cannot be used.
type specError struct{ error }

// try asks whether all that the step writes would be taken, before it writes any of it: a BGPFilter or an IPPool without
// the BGPPeer that they are for is of no use. What is deleted, and reports, are not tried.
func (r *Reconciler) try(ctx context.Context, s *scope) error {
	for _, action := range s.step.Actions {
		switch action.(type) {
		case plan.PutFilter, plan.PutIPPool, plan.PutPeer, plan.AnnounceServices:
		default:
			continue
		}
		err := r.Datastore.Try(ctx, s.labels, action)
		switch {
		case calico.Untriable(err): // only the write shows it
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

// apply takes the step's actions in order and stops at the first error.
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

// report writes the status where it has changed.
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
