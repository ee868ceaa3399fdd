package iks

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
)

// vpc is the v2 API.
type vpc struct{ *Provider }

func (vpc) substitutes() bool     { return true }
func (vpc) defaultFlavor() string { return DefaultFlavorVPC }
func (vpc) singlePath() string    { return "/v2/vpc/getWorkerPool" }
func (vpc) workersPath() string   { return "/v2/vpc/getWorkers?cluster=%s&showDeleted=false" }

func (g vpc) pools(ctx context.Context) ([]pool, error) {
	var list []v2Pool
	at := to("/v2/vpc/getWorkerPools?cluster=%s", g.cfg.ClusterID)
	if err := g.v2(ctx, "listing worker pools", http.MethodGet, at, nil, &list); err != nil {
		return nil, err
	}
	out := make([]pool, 0, len(list))
	for _, l := range list {
		if l.ActualState == "deleted" {
			continue
		}
		p, err := g.fromV2(l)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func primarySubnet(subnets []containerv2.Subnet) string {
	for _, s := range subnets {
		if s.Primary {
			return s.ID
		}
	}
	if len(subnets) > 0 {
		return subnets[0].ID
	}
	return ""
}

func (g vpc) workers(ctx context.Context, at route) ([]worker, error) {
	var list []containerv2.Worker
	err := g.v2(ctx, g.op("listing the workers of"), http.MethodGet, at, nil, &list)
	out := make([]worker, 0, len(list))
	for _, w := range list {
		state := v2State(w)
		out = append(out, worker{poolID: w.PoolID, poolName: w.PoolName, deleted: w.LifeCycle.ActualState == "deleted", Worker: cloud.Worker{
			ID: w.ID, NodeName: primaryAddress(w.NetworkInterfaces), Zone: w.Location, Flavor: w.Flavor, State: state,
			Message: v2Message(w, state),
		}})
	}
	return out, err
}

func v2State(w containerv2.Worker) cloud.WorkerState {
	if w.LifeCycle.DesiredState == "deleted" {
		return cloud.WorkerDeleting
	}
	state := lifecycle(w.LifeCycle.ActualState)
	if state != cloud.WorkerDeployed {
		return state
	}
	switch w.Health.State {
	case "normal":
		return cloud.WorkerDeployed
	case "pending", "":
		return cloud.WorkerProvisioning
	}
	return cloud.WorkerUnhealthy
}

// lifecycle reads a life-cycle state. One that is not known is taken for a
// worker that is not well, never for one to be thrown away.
func lifecycle(state string) cloud.WorkerState {
	switch state {
	case "deployed", "normal":
		return cloud.WorkerDeployed
	case "provision_pending", "provisioning", "provisioned", "deploying", "reloading", "reload_pending", "reload":
		return cloud.WorkerProvisioning
	case "provision_failed", "deploy_failed", "reload_failed", "reloading_failed":
		return cloud.WorkerFailed
	case "deleting":
		return cloud.WorkerDeleting
	}
	return cloud.WorkerUnhealthy
}

func v2Message(w containerv2.Worker, state cloud.WorkerState) string {
	if state == cloud.WorkerDeployed {
		return ""
	}
	return cmp.Or(w.LifeCycle.Message, w.Health.Message, w.LifeCycle.ActualState)
}

func primaryAddress(list []containerv2.Network) string {
	for _, n := range list {
		if n.Primary {
			return n.IpAddress
		}
	}
	return ""
}

func (g vpc) create(ctx context.Context, name, flavor string, size int, labels map[string]string, others []pool) error {
	vpcID := g.vpcID(others)
	body := containerv2.WorkerPoolRequest{
		Cluster: g.cfg.ClusterID,
		CommonWorkerPoolConfig: containerv2.CommonWorkerPoolConfig{
			Name: name, Flavor: flavor, WorkerCount: size, Labels: labels, VpcID: vpcID, Zones: []containerv2.Zone{},
		},
	}
	var made containerv2.WorkerPoolResponse
	return g.v2(ctx, g.op("creating"), http.MethodPost, to("/v2/vpc/createWorkerPool").with("VPC", vpcID), body, &made)
}

// vpcID is the VPC that the cluster is in, "" when it is not known.
func (g vpc) vpcID(others []pool) string {
	if len(others) > 0 && others[0].vpc != "" {
		return others[0].vpc
	}
	if len(g.facts.vpcs) == 1 {
		return g.facts.vpcs[0]
	}
	return ""
}

func (g vpc) addZone(ctx context.Context, poolID, zone string, others []pool) error {
	n, ok := neighbour(others, zone)
	if !ok || n.subnet == "" {
		var err error
		if n.subnet, err = g.pickSubnet(ctx, zone, others); err != nil {
			return err
		}
	}
	body := containerv2.WorkerPoolZone{Cluster: g.cfg.ClusterID, Id: zone, SubnetID: n.subnet, WorkerPoolID: poolID}
	return g.post(ctx, g.op("adding zone "+zone+" to"), to("/v2/vpc/createWorkerPoolZone").with("zone", zone), body)
}

// pickSubnet takes the subnet with the most room.
func (g vpc) pickSubnet(ctx context.Context, zone string, others []pool) (string, error) {
	var list []containerv2.SubnetConfig
	at := to("/v2/vpc/getSubnets?vpc=%s&provider=%s&zone=%s", g.vpcID(others), providerVPC, zone)
	if err := g.v2(ctx, "listing subnets of zone "+zone, http.MethodGet, at, nil, &list); err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(s containerv2.SubnetConfig) bool { return s.ID == "" || s.Zone != zone })
	if len(list) == 0 {
		return "", &cloud.Error{
			Kind: cloud.InvalidInput, Op: g.op("adding zone " + zone + " to"),
			Message: fmt.Sprintf("the VPC has no subnet in zone %s; make one, or list the zones to use", zone),
		}
	}
	best := slices.MinFunc(list, func(a, b containerv2.SubnetConfig) int {
		return cmp.Or(cmp.Compare(b.AvailableIPv4AddressCount, a.AvailableIPv4AddressCount), cmp.Compare(a.ID, b.ID))
	})
	return best.ID, nil
}

func (g vpc) setLabels(ctx context.Context, poolID string, labels map[string]string) error {
	body := containerv2.SetWorkerPoolLabelsRequest{Cluster: g.cfg.ClusterID, WorkerPool: poolID, Labels: labels}
	return g.post(ctx, g.op("setting the labels of"), to("/v2/setWorkerPoolLabels"), body)
}

func (g vpc) resize(ctx context.Context, poolID string, size int) error {
	body := containerv2.ResizeWorkerPoolReq{Cluster: g.cfg.ClusterID, Workerpool: poolID, Size: int64(size)}
	return g.post(ctx, g.op("resizing"), to("/v2/resizeWorkerPool"), body)
}

func (g vpc) remove(ctx context.Context, workerID string) error {
	body := map[string]string{"cluster": g.cfg.ClusterID, "workerID": workerID}
	return g.post(ctx, "removing worker "+workerID, to("/v2/removeWorker").with("worker", workerID), body)
}

// replace takes no answer: the SDK's own function expects one, and there is none.
func (g vpc) replace(ctx context.Context, workerID string) error {
	body := containerv2.ReplaceWorker{ClusterIDOrName: g.cfg.ClusterID, WorkerID: workerID, Update: true}
	return g.post(ctx, "replacing worker "+workerID, to("/v2/vpc/replaceWorker").with("worker", workerID), body)
}
