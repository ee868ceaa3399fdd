package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/projectcalico/api/pkg/lib/numorstring"
	validatorv3 "github.com/projectcalico/calico/libcalico-go/lib/validator/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// Annotations of Nodes: Calico's own, and our mark.
const (
	ipv4Annotation      = "projectcalico.org/IPv4Address"
	ipv6Annotation      = "projectcalico.org/IPv6Address"
	asnAnnotation       = "projectcalico.org/ASNumber"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
	// labelsAnnotation has the labels set with calicoctl, as JSON. Calico's selectors
	// match them and the Node's own labels. For the same key, the Node's own wins.
	labelsAnnotation = "projectcalico.org/labels"
	// sinceAnnotation marks a role that rrpool gave and says when, in RFC 3339.
	sinceAnnotation = "rrpool.io/reflector-since"
	// cordonedAnnotation marks a cordon as ours and says when, in RFC 3339.
	cordonedAnnotation = "rrpool.io/cordoned"
)

// leavingTaints mark nodes that are about to be removed. The cluster autoscaler's DeletionCandidate is not among them: it is usually withdrawn.
var leavingTaints = map[string]bool{
	corev1.TaintNodeOutOfService:                true,
	"node.cloudprovider.kubernetes.io/shutdown": true,
	"ToBeDeletedByClusterAutoscaler":            true,
	"karpenter.sh/disrupted":                    true,
}

// controlPlaneLabels mark nodes of the control plane; the second was used before Kubernetes 1.24.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// longestID limits texts from the cluster that are shown, in bytes: annotations may contain anything.
const longestID = 64

// oldZoneLabel was used before topology.kubernetes.io/zone.
const oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"

// nodeOf converts a Kubernetes Node. An address, AS number or cluster ID that cannot be parsed counts as not set, as in Calico: one such node
// must not stop the work on other nodes.
func nodeOf(n *corev1.Node, scope plan.DatastoreOptions) plan.Node {
	out := plan.Node{
		Name: n.Name, UID: string(n.UID), Labels: n.Labels, ProviderID: n.Spec.ProviderID,
		Zone: cmp.Or(n.Labels[scope.ZoneLabel], n.Labels[oldZoneLabel]), Created: n.CreationTimestamp.Time,
		Cordoned: n.Spec.Unschedulable, Deleting: n.DeletionTimestamp != nil,
		Taints:       taintsOf(n),
		Leaving:      slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return leavingTaints[t.Key] }),
		ControlPlane: slices.ContainsFunc(controlPlaneLabels, func(key string) bool { return metav1.HasLabel(n.ObjectMeta, key) }),
		CordonMark:   metav1.HasAnnotation(n.ObjectMeta, cordonedAnnotation),
		Rack:         n.Labels[plan.RackLabel],
		ReadyChanged: n.CreationTimestamp.Time, // a node without a Ready condition is not ready since its creation
	}
	out.CordonedByUs = out.CordonMark && out.Cordoned
	for _, text := range n.Spec.PodCIDRs {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			out.PodCIDRs = append(out.PodCIDRs, cidr.Masked())
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadyChanged = c.Status == corev1.ConditionTrue, cmp.Or(c.LastTransitionTime.Time, out.Created)
		}
	}
	readBGP(&out, n.Annotations)
	if _, ok := calicoLabels(n); !ok {
		out.Unread = append(out.Unread, fmt.Sprintf("%s=%s", labelsAnnotation, plan.Plain(strconv.Quote(n.Annotations[labelsAnnotation]), longestID)))
	}
	for _, own := range n.Status.Addresses {
		if addr, ok := parseAddress(own.Address); ok && (own.Type == corev1.NodeInternalIP || own.Type == corev1.NodeExternalIP) {
			out.MachineAddresses = append(out.MachineAddresses, addr)
		}
	}
	out.Slot, out.HasRoleLabel = n.Labels[scope.RoleLabel]
	since, marked := n.Annotations[sinceAnnotation]
	out.Marked, out.RoleSince = marked, timeOf(since)
	return out
}

