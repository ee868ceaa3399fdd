package check

import (
	"testing"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

func TestCalico(t *testing.T) {
	problem := func(reason string) func(*facts) {
		return func(f *facts) {
			f.snapshot.Cluster.Problems = []plan.Problem{{Reason: reason, Message: reason + " it is"}}
		}
	}
	env := func(value string) func(*facts) {
		return func(f *facts) { f.calico.nodes.value.Spec.Template.Spec.Containers[0].Env[0].Value = value }
	}
	reports := func(gate v1alpha1.Gate, all ...report) func(*facts) {
		return func(f *facts) { f.calico.reports.value, f.object.Spec.Rollout.Gate = all, gate }
	}
	ago := func(d time.Duration) time.Time { return cli.Now.Add(-d) }
	timer := func(f *facts) { f.object.Spec.Rollout.Gate = v1alpha1.GateTimer }
	try(t, existing, map[string]row{
		"no Calico":                               {id: "calico", edit: problem("CalicoNotInstalled"), want: Error, page: "runbook/conditions.md#caliconotinstalled"},
		"without Calico nothing else matters":     {id: "mesh", edit: problem("CalicoNotInstalled"), unset: true},
		"etcd":                                    {id: "datastore", edit: env("etcdv3"), want: Error, says: `DATASTORE_TYPE is "etcdv3"`},
		"a datastore that objects prove":          {id: "datastore", edit: func(f *facts) { f.calico.nodes.found = false }, want: OK, says: "ClusterInformation"},
		"a datastore that nothing proves":         {id: "datastore", edit: func(f *facts) { f.calico.nodes.found, f.calico.version.found = false, false }, want: Warning, says: "could not be checked"},
		"the oldest Calico with reports":          {id: "calico-version", edit: func(f *facts) { f.calico.version.value = "v3.21.0" }, want: OK},
		"an older Calico":                         {id: "calico-version", edit: func(f *facts) { f.calico.version.value = "v3.20.6" }, want: Warning, says: "spec.rollout.gate: Timer"},
		"an older Calico, by the clock":           {id: "calico-version", edit: func(f *facts) { f.calico.version.value = "v3.20.6"; timer(f) }, want: OK},
		"a Calico that says nothing":              {id: "calico-version", edit: func(f *facts) { f.calico.version.found = false }, want: Warning, says: "no ClusterInformation"},
		"a Calico that says nonsense":             {id: "calico-version", edit: func(f *facts) { f.calico.version.value = "master" }, want: Warning, says: `"master"`},
		"calico-node is ill somewhere":            {id: "calico-node", edit: func(f *facts) { f.calico.nodes.value = daemonSet("calico-system", 12, 11) }, want: Warning, says: "11 of 12"},
		"calico-node is ill everywhere":           {id: "calico-node", edit: func(f *facts) { f.calico.nodes.value = daemonSet("calico-system", 12, 0) }, want: Error, says: "none of 12"},
		"calico-node runs nowhere":                {id: "calico-node", edit: func(f *facts) { f.calico.nodes.value = daemonSet("calico-system", 0, 0) }, want: Warning, says: "nowhere"},
		"no calico-node":                          {id: "calico-node", edit: func(f *facts) { f.calico.nodes.found = false }, want: Warning, says: "calico-system or kube-system"},
		"no BGP":                                  {id: "bgp", edit: problem("BGPDisabled"), want: Error, page: "runbook/conditions.md#bgpdisabled"},
		"a node without BGP":                      {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes[2].Addresses = nil }, want: Warning, says: "10.240.0.3"},
		"no nodes":                                {id: "bgp", edit: func(f *facts) { f.snapshot.Cluster.Nodes = nil }, want: Error, says: "no nodes"},
		"no reports":                              {id: "node-status", edit: func(f *facts) { f.calico.reports.found = false }, want: Error, page: "runbook/conditions.md#nodestatuscrdmissing"},
		"no reports, by the clock":                {id: "node-status", edit: func(f *facts) { f.calico.reports.found = false; timer(f) }, want: OK, says: "Timer"},
		"reports that may not be seen":            {id: "node-status", edit: func(f *facts) { f.calico.reports.hidden = "no" }, want: Warning},
		"no report yet":                           {id: "reporter", want: Note, says: "cannot be seen"},
		"a recent report":                         {id: "reporter", edit: reports("", report{"10.240.0.1", 10 * time.Second, ago(time.Second), ago(0)}), want: OK, says: "1 of 1"},
		"an old report, which proves nothing":     {id: "reporter", edit: reports("", report{"10.240.0.1", 10 * time.Second, ago(time.Hour), ago(0)}), want: Note, says: "only when there is news"},
		"a report that was just made":             {id: "reporter", edit: reports("", report{"10.240.0.1", 10 * time.Second, time.Time{}, ago(20 * time.Second)}), want: Note},
		"a report that stays blank":               {id: "reporter", edit: reports("", report{"10.240.0.1", 10 * time.Second, time.Time{}, ago(2 * time.Minute)}), want: Error, says: "10.240.0.1"},
		"the blank report of a node that is gone": {id: "reporter", edit: reports("", report{"gone", 10 * time.Second, time.Time{}, ago(time.Hour)}), want: Note},
		"a report that is asked for once":         {id: "reporter", edit: reports("", report{"10.240.0.1", 0, time.Time{}, ago(time.Hour)}), want: Note},
		"a dead reporter, by the clock":           {id: "reporter", edit: reports(v1alpha1.GateTimer, report{"10.240.0.1", 10 * time.Second, time.Time{}, ago(time.Hour)}), unset: true},
		"the mesh is off, and not by rrpool":      {id: "mesh", edit: func(f *facts) { f.snapshot.Cluster.BGP.Mesh.Enabled = new(bool) }, want: Warning, says: "not by rrpool"},
		"the mesh is off by us": {id: "mesh", edit: func(f *facts) {
			f.snapshot.Cluster.BGP.Mesh.Enabled, f.snapshot.Cluster.BGP.SavedAbsent = new(bool), true
		}, want: OK, says: "by rrpool"},
		"two AS numbers":                     {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 65001 }, want: Error, says: "AS 65001: 10.240.0.1", page: "runbook/conditions.md#mixedasnumbers"},
		"an AS number of its own, the same":  {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN = 64512 }, want: OK},
		"a node that speaks no BGP has none": {id: "as-numbers", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ASN, f.snapshot.Cluster.Nodes[0].Addresses = 65001, nil }, want: OK},
		"a reflector that is not ours":       {id: "reflectors", edit: func(f *facts) { f.snapshot.Cluster.Nodes[0].ClusterID = "1.0.0.1" }, want: Error, says: "10.240.0.1 (cluster ID 1.0.0.1)", page: "runbook/conditions.md#foreignreflector"},
		"our reflector": {id: "reflectors", edit: func(f *facts) {
			f.snapshot.Cluster.Nodes[0].ClusterID, f.snapshot.Cluster.Nodes[0].Marked = "244.0.0.1", true
		}, want: OK, says: "1 node is a route reflector, by rrpool"},
		"a peer between nodes by selector": {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerSelector: "x"}} }, want: Error, page: "runbook/conditions.md#foreigninclusterpeer"},
		"a peer between nodes by address":  {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "p", PeerIP: "10.240.0.2:179"}} }, want: Error, says: "p"},
		"a peer outside":                   {id: "peers", edit: func(f *facts) { f.snapshot.Cluster.Peers = []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1"}} }, want: OK, says: "tor"},
		"our own peer": {id: "peers", edit: func(f *facts) {
			f.snapshot.Cluster.Peers = []plan.Peer{{Name: "rrpool-clients", Owned: true, PeerSelector: "x"}}
		}, want: OK, says: "no BGPPeers but rrpool's"},
	})
}

