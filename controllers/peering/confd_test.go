package peering_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
	planpeering "github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

// confd is Calico's own, on reflector rr-1, and BIRD's check of what it renders.
type confd struct {
	*bench
	program, sources, kubeconfig string
}

func newConfd(t *testing.T) confd {
	t.Helper()
	if _, err := exec.LookPath("bird"); err != nil || testing.Short() {
		t.Skip("needs BIRD, and Calico's node agent, which is built")
	}
	require.NoError(t, programs.Build(t.Context(), os.Stderr, "calico-node"))
	c := confd{bench: newBench(t), program: programs.Path("calico-node"), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	c.up = true
	var err error
	c.sources, err = controlplane.CalicoSources(t.Context())
	require.NoError(t, err)
	require.NoError(t, controlplane.WriteKubeconfig(c.kubeconfig, controlplane.ForTest(t).AdminConfig()))
	for kind, spec := range map[string]map[string]any{
		"BGPConfiguration":   {"nodeToNodeMeshEnabled": true, "asNumber": int64(64512)},
		"ClusterInformation": {"datastoreReady": true, "clusterGUID": "0123", "calicoVersion": programs.CalicoRelease},
	} {
		o := c.custom(kind, "default")
		o.Object["spec"] = spec
		require.NoError(t, c.kube.Create(t.Context(), o))
		t.Cleanup(func() { _ = c.kube.Delete(context.WithoutCancel(t.Context()), o) })
	}
	node := &corev1.Node{}
	require.NoError(t, c.kube.Get(t.Context(), client.ObjectKey{Name: "rr-1"}, node))
	node.Annotations["projectcalico.org/IPv6Address"] = "fd00:a::1/64"
	require.NoError(t, c.kube.Update(t.Context(), node))
	return c
}

// tunnel is a line that only Calico's own BIRD understands, not the one of the machine.
var tunnel = regexp.MustCompile(`(?m)^.*krt_tunnel.*$`)

// check renders both configurations anew, and gives what BIRD says against them, "" for nothing.
func (c confd) check() string {
	c.Helper()
	dir := c.TempDir()
	out := filepath.Join(dir, "out")
	require.NoError(c, os.CopyFS(dir, os.DirFS(filepath.Join(c.sources, "confd", "etc", "calico", "confd"))))
	require.NoError(c, exec.CommandContext(c.Context(), "chmod", "-R", "u+w", dir).Run())
	require.NoError(c, os.MkdirAll(out, 0o755))
	for _, pattern := range []string{"conf.d/*.toml", "templates/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(c, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(c, err)
			changed := strings.NewReplacer("/etc/calico/confd/config", out, "sv hup bird || true", "true", "sv hup bird6 || true", "true").Replace(string(text))
			changed = regexp.MustCompile(`(?m)^check_cmd.*$`).ReplaceAllString(changed, "") // it is checked below
			require.NoError(c, os.WriteFile(file, []byte(tunnel.ReplaceAllString(changed, "")), 0o644))
		}
	}
	cmd := exec.CommandContext(c.Context(), c.program, "-onetime", "-confdir="+dir)
	cmd.Env = append(os.Environ(), "DATASTORE_TYPE=kubernetes", "KUBECONFIG="+c.kubeconfig, "NODENAME=rr-1", "CALICO_ROUTER_ID=", "CALICO_NETWORKING_BACKEND=bird", "IP=10.0.0.1")
	said, err := cmd.CombinedOutput()
	require.NoError(c, err, "%s", said)
	var wrong []string
	for _, daemon := range []string{"bird", "bird6"} {
		said, err := exec.CommandContext(c.Context(), daemon, "-p", "-c", filepath.Join(out, daemon+".cfg")).CombinedOutput()
		if err != nil {
			wrong = append(wrong, daemon+": "+string(said))
		}
	}
	return strings.Join(wrong, "; ")
}

// Whatever passes the border becomes a configuration that BIRD takes, at the edges of what passes.
func TestWhatIsTakenOfARemoteClusterIsAConfigurationForBIRD(t *testing.T) {
	c := newConfd(t)
	ranges := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			p, err := planpeering.ParseRange(text)
			require.NoError(t, err)
			out = append(out, p)
		}
		return out
	}
	for i, asn := range []int64{1, 23455, 65534, 65536, 2147483647} {
		four := []string{"1.0.0.1", "126.255.255.255", "128.0.0.0", "223.255.255.255", "100.64.0.1"}[i]
		six := []string{"2000::", "3fff:ffff::1", "fc00::1", "fdff:ffff::1", "2001:db8::1"}[i]
		c.side = planpeering.Side{}
		var err error
		c.side.ASN, err = planpeering.ParseASN(asn)
		require.NoError(t, err)
		for _, text := range []string{four, six} {
			a, err := planpeering.ParseAddr(text)
			require.NoError(t, err)
			c.side.Reflectors = append(c.side.Reflectors, a)
		}
		c.side.Pods = ranges("11.0.0.0/8", "12.0.0.1/32", "2002::/16", "2003::1/128")
		c.side.Services = ranges("13.0.0.0/31", "fc01::/127")
		name := fmt.Sprintf("b%d", i)
		c.create(followed(name))
		c.settle(name)
		require.Equal(t, "Ready True Peered", c.conditions(name)[0], "%s", c.message(name, "Ready"))
		require.Empty(t, c.check(), "AS %d, %s, %s", asn, four, six)
		c.delete(name)
		c.settle(name)
	}
}

// The negative control: the check sees what BIRD does not take, and each is refused at the border.
func TestWhatIsRefusedOfARemoteClusterIsNoConfigurationForBIRD(t *testing.T) {
	c := newConfd(t)
	require.Empty(t, c.check())
	for _, text := range []string{"0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1"} {
		_, err := planpeering.ParseAddr(text)
		require.Error(t, err)
		p := plan.Peer{Name: "rrpool-bad", Node: "rr-1", PeerIP: text, ASN: 64513}
		_, err = c.Datastore.Apply(t.Context(), plan.DatastoreOptions{}, plan.PutPeer{Peer: p})
		require.NoError(t, err)
		bad := c.check()
		t.Logf("%s: %q", text, bad)
		if text == "0.0.0.0" {
			require.Contains(t, bad, "Neighbor must be configured")
		}
		_, err = c.Datastore.Apply(t.Context(), plan.DatastoreOptions{}, plan.DeletePeer{Name: p.Name})
		require.NoError(t, err)
	}
	// Calico's CRD takes no AS number of more than 31 bits, so such a remote cluster is refused before the first write.
	_, err := c.Datastore.Apply(t.Context(), plan.DatastoreOptions{}, plan.PutPeer{Peer: plan.Peer{Name: "rrpool-bad", Node: "rr-1", PeerIP: "10.9.0.1", ASN: 4200000000}})
	require.ErrorContains(t, err, "asNumber")
}
