package picture

import (
	"fmt"
	"slices"
)

// The measures of the picture, in units of its viewBox.
const (
	margin   = 20.0
	padding  = 14.0
	lane     = 30.0 // of the mesh on the left, of the bus on the right
	bandGap  = 16.0
	heading  = 32.0 // of a band
	lineStep = 18.0 // of the texts in a card
	cardGap  = 12.0
	port     = 26.0 // from a wire of a group to its next
	above    = 6.0  // from a wire to its words
	frame    = 8.0  // around the reflectors of a zone
	markRoom = 20.0
	chipGap  = 6.0
	// Names longer than these are shortened.
	longestName = 26 * glyph * fontSize
	longestWire = 40 * glyph * fontSize
	// narrowest is the least width of a picture.
	narrowest = 640.0
)

// sheet is a network on its way to a drawing. From left to right a band, which is a
// zone, has the cards of its groups, the words on their wires, the wires themselves, and
// the chips of its reflectors.
type sheet struct {
	*Network
	drawing
	ring  ring
	wires [][][]wire // by zone and group

	// Where the columns are, and how wide.
	bandX, bandWidth         float64
	cardX, cardWidth         float64
	wordsX, wordsWidth       float64
	curveX, curveWidth       float64
	panelX, panelWidth       float64
	chipWidth                float64
	nameWidth, sessionsWidth float64
	chipColumns              int
	busX, meshX              float64

	zones []place
	// meshTaps are the heights at which the mesh joins a group, busTaps those at which
	// the bus joins the reflectors of a zone.
	meshTaps []float64
	busTaps  []tap
	ends     []end
}

// place is where a zone is.
type place struct {
	top, height float64
	// panel and bottom are those of the frame around the reflectors.
	panel, bottom float64
}

// tap joins something to a bus.
type tap struct {
	y     float64
	state state
	title string
}

// end is where a wire leaves its group.
type end struct {
	wire
	zone int
	y    float64
}

// draw lays out a network.
func draw(n *Network) drawing {
	s := &sheet{Network: n, ring: n.ring()}
	for _, zone := range n.Zones {
		var groups [][]wire
		for _, g := range zone.Groups {
			groups = append(groups, n.wires(g))
		}
		s.wires = append(s.wires, groups)
	}
	s.drawing.Title, s.Description = clean(n.Title), clean(n.describe())
	s.columns()
	y := s.header()
	for i := range s.Network.Zones {
		y = s.band(i, y) + bandGap
	}
	s.connect()
	s.buses()
	s.Height = round(s.footer(y) + margin)
	s.Back = slices.Insert(s.Back, 0, shape{Width: s.Width, Height: s.Height, Class: "paper"})
	return s.drawing
}

// describe says in words what is seen, for those who cannot see it.
func (n *Network) describe() string {
	text := n.Subtitle + ". " + n.meshLine() + "."
	for i, zone := range n.Zones {
		text += fmt.Sprintf(" %s: %s", zoneName(zone.Name), n.panelWords(i, n.ring()))
		for _, g := range zone.Groups {
			text += ", " + n.howMany(g.Clients)
			for _, l := range n.lines(g) {
				text += ", " + l.text
			}
		}
		text += "."
	}
	return text
}

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
	if s.panelWidth > 0 {
		s.curveWidth += s.Width - edge - right
		s.panelX = s.curveX + s.curveWidth
	}
	s.busX = s.Width - margin - lane/3
}

func (s *sheet) measureCards() {
	s.cardWidth = widthOf("no clients", fontSize)
	lines := 1
	for i, zone := range s.Network.Zones {
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
	for i, zone := range s.Network.Zones {
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

// header writes the title, and gives where the bands begin.
func (s *sheet) header() float64 {
	room := s.Width - 2*margin
	s.write(s.Network.Title, margin, margin+ascent*titleSize, room, titleSize, "ink strong")
	y := margin + 30
	y += s.paragraph(s.Subtitle, margin, y, room, fontSize, "soft")
	y += 6
	x, class := margin, "soft"
	if s.Mesh.On {
		x, class = s.meshX+14, "ink"
		s.meshTaps = append(s.meshTaps, y+fontSize/2)
	}
	s.write(s.meshLine(), x, y+ascent*fontSize, s.Width-margin-x, fontSize, class)
	if s.ring.total.Expected > 0 {
		words := s.ring.words(s.Network)
		if x+widthOf(s.meshLine(), fontSize)+3*padding > s.busX-14-widthOf(words, fontSize) {
			y += lineStep
		}
		s.right(words, s.busX-14, y+ascent*fontSize, room-lane, fontSize, "ink")
		s.busTaps = append(s.busTaps, tap{y: y + fontSize/2, state: s.of(s.ring.total)})
	}
	return y + lineStep + 8
}

// band draws a zone from y on, and gives where it ends. The lower of its two sides is in
// the middle.
func (s *sheet) band(i int, y float64) float64 {
	zone := s.Network.Zones[i]
	top := y + heading
	left, right := s.cardsHeight(i), s.rowsHeight(zone.Reflectors)
	high := max(left, right)
	at := top + (high-left)/2
	for j := range zone.Groups {
		s.card(i, j, at)
		at += s.cardHeight(i, j) + cardGap
	}
	if len(zone.Groups) == 0 {
		s.write("no clients", s.cardX, at+ascent*fontSize, s.cardWidth, fontSize, "soft")
	}
	p := place{top: y, height: heading + high + padding, panel: top + (high-right)/2}
	p.bottom = p.panel + right
	s.panel(i, p)
	s.write(zoneName(zone.Name), s.cardX, y+21, s.nameRoom(), fontSize+2, "ink strong")
	s.Back = append(s.Back, shape{s.bandX, y, s.bandWidth, p.height, 8, "band"})
	s.zones = append(s.zones, p)
	return y + p.height
}

// nameRoom is what the name of a zone may take: the words about its reflectors follow.
func (s *sheet) nameRoom() float64 {
	if s.panelWidth == 0 {
		return s.bandWidth - 2*padding
	}
	return s.curveX - s.cardX // the wires cross each other behind it
}
