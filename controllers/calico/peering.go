package calico

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// servicesAnnotation of the default BGPConfiguration has the ranges of services that are announced for ClusterPeerings, as a JSON list.
const servicesAnnotation = "rrpool.io/peering-services"

// isOurs reports whether rrpool made an object.
func isOurs(o metav1.Object) bool {
	return o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue
}

// peeringOf returns the ClusterPeering that an object of ours was made for, "" for none.
func peeringOf(o metav1.Object) string {
	if !isOurs(o) {
		return ""
	}
	return o.GetLabels()[v1alpha1.PeeringLabel]
}

// labelsFor returns the labels of our objects. If a name is given, they are those of objects for that ClusterPeering.
func labelsFor(name string) map[string]string {
	out := map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}
	if name != "" {
		out[v1alpha1.PeeringLabel] = name
	}
	return out
}

// ObservePeering returns what Observe does, and what only ClusterPeerings depend on. BGPFilters and IPPools are read past any cache.
func (a *Adapter) ObservePeering(ctx context.Context, scope plan.DatastoreOptions) (peering.Observed, error) {
	cluster, err := a.Observe(ctx, scope)
	out := peering.Observed{Cluster: cluster}
	if err != nil {
		return out, err
	}
	err = a.list(ctx, peering.KindBGPFilter, func(raw *unstructured.Unstructured) error {
		o := apiv3.NewBGPFilter()
		err := decode(a.group, raw, o)
		out.Filters = append(out.Filters, peering.Filter{Name: o.Name, Peering: peeringOf(o), Rules: filterIn(o)})
		return err
	})
	if err != nil {
		return out, err
	}
	err = a.list(ctx, peering.KindIPPool, func(raw *unstructured.Unstructured) error {
		o := apiv3.NewIPPool()
		if err := decode(a.group, raw, o); err != nil {
			return err
		}
		cidr, err := ownRange(o.Spec.CIDR)
		if err != nil {
			out.Unread = fmt.Sprintf("IPPool %s: %v", o.Name, err)
			return nil
		}
		pool := peering.IPPool{Name: o.Name, CIDR: cidr, Peering: peeringOf(o), ForPods: forPods(o.Spec), Announced: announces(o.Spec)}
		o.Spec.AllowedUses, o.Spec.AssignmentMode = nil, nil // set by some CRDs and clients, without an effect on a disabled pool
		pool.Edited = pool.Peering != "" && !reflect.DeepEqual(o.Spec, poolSpec(pool.CIDR))
		out.Pools = append(out.Pools, pool)
		return nil
	})
	if err != nil {
		return out, err
	}
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	if a.store.config == nil {
		return out, nil
	}
	noted, there, err := announced(a.store.config)
	if err != nil {
		return out, err
	}
	ours := func(c netip.Prefix) bool { return slices.Contains(noted, c) }
	services, err := servicesOf(a.store.config.Spec)
	if err != nil {
		out.Unread = fmt.Sprintf("the services of BGPConfiguration %s: %v", defaultConfig, err)
	}
	out.Services, out.OtherServices = there, slices.DeleteFunc(services, ours)
	out.OtherClusterIPs = slices.DeleteFunc(clusterIPs(a.store.config.Spec), ours)
	return out, nil
}

// announces reports whether nodes announce the addresses of pods in an IPPool.
func announces(spec apiv3.IPPoolSpec) bool { return forPods(spec) && !spec.DisableBGPExport }

// clusterIPs returns the ranges of cluster IPs, without ranges that cannot be parsed.
func clusterIPs(spec apiv3.BGPConfigurationSpec) []netip.Prefix {
	out, _ := servicesOf(apiv3.BGPConfigurationSpec{ServiceClusterIPs: spec.ServiceClusterIPs}) // ObservePeering reports the error
	return out
}

// list calls the function each with every custom resource of a kind. If the API does not have the kind, there are none. If each fails for an
// object whose name begins with peering.Prefix, list fails. It leaves out other objects for which each fails, as Calico does.
func (a *Adapter) list(ctx context.Context, kind string, each func(*unstructured.Unstructured) error) error {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(a.group.WithKind(kind + "List"))
	if err := a.calico.client.List(ctx, found); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing %ss: %w", kind, err)
	}
	for i := range found.Items {
		if err := each(&found.Items[i]); err != nil && strings.HasPrefix(found.Items[i].GetName(), peering.Prefix) {
			return err
		} else if err != nil {
			a.cfg.Log.Error(err, "an object is left out")
		}
	}
	return nil
}

