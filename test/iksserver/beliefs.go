package iksserver

// Beliefs are assumptions of rrpool and of this server about the real API that no source of IBM's confirms, or not clearly. A true field makes
// the server deviate from the assumption. The table in README.md says what rrpool does then, and which test shows it.
type Beliefs struct {
	// RefillsRemoved: a removed worker is replaced at once.
	RefillsRemoved bool
	// IgnoresSameSize: a resize to the current size orders no missing workers.
	IgnoresSameSize bool
	// SizeIsTotal: the size that a pool reports is the sum of its zones.
	SizeIsTotal bool
	// ZonelessSizeIsZero: a pool without zones reports the size 0.
	ZonelessSizeIsZero bool
	// ZonelessSizeIsLost: a pool without zones has the size 0, whatever was requested.
	ZonelessSizeIsLost bool
	// KeepsReplaced: replacing a worker succeeds without effect.
	KeepsReplaced bool
	// KeepsRemoved: removing a worker succeeds without effect.
	KeepsRemoved bool
	// LosesNew: workers are deleted as soon as they are deployed.
	LosesNew bool
	// DropsTaints: setting taints succeeds without effect.
	DropsTaints bool
	// DropsZones: adding a zone succeeds without effect.
	DropsZones bool
	// RefusesZoneless: a pool cannot be created without zones.
	RefusesZoneless bool
	// FillsZoneless: a pool that is created without zones gets all zones of the cluster, and workers, at once.
	FillsZoneless bool
	// NullZones: the zones of a pool without any are null.
	NullZones bool
	// RefusesEarlyTaints: taints of a pool without workers cannot be set.
	RefusesEarlyTaints bool
	// DropsLabels: the labels of a new pool are dropped.
	DropsLabels bool
	// NoSinglePool: there is no call for a single pool.
	NoSinglePool bool
	// OtherFlavors: flavors are listed with other names than they are ordered by.
	OtherFlavors bool
	// OtherSystems: workers report another name of their operating system than their pools.
	OtherSystems bool
	// KeepsLast: the last worker of a pool cannot be removed.
	KeepsLast bool
}

// Believe sets the deviations of the server.
func (s *Server) Believe(b Beliefs) { s.locked(func() { s.beliefs = b }) }

// sized sets the reported size in a description of p.
func (s *Server) sized(p *pool, out map[string]any) map[string]any {
	size := p.size
	switch {
	case s.beliefs.ZonelessSizeIsZero && len(p.zones) == 0:
		size = 0
	case s.beliefs.SizeIsTotal:
		size *= max(1, len(p.zones))
	}
	if s.beliefs.NullZones && len(p.zones) == 0 {
		out["zones"] = nil
	}
	for _, field := range []string{"workerCount", "sizePerZone"} {
		if _, there := out[field]; there {
			out[field] = size
		}
	}
	return out
}
