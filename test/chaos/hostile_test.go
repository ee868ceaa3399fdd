//go:build linux

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	calicoerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/test/lab"
)

// What a person does that decides what can be as it was in the end.
const (
	notesLost      = "a person removes our notes from the BGPConfiguration"
	meshSwitchedOn = "a person switches the mesh on"
)

// hostile is what a second controller does, or a person who does not know better: to what is ours, and again whenever it is put right.
var hostile = []*fault{
	{
		name: "a person removes a reflector's label", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":null}}}`),
	},
	{
		name: "a person removes a reflector's cluster ID", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`),
	},
	{
		name: "a person changes a reflector's cluster ID", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":"244.9.9.9"}}}`),
	},
	{
		name: "a person takes a reflector's whole role", on: aReflector, most: 8 * time.Second, again: 2 * time.Second,
		begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":null},` +
			`"annotations":{"projectcalico.org/RouteReflectorClusterID":null,"rrpool.io/reflector-since":null}}}`),
	},
	{name: "a person cordons a reflector", on: aReflector, least: 5 * time.Second, most: 30 * time.Second, begin: hostAndAPI((*lab.Lab).Cordon), end: uncordon},
	{name: "a person labels a client as a reflector", on: aClient, most: 6 * time.Second, again: 2 * time.Second, begin: patch(`{"metadata":{"labels":{"rrpool.io/route-reflector":""}}}`)},
	{name: meshSwitchedOn, most: 6 * time.Second, again: 2 * time.Second, begin: meshOn},
	{name: "a person edits rrpool-reflectors", most: 6 * time.Second, again: 2 * time.Second, begin: editPeer("rrpool-reflectors", "has(nothing)")},
	{name: "a person deletes rrpool-reflectors", most: 6 * time.Second, again: 2 * time.Second, begin: deletePeer("rrpool-reflectors")},
	{name: "a person deletes our CalicoNodeStatuses", most: 6 * time.Second, again: 2 * time.Second, begin: deleteStatuses},

	{name: notesLost, grave: true, begin: removeNotes},
	{
		name: "a person gives a client a cluster ID", cuts: true, on: aClient, grave: true, least: 2 * time.Second, most: 8 * time.Second,
		begin: patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":"244.0.0.1"}}}`),
		end:   patch(`{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`),
	},
	{name: "a person deletes rrpool-clients", bound: 10 * time.Second, grave: true, begin: deletePeer("rrpool-clients")},
	{name: "a person edits rrpool-clients", bound: 10 * time.Second, grave: true, begin: editPeer("rrpool-clients", "has(nothing)")},
}

func patch(body string) deed {
	return func(ctx context.Context, s *chaosRun, node string) error {
		if s.gone(node) {
			return nil
		}
		written, err := s.Lab.Kube().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "hostile"})
		if err != nil {
			return fmt.Errorf("patching %q: %w", node, err)
		}
		s.observer.notOurs(written.ResourceVersion)
		return nil
	}
}

// uncordon: the node may have been replaced meanwhile.
func uncordon(ctx context.Context, s *chaosRun, node string) error {
	if s.gone(node) {
		return nil
	}
	return s.Lab.Uncordon(ctx, node)
}

func meshOn(ctx context.Context, s *chaosRun, _ string) error { return setMesh(ctx, s, true) }

func meshOff(ctx context.Context, s *chaosRun, _ string) error { return setMesh(ctx, s, false) }

// setMesh writes the field that a person knows, and nothing else; what Calico refuses together with it goes.
func setMesh(ctx context.Context, s *chaosRun, on bool) error {
	return s.editConfiguration(ctx, func(c *apiv3.BGPConfiguration) {
		c.Spec.NodeToNodeMeshEnabled = &on
		if !on {
			c.Spec.NodeMeshPassword = nil
		}
	})
}

func removeNotes(ctx context.Context, s *chaosRun, _ string) error {
	return s.editConfiguration(ctx, func(c *apiv3.BGPConfiguration) {
		delete(c.Annotations, "rrpool.io/mesh-before")
		delete(c.Annotations, "rrpool.io/mesh-restored")
	})
}

func (s *chaosRun) editConfiguration(ctx context.Context, edit func(*apiv3.BGPConfiguration)) error {
	c, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the BGPConfiguration: %w", err)
	}
	edit(c)
	if _, err := s.Lab.Calico().BGPConfigurations().Update(ctx, c, options.SetOptions{}); err != nil {
		return fmt.Errorf("writing the BGPConfiguration: %w", err)
	}
	return nil
}

func editPeer(name, selector string) deed {
	return func(ctx context.Context, s *chaosRun, _ string) error {
		p, err := s.Lab.Calico().BGPPeers().Get(ctx, name, options.GetOptions{})
		if err != nil {
			return notThere(err)
		}
		p.Spec.PeerSelector = selector
		_, err = s.Lab.Calico().BGPPeers().Update(ctx, p, options.SetOptions{})
		return notThere(err)
	}
}

func deletePeer(name string) deed {
	return func(ctx context.Context, s *chaosRun, _ string) error {
		_, err := s.Lab.Calico().BGPPeers().Delete(ctx, name, options.DeleteOptions{})
		return notThere(err)
	}
}

func deleteStatuses(ctx context.Context, s *chaosRun, _ string) error {
	list, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the CalicoNodeStatuses: %w", err)
	}
	for i := range list.Items {
		_, err := s.Lab.Calico().CalicoNodeStatus().Delete(ctx, list.Items[i].Name, options.DeleteOptions{})
		if err := notThere(err); err != nil {
			return err
		}
	}
	return nil
}

// notThere is fine: the manager may be about to put right what was done before.
func notThere(err error) error {
	var missing calicoerrors.ErrorResourceDoesNotExist
	if errors.As(err, &missing) {
		return nil
	}
	return err
}
