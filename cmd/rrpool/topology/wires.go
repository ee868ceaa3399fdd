package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// arrival is where a wire, or the trunk, comes to the reflectors of a zone.
type arrival struct {
	end   int // -1 is the trunk
	fromY float64
}

// connect draws the wires from the groups to the zones. Each begins level below its
// words; only then do wires cross each other, where no text is.
func (s *sheet) connect() {
	if len(s.ends) == 0 {
		return
	}
	arrivals := make([][]arrival, len(s.zones))
	trunk := s.trunkY()
	for i, e := range s.ends {
		text := e.words(s.Network)
		s.write(text, s.wordsX+padding, e.y-above, s.wordsWidth-2*padding+0.5, fontSize, "ink")
		if e.trunk {
			continue
		}
		arrivals[e.zones[0]] = append(arrivals[e.zones[0]], arrival{i, e.y})
	}
	for zone := range s.spread {
		arrivals[zone] = append(arrivals[zone], arrival{-1, trunk})
	}
	for zone, in := range arrivals {
		slices.SortStableFunc(in, func(a, b arrival) int { return cmp.Compare(a.fromY, b.fromY) })
		p := s.zones[zone]
		for k, a := range in {
			y := p.panel + (p.bottom-p.panel)*float64(k+1)/float64(len(in)+1)
			if a.end < 0 {
				s.branch(zone, y)
			} else {
				s.curve(s.ends[a.end], y)
			}
		}
	}
	s.stem()
}

// curve draws one wire to the height y at the reflectors.
func (s *sheet) curve(e end, y float64) {
	from, to := s.curveX, s.panelX
	half := (from + to) / 2
	d := fmt.Sprintf("M%g %gH%gC%g %g %g %g %g %g", round(s.wordsX), round(e.y), round(from),
		round(half), round(e.y), round(half), round(y), round(to), round(y))
	s.Wires = append(s.Wires, path{D: d, Class: "wire-" + looks[s.of(e.Sessions)].name, Title: s.wireTitle(e, s.Zones[e.zones[0]].title())})
}

// wireTitle is what a pointer over the wire shows.
func (s *sheet) wireTitle(e end, to string) string {
	return fmt.Sprintf("%s of %s with %s of %s: %s", count(e.group.Clients, "client"), s.Zones[e.zone].title(),
		count(e.reflectors, "reflector"), to, s.sessions(e.Sessions))
}

func (s *sheet) trunkX() float64 { return round(s.curveX + s.curveWidth/3) }

// trunkY is the middle of what comes to the trunk.
func (s *sheet) trunkY() float64 {
	low, high := s.trunkEnds()
	return (low + high) / 2
}

func (s *sheet) trunkEnds() (low, high float64) {
	first := true
	for _, e := range s.ends {
		if e.trunk {
			if first {
				low, first = e.y, false
			}
			high = e.y
		}
	}
	return low, high
}

// stem draws the trunk itself, and what comes to it from the groups.
func (s *sheet) stem() {
	spread := s.spread
	if len(spread) == 0 {
		return
	}
	low, high := s.trunkEnds()
	var all Sessions
	for zone, sum := range spread {
		p := s.zones[zone]
		low, high = min(low, (p.panel+p.bottom)/2), max(high, (p.panel+p.bottom)/2)
		all.add(sum)
	}
	for zone := range s.zones {
		if _, ok := spread[zone]; ok {
			s.joint(s.trunkX(), (s.zones[zone].panel+s.zones[zone].bottom)/2)
		}
	}
	for _, e := range s.ends {
		if e.trunk {
			s.joint(s.trunkX(), e.y)
			s.Wires = append(s.Wires, path{
				D:     fmt.Sprintf("M%g %gH%g", round(s.wordsX), round(e.y), s.trunkX()),
				Class: "wire-" + looks[s.of(e.Sessions)].name,
				Title: s.wireTitle(e, count(len(e.zones), "zone")),
			})
		}
	}
	s.Wires = append(s.Wires, path{D: fmt.Sprintf("M%g %gV%g", s.trunkX(), round(low), round(high)), Class: "bus", Title: "all of these: " + s.sessions(all)})
}

// joint is a dot where lines meet, not merely cross.
func (s *sheet) joint(x, y float64) {
	s.Front = append(s.Front, shape{x - 3.5, y - 3.5, 7, 7, 3.5, "joint"})
}

// branch draws what leads from the trunk to the reflectors of a zone.
func (s *sheet) branch(zone int, y float64) {
	p, sum := s.zones[zone], s.spread[zone]
	from := (p.panel + p.bottom) / 2
	half := (s.trunkX() + s.panelX) / 2
	d := fmt.Sprintf("M%g %gC%g %g %g %g %g %g", s.trunkX(), round(from), round(half), round(from), round(half), round(y), round(s.panelX), round(y))
	s.Wires = append(s.Wires, path{D: d, Class: "wire-" + looks[s.of(sum)].name, Title: s.Zones[zone].title() + ": " + s.sessions(sum)})
}
