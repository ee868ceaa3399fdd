package iks

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	bluemix "github.com/IBM-Cloud/bluemix-go"
	"github.com/IBM-Cloud/bluemix-go/api/container/containerv1"

	"github.com/rrpool/rrpool/cloud"
)

// classic is the v1 API.
type classic struct{ *Provider }

// substitutes: removing a worker is all that v1 has, so its substitute comes
// with the next resize.
func (classic) substitutes() bool     { return false }
func (classic) defaultFlavor() string { return DefaultFlavorClassic }
func (classic) singlePath() string    { return "/v2/classic/getWorkerPool" }
func (classic) workersPath() string   { return "/v1/clusters/%s/workers?showDeleted=false" }

func (g classic) v1(ctx context.Context, op, method string, at route, body, out any) error {
	target := containerv1.ClusterTargetHeader{Region: g.cfg.Region, ResourceGroup: g.resourceGroup()}
	return g.session.do(ctx, call{
		op: op, method: method, route: at, body: body, out: out, service: bluemix.ContainerService, target: grouped(target.ToMap()),
	})
}

// on makes a call about one pool, "" for the list of pools.
func (g classic) on(ctx context.Context, doing, method, poolID string, body, out any) error {
	at := to("/v1/clusters/%s/workerpools", g.cfg.ClusterID)
	if poolID != "" {
		at = to("/v1/clusters/%s/workerpools/%s", g.cfg.ClusterID, poolID)
	}
	return g.v1(ctx, g.op(doing), method, at, body, out)
}

type v1Pool struct {
	containerv1.WorkerPoolResponse
	Size *int `json:"sizePerZone"`
}

func (g classic) pools(ctx context.Context) ([]pool, error) {
	var list []v1Pool
	if err := g.on(ctx, "listing pools for", http.MethodGet, "", nil, &list); err != nil {
		return nil, err
	}
	out := make([]pool, 0, len(list))
	for _, l := range list {
		if l.ID == "" || l.Name == "" {
			return nil, g.implausible("a worker pool has no id or name")
		}
		if l.State == "deleted" {
			continue
		}
		p := pool{
			id: l.ID, name: l.Name, flavor: plain(l.MachineType), labels: l.Labels,
			autoscaled: l.AutoscaleEnabled, deleting: l.State == "deleting",
		}
		if p.sized = l.Size != nil; p.sized {
			p.size = *l.Size
		}
		for _, z := range l.Zones {
			if err := p.addZone(z.ID, network{privateVLAN: z.PrivateVLAN, publicVLAN: z.PublicVLAN}); err != nil {
				return nil, g.implausible("%v", err)
			}
		}
		if l.Zones != nil && p.zones == nil {
			p.zones = map[string]network{}
		}
		out = append(out, p)
	}
	return out, nil
}

// plain takes off what the service adds to the flavor of encrypted disks.
func plain(flavor string) string { return strings.TrimSuffix(flavor, ".encrypted") }

func (g classic) workers(ctx context.Context, at route) ([]worker, error) {
	var list []containerv1.Worker
	err := g.v1(ctx, g.op("listing the workers of"), http.MethodGet, at, nil, &list)
	out := make([]worker, 0, len(list))
	for _, w := range list {
		state, message := v1State(w), ""
		if state != cloud.WorkerDeployed {
			message = cmp.Or(w.ErrorMessage, w.Status, w.State)
		}
		out = append(out, worker{poolID: w.PoolID, poolName: w.PoolName, deleted: w.State == "deleted", Worker: cloud.Worker{
			ID: w.ID, NodeName: w.PrivateIP, Zone: w.Location, Flavor: plain(w.MachineType), State: state, Message: message,
		}})
	}
	return out, err
}

// v1State: only "normal" is a node, "deployed" is not yet.
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

func (g classic) create(ctx context.Context, name, flavor string, size int, labels map[string]string, _ []pool) error {
	body := containerv1.WorkerPoolRequest{
		WorkerPoolConfig: containerv1.WorkerPoolConfig{
			Name: name, Size: size, MachineType: plain(flavor), Isolation: "public", Labels: labels,
		},
		DiskEncryption: true,
		Zones:          []containerv1.WorkerPoolZone{},
	}
	var made containerv1.WorkerPoolResponse
	return g.on(ctx, "creating", http.MethodPost, "", body, &made)
}

func (g classic) addZone(ctx context.Context, poolID, zone string, others []pool) error {
	n, ok := neighbour(others, zone)
	if !ok {
		var err error
		if n, err = g.pickVLANs(ctx, zone); err != nil {
			return err
		}
	}
	body := containerv1.WorkerPoolZone{
		ID:                    zone,
		WorkerPoolZoneNetwork: containerv1.WorkerPoolZoneNetwork{PrivateVLAN: n.privateVLAN, PublicVLAN: n.publicVLAN},
	}
	at := to("/v1/clusters/%s/workerpools/%s/zones", g.cfg.ClusterID, poolID).with("zone", zone)
	return g.v1(ctx, g.op("adding zone "+zone+" to"), http.MethodPost, at, body, nil)
}

// pickVLANs takes the first private VLAN and the public one behind the same
// router number. A zone without VLANs is left to the service, which makes them.
func (g classic) pickVLANs(ctx context.Context, zone string) (network, error) {
	var list []containerv1.DCVlan
	if err := g.v1(ctx, "listing VLANs of zone "+zone, http.MethodGet, to("/v1/datacenters/%s/vlans", zone), nil, &list); err != nil {
		return network{}, err
	}
	slices.SortFunc(list, func(a, b containerv1.DCVlan) int { return cmp.Compare(a.ID, b.ID) })
	var n network
	for _, private := range list {
		if private.Type != "private" || n.privateVLAN != "" && n.publicVLAN != "" {
			continue
		}
		n = network{privateVLAN: private.ID}
		for _, public := range list {
			if public.Type == "public" && router(public) == router(private) {
				n.publicVLAN = public.ID
				break
			}
		}
	}
	return n, nil
}

// router is a router's number: "bcr01a.dal10" and "fcr01a.dal10" belong together.
func router(v containerv1.DCVlan) string {
	return strings.TrimLeft(v.Properties.PrimaryRouter, "abcdefghijklmnopqrstuvwxyz")
}

func (g classic) setLabels(ctx context.Context, poolID string, labels map[string]string) error {
	body := containerv1.WorkerPoolPatchRequest{State: "labels", Labels: labels}
	return g.on(ctx, "setting the labels of", http.MethodPatch, poolID, body, nil)
}

func (g classic) resize(ctx context.Context, poolID string, size int) error {
	body := containerv1.WorkerPoolPatchRequest{State: "resizing", Size: size}
	return g.on(ctx, "resizing", http.MethodPatch, poolID, body, nil)
}

func (g classic) remove(ctx context.Context, workerID string) error {
	at := to("/v1/clusters/%s/workers/%s", g.cfg.ClusterID, workerID)
	return g.v1(ctx, "removing worker "+workerID, http.MethodDelete, at, nil, nil)
}

func (g classic) replace(ctx context.Context, workerID string) error { return g.remove(ctx, workerID) }
