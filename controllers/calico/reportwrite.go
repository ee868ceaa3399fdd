package calico

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// maxPeriod is the longest time between reports that Calico takes.
const maxPeriod = 24 * time.Hour

// Watch makes exactly the wanted node status reports exist: it creates what is
// missing, corrects what differs and deletes our own that are not wanted. Those of
// others are left alone. Where the API has no such reports, it does nothing.
func (a *Adapter) Watch(ctx context.Context, want []plan.StatusRequest) (bool, error) {
	if err := errors.Join(a.store.ready(), a.store.writable()); err != nil {
		return false, err
	}
	if a.store.watchStatus(apiv3.KindCalicoNodeStatus).missing {
		return false, nil
	}
	j, err := a.joinNow(ctx)
	if err != nil {
		return false, err
	}
	wanted := map[string]plan.StatusRequest{}
	for _, w := range want {
		if w.Node = j.calicoName(w.Node); w.Node != "" {
			wanted[statusName(w.Node)] = w
		}
	}
	var did bool
	var errs []error
	count := func(changed bool, err error) {
		did = did || changed
		errs = append(errs, err)
	}
	for _, r := range a.store.reports() {
		name := r.object.Name
		w, ok := wanted[name]
		switch {
		case !ok:
			count(a.deleteReport(ctx, r.object))
		case !sameRequest(r.object.Spec, reportSpec(w)):
			count(a.putReport(ctx, name, w))
		}
		delete(wanted, name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		count(a.putReport(ctx, name, wanted[name]))
	}
	return did, errors.Join(errs...)
}

// reportSpec is the spec that asks for what is wanted.
func reportSpec(w plan.StatusRequest) apiv3.CalicoNodeStatusSpec {
	period := min(max(w.Period, time.Second), maxPeriod)
	spec := apiv3.CalicoNodeStatusSpec{
		Node:                w.Node,
		Classes:             []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeAgent, apiv3.NodeStatusClassTypeBGP},
		UpdatePeriodSeconds: ptr.To(uint32(math.Ceil(period.Seconds()))),
	}
	if w.Routes {
		spec.Classes = append(spec.Classes, apiv3.NodeStatusClassTypeRoutes)
	}
	return spec
}

// sameRequest: the order of the classes says nothing, see writeReport.
func sameRequest(a, b apiv3.CalicoNodeStatusSpec) bool {
	return a.Node == b.Node && ptr.Equal(a.UpdatePeriodSeconds, b.UpdatePeriodSeconds) && sameClasses(a, b)
}

func sameClasses(a, b apiv3.CalicoNodeStatusSpec) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Classes)), slices.Sorted(slices.Values(b.Classes)))
}

// putReport creates a status object of ours, or corrects it.
func (a *Adapter) putReport(ctx context.Context, name string, w plan.StatusRequest) (bool, error) {
	have, err := a.liveReport(ctx, name)
	if err != nil {
		return false, err
	}
	if have == nil {
		o := apiv3.NewCalicoNodeStatus()
		o.Name, o.Spec = name, reportSpec(w)
		o.Labels = map[string]string{managedByLabel: managedByValue, reportLabel: "true"}
		return a.writeReport(ctx, o, true)
	}
	a.store.put(have.DeepCopy()) // an answer that has not arrived yet must be known before it is overwritten
	spec := reportSpec(w)
	if sameRequest(have.Spec, spec) {
		return false, nil
	}
	// The reporter never removes what it is no longer asked for.
	clears := !isCleared(have) && (have.Spec.Node != spec.Node || !sameClasses(have.Spec, spec))
	if clears {
		have.Status = apiv3.CalicoNodeStatusStatus{}
	}
	have.Spec = spec
	return a.writeReport(ctx, have, clears)
}

