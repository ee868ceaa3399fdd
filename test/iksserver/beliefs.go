package iksserver

// Beliefs are what rrpool, and this server, take for true of the real cloud without a source of IBM's, or with half a one. A true field
// makes the server behave otherwise. The table in README.md says what happens then, and which test shows it.
type Beliefs struct {
	// RefillsRemoved: a worker that was removed comes back at once.
	RefillsRemoved bool
	// IgnoresSameSize: a resize to the size that the pool has brings nothing.
	IgnoresSameSize bool
	// SizeIsTotal: the size that a pool reports is that of all of its zones.
	SizeIsTotal bool
	// ZonelessSizeIsZero: a pool without zones reports the size 0.
	ZonelessSizeIsZero bool
	// ZonelessSizeIsLost: a pool without zones reports the size 0, and forgets the one it was given.
	ZonelessSizeIsLost bool
	// KeepsReplaced: a replacement is acknowledged, and nothing comes of it.
	KeepsReplaced bool
	// KeepsRemoved: the same of a removal.
	KeepsRemoved bool
	// LosesNew: workers that were ordered are gone again right after they have come.
	LosesNew bool
	// DropsTaints: taints are acknowledged and not set.
	DropsTaints bool
	// DropsZones: a zone that is added is acknowledged and not there.
	DropsZones bool
	// StaysOutdated: new workers have an older version than their target.
	StaysOutdated bool
	// RefusesZoneless: a pool cannot be made without zones.
	RefusesZoneless bool
	// FillsZoneless: a pool that is made without zones gets all those of the cluster, and workers, at once.
	FillsZoneless bool
	// NullZones: the zones of a pool without any are null.
	NullZones bool
	// RefusesEarlyTaints: a pool without workers takes no taints.
	RefusesEarlyTaints bool
	// DropsLabels: the labels of a new pool are not kept.
	DropsLabels bool
	// NoSinglePool: the API has no request for one pool.
	NoSinglePool bool
	// OtherFlavors: flavors are listed under other names than they are ordered by.
	OtherFlavors bool
	// OtherSystems: workers report their operating system in other words than their pools.
	OtherSystems bool
	// KeepsLast: the last worker of a pool cannot be removed.
	KeepsLast bool
}

// Believe changes how the server behaves from now on.
func (s *Server) Believe(b Beliefs) { s.locked(func() { s.beliefs = b }) }

// sized puts the size into a description of p that it reports.
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
