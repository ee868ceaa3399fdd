package iks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
)

// vpc is the v2 API.
type vpc struct{ *Provider }

func (vpc) traits() traits {
	return traits{
		pool: "/v2/vpc/getWorkerPool", workers: "/v2/vpc/getWorkers?cluster=%s&showDeleted=false",
		replacing: "/v2/vpc/replaceWorker", flavors: "/v2/getFlavors?zone=%s&provider=" + providerVPC,
		zones: "/v2/vpc/getZones?provider=" + providerVPC,
	}
}

func (g vpc) pools(ctx context.Context) (out []pool, err error) {
	var list []member[v2Pool]
	err = g.get(ctx, "listing the cluster's pools for", to("/v2/vpc/getWorkerPools?cluster=%s", g.cfg.ClusterID), &list)
	for _, l := range list {
		o := l.is.pool()
		o.err = l.err
		out = append(out, o)
	}
	return out, err
}

func (g vpc) workers(ctx context.Context, at route) (out []worker, err error) {
	var list []member[containerv2.Worker]
	err = g.get(ctx, "listing the workers of", at, &list)
	for _, m := range list {
		l := m.is
		if l.LifeCycle.ActualState == "deleted" {
			continue
		}
		w := worker{err: m.err, poolID: l.PoolID, poolName: l.PoolName, system: l.LifeCycle.ActualOperatingSystem, unknown: isUnknown(l.LifeCycle.ActualState, l.Health.State), Worker: cloud.Worker{
			ID: l.ID, Zone: l.Location, Flavor: l.Flavor, State: v2State(l), Outdated: outdated(l.KubeVersion.Actual, l.KubeVersion.Target),
			DeleteFailed: l.LifeCycle.ActualState == deleteFailed, Physical: bareMetal.MatchString(l.Flavor),
			Message: cmp.Or(l.LifeCycle.Message, l.Health.Message, l.LifeCycle.ActualState),
		}}
		if i := slices.IndexFunc(l.NetworkInterfaces, func(n containerv2.Network) bool { return n.Primary }); i >= 0 {
			w.NodeName = l.NetworkInterfaces[i].IpAddress
		}
		out = append(out, w)
	}
	return out, err
}

func v2State(w containerv2.Worker) cloud.WorkerState {
	state := lifecycle(w.LifeCycle.ActualState)
	switch {
	case w.LifeCycle.DesiredState == "deleted":
		return cloud.WorkerDeleting
	case state != cloud.WorkerDeployed || w.Health.State == "normal":
		return state
	case w.Health.State == "pending" || w.Health.State == "":
		return cloud.WorkerProvisioning
	}
	return cloud.WorkerUnhealthy
}

// isUnknown reports whether the cloud calls the state or health of a worker unknown.
func isUnknown(state, health string) bool {
	return strings.EqualFold(state, "unknown") || lifecycle(state) == cloud.WorkerDeployed && strings.EqualFold(health, "unknown")
}

// deleteFailed is the state after a deletion that the cloud has given up.
const deleteFailed = "delete_failed"

// lifecycle reads a life-cycle state. A worker in an unknown state is unhealthy, never failed, as those are replaced.
func lifecycle(state string) cloud.WorkerState {
	switch state {
	case "deployed", "normal":
		return cloud.WorkerDeployed
	case "provision_pending", "provisioning", "provisioned", "deploying", "reloading", "reload_pending", "reload":
		return cloud.WorkerProvisioning
	case "provision_failed", "deploy_failed", "reload_failed", "reloading_failed":
		return cloud.WorkerFailed
	case "deleting", deleteFailed:
		return cloud.WorkerDeleting
	}
	return cloud.WorkerUnhealthy
}

func (g vpc) create(ctx context.Context, name string, labels map[string]string, want cloud.PoolSpec, others []pool) error {
	vpcID, o := g.vpcID(others), want.Options
	body := containerv2.WorkerPoolRequest{Cluster: g.cfg.ClusterID, HostPoolID: o.DedicatedHostPoolID, CommonWorkerPoolConfig: containerv2.CommonWorkerPoolConfig{
		Name: name, Flavor: want.Flavor, WorkerCount: want.SizePerZone, Labels: labels, VpcID: vpcID, Zones: []containerv2.Zone{},
		OperatingSystem: o.OperatingSystem, SecurityGroupIDs: o.SecurityGroups, Entitlement: g.cluster.Entitlement,
	}}
	if e := o.WorkerVolumeEncryption; e != (cloud.WorkerVolumeEncryption{}) {
		body.WorkerVolumeEncryption = &containerv2.WorkerVolumeEncryption{KmsInstanceID: e.KMSInstanceID, WorkerVolumeCRKID: e.RootKeyID, KMSAccountID: e.KMSAccountID}
	}
	return g.post(ctx, "creating", to("/v2/vpc/createWorkerPool").with("VPC", vpcID), body)
}

// vpcID gives the cluster's VPC, "" when it is not known.
func (g vpc) vpcID(others []pool) string {
	if len(others) > 0 && others[0].vpc != "" {
		return others[0].vpc
	}
	if len(g.cluster.Vpcs) == 1 {
		return g.cluster.Vpcs[0]
	}
	return ""
}

