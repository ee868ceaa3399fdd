package iksserver

import (
	"net/http"
	"slices"
)

// operatingSystem that pools have when none is ordered.
const operatingSystem = "UBUNTU_24_64"

// usual are the flavors of a zone that lists none, deprecated ones last.
var usual = map[string][]string{
	VPC:     {"bx2.4x16", "bx2.2x8", "cx2.2x4", "mx2.2x16", "bx2.8x32", "bx2.16x64", "cx2.8x16", "gx3.16x80.l4", "b2.4x16"},
	Classic: {"b3c.4x16", "u3c.2x4", "b3c.16x64", "bx2.4x16", "mb4c.20x64", "ms3c.4x32.1.9tb.ssd", "u2c.2x4"},
}

var deprecated = []string{"b2.4x16", "u2c.2x4"}

// options are what a pool can be ordered with besides, in the words of the v2 API.
type options struct {
	OperatingSystem, HostPool string
	SecurityGroupIDs          []string
	WorkerVolumeEncryption    *volumeEncryption
}

type volumeEncryption struct {
	KMSInstanceID     string `json:"kmsInstanceID,omitempty"`
	WorkerVolumeCRKID string `json:"workerVolumeCRKID,omitempty"`
	KMSAccountID      string `json:"kmsAccountID,omitempty"`
}

func (c *cluster) flavors(z *Zone) []string {
	if z.Flavors != nil {
		return z.Flavors
	}
	return usual[c.Provider]
}

// flavors lists what a zone has, by its path (classic) or the query (VPC).
func (s *Server) flavors(r *http.Request) (any, *refusal) {
	provider, zone := Classic, r.PathValue("zone")
	if zone == "" {
		provider, zone = r.FormValue("provider"), r.FormValue("zone")
	}
	out := []map[string]any{}
	for _, c := range s.clusters {
		if z := c.zone(zone); z != nil && c.Provider == provider && len(out) == 0 {
			for _, name := range c.flavors(z) {
				out = append(out, map[string]any{"id": name, "name": name, "provider": provider, "deprecated": slices.Contains(deprecated, name)})
			}
		}
	}
	return out, nil
}

// zones lists the zones of all clusters, and one that none is in.
func (s *Server) zones(provider string) func(*http.Request) (any, *refusal) {
	return func(*http.Request) (any, *refusal) {
		far := map[string]string{VPC: "jp-osa-1", Classic: "syd01"}[provider]
		out := []map[string]any{{"id": far, "name": far, "metro": far}}
		for _, c := range s.clusters {
			for _, z := range c.Zones {
				if c.Provider == provider {
					out = append(out, map[string]any{"id": z.ID, "name": z.ID, "metro": c.Region})
				}
			}
		}
		return out, nil
	}
}
