package iks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/controllers/plan"
)

// listingPatience is how long an order is held up by listings of what there is to order.
const listingPatience = 10 * time.Second

// groupsOfAWorker are the security groups that a network interface of a VPC can have.
const groupsOfAWorker = 5

// checkIDs refuses ids that do not fit into a request.
func checkIDs(want cloud.PoolSpec) error {
	o := want.Options
	given := map[string][]string{
		"zone": want.Zones, "security group": o.SecurityGroups,
		"flavor": {want.Flavor}, "operating system": {o.OperatingSystem}, "dedicated host pool": {o.DedicatedHostPoolID},
		"KMS": {o.WorkerVolumeEncryption.KMSInstanceID, o.WorkerVolumeEncryption.RootKeyID, o.WorkerVolumeEncryption.KMSAccountID},
	}
	for _, n := range o.Networks {
		given["network"] = append(given["network"], n.SubnetID, n.PrivateVLAN, n.PublicVLAN)
	}
	var err error
	for _, what := range slices.Sorted(maps.Keys(given)) {
		for _, id := range given[what] {
			if id != "" || what == "zone" || what == "security group" {
				err = errors.Join(err, checkID(what, id))
			}
		}
	}
	return err
}

// checkOrder refuses an order, before anything is ordered, for what the cluster or the cloud does not have. Nothing is
// asked at rest. What was not checked it says in unchecked.
func (p *Provider) checkOrder(ctx context.Context, v view, step poolplan.Step, want cloud.PoolSpec) (unchecked string, err error) {
	zones := want.Zones
	if len(zones) == 0 {
		zones = v.state.ClusterZones
	}
	if slices.Contains([]poolplan.Kind{poolplan.None, poolplan.Create, poolplan.AddZone}, step.Kind) {
		err = p.checkOptions(want.Options, zones)
	}
	switch {
	case err != nil:
		return "", err
	case step.Kind == poolplan.Create && len(want.Options.SecurityGroups) >= groupsOfAWorker:
		return "", p.invalidOrder("securityGroups has %d, and a worker can have %d, the cluster's own among them: name %d at most",
			len(want.Options.SecurityGroups), groupsOfAWorker, groupsOfAWorker-1)
	case step.Kind == poolplan.Create:
		return p.checkListed(ctx, v, cmp.Or(want.Flavor, v.traits().flavor), zones, zones, want.Options.Networks, want.SizePerZone)
	case step.Kind == poolplan.AddZone && v.pool.flavor != "":
		return p.checkListed(ctx, v, v.pool.flavor, zones, []string{step.Zone}, nil, 0)
	}
	return "", nil
}

// checkListed looks for zones, the flavor in each of those that are new, and subnets before the pool is made, in the
// cloud's listings. One that fails or is empty holds nothing up, as the order will tell.
func (p *Provider) checkListed(
	ctx context.Context, v view, flavor string, zones, added []string, own map[string]cloud.Network, size int,
) (unchecked string, err error) {
	listing, cancel := context.WithTimeout(ctx, listingPatience)
	defer cancel()
	err = p.checkZones(listing, v, zones)
	for i := 0; err == nil && i < len(added); i++ {
		err = p.checkFlavor(listing, v, flavor, added[i])
	}
	if g, ok := v.generation.(vpc); ok && v.pool.id == "" {
		for i := 0; err == nil && i < len(added); i++ {
			_, err = g.pickSubnet(listing, added[i], own[added[i]].SubnetID, size, v.others)
		}
		if err != nil && !cloud.Is(err, cloud.InvalidInput) {
			err = unlisted{err}
		}
	}
	var failed unlisted
	switch {
	case ctx.Err() != nil:
		return "", cloud.Interrupted(ctx, p.op("checking the order of"))
	case errors.As(err, &failed):
		return fmt.Sprintf(" (not knowing whether all zones have flavor %s: %v)", flavor, failed.error), nil
	}
	return "", err
}

// unlisted is the error of a listing that says nothing.
type unlisted struct{ error }

// checkOptions refuses what clusters of the other generation have, and networks of no use.
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