// writeReport writes a status object so that the reporter looks at it. It ignores every version of an object whose
// generation it has seen, or before Calico 3.31 whose spec it has seen, so the classes change their order. In the
// first group generations are not counted: the number that is written is stored. The clock keeps the number growing when an object
// is deleted and created again. It is taken by writes that leave the report blank and find it otherwise: see clearedAt.
// In the second group the apiserver counts, but only what changes the spec, and the time is an annotation.
func (a *Adapter) writeReport(ctx context.Context, o *apiv3.CalicoNodeStatus, clears bool) (bool, error) {
	err := a.cfg.Permit(ctx)
	if err == nil && clears && o.ResourceVersion != "" {
		err = a.clearStatus(ctx, o)
	}
	if err != nil {
		return false, err
	}
	a.renew(o, clears)
	out, err := a.calico.reports.write(ctx, o)
	if err != nil {
		return false, err
	}
	a.store.put(out)
	if clears && !isCleared(out) && !a.statusSubresource.Swap(true) {
		return a.writeReport(ctx, out.DeepCopy(), true) // the CRD is of Calico 3.33 or newer
	}
	return true, nil
}

// renew makes a version of a status object that the reporter has not seen.
func (a *Adapter) renew(o *apiv3.CalicoNodeStatus, clears bool) {
	o.Generation++
	if clears {
		o.Generation = max(o.Generation, a.cfg.Now().Unix())
	}
	if o.ResourceVersion != "" {
		slices.Reverse(o.Spec.Classes)
	}
	if clears && a.group == GroupV3 {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, clearedAnnotation, rfc3339(a.cfg.Now()))
	}
}

// clearStatus clears the status alone, before the reporter is made to look, where the CRD has a subresource for it. A
// write of the whole object leaves the status as it is there.
func (a *Adapter) clearStatus(ctx context.Context, o *apiv3.CalicoNodeStatus) error {
	if !a.statusSubresource.Load() {
		return nil
	}
	raw := a.custom(apiv3.KindCalicoNodeStatus, o.Name)
	body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":null}`, o.ResourceVersion)
	err := a.calico.client.Status().Patch(ctx, raw, client.RawPatch(types.MergePatchType, []byte(body)))
	if apierrors.IsNotFound(err) {
		a.statusSubresource.Store(false)
		return nil
	}
	if err != nil {
		return fmt.Errorf("clearing the status of CalicoNodeStatus %q: %w", o.Name, err)
	}
	o.ResourceVersion, o.Status = raw.GetResourceVersion(), apiv3.CalicoNodeStatusStatus{}
	return nil
}

func (a *Adapter) deleteReport(ctx context.Context, o *apiv3.CalicoNodeStatus) (bool, error) {
	if err := a.cfg.Permit(ctx); err != nil {
		return false, err
	}
	return a.delete(ctx, o, client.Preconditions{UID: ptr.To(o.UID)})
}

// refreshAgain is how long a cleared report may stay blank before the reporter is
// asked again: it may have missed the question.
const refreshAgain = 15 * time.Second

// refreshStatus clears a report. The reporter writes only what has changed, so
// it fills a cleared one in again at once, if it is alive.
func (a *Adapter) refreshStatus(ctx context.Context, node string) (bool, error) {
	have, err := a.liveReport(ctx, statusName(node))
	if err != nil || have == nil {
		return false, err
	}
	if isCleared(have) {
		a.store.put(have.DeepCopy())
	}
	if !a.store.mayAsk(have) {
		return false, nil
	}
	clears := !isCleared(have)
	have.Status = apiv3.CalicoNodeStatusStatus{}
	return a.writeReport(ctx, have, clears)
}

// liveReport reads a status object past any cache, nil when there is none.
func (a *Adapter) liveReport(ctx context.Context, name string) (*apiv3.CalicoNodeStatus, error) {
	o, err := a.calico.reports.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading CalicoNodeStatus %q: %w", name, err)
	case !isReport(o):
		return nil, &NameTakenError{Kind: apiv3.KindCalicoNodeStatus, Name: name}
	}
	return o, nil
}