// readBGP reads addresses, cluster ID and AS number from Calico's annotations.
func readBGP(out *plan.Node, annotations map[string]string) {
	unread := func(key string) {
		if annotations[key] != "" {
			out.Unread = append(out.Unread, fmt.Sprintf("%s=%s", key, plan.Plain(strconv.Quote(annotations[key]), longestID)))
		}
	}
	for _, key := range []string{ipv4Annotation, ipv6Annotation} {
		if addr, ok := parseAddress(annotations[key]); ok && addr.Is4() == (key == ipv4Annotation) {
			out.Addresses = append(out.Addresses, addr)
			if subnet, err := netip.ParsePrefix(annotations[key]); err == nil && !subnet.IsSingleIP() {
				out.Subnets = append(out.Subnets, subnet.Masked())
			}
		} else {
			unread(key)
		}
	}
	if validatorv3.ValidateIPv4Network(annotations[clusterIDAnnotation]) == nil {
		out.ClusterID = plan.Plain(annotations[clusterIDAnnotation], longestID)
	} else {
		unread(clusterIDAnnotation)
	}
	if as, err := numorstring.ASNumberFromString(annotations[asnAnnotation]); err == nil {
		out.ASN = uint32(as)
	} else {
		unread(asnAnnotation)
	}
}

// calicoLabels returns the labels that calicoctl has set, and false where they cannot be read.
func calicoLabels(n *corev1.Node) (out map[string]string, ok bool) {
	if text := n.Annotations[labelsAnnotation]; text != "" && json.Unmarshal([]byte(text), &out) != nil {
		return nil, false
	}
	return out, true
}

// parseAddress parses an address as Calico does, bare or in CIDR form. An IPv6 address with a zone (fe80::1%eth0) is refused.
func parseAddress(value string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(value)
	if prefix, cidr := netip.ParsePrefix(value); cidr == nil {
		addr, err = prefix.Addr(), nil
	}
	addr = addr.Unmap()
	return addr, err == nil && addr.Zone() == ""
}

// timeOf parses a time that rrpool has written. It is zero if others have replaced the text by something else.
func timeOf(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t
}

// observeNodes returns all nodes, sorted by name, and the join with Calico's Nodes.
func (a *Adapter) observeNodes(ctx context.Context, scope plan.DatastoreOptions) ([]plan.Node, *join, error) {
	if err := a.readDoubted(ctx); err != nil {
		a.cfg.Log.Error(err, "what the last write to a node has done is not known") // no failure: the safety net must go on
	}
	nodes, j, err := a.joinAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := make([]plan.Node, 0, len(nodes))
	for i := range nodes {
		out = append(out, nodeOf(j.joined(&nodes[i], scope), scope))
	}
	slices.SortFunc(out, func(x, y plan.Node) int { return strings.Compare(x.Name, y.Name) })
	return out, j, nil
}

