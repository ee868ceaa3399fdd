package calico

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// lockedMessage describes a locked datastore. A migration locks the objects that it moves and leaves the old ones locked.
const lockedMessage = "Calico's datastore is locked (spec.datastoreReady of ClusterInformation default is false), as while its objects are migrated"

// Observe returns what is known of the cluster, from memory. While nothing changes, it makes at most one request every nodesCheckPeriod. It fails
// while anything is unknown, as before the first list or while a watch fails. If the watch of Nodes stands still, that is a problem in the result
// and no error: the safety net uses reports and pods, and must go on.
func (a *Adapter) Observe(ctx context.Context, scope plan.DatastoreOptions) (plan.Cluster, error) {
	if err := a.store.ready(); err != nil {
		return plan.Cluster{}, err
	}
	stale := a.staleNodes(ctx, scope.RoleLabel)
	nodes, j, err := a.observeNodes(ctx, scope)
	if err != nil {
		return plan.Cluster{}, err
	}
	pods := a.addCalicoNodes(nodes, stale != nil)
	withoutBIRD, unknown := a.pods.withoutBIRD(ctx, a.cfg.Log, pods.backends)
	out := plan.Cluster{Nodes: nodes, BGP: plan.BGPConfig{ASN: defaultASN}, CalicoAPI: a.calicoAPI()}
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	out.Routes = a.store.routes.with(pods.variables)
	out.Routes.Marks = a.store.routes.marksOf(j)
	if a.store.config != nil {
		out.BGP = a.store.configOf(a.store.config)
	}
	for _, p := range a.store.peers {
		peer := peerOf(p)
		peer.Node = j.kubeName(peer.Node)
		out.Peers = append(out.Peers, peer)
	}
	slices.SortFunc(out.Peers, func(x, y plan.Peer) int { return strings.Compare(x.Name, y.Name) })
	keepFormerRoles(out.Nodes, out.Peers, scope.RoleLabel)
	addBlocks(out.Nodes, a.store.blocks, j)
	out.Routes.Unknown = cmp.Or(out.Routes.Unknown, addPodCIDRs(out.Nodes, pods.variables[podCIDRVariable], len(a.store.blocks) > 0))
	out.Routes.Pools = relevantTo(out.Nodes, out.Routes.Pools)
	out.Statuses = statusesOf(out.Nodes, a.store.statuses, j)
	withoutBIRD, out.BGPUnknown = a.store.birdStatus(withoutBIRD, unknown, out.Statuses)
	out.Problems = append(problems(out.Nodes, a.store.watchStatuses, withoutBIRD, a.group), j.problems(a.store.version)...)
	out.Locked = cmp.Or(otherDatastore(scope.CalicoAPI, out.CalicoAPI), a.store.lockProblem())
	if p := a.store.unreadable(); p != nil {
		out.Problems = append(out.Problems, *p)
	}
	if stale != nil {
		out.Problems = append([]plan.Problem{*stale}, out.Problems...)
	}
	return out, nil
}

// noteUnread notes which fields of an object cannot be parsed. It ignores our own
// BGPPeers and reports, because rrpool writes them again. The caller holds the lock.
func (s *store) noteUnread(kind string, o metav1.Object) {
	report, ok := o.(*apiv3.CalicoNodeStatus)
	text := o.GetAnnotations()[unreadAnnotation]
	if kind == apiv3.KindBGPPeer && isOurs(o) || ok && isReport(report) {
		text = ""
	}
	s.setUnread(kind, o.GetName(), text)
}

func (s *store) setUnread(kind, name, text string) {
	key := kind + " " + plan.Plain(name, longestID)
	if s.unread[key] == text {
		return
	}
	s.unread[key] = text
	maps.DeleteFunc(s.unread, func(_, text string) bool { return text == "" })
	s.signal()
}

// unreadable returns the problem of fields that cannot be parsed, nil for none. The caller holds the lock.
func (s *store) unreadable() *plan.Problem {
	var bad []string
	for _, key := range slices.Sorted(maps.Keys(s.unread)) {
		bad = append(bad, fmt.Sprintf("%s (%s)", key, s.unread[key]))
	}
	return plan.ProblemIf(len(bad) > 0, reason.ObjectUnreadable, "%s: these fields cannot be read, and Calico then reads no object of that kind any more: correct them", plan.Few(bad))
}

