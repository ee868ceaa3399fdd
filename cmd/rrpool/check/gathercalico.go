package check

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// calicoGroup is where the Kubernetes datastore keeps Calico's objects.
var calicoGroup = schema.GroupVersion{Group: "crd.projectcalico.org", Version: "v1"}

// serializer is for answers that are read as they are.
func serializer() runtime.NegotiatedSerializer {
	return runtimeserializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
}

// lookAtCalico looks at what the manager does not look at.
func (g *gatherer) lookAtCalico(ctx context.Context) error {
	c := &g.calico
	info := calicoObject("ClusterInformation")
	c.version.found, c.version.hidden = g.look(ctx, info, "clusterinformations.crd.projectcalico.org", "", "default")
	c.version.value, _, _ = unstructured.NestedString(info.Object, "spec", "calicoVersion")
	c.version.found = c.version.found && c.version.value != ""
	c.nodes = g.calicoNode(ctx)
	c.reports = g.reports(ctx)
	c.pools = g.pools(ctx)
	felix := calicoObject("FelixConfiguration")
	c.routes.found, c.routes.hidden = g.look(ctx, felix, "felixconfigurations.crd.projectcalico.org", "", "default")
	c.routes.value, _, _ = unstructured.NestedString(felix.Object, "spec", "programClusterRoutes")
	g.lookAtPasswords(ctx)
	return nil
}

func calicoObject(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(calicoGroup.WithKind(kind))
	return out
}

// list reads all objects of a kind of Calico's. The kind itself may not be there.
func (g *gatherer) list(ctx context.Context, kind, resource string) seen[[]unstructured.Unstructured] {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	var out seen[[]unstructured.Unstructured]
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(calicoGroup.WithKind(kind + "List"))
	for {
		err := g.List(ctx, page, client.Limit(500), client.Continue(page.GetContinue()))
		switch {
		case apierrors.IsNotFound(err):
			return out
		case err != nil:
			out.hidden = g.hide(err, "list", resource)
			return out
		}
		out.found, out.value = true, append(out.value, page.Items...)
		if page.GetContinue() == "" {
			return out
		}
	}
}

// calicoNode finds the DaemonSet in one of the places where it can be.
func (g *gatherer) calicoNode(ctx context.Context) seen[*appsv1.DaemonSet] {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	var out seen[*appsv1.DaemonSet]
	for _, namespace := range calicoNamespaces {
		var list appsv1.DaemonSetList
		err := g.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"k8s-app": calicoNodeLabel})
		switch {
		case err != nil:
			out.hidden = g.hide(err, "list", "daemonsets.apps")
		case len(list.Items) > 0:
			return seen[*appsv1.DaemonSet]{value: &list.Items[0], found: true}
		}
	}
	return out
}

func (g *gatherer) reports(ctx context.Context) seen[[]report] {
	found := g.list(ctx, "CalicoNodeStatus", "caliconodestatuses.crd.projectcalico.org")
	out := seen[[]report]{found: found.found, hidden: found.hidden}
	for _, o := range found.value {
		r := report{touched: o.GetCreationTimestamp().Time}
		r.node, _, _ = unstructured.NestedString(o.Object, "spec", "node")
		seconds, set, _ := unstructured.NestedInt64(o.Object, "spec", "updatePeriodSeconds")
		if !set {
			seconds = defaultPeriod
		}
		r.period = time.Duration(seconds) * time.Second
		text, _, _ := unstructured.NestedString(o.Object, "status", "lastUpdated")
		r.updated, _ = time.Parse(time.RFC3339, text)
		for _, field := range o.GetManagedFields() {
			if field.Time != nil && field.Time.After(r.touched) {
				r.touched = field.Time.Time
			}
		}
		out.value = append(out.value, r)
	}
	return out
}

// defaultPeriod is Calico's, in seconds.
const defaultPeriod = 10

// pools are the IPPools that pods get addresses from.
func (g *gatherer) pools(ctx context.Context) seen[[]ipPool] {
	found := g.list(ctx, "IPPool", "ippools.crd.projectcalico.org")
	out := seen[[]ipPool]{found: found.found, hidden: found.hidden}
	for _, o := range found.value {
		disabled, _, _ := unstructured.NestedBool(o.Object, "spec", "disabled")
		uses, set, _ := unstructured.NestedStringSlice(o.Object, "spec", "allowedUses")
		if disabled || set && !slices.Contains(uses, "Workload") {
			continue
		}
		p := ipPool{name: o.GetName()}
		p.cidr, _, _ = unstructured.NestedString(o.Object, "spec", "cidr")
		p.ipip, _, _ = unstructured.NestedString(o.Object, "spec", "ipipMode")
		p.vxlan, _, _ = unstructured.NestedString(o.Object, "spec", "vxlanMode")
		out.value = append(out.value, p)
	}
	return out
}

// lookAtPasswords looks at the Secrets that sessions take their password from.
func (g *gatherer) lookAtPasswords(ctx context.Context) {
	refs := map[string]*plan.SecretRef{}
	if ref := g.object.Spec.BGP.PasswordSecretRef; ref.Name != "" {
		refs["spec.bgp.passwordSecretRef"] = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if g.snapshot != nil {
		bgp := g.snapshot.Cluster.BGP
		refs["nodeMeshPassword"] = bgp.Mesh.Password
		if bgp.Mesh.Password == nil && bgp.Saved != nil {
			refs["nodeMeshPassword, kept for the way back"] = bgp.Saved.Password
		}
	}
	for _, field := range slices.Sorted(maps.Keys(refs)) {
		if ref := refs[field]; ref != nil {
			g.calico.passwords = append(g.calico.passwords, g.password(ctx, *ref, field))
		}
	}
}

func (g *gatherer) password(ctx context.Context, ref plan.SecretRef, field string) password {
	out := password{SecretRef: ref, field: field}
	if !g.calico.nodes.found {
		out.filled.hidden = "calico-node, whose namespace it has to be in, was not found"
		return out
	}
	d, secret := g.calico.nodes.value, &corev1.Secret{}
	out.filled.found, out.filled.hidden = g.look(ctx, secret, "secrets", d.Namespace, ref.Name)
	out.filled.value = len(bytes.TrimSpace(secret.Data[ref.Key])) > 0
	reader := subject{d.Namespace, d.Spec.Template.Spec.ServiceAccountName}
	if reader.name == "" {
		reader.name = "default"
	}
	var rights []right
	for _, verb := range []string{"get", "list", "watch"} {
		rights = append(rights, right{verb: verb, resource: "secrets", namespace: d.Namespace, name: ref.Name})
	}
	a := g.lacks(ctx, rights, &reader)
	out.readable = seen[bool]{value: len(a.lacking) == 0, found: true, hidden: a.hidden}
	return out
}
