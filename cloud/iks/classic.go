package iks

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv1"

	"github.com/rrpool/rrpool/cloud"
)

// classic is the v1 API.
type classic struct{ *Provider }

func (classic) traits() traits {
	return traits{
		pool: "/v2/classic/getWorkerPool", workers: "/v1/clusters/%s/workers?showDeleted=false",
		replacing: "/v2/replaceWorker", flavors: "/v1/datacenters/%s/machine-types", zones: "/v1/zones",
	}
}

type v1Pool struct {
	containerv1.WorkerPoolResponse
	Size *int `json:"sizePerZone"`
}

func (g classic) pools(ctx context.Context) (out []pool, err error) {
	var list []member[v1Pool]
	err = g.get(ctx, "listing the cluster's pools for", to("/v1/clusters/%s/workerpools", g.cfg.ClusterID), &list)
	for _, m := range list {
		l := m.is
		out = append(out, pool{
			err: m.err, id: l.ID, name: l.Name, flavor: plainFlavor(l.MachineType), size: l.Size, labels: l.Labels,
			autoscaled: l.AutoscaleEnabled, deleted: l.State == "deleted", deleting: lifecycle(l.State) == cloud.WorkerDeleting, deleteFailed: l.State == deleteFailed, state: cmp.Or(l.ReasonForDelete, l.State),
			options: cloud.PoolOptions{OperatingSystem: l.OperatingSystem}, isolation: l.Isolation,
			zones: networks(l.Zones, func(z containerv1.WorkerPoolZoneResponse) (string, cloud.Network) {
				return z.ID, cloud.Network{PrivateVLAN: z.PrivateVLAN, PublicVLAN: z.PublicVLAN}
			}),
		})
	}
	return out, err
}

func (g classic) workers(ctx context.Context, at route) (out []worker, err error) {
	var list []member[containerv1.Worker]
	err = g.get(ctx, "listing the workers of", at, &list)
	for _, m := range list {
		l := m.is
		if l.State == "deleted" {
			continue
		}
		out = append(out, worker{err: m.err, poolID: l.PoolID, poolName: l.PoolName, unknown: isUnknown(l.State, l.Status), Worker: cloud.Worker{
			ID: l.ID, NodeName: l.PrivateIP, Zone: l.Location, Flavor: plainFlavor(l.MachineType), State: v1State(l),
			DeleteFailed: l.State == deleteFailed, Physical: bareMetal.MatchString(l.MachineType), Outdated: outdated(l.KubeVersion, l.TargetVersion),
			Message: cmp.Or(l.ErrorMessage, l.Status, l.State),
		}})
	}
	return out, err
}

// v1State gives the state of a worker: "normal" is a node, and "deployed" is not one yet.
func v1State(w containerv1.Worker) cloud.WorkerState {
	switch {
	case w.State == "normal" && w.Status == "Ready":
		return cloud.WorkerDeployed
	case w.State == "normal":
		return cloud.WorkerUnhealthy
	case w.State == "deployed" || w.State == "pending":
		return cloud.WorkerProvisioning
	}
	return lifecycle(w.State)
}

func (g classic) create(ctx context.Context, name string, labels map[string]string, want cloud.PoolSpec, others []pool) error {
	body := containerv1.WorkerPoolRequest{
		DiskEncryption: true, Zones: []containerv1.WorkerPoolZone{}, WorkerPoolConfig: containerv1.WorkerPoolConfig{
			Name: name, Size: want.SizePerZone, MachineType: want.Flavor, Isolation: isolation(want.Flavor, others), Labels: labels,
			OperatingSystem: want.Options.OperatingSystem, Entitlement: g.cluster.Entitlement,
		},
	}
	return g.post(ctx, "creating", to("/v1/clusters/%s/workerpools", g.cfg.ClusterID), body)
}

// isolation gives the isolation of a flavor: physical machines have none, and virtual ones are on hosts of the account's own where all
// others of the cluster are.
func isolation(flavor string, others []pool) string {
	virtual := slices.DeleteFunc(slices.Clone(others), func(o pool) bool { return bareMetal.MatchString(o.flavor) || o.isolation == "" })
	switch {
	case bareMetal.MatchString(flavor):
		return ""
	case len(virtual) > 0 && !slices.ContainsFunc(virtual, func(o pool) bool { return o.isolation != "private" }):
		return "private"
	}
	return "public"
}

func (g classic) addZone(ctx context.Context, poolID, zone string, n cloud.Network, _ int, others []pool) (err error) {
	if n = cmp.Or(n, usualNetwork(zone, others)); n == (cloud.Network{}) {
		if n, err = g.pickVLANs(ctx, zone); err != nil {
			return err
		}
	}
	body := containerv1.WorkerPoolZone{ID: zone, WorkerPoolZoneNetwork: containerv1.WorkerPoolZoneNetwork{PrivateVLAN: n.PrivateVLAN, PublicVLAN: n.PublicVLAN}}
	return g.post(ctx, "adding zone "+zone+" to", to("/v1/clusters/%s/workerpools/%s/zones", g.cfg.ClusterID, poolID).with("zone", zone), body)
}

// vlan of a zone.
type vlan struct {
	ID, Type   string
	Properties struct {
		PrimaryRouter string `json:"primary_router"`
	}
}

// pickVLANs takes VLANs that the zone has. A zone without VLANs is left to the service, which makes them.
func (g classic) pickVLANs(ctx context.Context, zone string) (n cloud.Network, err error) {
	var listed []member[vlan]
	if err := g.get(ctx, "listing the VLANs of zone "+zone+" for", to("/v1/datacenters/%s/vlans", zone), &listed); err != nil {
		return cloud.Network{}, err
	}
	var odd error
	list := []vlan{}
	for _, m := range listed {
		if m.err != nil || m.is.ID == "" || m.is.Type == "" {
			odd = cmp.Or(m.err, errors.New("it has no id or type"))
			continue
		}
		list = append(list, m.is)
	}
	slices.SortFunc(list, func(a, b vlan) int { return cmp.Compare(a.ID, b.ID) })
	if n = pairVLANs(list); n.PrivateVLAN == "" && odd != nil { // without any, the service would make another one
		return n, g.implausible("a VLAN of zone %s cannot be read: %v", zone, odd)
	}
	return n, nil
}

// pairVLANs gives the first private VLAN with a public one behind the same router, and that one, else the first private one.
func pairVLANs(list []vlan) (n cloud.Network) {
	for _, private := range list {
		if private.Type != "private" {
			continue
		}
		if i := slices.IndexFunc(list, func(v vlan) bool { return v.Type == "public" && v.router() == private.router() }); i >= 0 {
			return cloud.Network{PrivateVLAN: private.ID, PublicVLAN: list[i].ID}
		}
		n.PrivateVLAN = cmp.Or(n.PrivateVLAN, private.ID)
	}
	return n
}

// router gives the number of the VLAN's router: "bcr01a.dal10" and "fcr01a.dal10" belong together.
func (v vlan) router() string {
	return strings.TrimLeft(v.Properties.PrimaryRouter, "abcdefghijklmnopqrstuvwxyz")
}

// checkRoom passes all: IBM adds subnets to VLANs as they are needed.
func (classic) checkRoom(context.Context, string, cloud.Network, int, []pool) error { return nil }

// remove uses the v1 call: IBM documents no other for classic workers.
func (g classic) remove(ctx context.Context, doing, workerID string) error {
	return g.session.do(ctx, g.op(doing), http.MethodDelete, to("/v1/clusters/%s/workers/%s", g.cfg.ClusterID, workerID), nil, nil)
}
