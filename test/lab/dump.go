//go:build linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// dumpTimeout keeps a dump of a broken lab from hanging.
const dumpTimeout = 30 * time.Second

// dumped are the kinds that matter for BGP.
var dumped = []schema.GroupVersionResource{
	{Version: "v1", Resource: "nodes"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "events"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgpconfigurations"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgppeers"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "caliconodestatuses"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "blockaffinities"},
	{Group: "rrpool.io", Version: "v1alpha1", Resource: "routereflectorpools"},
}

// Dump writes everything that explains a failure into a folder: the report, objects, and for each node what confd has rendered, what
// BIRD says, and all logs. It goes on after errors and returns them together.
func (l *Lab) Dump(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTimeout)
	defer cancel()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("dumping the lab: %w", err)
	}
	errs := []error{l.dumpReport(dir), l.dumpObjects(ctx, dir)}
	for _, name := range []string{"etcd.log", "kube-apiserver.log", "audit.log"} {
		errs = append(errs, copyFile(l.path("control-plane", name), filepath.Join(dir, name)))
	}
	for _, name := range l.Nodes() {
		errs = append(errs, l.dumpNode(name, filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func (l *Lab) dumpReport(dir string) error {
	report := l.Report()
	var text bytes.Buffer
	fmt.Fprintln(&text, report)
	for _, pair := range report.Lossy() {
		fmt.Fprintln(&text, pair)
	}
	return os.WriteFile(filepath.Join(dir, "probes.txt"), text.Bytes(), 0o600)
}

func (l *Lab) dumpObjects(ctx context.Context, dir string) error {
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return err
	}
	var errs []error
	for _, resource := range dumped {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("dumping %s: %w", resource.Resource, err))
			continue
		}
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
		}
		text, err := yaml.Marshal(list.Items)
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, resource.Resource+".yaml"), text, 0o600))
	}
	return errors.Join(errs...)
}

func (l *Lab) dumpNode(name, dir string) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var errs []error
	for _, file := range []string{
		"config/bird.cfg", "config/bird_aggr.cfg", "config/bird_ipam.cfg", "bird.log", "bird6.log", "calico-node.log",
	} {
		errs = append(errs, copyFile(n.path(file), filepath.Join(dir, filepath.Base(file))))
	}
	var text bytes.Buffer
	for _, command := range []string{"show status", "show protocols all", "show route all"} {
		answer, err := n.birdc(command)
		if err != nil {
			answer = err.Error()
		}
		fmt.Fprintf(&text, "# birdc %s\n%s\n", command, answer)
	}
	routes, err := n.space.link.RouteList(nil, 0)
	fmt.Fprintf(&text, "# kernel routes (%v)\n", err)
	for _, route := range routes {
		fmt.Fprintln(&text, route)
	}
	return errors.Join(append(errs, os.WriteFile(filepath.Join(dir, "bird.txt"), text.Bytes(), 0o600))...)
}

// copyFile copies a file that may not exist yet.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // G304: the lab's own folder
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
