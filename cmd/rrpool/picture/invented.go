package picture

import (
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

// wish is a network that somebody thinks of.
type wish struct {
	// object has the size and the names, complete with all defaults.
	object *v1alpha1.RouteReflectorPool
	// nodes of the cluster; those of a dedicated pool are not among them.
	nodes int
	// zones, 0 for those of the object, or else one; reflectors, 0 for as many as the
	// sizing gives.
	zones, reflectors int
}

// invent draws a network that is not there. Its errors name the flag or field.
func invent(w wish) (Network, error) {
	spec := w.object.Spec
	if kind := spec.Topology.Type; kind != v1alpha1.TopologySingle {
		return Network{}, fmt.Errorf("spec.topology.type: %q cannot be drawn from a file yet: use Single", kind)
	}
	zones := w.zoneNames()
	if w.reflectors > 0 && spec.Mode == v1alpha1.ModeFullMesh {
		return Network{}, fmt.Errorf("--reflectors: %d, but spec.mode is FullMesh, which has none: leave out one of them", w.reflectors)
	}
	perZone, err := w.perZone(len(zones))
	if err != nil {
		return Network{}, err
	}
	existing := spec.Provider.Type == v1alpha1.ProviderExistingNodes
	if existing && perZone*len(zones) > w.nodes {
		return Network{}, fmt.Errorf("--nodes: %d nodes cannot hold %d reflectors, which are among them on existing nodes: give more", w.nodes, perZone*len(zones))
	}
	n := w.draw(zones, perZone, existing)
	n.arrange()
	return n, nil
}

// zoneNames are those of --zones, else those of the file, else one.
func (w wish) zoneNames() []string {
	named := w.object.Spec.Provider.IKS.Zones
	if w.zones == 0 && len(named) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(named)))
	}
	var out []string
	for i := range max(w.zones, 1) {
		out = append(out, fmt.Sprintf("zone %d", i+1))
	}
	return out
}

func (w wish) perZone(zones int) (int, error) {
	switch {
	case w.object.Spec.Mode == v1alpha1.ModeFullMesh:
		return 0, nil
	case w.reflectors > 0 && w.reflectors%zones != 0:
		below, above := w.reflectors/zones*zones, (w.reflectors/zones+1)*zones
		remedy := fmt.Sprintf("%d or %d", below, above)
		if below == 0 {
			remedy = fmt.Sprint(above)
		}
		return 0, fmt.Errorf("--reflectors: %d reflectors cannot be the same number in each of %d zones, as rrpool has them: use %s, or other --zones",
			w.reflectors, zones, remedy)
	case w.reflectors > 0:
		return w.reflectors / zones, nil
	}
	size, err := sizing.Reflectors(w.object.Spec.Sizing, w.nodes, zones)
	if err != nil {
		return 0, fmt.Errorf("%w; or give --reflectors", err)
	}
	return size.PerZone, nil
}

func (w wish) draw(zones []string, perZone int, existing bool) Network {
	n := Network{Title: fmt.Sprintf("BGP topology for %s in %s", count(w.nodes, "node"), count(len(zones), "zone"))}
	var names []string
	id := w.object.Spec.Topology.ClusterID
	for i, name := range zones {
		zone := n.zone(name)
		for j := range perZone {
			r := Reflector{Name: fmt.Sprintf("reflector %d-%d", i+1, j+1), ClusterID: id, Role: true}
			zone.Reflectors, names = append(zone.Reflectors, r), append(names, r.Name)
		}
	}
	clients := w.nodes
	if existing {
		clients -= len(names)
	}
	for i, name := range zones {
		g := Group{ID: name + "/1", Clients: share(clients, len(zones), i)}
		if g.Clients == 0 {
			continue
		}
		zone := n.zone(name)
		zone.Groups = append(zone.Groups, g)
		for _, to := range names {
			n.Links = append(n.Links, Link{Group: g.ID, To: to, Sessions: Sessions{Expected: g.Clients}})
		}
	}
	for i, from := range names {
		for _, to := range names[i+1:] {
			n.Links = append(n.Links, Link{Reflector: from, To: to, Sessions: Sessions{Expected: 1}})
		}
	}
	n.Mesh = Mesh{On: perZone == 0, Nodes: clients, Sessions: clients * (clients - 1) / 2}
	n.Subtitle = n.size()
	if len(names) > 0 {
		n.Subtitle = joined(n.Subtitle, "cluster ID "+id)
	}
	return n
}

// share is the part of all that is in a zone, as equal as can be.
func share(all, zones, zone int) int {
	out := all / zones
	if zone < all%zones {
		out++
	}
	return out
}
