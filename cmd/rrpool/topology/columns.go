package topology

// columns says where the columns are. Each is as wide as what is in it.
func (s *sheet) columns() {
	s.measureCards()
	s.measureChips()
	s.meshX = margin + lane/3
	s.bandX = margin
	if s.Mesh.On {
		s.bandX += lane
	}
	s.cardX = s.bandX + padding
	s.wordsX = s.cardX + s.cardWidth
	s.curveX = s.wordsX + s.wordsWidth
	s.panelX = s.curveX + s.curveWidth
	right := s.panelX + s.panelWidth + padding
	if s.panelWidth == 0 {
		right = s.wordsX + padding
	}
	edge := margin
	if s.ring.total.Expected > 0 {
		edge += lane
	}
	s.Width = round(max(right+edge, narrowest))
	s.bandWidth = s.Width - edge - s.bandX
	if s.panelWidth == 0 {
		s.cardWidth = s.bandWidth - 2*padding // there is nothing beside them
	} else {
		s.curveWidth += s.Width - edge - right
		s.panelX = s.curveX + s.curveWidth
	}
	s.busX = s.Width - margin - lane/3
}

func (s *sheet) measureCards() {
	s.cardWidth = widthOf("no clients", fontSize)
	lines := 1
	for i, zone := range s.Zones {
		if len(zone.Groups) == 0 {
			s.cardWidth = max(s.cardWidth, widthOf(zone.clientless(), fontSize)-2*padding)
		}
		for j, g := range zone.Groups {
			s.cardWidth = max(s.cardWidth, widthOf(s.howMany(g.Clients), fontSize+2))
			for _, l := range s.lines(g) {
				s.cardWidth = max(s.cardWidth, markRoom+widthOf(l.text, fontSize))
			}
			for _, w := range s.wires[i][j] {
				s.wordsWidth = max(s.wordsWidth, min(widthOf(w.words(s.Network), fontSize), longestWire)+2*padding)
			}
			lines += len(s.wires[i][j])
		}
	}
	s.cardWidth += 2 * padding
	if s.wordsWidth > 0 {
		s.curveWidth = 90 + 2*float64(min(lines, 60))
	}
}

func (s *sheet) measureChips() {
	most, heads := 0, 0.0
	for i, zone := range s.Zones {
		most = max(most, len(zone.Reflectors))
		if len(zone.Reflectors) > 0 {
			heads = max(heads, widthOf(s.panelWords(i, s.ring), fontSize))
		}
		for _, r := range zone.Reflectors {
			s.nameWidth = max(s.nameWidth, min(widthOf(r.Name, fontSize), longestName))
			s.sessionsWidth = max(s.sessionsWidth, widthOf(s.chipText(r), fontSize))
			s.nameWidth = max(s.nameWidth, min(widthOf(s.detailOf(r), fontSize)-s.sessionsWidth, longestName))
		}
	}
	if most == 0 {
		return
	}
	s.chipColumns = min(1+(most-1)/6, 3)
	columns := float64(s.chipColumns)
	s.chipWidth = 8 + markRoom + s.nameWidth + 12 + s.sessionsWidth + 10
	s.panelWidth = max(columns*(s.chipWidth+chipGap)-chipGap+2*frame, heads)
	wider := (s.panelWidth-2*frame+chipGap)/columns - chipGap - s.chipWidth
	s.chipWidth += wider
	s.nameWidth += wider
	if s.curveWidth == 0 {
		s.curveWidth = 60
	}
}
