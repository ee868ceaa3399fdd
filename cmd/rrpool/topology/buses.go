package topology

import (
	"fmt"
	"strings"
)

// buses draws the mesh on the left, and what joins the reflectors on the right.
func (s *sheet) buses() {
	if len(s.meshTaps) > 0 {
		var d strings.Builder
		fmt.Fprintf(&d, "M%g %gV%g", s.meshX, round(s.meshTaps[0]+7), round(s.meshTaps[len(s.meshTaps)-1]))
		for _, y := range s.meshTaps[1:] {
			fmt.Fprintf(&d, "M%g %gH%g", s.meshX, round(y), s.cardX)
			s.Front = append(s.Front, shape{s.meshX - 3.5, y - 3.5, 7, 7, 3.5, "meshed"})
		}
		if len(s.meshTaps) > 1 {
			s.Wires = append(s.Wires, path{D: d.String(), Class: "mesh", Title: s.meshLine()})
		}
		s.Wires = append(s.Wires, path{D: ringPath(s.meshX, s.meshTaps[0]), Class: "mesh", Title: s.meshLine()})
	}
	if len(s.busTaps) == 0 {
		return
	}
	title := s.ring.words(s.Network)
	last := s.busTaps[len(s.busTaps)-1].y
	s.Wires = append(s.Wires,
		path{D: fmt.Sprintf("M%g %gV%g", s.busX, round(s.busTaps[0].y+7), round(last)), Class: "bus", Title: title},
		path{D: ringPath(s.busX, s.busTaps[0].y), Class: "bus", Title: title})
	for _, t := range s.busTaps[1:] {
		s.joint(s.busX, t.y)
		d := fmt.Sprintf("M%g %gH%g", round(s.panelX+s.panelWidth), round(t.y), s.busX)
		s.Wires = append(s.Wires, path{D: d, Class: "wire-" + looks[t.state].name, Title: t.title})
	}
}

// ringPath is a circle around x and y: each with each.
func ringPath(x, y float64) string {
	const r = 7.0
	return fmt.Sprintf("M%g %ga%g %g 0 1 1 %g 0a%g %g 0 1 1 %g 0z", round(x-r), round(y), r, r, 2*r, r, r, -2*r)
}
