package status

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
)

// seen is a cluster looked at with the manager's eyes: 25 nodes lack a session with
// 10.3.9.2, one of them with another reflector as well.
func seen() Facts {
	a := migrating()
	turn := pool.Turn{Provider: v1alpha1.ProviderIKS, Pool: &cloud.Pool{Problems: []string{"worker w-2: over quota in eu-de-1"}}}
	for i, r := range a.pool.Status.Reflectors {
		turn.Step.Reflectors = append(turn.Step.Reflectors, rollout.Reflector{Node: r.Node})
		turn.Pool.Workers = append(turn.Pool.Workers, cloud.Worker{
			ID: fmt.Sprintf("kube-c1-rr%d", i), NodeName: r.Node, Zone: r.Zone, Flavor: "bx2.2x8", State: cloud.WorkerDeployed,
		})
	}
	turn.Pool.Workers[1].State, turn.Pool.Workers[1].NodeName = cloud.WorkerProvisioning, ""
	turn.Pool.Workers[1].Message = "waiting for capacity in the zone, which may take some minutes"
	up := map[string][]plan.Session{}
	for i, node := range a.nodes {
		n := plan.Node{Name: node.Name, Zone: node.Labels["topology.kubernetes.io/zone"], Ready: true, Addresses: []netip.Addr{netip.MustParseAddr(node.Name)}}
		for _, r := range a.pool.Status.Reflectors {
			missing := r.Node == "10.3.9.2" && i < 27 && node.Labels[v1alpha1.PoolLabel] == "" || r.Node == "10.1.9.1" && node.Name == "10.2.0.7"
			up[r.Node] = append(up[r.Node], plan.Session{Peer: n.Addresses[0], Kind: plan.SessionNode, Established: !missing})
		}
		turn.Cluster.Nodes = append(turn.Cluster.Nodes, n)
	}
	turn.Cluster.Statuses = map[string]plan.Status{}
	for name, sessions := range up {
		turn.Cluster.Statuses[name] = plan.Status{Node: name, Sessions: sessions}
	}
	manager := Manager{Pulse: Running, Message: "m1 holds the lease rrpool-manager in namespace rrpool-system", Namespace: "rrpool-system"}
	return Facts{Cluster: "rrpool", Now: cli.Now, Object: a.pool, Nodes: a.nodes, Events: a.events, Manager: manager, Survey: &snapshot.Snapshot{Turn: turn}}
}

// What -v shows, in every format.
func TestVerbose(t *testing.T) {
	quiet := seen()
	quiet.Object = object(nil)
	for name := range quiet.Survey.Cluster.Statuses {
		for i := range quiet.Survey.Cluster.Statuses[name].Sessions {
			quiet.Survey.Cluster.Statuses[name].Sessions[i].Established = true
		}
	}
	quiet.Survey.Pool = nil
	quiet.Survey.Obstacle = &plan.Problem{Reason: "CredentialsUnreadable", Message: "Secret rrpool-ibmcloud cannot be read: grant access to it"}
	p := Phrase{program: "rrpool", namespace: "rrpool-system"}
	for name, facts := range map[string]Facts{"verbose": seen(), "verbose-quiet": quiet} {
		v := newView(facts, p)
		for format, show := range map[string]struct {
			renderer
			width int
		}{"table": {verboseOf, 0}, "table60": {verboseOf, 60}, "json": {jsonOf, 0}} {
			t.Run(name+"/"+format, func(t *testing.T) {
				var out bytes.Buffer
				require.NoError(t, show.renderer(iostreams.Streams{Out: &out, Width: show.width}, v))
				if show.width > 0 {
					cli.RequireWidth(t, out.String(), show.width)
				}
				cli.Golden(t, filepath.Join(name, format+".golden"), out.String())
			})
		}
	}
}