// take decodes and stores what one of our own requests has returned.
func (a *Adapter) take(raw *unstructured.Unstructured, into resource) error {
	err := decode(a.group, raw, into)
	if err == nil {
		a.store.put(into)
	}
	return err
}

// peeringIn returns what peeringOf does, for a custom resource as it is stored.
func (a *Adapter) peeringIn(raw *unstructured.Unstructured) string {
	o := apiv3.NewBGPFilter()
	o.SetLabels(raw.GetLabels())
	o.SetAnnotations(raw.GetAnnotations())
	if withCalicoMetadata(a.group, o) != nil {
		return ""
	}
	return peeringOf(o)
}

// putFilter creates the BGPFilter of a ClusterPeering, or replaces its rules by those of act.Filter.
func (a *Adapter) putFilter(ctx context.Context, act plan.PutFilter) (bool, error) {
	text, err := json.Marshal(act.Filter)
	if err != nil {
		return false, fmt.Errorf("rendering BGPFilter %q: %w", act.Name, err)
	}
	return a.putObject(ctx, peering.KindBGPFilter, act.Name, act.Peering, ptr.To(filterSpec(act.Filter)), map[string]string{filterAnnotation: string(text)})
}

// putObject creates a custom resource of a ClusterPeering, or replaces its spec, labels and annotations.
func (a *Adapter) putObject(ctx context.Context, kind, name, of string, spec any, annotations map[string]string) (bool, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return false, fmt.Errorf("rendering %s %q: %w", kind, name, err)
	}
	o := a.custom(kind, name)
	err = a.calico.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, fmt.Errorf("reading %s %q: %w", kind, name, tooOld(err))
	case a.peeringIn(o) != of:
		return false, &NameTakenError{Kind: kind, Name: name}
	}
	before := o.GetResourceVersion()
	o.SetLabels(labelsFor(of))
	o.SetAnnotations(annotations)
	o.Object["spec"] = fields
	if do, err := save(ctx, a.calico.client, o, allFields); err != nil {
		return false, fmt.Errorf("%s %s %q: %w", do, kind, name, tooOld(err))
	}
	return o.GetResourceVersion() != before, nil
}

// allFields makes the API refuse an object with a field that the API does not have.
// Otherwise the API would drop the field, and a filter would let through more.
const allFields = client.FieldValidation(metav1.FieldValidationStrict)

// tooOld adds the remedy to the error of a kind or a field that the API does not have.
func tooOld(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "unknown field") {
		return fmt.Errorf("the CRDs of this Calico are too old for a ClusterPeering, upgrade it: %w", err)
	}
	return err
}

func (a *Adapter) deleteObject(ctx context.Context, act plan.DeletePeeringObject) (bool, error) {
	o := a.custom(act.Kind, act.Name)
	err := a.calico.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) || err == nil && a.peeringIn(o) != act.Peering {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %q: %w", act.Kind, act.Name, err)
	}
	return a.deleteVersion(ctx, o)
}

// filterSpec returns the rules of a BGPFilter. The first rule that matches decides. Which routes to its own pods a node exports is decided by
// Calico's own rules; here only ranges to be withheld are named.
func filterSpec(f plan.PeeringFilter) apiv3.BGPFilterSpec {
	var out apiv3.BGPFilterSpec
	out.ImportV4, out.ExportV4 = rulesFor(f, netip.Addr.Is4)
	imports, exports := rulesFor(f, netip.Addr.Is6)
	six := func(rules []apiv3.BGPFilterRuleV4) (out []apiv3.BGPFilterRuleV6) {
		for _, r := range rules {
			out = append(out, apiv3.BGPFilterRuleV6{CIDR: r.CIDR, Source: r.Source, Interface: r.Interface, MatchOperator: r.MatchOperator, Action: r.Action})
		}
		return out
	}
	out.ImportV6, out.ExportV6 = six(imports), six(exports)
	return out
}