// birdStatus returns why no node runs BIRD, or else why it is not known whether any node does. It uses what the pods show and what
// ClusterInformation says of the installation. One report with an Established session proves that BIRD runs, and stays a proof when reports are
// no longer requested, as while machines are ordered, which takes half an hour. The caller holds the lock.
func (s *store) birdStatus(withoutBIRD, unknown string, reports map[string]plan.Status) (string, string) {
	of := strings.Split(s.clusterType, ",")
	named := fmt.Sprintf("clusterType of ClusterInformation %s is %q", defaultConfig, plan.Plain(s.clusterType, longestID))
	runs := func(st plan.Status) bool {
		return slices.ContainsFunc(st.Sessions, func(p plan.Session) bool { return p.Established })
	}
	s.seenBGP = s.seenBGP || slices.ContainsFunc(slices.Collect(maps.Values(reports)), runs)
	switch {
	case withoutBIRD != "":
		return fmt.Sprintf("%s is %q", BackendVariable, withoutBIRD), ""
	case s.seenBGP:
		return "", ""
	case unknown != "" && slices.Contains(of, canalType) && !slices.Contains(of, "bgp"):
		return named, ""
	case s.clusterType != "" && !slices.Contains(of, "bgp"):
		return "", strings.TrimPrefix(unknown+"; "+named+", which does not name bgp", "; ")
	}
	return "", unknown
}

// canalType is part of Canal's clusterType. When Calico replaces Canal, canalType stays there, and bgp is added.
const canalType = "canal"

// addCalicoNodes adds the states of calico-node's pods to the nodes. If the watch of Nodes is stale, the watch of pods may be stale too. A pod
// that looks Ready then proves nothing and is left out, so that reports are requested.
func (a *Adapter) addCalicoNodes(nodes []plan.Node, stale bool) podView {
	pods := a.pods.look(nodes)
	for i := range nodes {
		if pod := pods.states[nodes[i].Name]; !stale || pod.State != plan.CalicoNodeReady {
			nodes[i].CalicoNode = pod
		}
	}
	return pods
}

// otherDatastore returns a problem if rrpool now reads Calico's objects from an etcd and before did not, or the other way round: what it wrote
// before is not there. Otherwise it returns nil.
func otherDatastore(before, now string) *plan.Problem {
	if before == "" || (before == EtcdAPI) == (now == EtcdAPI) {
		return nil
	}
	return plan.Problemf(reason.DatastoreChanged, "status.calicoAPI is %q, and rrpool now reads Calico's objects in %q: nothing is changed; give the manager %s and ETCD_* "+
		"as calico-node has them, or, where Calico itself has moved after rrpool rollback, "+
		`kubectl patch routereflectorpool default --subresource=status --type=merge --patch '{"status":{"calicoAPI":null}}'`, before, now, etcd.DatastoreVariable)
}

// keepFormerRoles makes nodes with the label that spec.bgp.nodeLabel named before
// still count as reflectors, as long as BGPPeers of ours select nodes by that label.
func keepFormerRoles(nodes []plan.Node, peers []plan.Peer, label string) {
	for _, p := range peers {
		former := topology.RoleLabel(p, label)
		if !p.Owned || former == label {
			continue
		}
		for i := range nodes {
			n := &nodes[i]
			if slot, ok := n.Labels[former]; ok && n.Marked && !n.HasRoleLabel {
				n.HasRoleLabel, n.Slot, n.Relabel = true, slot, true
			}
		}
	}
}

func addBlocks(nodes []plan.Node, blocks map[string]block, j *join) {
	of := map[string][]netip.Prefix{}
	for _, b := range blocks {
		node := j.kubeName(b.node)
		of[node] = append(of[node], b.prefix)
	}
	for i := range nodes {
		nodes[i].Blocks = of[nodes[i].Name]
		slices.SortFunc(nodes[i].Blocks, netip.Prefix.Compare)
	}
}