// invalidOrder is the error of an order that a person has to change. What the cloud lists comes last, as it may be long.
func (p *Provider) invalidOrder(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: p.op("checking the order of"), Message: p.session.scrub(fmt.Sprintf(format, args...))}
}

// offers lists what there is by name, known, and what of it is not deprecated, offered.
func (p *Provider) offers(ctx context.Context, at route) (known, offered []string, err error) {
	var list []struct {
		ID, Name   string
		Deprecated bool
		// OCPUnsupported: OpenShift does not run on it.
		OCPUnsupported bool `json:"ocp_unsupported"`
	}
	if err := p.get(ctx, "checking the order of", at, &list); err != nil {
		return nil, nil, unlisted{err}
	}
	for _, o := range list {
		if o.OCPUnsupported && p.openShift() {
			continue
		}
		name := plain(cmp.Or(o.Name, o.ID))
		if known = append(known, name, o.ID); name != "" && !o.Deprecated {
			offered = append(offered, name)
		}
	}
	if len(offered) == 0 {
		return nil, nil, unlisted{errors.New("the cloud lists none")}
	}
	slices.Sort(offered)
	return known, slices.Compact(offered), nil
}

// openShift: the cluster is one, by its type or its version.
func (p *Provider) openShift() bool {
	return p.cluster.Type == "openshift" || strings.HasSuffix(p.cluster.MasterKubeVersion, "_openshift")
}

// checkZones refuses a zone that does not exist, or is in another region than the cluster. Those that the cluster has are
// known to be right.
func (p *Provider) checkZones(ctx context.Context, v view, zones []string) error {
	further := slices.DeleteFunc(slices.Clone(zones), func(z string) bool { return slices.Contains(v.state.ClusterZones, z) })
	if len(further) == 0 {
		return nil
	}
	known, _, err := p.offers(ctx, to(v.traits().zones))
	for _, zone := range further {
		switch {
		case err == nil && !slices.Contains(known, zone):
			return p.invalidOrder("there is no zone %s: correct zones; the cluster has %s", zone, cloud.Capped(v.state.ClusterZones, ", "))
		case len(v.state.ClusterZones) > 0 && region(zone) != "" && !slices.ContainsFunc(v.state.ClusterZones, func(z string) bool { return region(z) == region(zone) }):
			return p.invalidOrder("zone %s is in another region than the cluster, which cannot have workers there: correct zones; the cluster has %s",
				zone, cloud.Capped(v.state.ClusterZones, ", "))
		}
	}
	return err
}

// IBM's names of zones: us-south-1 is in region us-south, dal10 in the metro dal.
var zoneName = regexp.MustCompile(`^([a-z]+-[a-z]+)-\d+$|^([a-z]{3})\d+$`)

// region of a zone, or its metro in classic, "" for a name of another form.
func region(zone string) string {
	if parts := zoneName.FindStringSubmatch(zone); parts != nil {
		return parts[1] + parts[2]
	}
	return ""
}

// checkFlavor refuses a flavor that a zone does not have. It names others: the smallest that are no smaller come first.
func (p *Provider) checkFlavor(ctx context.Context, v view, flavor, zone string) error {
	known, others, err := p.offers(ctx, to(v.traits().flavors, zone))
	if err != nil || slices.Contains(known, flavor) {
		return err
	}
	enough, _ := size(flavor)
	slices.SortStableFunc(others, func(a, b string) int {
		coresA, memoryA := size(a)
		coresB, memoryB := size(b)
		return cmp.Or(plan.TrueFirst(coresA >= enough, coresB >= enough), cmp.Compare(coresA, coresB), cmp.Compare(memoryA, memoryB))
	})
	forWhat := ""
	if p.openShift() {
		forWhat = " for OpenShift"
	}
	return p.invalidOrder("zone %s has no flavor %s%s: choose another flavor, or other zones; there are %s",
		zone, flavor, forWhat, cloud.Capped(others, ", "))
}

// size reads cores and memory in GB off a flavor such as bx2.4x16.
func size(flavor string) (cores, memory int) {
	_, of, _ := strings.Cut(flavor, ".")
	_, _ = fmt.Sscanf(of, "%dx%d", &cores, &memory) // 0 where there are none
	return cores, memory
}
