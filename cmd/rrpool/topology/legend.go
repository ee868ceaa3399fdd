package topology

import (
	"fmt"
	"slices"
)

// footer writes the legend and the notes, and gives where they end.
func (s *sheet) footer(y float64) float64 {
	x := margin
	for _, state := range s.used() {
		words := looks[state].words
		wide := 36 + 14 + widthOf(words, fontSize) + 22
		if x+wide > s.Width-margin && x > margin {
			x, y = margin, y+lineStep+4
		}
		s.Wires = append(s.Wires, path{D: fmt.Sprintf("M%g %gh32", round(x), round(y+8)), Class: "wire-" + looks[state].name})
		s.Marks = append(s.Marks, mark{x + 42, y + 8, state})
		s.write(words, x+54, y+12, s.Width-margin-x-54, fontSize, "soft")
		x += wide + 8
	}
	if x > margin {
		y += lineStep + 8
	}
	for _, note := range s.notes() {
		y += s.paragraph(note, margin, y, s.Width-2*margin, fontSize, "soft")
	}
	return y
}

// used are the states in the picture, in the order of the legend.
func (s *sheet) used() []state {
	seen := map[state]bool{}
	for _, m := range s.Marks {
		seen[m.State] = true
	}
	for _, e := range s.ends {
		seen[s.of(e.Sessions)] = true
	}
	for _, t := range s.busTaps {
		seen[t.state] = true
	}
	var out []state
	for _, state := range states {
		if seen[state] && (state != idle || s.hasIdle()) {
			out = append(out, state)
		}
	}
	return out
}

// hasIdle: some reflector has no sessions. Lines of a card are idle as well, and need no legend.
func (s *sheet) hasIdle() bool {
	for _, zone := range s.Zones {
		for _, r := range zone.Reflectors {
			if r.Expected == 0 {
				return true
			}
		}
	}
	return false
}

// notes explain the picture, and say what is not in it.
func (s *sheet) notes() []string {
	var out []string
	if len(s.ends) > 0 {
		what := "zone"
		if slices.ContainsFunc(s.Zones, func(z Zone) bool { return z.Kind == rackFrame }) {
			what = "rack"
		}
		out = append(out, "A line is all BGP sessions of a group of clients with a "+what+"'s reflectors: clients × reflectors.")
	}
	if len(s.Zones) == 0 {
		out = append(out, nothing)
	}
	return append(out, s.Notes...)
}
