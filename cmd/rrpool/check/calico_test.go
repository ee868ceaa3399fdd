package check

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/plan"
)

func TestCalico(t *testing.T) {
	problem := func(reason string) func(*facts) {
		return func(f *facts) {
			f.snapshot.Cluster.Problems = []plan.Problem{{Reason: reason, Message: reason + " it is"}}
		}
	}
	env := func(value string) func(*facts) {
		return func(f *facts) { f.calicoNode.value.Spec.Template.Spec.Containers[0].Env[0].Value = value }
	}
	try(t, existing, map[string]row{
		"no Calico":                           {id: "calico", edit: problem("CalicoNotInstalled"), want: Error, page: "runbook/conditions.md#caliconotinstalled"},
		"without Calico nothing else matters": {id: "mesh", edit: problem("CalicoNotInstalled"), unset: true},
		"etcd":                                {id: "datastore", edit: env("etcdv3"), want: Error, says: `DATASTORE_TYPE is "etcdv3"`},
		"a datastore that objects prove":      {id: "datastore", edit: func(f *facts) { f.calicoNode.found = false }, want: OK, says: "Kubernetes datastore"},
		"a datastore that nothing proves":     {id: "datastore", edit: func(f *facts) { f.calicoNode.found, f.information.found = false, false }, want: Warning, says: "could not be checked"},
		"calico-node is not Ready somewhere":  {id: "calico-node", edit: func(f *facts) { f.calicoNode.value = daemonSet("calico-system", 12, 11) }, want: Warning, says: "11 of 12"},
		"calico-node is Ready nowhere":        {id: "calico-node", edit: func(f *facts) { f.calicoNode.value = daemonSet("calico-system", 12, 0) }, want: Error, says: "0 of 12"},
		"a calico-node that may not be seen":  {id: "calico-node", edit: func(f *facts) { f.calicoNode.found, f.calicoNode.hidden = false, "no" }, want: Warning, says: "could not be checked"},
		"no calico-node":                      {id: "calico-node", edit: func(f *facts) { f.calicoNode.found = false }, want: Warning, says: "calico-system or kube-system"},
		"no BGP":                              {id: "bgp", edit: problem("BGPDisabled"), want: Error, page: "runbook/conditions.md#bgpdisabled"},
		"a node without BGP":                  {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes[2].Addresses = nil }, want: Warning, says: "10.240.0.3"},
		"no nodes":                            {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nil }, want: Error, says: "no nodes"},
		"no reports":                          {id: "node-status", edit: problem("NodeStatusCRDMissing"), want: Error, page: "runbook/conditions.md#nodestatuscrdmissing"},
		"the mesh is off, and not by rrpool":  {id: "mesh", edit: func(f *facts) { f.snapshot.Cluster.BGP.Mesh.Enabled = new(bool) }, want: Warning, says: "not by rrpool"},
		"the mesh is off by us": {id: "mesh", edit: func(f *facts) {
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.SavedAbsent = new(bool), true
		}, want: OK, says: "by rrpool"},
		"two AS numbers":                     {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 65001 }, want: Error, says: "AS 65001: 10.240.0.1", page: "runbook/conditions.md#mixedasnumbers"},
		"a node that speaks no BGP has none": {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN, f.snapshot.Cluster.Nodes[0].Addresses = 65001, nil }, want: OK},
		"a reflector that is not ours":       {id: "reflectors", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1" }, want: Error, says: "10.240.0.1", page: "runbook/conditions.md#foreignreflector"},
		"a peer between nodes by selector":   {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerSelector: "x"}} }, want: Error, page: "runbook/conditions.md#foreigninclusterpeer"},
		"a peer outside":                     {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1"}} }, want: OK, says: "tor"},
		"our own peer": {id: "peers", edit: func(f *facts) {
			f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", Owned: true, PeerSelector: "x"}}
		}, want: OK, says: "no BGPPeers but rrpool's"},
	})
}

