package topology

// cardHeight is as much as the texts of a group need, or the wires that leave it.
func (s *sheet) cardHeight(i, j int) float64 {
	return max(s.textHeight(s.Zones[i].Groups[j]), float64(len(s.wires[i][j]))*port+4)
}

// textHeight is what the texts of a group need.
func (s *sheet) textHeight(g Group) float64 {
	lines := s.lines(g)
	high := 30 + float64(len(lines))*lineStep
	if len(lines) > 0 {
		high += 4
	}
	if s.hasBar(g) {
		high += 14
	}
	return high
}

// cardsHeight is the one of all groups of a zone.
func (s *sheet) cardsHeight(i int) float64 {
	high := -cardGap
	for j := range s.Zones[i].Groups {
		high += s.cardHeight(i, j) + cardGap
	}
	return max(high, lineStep)
}

// hasBar: there are states of sessions to show.
func (s *sheet) hasBar(g Group) bool { return s.Live && g.All+g.Some+g.None+g.NotKnown > 0 }

// card draws a group of clients. Its wires are spread around its middle.
func (s *sheet) card(i, j int, y float64) {
	g, wires, high := s.Zones[i].Groups[j], s.wires[i][j], s.cardHeight(i, j)
	s.Front = append(s.Front, shape{s.cardX, y, s.cardWidth, high, 6, "card"})
	x, room := s.cardX+padding, s.cardWidth-2*padding
	at := y + (high-s.textHeight(g))/2
	s.write(s.howMany(g.Clients), x, at+20, room, fontSize+2, "ink strong")
	at += 30
	if s.hasBar(g) {
		s.bar(g, x, at, room)
		at += 14
	}
	for _, l := range s.lines(g) {
		s.Marks = append(s.Marks, mark{x + 5, at + 8, l.state})
		s.write(l.text, x+markRoom, at+12, room-markRoom, fontSize, "ink")
		at += lineStep
	}
	if s.Mesh.On {
		s.meshTaps = append(s.meshTaps, y+high/2)
	}
	first := y + high/2 - float64(len(wires)-1)*port/2
	for k, w := range wires {
		s.ends = append(s.ends, end{w, i, first + float64(k)*port})
	}
}

// bar shows the parts of a group by their states. Besides the colour, the fewer sessions
// are up, the lower it is.
func (s *sheet) bar(g Group, x, y, width float64) {
	const high = 8.0
	all := g.All + g.Some + g.None + g.NotKnown
	parts := []struct {
		count int
		state state
		high  float64
	}{{g.All, up, high}, {g.Some, partial, 6}, {g.None, down0, 4}, {g.NotKnown, unknown, 2}}
	// What is there can be seen: each part has a least width, at the cost of the others.
	const least = 4.0
	shown, from := 0, x
	for _, part := range parts {
		if part.count > 0 {
			shown++
		}
	}
	room := width - float64(shown)*least - float64(shown-1)
	for _, part := range parts {
		if part.count == 0 {
			continue
		}
		wide := least + room*float64(part.count)/float64(all)
		s.Front = append(s.Front, shape{from, y + high - part.high, wide, part.high, 1, "fill-" + looks[part.state].name})
		from += wide + 1
	}
}

// rowsOf is how many rows the reflectors of a zone take.
func (s *sheet) rowsOf(reflectors []Reflector) int {
	return (len(reflectors) + s.chipColumns - 1) / max(s.chipColumns, 1)
}

// rowHeight is the one of a row of reflectors: a detail needs a line of its own.
func (s *sheet) rowHeight(reflectors []Reflector, row int) float64 {
	for j := row; j < len(reflectors); j += s.rowsOf(reflectors) {
		if s.detailOf(reflectors[j]) != "" {
			return 26 + lineStep
		}
	}
	return 26
}

// rowsHeight is the one of the frame around the reflectors of a zone.
func (s *sheet) rowsHeight(reflectors []Reflector) float64 {
	if len(reflectors) == 0 {
		return 0
	}
	high := 2*frame - chipGap
	for row := range s.rowsOf(reflectors) {
		high += s.rowHeight(reflectors, row) + chipGap
	}
	return high
}

// panel draws the reflectors of a zone, from top to bottom and then to the right.
func (s *sheet) panel(i int, p place) {
	if s.panelWidth == 0 {
		return
	}
	reflectors := s.Zones[i].Reflectors
	if len(reflectors) == 0 {
		s.write("no reflectors", s.panelX, p.top+21, s.panelWidth, fontSize, "soft")
		return
	}
	s.write(s.panelWords(i, s.ring), s.panelX, p.top+21, s.panelWidth, fontSize, "ink")
	s.Front = append(s.Front, shape{s.panelX, p.panel, s.panelWidth, p.bottom - p.panel, 6, "panel"})
	y, rows := p.panel+frame, s.rowsOf(reflectors)
	for row := range rows {
		high := s.rowHeight(reflectors, row)
		for j := row; j < len(reflectors); j += rows {
			s.chip(reflectors[j], s.panelX+frame+float64(j/rows)*(s.chipWidth+chipGap), y, high)
		}
		y += high + chipGap
	}
	if with := s.ring.byZone[i]; with.Expected > 0 {
		s.busTaps = append(s.busTaps, tap{
			y: (p.panel + p.bottom) / 2, state: s.of(with),
			title: s.Zones[i].title() + ", sessions with reflectors: " + s.sessions(with),
		})
	}
}

func (s *sheet) chip(r Reflector, x, y, high float64) {
	state := s.of(r.Sessions)
	s.Front = append(s.Front, shape{x, y, s.chipWidth, high, 5, "chip edge-" + looks[state].name})
	s.Marks = append(s.Marks, mark{x + 14, y + 13, state})
	s.write(r.Name, x+8+markRoom, y+17, s.nameWidth, fontSize, "ink")
	s.right(s.chipText(r), x+s.chipWidth-10, y+17, s.sessionsWidth, fontSize, "ink")
	s.write(s.detailOf(r), x+8+markRoom, y+17+lineStep, s.chipWidth-18-markRoom, fontSize, "soft")
}
