//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/projectcalico/calico/confd/pkg/resource/template"
	"github.com/prometheus/procfs"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab"
)

const (
	// startTimeout is how long BIRD may take to read its configuration and answer, answerTimeout to answer while it works.
	startTimeout  = 2 * time.Minute
	answerTimeout = 5 * time.Minute
	// askEvery is the interval of requests for BIRD's status during a measurement.
	askEvery = 100 * time.Millisecond
	birdPort = 179
	nodeName = "reflector" // in Calico's datastore
)

// prepareHost adds all addresses of the nodes to loopback, which needs no entries in the kernel's neighbour table that all namespaces share.
func prepareHost() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding loopback: %w", err)
	}
	network := &net.IPNet{IP: reflectorAddress.AsSlice(), Mask: net.CIDRMask(nodeNetwork.Bits(), 32)}
	if err := netlink.AddrAdd(loopback, &netlink.Addr{IPNet: network}); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("giving loopback the addresses %s: %w", nodeNetwork, err)
	}
	return nil
}

// kernelProtocol is removed from Calico's configuration, so that no routes are written into the kernel.
var kernelProtocol = regexp.MustCompile(`(?s)\nprotocol kernel \{.*?\n\}\n`)

// configure renders the reflector's configuration for a number of clients by Calico's confd and templates, and returns its path.
func configure(ctx context.Context, dir string, clients int) (string, error) {
	calico, err := controlplane.CalicoSources(ctx)
	if err != nil {
		return "", err
	}
	templates := filepath.Join(calico, "confd", "etc", "calico", "confd", "templates")
	if err := os.Setenv("NODENAME", nodeName); err != nil { // the templates read it
		return "", fmt.Errorf("naming the node: %w", err)
	}
	logrus.SetLevel(logrus.WarnLevel) // confd's
	for _, name := range []string{"bird", "bird_aggr", "bird_ipam"} {
		list := fmt.Sprintf("[template]\nsrc = %q\ndest = %q\nprefix = \"/\"\nkeys = [\"/\"]\n", name+".cfg.template", filepath.Join(dir, name+".cfg"))
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(list), 0o600); err != nil {
			return "", fmt.Errorf("writing confd's list of templates: %w", err)
		}
	}
	if err := template.Process(template.Config{ConfDir: dir, ConfigDir: dir, TemplateDir: templates, StoreClient: datastore(clients), SyncOnly: true}); err != nil {
		return "", fmt.Errorf("rendering BIRD's configuration with Calico's confd: %w", err)
	}
	path := filepath.Join(dir, "bird.cfg")
	text, err := os.ReadFile(path) //nolint:gosec // G304: ours
	if err != nil {
		return "", fmt.Errorf("reading BIRD's configuration: %w", err)
	}
	if found := len(kernelProtocol.FindAll(text, -1)); found != 1 {
		return "", fmt.Errorf("BIRD's configuration has %d kernel protocols, not 1: Calico's template must have changed", found)
	}
	return path, os.WriteFile(path, kernelProtocol.ReplaceAll(text, []byte("\n")), 0o600)
}

// store is Calico's datastore as keys and values for confd's templates.
type store map[string]string

// datastore returns the keys of a reflector in the topology Single: the mesh is off, and clients have no cluster ID. Each peer has confd's
// default values.
func datastore(clients int) store {
	host := "/bgp/v1/host/" + nodeName
	s := store{
		host + "/ip_addr_v4":       reflectorAddress.String(),
		host + "/rr_cluster_id":    clusterID,
		host + "/bind_mode":        "NodeIP", // all addresses are local, so BIRD must listen on its own only
		"/bgp/v1/global/as_num":    strconv.Itoa(as),
		"/bgp/v1/global/node_mesh": `{"enabled": false}`,
		"/v1/ipam/v4/pool/pool":    fmt.Sprintf(`{"cidr": %q}`, podNetwork),
	}
	for i := range clients {
		s[fmt.Sprintf("%s/peer_v4/%s", host, clientAddress(i))] = fmt.Sprintf(`{"ip":%q,"as_num":"%d","local_as_num":"0","rr_cluster_id":"",`+
			`"source_addr":"UseNodeIP","port":0,"keep_next_hop":false,"restart_time":"","calico_node":true,"num_allow_local_as":0,"ttl_security":0,`+
			`"reachable_by":"","filters":null,"passive_mode":false,"local_bgp_peer":false,"next_hop_mode":""}`, clientAddress(i), as)
	}
	return s
}

// SetPrefixes does nothing.
func (store) SetPrefixes([]string) error { return nil }

// GetValues returns all keys.
func (s store) GetValues([]string) (map[string]string, error) { return s, nil }

// WatchPrefix is not called.
func (store) WatchPrefix(string, []string, uint64, chan bool) (string, error) {
	return "", errors.New("nothing changes here")
}

// GetCurrentRevision returns a constant.
func (store) GetCurrentRevision() uint64 { return 1 }

type bird struct {
	*controlplane.Process
	socket, log string
	seen        procfs.Proc // of the kernel's statistics
}

// startBIRD starts BIRD as calico-node does, and waits until it answers.
func startBIRD(ctx context.Context, dir, config string) (*bird, error) {
	b := &bird{socket: filepath.Join(dir, "bird.ctl"), log: filepath.Join(dir, "bird.log")}
	var err error
	if b.Process, err = controlplane.StartProcess(exec.Command("bird", "-R", "-s", b.socket, "-d", "-c", config), b.log, nil); err != nil { //nolint:gosec // G204: ours
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if !b.Running() {
			return false, errors.New("it has ended")
		}
		return b.ask(ctx) == nil, nil
	})
	if err == nil {
		b.seen, err = procfs.NewProc(b.Pid())
	}
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("starting BIRD: %w: %s", err, controlplane.Tail(b.log))
	}
	return b, nil
}

// ask requests BIRD's status by its control socket, as calico-node's readiness probe does.
func (b *bird) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := lab.Ask(ctx, b.socket, "show status")
	return err
}

// slowest repeats ask until ctx ends, and returns the longest time until an answer, including one that has not arrived.
func (b *bird) slowest(ctx context.Context) time.Duration {
	var most time.Duration
	for {
		began := time.Now()
		_ = b.ask(ctx)
		most = max(most, time.Since(began))
		select {
		case <-ctx.Done():
			return most
		case <-time.After(askEvery):
		}
	}
}

func (b *bird) cpu() (time.Duration, error) {
	spent, err := b.seen.Schedstat()
	return time.Duration(spent.RunningNanoseconds), err //nolint:gosec // G115: at most hours
}

// peakMemory returns BIRD's largest resident set, in bytes.
func (b *bird) peakMemory() (int64, error) {
	status, err := b.seen.NewStatus()
	return int64(status.VmHWM), err //nolint:gosec // G115: bytes of memory
}