// taintsOf returns a node's taints as KEY=VALUE:EFFECT, never nil.
func taintsOf(n *corev1.Node) []string {
	out := make([]string, 0, len(n.Spec.Taints))
	for _, t := range n.Spec.Taints {
		out = append(out, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	return out
}

const (
	// nodesCheckPeriod is the shortest time between two checks whether the cache of Nodes follows the apiserver. After a slow check, the time is
	// nodesCheckPause times the duration of that check.
	nodesCheckPeriod = 15 * time.Second
	nodesCheckPause  = 10
	// nodesRecheckPeriod is the time until the next check after a check that failed or found the cache behind. If that check took longer, the
	// time is as long as the check: checks take at most half of the time.
	nodesRecheckPeriod = 5 * time.Second
	// nodesTimeout is how long the apiserver may take to answer. nodesCatchUp is how long the cache may then take to reach the versions in the
	// answer. The safety net waits meanwhile.
	nodesTimeout = 10 * time.Second
	nodesCatchUp = 3 * time.Second
	// nodesUnknownLimit is how long checks may fail before that is reported as a problem.
	nodesUnknownLimit = time.Minute
)

// fromCache lets an apiserver answer from its watch cache, not from etcd.
var fromCache = &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}

// nodeCheck is the state of the checks whether the cache of Nodes follows the apiserver.
type nodeCheck struct {
	mu sync.Mutex
	// next is when to check again. failing is when checks began to fail, zero while they succeed.
	next, failing time.Time
	problem       *plan.Problem
}

// staleNodes returns the problem that the cache of Nodes is out of date, nil if it is not. A watch may stop bringing changes without ending, and
// a reflector that has failed then still looks Ready. One request for the metadata of the reflectors' Nodes shows this: kubelets write their
// Nodes every five minutes at the latest, and the failure of a reflector is written at once.
func (a *Adapter) staleNodes(ctx context.Context, role string) *plan.Problem {
	before, due := a.nodesDue(role)
	if !due {
		return before
	}
	began := a.cfg.Now()
	behind, err := a.nodesBehind(ctx, role, before == nil)
	c := &a.nodeCheck
	c.mu.Lock()
	defer c.mu.Unlock()
	took := a.cfg.Now().Sub(began)
	c.next = a.cfg.Now().Add(max(nodesCheckPeriod, nodesCheckPause*took))
	if err != nil || behind != "" {
		c.next = a.cfg.Now().Add(max(nodesRecheckPeriod, took))
	}
	switch {
	case err == nil:
		c.failing = time.Time{}
	case c.failing.IsZero():
		a.cfg.Log.Error(err, "whether the watch of Nodes goes on is not known")
		c.failing = a.cfg.Now()
	}
	switch {
	case err == nil && behind == "":
		c.problem = nil
	case c.problem != nil: // the first message stays: the status must not change with every check
	case behind != "":
		c.problem = staleProblem(fmt.Sprintf("node %s is not as the apiserver has it", behind))
	case a.cfg.Now().Sub(c.failing) >= nodesUnknownLimit:
		c.problem = staleProblem(fmt.Sprintf("what the apiserver has cannot be read: %v", err))
	}
	return c.problem
}

func staleProblem(why string) *plan.Problem {
	return plan.Problemf(reason.NodesStale, "the manager's watch of Nodes seems to stand still, as %s: nothing is changed meanwhile, "+
		"but for the mesh that comes back; restart the manager if this lasts for minutes", why)
}

// nodesDue returns the problem that the last check has found, and whether the caller must check again. Without a role label there is no node to
// check, as where there is no RouteReflectorPool.
func (a *Adapter) nodesDue(role string) (*plan.Problem, bool) {
	c := &a.nodeCheck
	c.mu.Lock()
	defer c.mu.Unlock()
	now := a.cfg.Now()
	if a.cfg.Live == nil || role == "" || now.Before(c.next) {
		return c.problem, false
	}
	c.next = now.Add(nodesCheckPeriod)
	return c.problem, true
}

// nodesBehind returns the name of a reflector whose Node in the cache is behind
// the apiserver, "" for none. If patient, it gives the cache nodesCatchUp.
func (a *Adapter) nodesBehind(ctx context.Context, role string, patient bool) (behind string, err error) {
	reflectors, err := a.calicoReflectors(ctx, role)
	if err != nil {
		return "", err
	}
	if len(reflectors) == 0 {
		return a.nodeBehind(ctx, patient, client.HasLabels{role}, func(ctx context.Context, into *corev1.NodeList) error {
			return a.cfg.Nodes.List(ctx, into, client.HasLabels{role})
		})
	}
	for _, name := range reflectors {
		if err == nil && behind == "" {
			behind, err = a.nodeBehind(ctx, patient, client.MatchingFields{"metadata.name": name}, func(ctx context.Context, into *corev1.NodeList) error {
				into.Items = make([]corev1.Node, 1)
				err := a.cfg.Nodes.Get(ctx, client.ObjectKey{Name: name}, &into.Items[0])
				if apierrors.IsNotFound(err) {
					into.Items, err = nil, nil
				}
				return err
			})
		}
	}
	return behind, err
}

// nodeBehind is nodesBehind for the nodes that the given list option selects. The function cache reads the same nodes from the cache.
func (a *Adapter) nodeBehind(ctx context.Context, patient bool, of client.ListOption, cache func(context.Context, *corev1.NodeList) error) (behind string, err error) {
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	asking, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	if err := a.cfg.Live.List(asking, live, of, fromCache); err != nil {
		return "", fmt.Errorf("listing the nodes that are route reflectors: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, nodesCatchUp, true, func(ctx context.Context) (bool, error) {
		var cached corev1.NodeList
		if err := cache(ctx, &cached); err != nil {
			return false, fmt.Errorf("listing nodes: %w", err)
		}
		behind = behindOf(live, cached.Items)
		return behind == "" || !patient, nil
	})
	if behind != "" {
		return behind, nil
	}
	return "", err //nolint:wrapcheck // wrapped above
}

// behindOf returns the first name of a Node for which the cache is behind the live list: the cache lacks it or has an older version, or the list
// lacks it although the list is newer.
func behindOf(live *metav1.PartialObjectMetadataList, cached []corev1.Node) string {
	behind := map[string]string{}
	for i := range live.Items {
		behind[live.Items[i].Name] = live.Items[i].ResourceVersion
	}
	for i := range cached {
		n := &cached[i]
		listed, ok := behind[n.Name]
		if ok && !older(n.ResourceVersion, listed) || !ok && older(live.ResourceVersion, n.ResourceVersion) {
			delete(behind, n.Name)
		} else {
			behind[n.Name] = listed
		}
	}
	if len(behind) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(behind)))
}
