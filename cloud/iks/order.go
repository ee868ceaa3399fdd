package iks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// listingPatience is how long an order waits for listings of flavors, zones and subnets.
const listingPatience = 10 * time.Second

// groupsOfAWorker are the security groups that a network interface of a VPC can have.
const groupsOfAWorker = 5

// checkOrder refuses an order for what the cluster or the cloud does not have, before anything is ordered, and gives the flavor of a pool
// to be made. Nothing is asked at rest. A listing that fails or is empty holds nothing up, as the order will tell: unchecked says so.
func (p *Provider) checkOrder(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (flavor, unchecked string, err error) {
	if len(want.Zones) == 0 {
		want.Zones = v.state.ClusterZones
	}
	if slices.Contains([]poolplan.Kind{poolplan.None, poolplan.Create, poolplan.AddZone}, step.Kind) {
		err = p.checkOptions(want.Options, want.Zones)
	}
	listing, cancel := context.WithTimeout(ctx, listingPatience)
	defer cancel()
	switch {
	case err != nil:
	case step.Kind == poolplan.Create:
		flavor, err = p.checkNewPool(listing, v, want)
	case step.Kind == poolplan.AddZone && v.pool.flavor != "":
		flavor = v.pool.flavor
		if err = p.checkZones(listing, v, want.Zones); err == nil {
			_, err = p.chooseFlavor(listing, v, []string{flavor}, false, []string{step.Zone})
		}
	}
	var failed unlisted
	switch {
	case ctx.Err() != nil:
		return "", "", cloud.Interrupted(ctx, p.op("checking the order of"))
	case errors.As(err, &failed):
		return flavor, fmt.Sprintf(" (not knowing whether all zones have flavor %s: %v)", flavor, failed.error), nil
	}
	return flavor, "", err
}

// checkNewPool looks for the zones of a pool to be made, its flavor in each, and room in their networks.
func (p *Provider) checkNewPool(ctx context.Context, v view, want cloud.PoolSpec) (flavor string, err error) {
	if n := len(want.Options.SecurityGroups); n >= groupsOfAWorker {
		return "", p.invalidOrder("securityGroups has %d, and a worker can have %d, the cluster's own among them: name %d at most", n, groupsOfAWorker, groupsOfAWorker-1)
	}
	flavors, free := p.flavors(v, want.Flavor)
	if free && want.Options.DedicatedHostPoolID != "" {
		return "", p.invalidOrder("dedicatedHostPoolID is %s, and no flavor is given: a dedicated host has those of its own class alone, so set "+
			"spec.provider.iks.flavor to one of them (ibmcloud ks dedicated pool get)", want.Options.DedicatedHostPoolID)
	}
	if flavor, err = flavors[0], p.checkZones(ctx, v, want.Zones); err == nil {
		flavor, err = p.chooseFlavor(ctx, v, flavors, free, want.Zones)
	}
	for i := 0; err == nil && i < len(want.Zones); i++ {
		zone := want.Zones[i]
		if err = v.checkRoom(ctx, zone, want.Options.Networks[zone], want.SizePerZone, v.others); err != nil && !cloud.Is(err, cloud.InvalidInput) {
			err = unlisted{err}
		}
	}
	return flavor, err
}

// unlisted is the error of a listing that cannot be used.
type unlisted struct{ error }

// checkGrowth refuses more workers where no zone that they would come to has room for them, and says which zones have none where
// others have. A worker that is replaced frees the address that it has.
func (p *Provider) checkGrowth(ctx context.Context, v view, step poolplan.Step) (says string, err error) {
	if !slices.Contains([]poolplan.Kind{poolplan.Resize, poolplan.Replace}, step.Kind) {
		return "", nil
	}
	room, full, need := false, []string{}, addressesNeeded(v, step)
	for _, zone := range slices.Sorted(maps.Keys(need)) {
		network := v.pool.zones[zone]
		if network == (cloud.Network{}) || need[zone] <= 0 {
			room = room || need[zone] > 0
			continue
		}
		refusal := v.checkRoom(ctx, zone, network, need[zone], v.others)
		if room = room || refusal == nil; refusal != nil {
			full, err = append(full, zone), cmp.Or(err, refusal)
		}
	}
	if err == nil || !room || ctx.Err() != nil {
		return "", err
	}
	return fmt.Sprintf(" (in %s the subnet has too few free addresses)", strings.Join(full, ", ")), nil
}

// addressesNeeded counts those that step takes in each zone.
func addressesNeeded(v view, step poolplan.Step) map[string]int {
	need := map[string]int{}
	for zone := range v.pool.zones {
		need[zone] = step.Size
	}
	for _, w := range v.state.Workers {
		switch {
		case step.Kind == poolplan.Resize && w.State != cloud.WorkerDeleting:
			need[w.Zone]--
		case w.ID == step.Worker && w.NodeName == "":
			need[w.Zone]++
		}
	}
	return need
}

// checkOptions refuses options that only the other generation has, and networks of zones that the pool has not.
func (p *Provider) checkOptions(o cloud.PoolOptions, zones []string) error {
	var wrong []string
	add := func(field, value string) {
		if value != "" {
			wrong = append(wrong, fmt.Sprintf("%s (%s)", field, value))
		}
	}
	classic := p.cluster.Provider == providerClassic
	if classic {
		add("securityGroups", strings.Join(o.SecurityGroups, ", "))
		add("workerVolumeEncryption", o.WorkerVolumeEncryption.RootKeyID)
		add("dedicatedHostPoolID", o.DedicatedHostPoolID)
	}
	for _, zone := range slices.Sorted(maps.Keys(o.Networks)) {
		n := o.Networks[zone]
		switch {
		case !slices.Contains(zones, zone):
			return p.invalidOrder("networks names zone %s, which is none of the pool's (%s): leave it out, or add the zone to zones", zone, strings.Join(zones, ", "))
		case classic:
			add("networks.subnetID in zone "+zone, n.SubnetID)
		default:
			add("networks.privateVLAN in zone "+zone, n.PrivateVLAN)
			add("networks.publicVLAN in zone "+zone, n.PublicVLAN)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	kind, networks := "VPC", "subnets"
	if classic {
		kind, networks = "classic", "VLANs"
	}
	return p.invalidOrder("a %s cluster has no %s: leave it out; zones have %s here", kind, strings.Join(wrong, ", "), networks)
}

// invalidOrder is the error of an order that a person has to change. What the cloud lists comes last in format, as it may be long.
func (p *Provider) invalidOrder(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: p.op("checking the order of"), Message: p.session.scrub(fmt.Sprintf(format, args...))}
}

// offer is a flavor or a zone in a listing.
type offer struct {
	ID, Name   string
	Deprecated bool
	// OCPUnsupported says that OpenShift does not run on it.
	OCPUnsupported bool `json:"ocp_unsupported"`
}

// offers are what a listing has by name, known, and what of it is not deprecated, offered.
type offers struct {
	known, offered []string
	// odd is why some of it has no name that can be read, so that what is not known may be there all the same.
	odd error
}

// lacks reports whether there is certainly none of that name.
func (o offers) lacks(name string) bool { return o.odd == nil && !slices.Contains(o.known, name) }

func (p *Provider) offers(ctx context.Context, at route) (out offers, err error) {
	var list []member[offer]
	if err := p.get(ctx, "checking the order of", at, &list); err != nil {
		return offers{}, unlisted{err}
	}
	for _, m := range list {
		switch name := plainFlavor(cmp.Or(m.is.Name, m.is.ID)); {
		case name == "":
			out.odd = unlisted{fmt.Errorf("one in the cloud's list cannot be read: %w", cmp.Or(m.err, errors.New("it has no name")))}
		case m.is.OCPUnsupported && p.openShift():
		default:
			if out.known = append(out.known, name, m.is.ID); !m.is.Deprecated && m.err == nil {
				out.offered = append(out.offered, name)
			}
		}
	}
	if len(out.known) == 0 {
		return offers{}, cmp.Or(out.odd, error(unlisted{errors.New("the cloud lists none")})) //nolint:wrapcheck // both are ours
	}
	slices.Sort(out.offered)
	out.offered = slices.Compact(out.offered)
	return out, nil
}

// openShift reports whether the cluster is one, by its type or its version.
func (p *Provider) openShift() bool {
	return p.cluster.Type == "openshift" || strings.HasSuffix(p.cluster.MasterKubeVersion, "_openshift")
}

// checkZones refuses a zone that does not exist, or is in another region than the cluster. Zones of the cluster need no check.
func (p *Provider) checkZones(ctx context.Context, v view, zones []string) error {
	further := slices.DeleteFunc(slices.Clone(zones), func(z string) bool { return slices.Contains(v.state.ClusterZones, z) })
	if len(further) == 0 {
		return nil
	}
	there, err := p.offers(ctx, to(v.traits().zones))
	for _, zone := range further {
		switch {
		case err == nil && there.lacks(zone):
			return p.invalidOrder("there is no zone %s: correct zones; the cluster has %s", zone, cloud.Capped(v.state.ClusterZones, ", "))
		case len(v.state.ClusterZones) > 0 && regionOf(zone) != "" && !slices.ContainsFunc(v.state.ClusterZones, func(z string) bool { return regionOf(z) == regionOf(zone) }):
			return p.invalidOrder("zone %s is in another region than the cluster, which cannot have workers there: correct zones; the cluster has %s",
				zone, cloud.Capped(v.state.ClusterZones, ", "))
		case err == nil && !slices.Contains(there.known, zone):
			return there.odd
		}
	}
	return err
}