// addPodCIDRs replaces the nodes' blocks by their podCIDRs if the variable says that nodes announce
// their podCIDRs. If the variable cannot be parsed, BlockAffinities prove that nodes announce
// blocks. If there are none either, addPodCIDRs returns why it is not known what nodes announce.
func addPodCIDRs(nodes []plan.Node, variable string, affinities bool) (unknown string) {
	use, err := strconv.ParseBool(cmp.Or(variable, "false"))
	if err != nil && !affinities {
		return fmt.Sprintf("%s of calico-node's pods cannot be read, and there are no BlockAffinities: %s", podCIDRVariable, plan.Plain(variable, longestID))
	}
	for i := range nodes {
		if use {
			nodes[i].Blocks = nodes[i].PodCIDRs
		}
	}
	return ""
}

// statusesOf returns the reports that we have requested, by node.
func statusesOf(nodes []plan.Node, reports map[string]*report, j *join) map[string]plan.Status {
	addresses := map[string][]netip.Addr{}
	for _, n := range nodes {
		addresses[n.Name] = n.Addresses
	}
	out := map[string]plan.Status{}
	for name, r := range reports {
		if node := r.object.Spec.Node; name == statusName(node) {
			node = j.kubeName(node)
			status := r.status(slices.ContainsFunc(addresses[node], netip.Addr.Is4), slices.ContainsFunc(addresses[node], netip.Addr.Is6))
			status.Node = node
			out[node] = status
		}
	}
	return out
}

// problems returns the problems because of which rrpool changes nothing.
func problems(nodes []plan.Node, watches map[string]*watchStatus, withoutBIRD string, group schema.GroupVersion) []plan.Problem {
	for _, kind := range []string{apiv3.KindBGPPeer, apiv3.KindBGPConfiguration} {
		if watches[kind].missing {
			return []plan.Problem{{Reason: reason.CalicoNotInstalled, Message: fmt.Sprintf(
				"the API has no %s in group %s, and no CRDs of the other group: rrpool works on clusters whose network is Calico; "+
					"install Calico, set DATASTORE_TYPE=etcdv3 and Calico's ETCD_* variables where Calico has an etcd of its own, or delete this object", kind, group.Group,
			)}}
		}
	}
	var out []plan.Problem
	why := ""
	switch {
	case len(nodes) > 0 && !slices.ContainsFunc(nodes, plan.Node.SpeaksBGP):
		why = fmt.Sprintf("none of the %d nodes has a BGP address (annotation %s or %s)", len(nodes), ipv4Annotation, ipv6Annotation)
	case withoutBIRD != "":
		why = "calico-node runs no BIRD on any node (" + withoutBIRD + ")"
	}
	if why != "" {
		out = append(out, plan.Problem{Reason: reason.BGPDisabled, Message: why + ": no BIRD makes BGP sessions; delete this object where something else carries the routes, " +
			"as flannel does in Canal and an agent of its own in the VPP dataplane, or, where nothing does, enable BIRD (Installation spec.calicoNetwork.bgp: Enabled, or " + BackendVariable + "=bird)"})
	}
	if watches[apiv3.KindCalicoNodeStatus].missing {
		out = append(out, plan.Problem{Reason: reason.NodeStatusCRDMissing, Message: "the API has no CalicoNodeStatus in group " +
			group.Group + ", so BGP sessions cannot be observed: upgrade Calico to 3.21 or later, or set rollout.gate: Timer"})
	}
	return out
}

// block is an address block that a node announces.
type block struct {
	node   string
	prefix netip.Prefix
}

// blockOf returns the block of an affinity, and false if no node announces the block.
func blockOf(o *unstructured.Unstructured) (block, bool) {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(o.Object, "spec", field)
		return value
	}
	deleted, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "deleted") // a string in the first group, a bool in the second
	virtual := text("type") != "" && text("type") != "host"                      // old versions of Calico write no type: all their affinities are of hosts
	prefix, err := netip.ParsePrefix(text("cidr"))
	if err != nil || virtual || fmt.Sprint(deleted) == "true" || text("state") != string(model.StateConfirmed) {
		return block{}, false
	}
	return block{node: text("node"), prefix: prefix.Masked()}, true
}