// rulesFor returns the rules of one address family.
func rulesFor(f plan.PeeringFilter, family func(netip.Addr) bool) (imports, exports []apiv3.BGPFilterRuleV4) {
	const learned = apiv3.BGPFilterSourceRemotePeers
	add := func(to *[]apiv3.BGPFilterRuleV4, cidrs []netip.Prefix, rule apiv3.BGPFilterRuleV4) {
		for _, c := range cidrs {
			if family(c.Addr()) {
				rule.CIDR = c.String()
				*to = append(*to, rule)
			}
		}
	}
	add(&imports, f.Import, apiv3.BGPFilterRuleV4{MatchOperator: apiv3.In, Action: apiv3.Accept})
	imports = append(imports, apiv3.BGPFilterRuleV4{Action: apiv3.Reject})
	exports = append(exports, apiv3.BGPFilterRuleV4{Interface: "bpf*.cali", Action: apiv3.Reject}) // Felix's routes to services on the node itself
	add(&exports, f.Services, apiv3.BGPFilterRuleV4{MatchOperator: apiv3.Equal, Source: learned, Action: apiv3.Reject})
	add(&exports, f.Services, apiv3.BGPFilterRuleV4{MatchOperator: apiv3.In, Action: apiv3.Accept})
	add(&exports, f.Withhold, apiv3.BGPFilterRuleV4{MatchOperator: apiv3.In, Action: apiv3.Reject})
	add(&exports, f.Pods, apiv3.BGPFilterRuleV4{MatchOperator: apiv3.In, Source: learned, Action: apiv3.Accept})
	exports = append(exports, apiv3.BGPFilterRuleV4{Source: learned, Action: apiv3.Reject})
	return imports, exports
}

// filterAnnotation of a BGPFilter has the plan.PeeringFilter that its rules were made from, as JSON.
const filterAnnotation = "rrpool.io/filter"

// filterIn returns what a BGPFilter lets through, nil where its rules are not those that filterSpec makes.
func filterIn(o *apiv3.BGPFilter) *plan.PeeringFilter {
	out := &plan.PeeringFilter{}
	if err := json.Unmarshal([]byte(o.Annotations[filterAnnotation]), out); err != nil || !reflect.DeepEqual(filterSpec(*out), o.Spec) {
		return nil
	}
	return out
}

// poolSpec returns the spec of a disabled IPPool, from which pods get no addresses. The block size is Calico's default, or that of a smaller
// range: Calico requires blocks within the range.
func poolSpec(cidr netip.Prefix) apiv3.IPPoolSpec {
	size := 26
	if cidr.Addr().Is6() {
		size = 122
	}
	return apiv3.IPPoolSpec{
		CIDR: cidr.String(), Disabled: true, BlockSize: max(size, cidr.Bits()), NodeSelector: "all()",
		IPIPMode: apiv3.IPIPModeNever, VXLANMode: apiv3.VXLANModeNever,
	}
}

// announced returns as noted the ranges that rrpool added to serviceClusterIPs for
// ClusterPeerings, and as there those of them that are still in serviceClusterIPs.
func announced(o *apiv3.BGPConfiguration) (noted, there []netip.Prefix, err error) {
	text, ok := o.Annotations[servicesAnnotation]
	if !ok {
		return nil, nil, nil
	}
	if err := json.Unmarshal([]byte(text), &noted); err != nil {
		return nil, nil, fmt.Errorf("reading annotation %s=%.256q of %s: %s; it says which ranges of serviceClusterIPs are rrpool's, as %s: correct it",
			servicesAnnotation, text, meshObject, plan.Plain(err.Error(), 256), `["10.96.0.0/12"]`)
	}
	there = slices.DeleteFunc(clusterIPs(o.Spec), func(c netip.Prefix) bool { return !slices.Contains(noted, c) })
	return noted, there, nil
}

// announceServices replaces the ranges that are announced for ClusterPeerings by cidrs. Ranges of others stay as they are written.
func (a *Adapter) announceServices(ctx context.Context, cidrs []netip.Prefix) (bool, error) {
	o, err := a.liveConfig(ctx)
	if err != nil {
		return false, err
	}
	noted, there, err := announced(o.typed)
	if err != nil || slices.Equal(noted, cidrs) && slices.Equal(there, cidrs) {
		return false, err
	}
	blocks, _, err := unstructured.NestedSlice(o.raw.Object, "spec", "serviceClusterIPs")
	blocks = slices.DeleteFunc(blocks, func(block any) bool {
		fields, _ := block.(map[string]any)
		c, err := netip.ParsePrefix(fmt.Sprint(fields["cidr"]))
		return err == nil && slices.Contains(noted, c.Masked())
	})
	for _, c := range cidrs {
		blocks = append(blocks, map[string]any{"cidr": c.String()})
	}
	unstructured.RemoveNestedField(o.raw.Object, "spec", "serviceClusterIPs")
	if len(blocks) > 0 {
		err = errors.Join(err, unstructured.SetNestedSlice(o.raw.Object, blocks, "spec", "serviceClusterIPs"))
	}
	err = errors.Join(err, o.drop("annotations", servicesAnnotation))
	if len(cidrs) > 0 {
		text, jsonErr := json.Marshal(cidrs)
		err = errors.Join(err, jsonErr, o.annotate(servicesAnnotation, string(text)))
	}
	return a.giveBack(ctx, o, err)
}
