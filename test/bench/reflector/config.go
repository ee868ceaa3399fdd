//go:build linux

package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/projectcalico/calico/confd/pkg/resource/template"
	"github.com/sirupsen/logrus"
)

// nodeName is the reflector's in Calico's datastore.
const nodeName = "reflector"

// kernelProtocol is what is taken out of Calico's configuration: routes are not to be written into a kernel.
var kernelProtocol = regexp.MustCompile(`(?s)\nprotocol kernel \{.*?\n\}\n`)

// configure lets Calico's confd render the reflector's configuration for so many clients, from Calico's templates, and returns its path.
func configure(ctx context.Context, dir string, clients int) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/projectcalico/calico").Output()
	if err != nil {
		return "", fmt.Errorf("finding Calico's templates: %w", err)
	}
	templates := filepath.Join(strings.TrimSpace(string(out)), "confd", "etc", "calico", "confd", "templates")
	store, err := datastore(clients)
	if err != nil {
		return "", err
	}
	if err := os.Setenv("NODENAME", nodeName); err != nil { // the templates ask for it
		return "", fmt.Errorf("naming the node: %w", err)
	}
	logrus.SetLevel(logrus.WarnLevel) // confd's
	for _, name := range []string{"bird", "bird_aggr", "bird_ipam"} {
		list := fmt.Sprintf("[template]\nsrc = %q\ndest = %q\nprefix = \"/\"\nkeys = [\"/\"]\n",
			name+".cfg.template", filepath.Join(dir, name+".cfg"))
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(list), 0o600); err != nil {
			return "", fmt.Errorf("writing confd's list of templates: %w", err)
		}
	}
	if err := template.Process(template.Config{ConfDir: dir, ConfigDir: dir, TemplateDir: templates, StoreClient: store, SyncOnly: true}); err != nil {
		return "", fmt.Errorf("rendering BIRD's configuration with Calico's confd: %w", err)
	}
	path := filepath.Join(dir, "bird.cfg")
	return path, withoutKernel(path)
}

func withoutKernel(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // G304: ours
	if err != nil {
		return fmt.Errorf("reading BIRD's configuration: %w", err)
	}
	if found := len(kernelProtocol.FindAll(text, -1)); found != 1 {
		return fmt.Errorf("taking the kernel protocol out of BIRD's configuration: it has %d, not 1; Calico's template must have changed", found)
	}
	if err := os.WriteFile(path, kernelProtocol.ReplaceAll(text, []byte("\n")), 0o600); err != nil {
		return fmt.Errorf("writing BIRD's configuration: %w", err)
	}
	return nil
}

// store is Calico's datastore as confd's templates see it.
type store map[string]string

// datastore describes a reflector whose clients are ordinary nodes, as BGPPeers with selectors make it in the topology Single: the mesh
// is off, clients have no cluster ID.
func datastore(clients int) (store, error) {
	host := "/bgp/v1/host/" + nodeName
	s := store{
		host + "/ip_addr_v4":         reflectorAddress.String(),
		host + "/rr_cluster_id":      clusterID,
		host + "/bind_mode":          "NodeIP", // all addresses are local: BIRD would meet itself at its clients'
		"/bgp/v1/global/as_num":      strconv.Itoa(as),
		"/bgp/v1/global/node_mesh":   `{"enabled": false}`,
		"/v1/ipam/v4/pool/" + "pool": fmt.Sprintf(`{"cidr": %q}`, podNetwork),
	}
	for i := range clients {
		address := clientAddress(i)
		peer, err := json.Marshal(peer{
			IP: address, AS: strconv.Itoa(as), LocalAS: "0", SourceAddress: "UseNodeIP", CalicoNode: true,
		})
		if err != nil {
			return nil, fmt.Errorf("describing a peer: %w", err)
		}
		s[fmt.Sprintf("%s/peer_v4/%s", host, address)] = string(peer)
	}
	return s, nil
}

// peer is a BGP peer in the form that Calico's confd gives to its templates, at what it is by default: with all keys but the password's, which may be absent.
type peer struct {
	IP              netip.Addr `json:"ip"`
	AS              string     `json:"as_num"`
	LocalAS         string     `json:"local_as_num"`
	ClusterID       string     `json:"rr_cluster_id"`
	SourceAddress   string     `json:"source_addr"`
	Port            uint16     `json:"port"`
	KeepNextHop     bool       `json:"keep_next_hop"`
	RestartTime     string     `json:"restart_time"`
	CalicoNode      bool       `json:"calico_node"`
	NumAllowLocalAS int32      `json:"num_allow_local_as"`
	TTLSecurity     uint8      `json:"ttl_security"`
	ReachableBy     string     `json:"reachable_by"`
	Filters         []string   `json:"filters"`
	PassiveMode     bool       `json:"passive_mode"`
	LocalBGPPeer    bool       `json:"local_bgp_peer"`
	NextHopMode     string     `json:"next_hop_mode"`
}

// SetPrefixes does nothing: everything is there.
func (store) SetPrefixes([]string) error { return nil }

// GetValues returns everything; the templates pick.
func (s store) GetValues([]string) (map[string]string, error) { return s, nil }

// WatchPrefix is not used: nothing changes.
func (store) WatchPrefix(string, []string, uint64, chan bool) (string, error) {
	return "", errors.New("nothing changes here")
}

// GetCurrentRevision is always the same.
func (store) GetCurrentRevision() uint64 { return 1 }
