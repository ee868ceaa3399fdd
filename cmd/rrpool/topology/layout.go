package topology

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
	// spread is what the trunk brings to each zone.
	spread map[int]Sessions

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
	s := &sheet{Network: n, ring: n.ring(), spread: n.spread()}
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
	for i := range s.Zones {
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
	text, ring := n.Subtitle+". "+n.meshLine()+".", n.ring()
	for i, zone := range n.Zones {
		text += fmt.Sprintf(" %s: %s", zone.title(), n.panelWords(i, ring))
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
	zone := s.Zones[i]
	top := y + heading
	left, right := s.cardsHeight(i), s.rowsHeight(zone.Reflectors)
	high := max(left, right)
	at := top + (high-left)/2
	for j := range zone.Groups {
		s.card(i, j, at)
		at += s.cardHeight(i, j) + cardGap
	}
	if len(zone.Groups) == 0 {
		s.write(zone.clientless(), s.cardX, at+ascent*fontSize, s.cardWidth, fontSize, "soft")
	}
	p := place{top: y, height: heading + high + padding, panel: top + (high-right)/2}
	p.bottom = p.panel + right
	s.panel(i, p)
	s.write(zone.title(), s.cardX, y+21, s.nameRoom(), fontSize+2, "ink strong")
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