func (g vpc) addZone(ctx context.Context, poolID, zone string, n cloud.Network, workers int, others []pool) error {
	subnet, err := g.pickSubnet(ctx, zone, n.SubnetID, workers, others)
	if err != nil {
		return err
	}
	body := containerv2.WorkerPoolZone{Cluster: g.cfg.ClusterID, Id: zone, SubnetID: subnet, WorkerPoolID: poolID}
	return g.post(ctx, "adding zone "+zone+" to", to("/v2/vpc/createWorkerPoolZone").with("zone", zone), body)
}

func (g vpc) checkRoom(ctx context.Context, zone string, n cloud.Network, workers int, others []pool) error {
	_, err := g.pickSubnet(ctx, zone, n.SubnetID, workers, others)
	return err
}

// subnet of a zone. Free is nil where the answer does not count its free addresses.
type subnet struct {
	ID, Zone string
	Free     *int `json:"availableIPv4AddressCount"`
}

// hasRoomFor reports whether the subnet may have an address for each of so many workers.
func (s subnet) hasRoomFor(workers int) bool { return s.Free == nil || *s.Free >= max(workers, 1) }

func (s subnet) free() int { return *cmp.Or(s.Free, new(int)) }

// subnets lists those of a zone, the one with the most room first. It fails where some are listed and none can be read.
func (g vpc) subnets(ctx context.Context, zone string, others []pool) (list []subnet, err error) {
	var listed []member[subnet]
	at := to("/v2/vpc/getSubnets?vpc=%s&provider=%s&zone=%s", g.vpcID(others), providerVPC, zone)
	err = g.get(ctx, "listing the subnets of zone "+zone+" for", at, &listed)
	var odd error
	for _, s := range listed {
		switch {
		case s.is.ID != "" && s.is.Zone == zone: // where its addresses cannot be read, it may have some
			list = append(list, s.is)
		case s.err != nil:
			odd = s.err
		}
	}
	if err == nil && odd != nil && len(list) == 0 {
		err = g.implausible("a subnet of zone %s cannot be read: %v", zone, odd)
	}
	slices.SortFunc(list, func(a, b subnet) int { return cmp.Or(cmp.Compare(b.free(), a.free()), cmp.Compare(a.ID, b.ID)) })
	return list, err
}

// countsAddresses reports whether a subnet of the cluster's zones has free addresses: where none has, the cloud does not count them.
func (g vpc) countsAddresses(ctx context.Context, zone string, list []subnet, others []pool) bool {
	some := func(s subnet) bool { return s.free() > 0 }
	seen := map[string]bool{zone: true}
	for _, o := range others {
		for z := range o.zones {
			if !seen[z] && !slices.ContainsFunc(list, some) {
				more, _ := g.subnets(ctx, z, others) // one that fails tells nothing
				list = slices.Concat(list, more)
			}
			seen[z] = true
		}
	}
	return slices.ContainsFunc(list, some)
}

// pickSubnet takes the subnet that is asked for, else that of the other pools, unless it has too few free addresses, else the one
// with the most. A worker that is ordered into a full subnet never comes.
func (g vpc) pickSubnet(ctx context.Context, zone, asked string, workers int, others []pool) (string, error) {
	wanted := cmp.Or(asked, usualNetwork(zone, others).SubnetID)
	list, err := g.subnets(ctx, zone, others)
	if err != nil {
		if wanted != "" && ctx.Err() == nil {
			return wanted, nil // the order will tell
		}
		return "", err
	}
	room := slices.ContainsFunc(list, func(s subnet) bool { return s.hasRoomFor(workers) })
	if !room && len(list) > 0 && !g.countsAddresses(ctx, zone, list, others) {
		return cmp.Or(wanted, list[0].ID), nil // the order will tell
	}
	return g.pickListed(list, zone, asked, wanted, workers)
}

// pickListed takes the subnet that is wanted, unless it has too few free addresses, else the one with the most. It fails where none is left.
func (g vpc) pickListed(list []subnet, zone, asked, wanted string, workers int) (string, error) {
	i := slices.IndexFunc(list, func(s subnet) bool { return s.ID == wanted })
	room := slices.IndexFunc(list, func(s subnet) bool { return s.hasRoomFor(workers) })
	switch {
	case wanted != "" && (i < 0 || list[i].hasRoomFor(workers)):
		return wanted, nil
	case asked != "":
		return "", g.invalidOrder("subnet %s in zone %s has %d free addresses, for %d workers: name one that has enough in spec.provider.iks.networks", asked, zone, list[i].free(), workers)
	case len(list) == 0:
		return "", g.invalidOrder("the VPC has no subnet in zone %s; make one, or list the zones to use", zone)
	case room < 0:
		return "", g.invalidOrder("no subnet in zone %s has a free address for each of %d workers: make one, and name it in spec.provider.iks.networks, or list other zones", zone, workers)
	}
	return list[room].ID, nil
}

func (g vpc) remove(ctx context.Context, doing, workerID string) error {
	body := map[string]string{"cluster": g.cfg.ClusterID, "workerID": workerID}
	return g.post(ctx, doing, to("/v2/removeWorker").with("worker", workerID), body)
}