func TestPasswordsAndRoutes(t *testing.T) {
	good := seen[bool]{value: true, found: true}
	with := func(filled, readable seen[bool]) func(*facts) {
		return func(f *facts) {
			f.calico.passwords = []password{{plan.SecretRef{Name: "s", Key: "k"}, "nodeMeshPassword", filled, readable}}
		}
	}
	pools := func(routes seen[string], all ...ipPool) func(*facts) {
		return func(f *facts) { f.calico.pools.value, f.calico.routes = all, routes }
	}
	plain, ipip, vxlan := ipPool{cidr: "1"}, ipPool{cidr: "2", ipip: "Always", vxlan: "Never"}, ipPool{cidr: "3", ipip: "Never", vxlan: "CrossSubnet"}
	enabled := seen[string]{value: "Enabled", found: true}
	try(t, existing, map[string]row{
		"no password":                      {id: "password", want: OK, says: "no password"},
		"a password that is read":          {id: "password", edit: with(good, good), want: OK, says: "Secret s, key k (nodeMeshPassword)"},
		"a Secret that is not there":       {id: "password", edit: with(seen[bool]{}, good), want: Error, says: "does not exist"},
		"a key that is empty":              {id: "password", edit: with(seen[bool]{found: true}, good), want: Error, says: "has no value"},
		"a Secret calico-node cannot read": {id: "password", edit: with(good, seen[bool]{found: true}), want: Error, says: "get, list and watch"},
		"a Secret we cannot read":          {id: "password", edit: with(seen[bool]{hidden: "no"}, good), want: Warning, says: "could not be checked"},
		"not knowing who may read it":      {id: "password", edit: with(good, seen[bool]{hidden: "no"}), want: Warning, says: "whether calico-node may read"},
		"plain routes":                     {id: "routes", edit: pools(seen[string]{}, plain), want: OK, says: "not encapsulated"},
		"IP-in-IP by BIRD":                 {id: "routes", edit: pools(seen[string]{}, ipip), want: OK, says: "IP-in-IP Always"},
		"IP-in-IP by Felix":                {id: "routes", edit: pools(enabled, ipip), want: Warning, says: "route reflectors would change nothing"},
		"IP-in-IP by whom":                 {id: "routes", edit: pools(seen[string]{hidden: "no"}, ipip), want: Warning, says: "could not be checked"},
		"plain routes, whoever":            {id: "routes", edit: pools(seen[string]{hidden: "no"}, plain), want: OK},
		"VXLAN":                            {id: "routes", edit: pools(seen[string]{}, vxlan), want: Warning, says: "VXLAN CrossSubnet"},
		"VXLAN and BGP":                    {id: "routes", edit: pools(seen[string]{}, plain, vxlan), want: Warning, says: "matter for the others only"},
		"no pools":                         {id: "routes", edit: pools(seen[string]{}), want: Note, says: "no IPPool"},
		"pools that may not be seen":       {id: "routes", edit: func(f *facts) { f.calico.pools.hidden = "no" }, want: Warning},
	})
}