func TestRouters(t *testing.T) {
	const single = "203.0.113.200/32"
	with := func(services []string, peers ...plan.Peer) func(*facts) {
		return func(f *facts) {
			for _, s := range services {
				f.snapshot.Cluster.BGP.Services = append(f.snapshot.Cluster.BGP.Services, netip.MustParsePrefix(s))
			}
			f.snapshot.Cluster.BGP.ASN, f.snapshot.Cluster.Peers = 64512, peers
		}
	}
	peer := func(as uint32, selector, extra string) plan.Peer {
		return plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: as, NodeSelector: selector, Extra: extra}
	}
	const keeps, reflectors, others = `{"keepOriginalNextHop":true}`, "has(rrpool.io/route-reflector)", "!has(rrpool.io/route-reflector)"
	try(t, existing, map[string]row{
		"no router":                {id: "routers", edit: with([]string{single}), unset: true},
		"no services":              {id: "routers", edit: with(nil, peer(65001, "", "")), unset: true},
		"ranges":                   {id: "routers", edit: with([]string{"10.255.0.0/16"}, peer(65001, "", "")), want: OK, says: "tor"},
		"route reflectors only":    {id: "routers", edit: with(nil, peer(65001, reflectors, "")), want: Warning, says: "learn nothing: tor"},
		"one value of their label": {id: "routers", edit: with(nil, peer(65001, "rrpool.io/route-reflector == 'true'", "")), want: Warning, says: "learn nothing: tor"},
		"a single address":         {id: "routers", edit: with([]string{single}, peer(65001, "all()", "")), want: Warning, says: "with themselves as the next hop"},
		"and the next hop kept":    {id: "routers", edit: with([]string{single}, peer(65001, "all()", keeps)), want: OK},
		"and the router in our AS": {id: "routers", edit: with([]string{single}, peer(64512, "", "")), want: OK},
		"and no route reflector":   {id: "routers", edit: with([]string{single}, peer(65001, others, "")), want: OK},
		"and one node":             {id: "routers", edit: with([]string{single}, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 64512, Node: "10.240.0.2"}), want: OK},
		"a selector that is no":    {id: "routers", edit: with(nil, peer(65001, "((", "")), unset: true},
		"a reflector by its name": {id: "routers", edit: func(f *facts) {
			with([]string{single}, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001, Node: f.snapshot.Cluster.Nodes[0].Name})(f)
			n := &f.snapshot.Cluster.Nodes[0]
			n.Pooled, n.Marked, n.RoleLabel, n.ClusterID = true, true, true, "244.0.0.1"
		}, want: Warning, says: "with themselves as the next hop"},
		"a dedicated node by its name": {id: "routers", edit: func(f *facts) {
			with(nil, plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65001, Node: f.snapshot.Cluster.Nodes[0].Name})(f)
			f.snapshot.Provider, f.snapshot.Cluster.Nodes[0].Pooled = "IKS", true
		}, want: Warning, says: "learn nothing: tor"},
		"a cluster that has no nodes": {id: "routers", edit: func(f *facts) { with(nil, peer(65001, "all()", ""))(f); f.snapshot.Cluster.Nodes = nil }, unset: true},
		"on reflectors": {id: "routers", edit: func(f *facts) {
			with(nil, peer(64512, reflectors, ""))(f)
			n := &f.snapshot.Cluster.Nodes[0]
			n.Marked, n.RoleLabel, n.ClusterID = true, true, "244.0.0.1"
		}, want: Warning, says: "learn nothing"},
	})
}

// holding is a Secret with that in its key.
func holding(value string) seen[*corev1.Secret] {
	return seen[*corev1.Secret]{value: &corev1.Secret{Data: map[string][]byte{"k": []byte(value), "password": []byte(value)}}, found: true}
}

func TestPasswordsAndRoutes(t *testing.T) {
	good, lacks := holding("swordfish"), answer{lacking: []rbac.Right{{Verb: "get", Resource: "secrets"}}}
	with := func(secret seen[*corev1.Secret], reader answer) func(*facts) {
		return func(f *facts) {
			f.passwords = []password{{plan.SecretRef{Name: "s", Key: "k"}, "nodeMeshPassword", secret, reader}}
		}
	}
	having := func(all ...plan.PoolRoutes) func(*facts) {
		return func(f *facts) { f.snapshot.Cluster.Routes = plan.Routes{Pools: all} }
	}
	plain, ipip, vxlan := plan.PoolRoutes{CIDR: "1", Encapsulation: "none", BIRD: true}, plan.PoolRoutes{CIDR: "2", BIRD: true, Felix: true}, plan.PoolRoutes{CIDR: "3", Encapsulation: "VXLAN", Felix: true}
	try(t, existing, map[string]row{
		"no password":                      {id: "password", want: OK, says: "no password"},
		"a password that is read":          {id: "password", edit: with(good, answer{}), want: OK, says: "Secret s, key k (nodeMeshPassword)"},
		"a Secret that is not there":       {id: "password", edit: with(seen[*corev1.Secret]{value: &corev1.Secret{}}, answer{}), want: Error, says: "does not exist"},
		"a key that is empty":              {id: "password", edit: with(holding(" "), answer{}), want: Error, says: "has no value"},
		"a Secret calico-node cannot read": {id: "password", edit: with(good, lacks), want: Error, says: "get, list and watch"},
		"a Secret we cannot read":          {id: "password", edit: with(seen[*corev1.Secret]{hidden: "no"}, answer{}), want: Warning, says: "could not be checked"},
		"not knowing who may read it":      {id: "password", edit: with(good, answer{hidden: "no"}), want: Warning, says: "could not be checked"},
		"plain routes":                     {id: "routes", edit: having(plain), want: OK, says: "BGP carries"},
		"routes of both":                   {id: "routes", edit: having(plain, ipip), want: Warning, says: "both or neither"},
		"routes of nobody":                 {id: "routes", edit: having(plan.PoolRoutes{CIDR: "2"}), want: Error, says: "neither Felix nor BIRD"},
		"VXLAN":                            {id: "routes", edit: having(vxlan), want: Error, says: "route reflectors would change nothing", page: "runbook/conditions.md#noroutesoverbgp"},
		"VXLAN, on reflectors": {id: "routes", edit: func(f *facts) {
			having(vxlan)(f)
			f.snapshot.Cluster.BGP.Mesh.Enabled = new(bool)
		}, want: Warning, says: "the route reflectors change nothing"},
		"VXLAN and BGP":  {id: "routes", edit: having(plain, vxlan), want: Warning, says: "matter for the others only"},
		"no pools":       {id: "routes", edit: having(), want: Note, says: "no IPPool"},
		"routes by whom": {id: "routes", edit: func(f *facts) { f.snapshot.Cluster.Routes.Unknown = "no" }, want: Warning, says: "could not be checked"},
	})
}
