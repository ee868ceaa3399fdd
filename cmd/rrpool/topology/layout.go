package topology

import (
	"fmt"
	"slices"
)

// sheet is a network on its way to a drawing. From left to right a zone has its groups,
// the words on their lines, the lines themselves, and its pool of reflectors.
type sheet struct {
	*Network
	canvas
	boxes [][]box // by zone

	width, zoneX, zoneWidth, groupX, groupWidth, wordsX, curvesX, poolX, poolWidth float64
	// sessions is the width of the words about a reflector's sessions.
	sessions float64
	// The mesh, and what joins reflectors, are drawn down to there.
	meshX, meshY, mutualX, mutualY float64

	pools []span  // by zone
	ends  [][]end // by the zone that the lines lead to
}

// box is a group with its texts, and with the lines that leave it, one for each zone.
type box struct {
	Group
	details      []detail
	lines        []line
	text, height float64
}

// end is where a line leaves its group.
type end struct {
	Sessions
	y float64
}

type span struct{ top, bottom float64 }

// svg draws a network.
func svg(n *Network) string {
	s := &sheet{Network: n, canvas: canvas{used: map[state]bool{}}, ends: make([][]end, len(n.Zones))}
	for _, zone := range n.Zones {
		var boxes []box
		for _, g := range zone.Groups {
			b := box{Group: g, details: n.details(zone, g), lines: n.lines(g)}
			b.text = 34 + float64(len(b.details))*lineStep
			b.height = max(b.text, float64(len(b.lines))*port+4)
			boxes = append(boxes, b)
		}
		s.boxes = append(s.boxes, boxes)
	}
	s.measure()
	y := s.header()
	for i := range n.Zones {
		y = s.zone(i, y) + zoneGap
	}
	s.connect()
	return s.render(s.width, round(s.footer(y)+margin), n.Title, n.Subtitle+", "+n.meshWords())
}

// measure finds the columns. Each is as wide as what is in it.
func (s *sheet) measure() {
	s.groupWidth = widthOf("no clients", fontSize)
	heads, names, words, lines := 0.0, 0.0, 0.0, 1
	for i, zone := range s.Zones {
		for _, b := range s.boxes[i] {
			s.groupWidth = max(s.groupWidth, widthOf(s.howMany(b.Clients), fontSize+2))
			for _, d := range b.details {
				s.groupWidth = max(s.groupWidth, signRoom+widthOf(d.text, fontSize))
			}
			for _, l := range b.lines {
				words = max(words, widthOf(s.lineWords(l), fontSize)+2*padding)
			}
			lines += len(b.lines)
		}
		heads = max(heads, widthOf(zone.zoneWords(), fontSize))
		for _, r := range zone.Reflectors {
			s.sessions = max(s.sessions, widthOf(s.reflectorWords(r), fontSize))
			names = max(names, min(max(widthOf(r.Name, fontSize), widthOf(s.reflectorDetail(r), fontSize)-s.sessions), longestName))
		}
	}
	left, right, curves := margin, margin, 0.0
	if s.Mesh.On {
		left += lane
	}
	if s.mutual().Expected > 0 {
		right += lane
	}
	if s.sessions > 0 {
		s.poolWidth = max(3*border+signRoom+names+12+s.sessions+10, heads)
		curves = 90 + 2*float64(min(lines, 60))
	}
	s.zoneX, s.groupX, s.groupWidth = left, left+padding, s.groupWidth+2*padding
	s.wordsX = s.groupX + s.groupWidth
	s.curvesX = s.wordsX + words
	s.width = round(max(s.curvesX+curves+s.poolWidth+padding+right, narrowest))
	s.zoneWidth = s.width - right - left
	s.poolX = s.width - right - padding - s.poolWidth
	if s.poolWidth == 0 {
		s.groupWidth = s.zoneWidth - 2*padding // there is nothing beside them
	}
	s.meshX, s.mutualX = margin+lane/3, s.width-margin-lane/3
}

// header writes the title, and gives where the zones begin.
func (s *sheet) header() float64 {
	room := s.width - 2*margin
	s.write(s.Title, margin, margin+ascent*titleSize, room, titleSize, "ink strong", false)
	y := margin + 30
	y += s.paragraph(s.Subtitle, margin, y, room) + gap
	x, class := margin, "soft"
	if s.Mesh.On {
		x, class = s.meshX+padding, "ink"
		s.ring("mesh", s.meshX, y+fontSize/2)
		s.meshY = y + fontSize/2 + 7
	}
	s.write(s.meshWords(), x, y+ascent*fontSize, s.width-margin-x, fontSize, class, false)
	if words := "between reflectors: " + s.sessionWords(s.mutual()); s.mutual().Expected > 0 {
		if x+widthOf(s.meshWords()+words, fontSize)+4*padding > s.mutualX {
			y += lineStep
		}
		s.write(words, s.mutualX-padding, y+ascent*fontSize, room-lane, fontSize, "ink", true)
		s.ring("trunk", s.mutualX, y+fontSize/2)
		s.mutualY = y + fontSize/2 + 7
	}
	return y + lineStep + border
}

// zone draws a zone from y on, and gives where it ends. The lower of its two sides is in the middle.
func (s *sheet) zone(i int, y float64) float64 {
	zone, left, right := s.Zones[i], -groupGap, s.poolHeight(s.Zones[i])
	for _, b := range s.boxes[i] {
		left += b.height + groupGap
	}
	left = max(left, lineStep)
	high := max(left, right)
	top, room := y+heading, s.zoneWidth-2*padding
	at := top + (high-left)/2
	for _, b := range s.boxes[i] {
		s.group(b, at)
		at += b.height + groupGap
	}
	if len(zone.Groups) == 0 {
		s.write("no clients", s.groupX, at+ascent*fontSize, s.groupWidth, fontSize, "soft", false)
	}
	s.pools = append(s.pools, span{top + (high-right)/2, top + (high+right)/2})
	if s.poolWidth > 0 {
		room = s.curvesX - s.groupX
		s.write(zone.zoneWords(), s.poolX, y+21, s.poolWidth, fontSize, "ink", false)
		s.pool(zone, s.pools[i])
	}
	s.write(zone.title(), s.groupX, y+21, room, fontSize+2, "ink strong", false)
	rect(&s.back, s.zoneX, y, s.zoneWidth, heading+high+padding, border, "zone")
	return y + heading + high + padding
}

// group draws a group of clients. Its lines are spread around its middle.
func (s *sheet) group(b box, y float64) {
	x, room, middle := s.groupX+padding, s.groupWidth-2*padding, y+b.height/2
	rect(&s.front, s.groupX, y, s.groupWidth, b.height, gap, "group")
	y = middle - b.text/2 + 30
	s.write(s.howMany(b.Clients), x, y-10, room, fontSize+2, "ink strong", false)
	for _, d := range b.details {
		if d.state != idle {
			s.sign(d.state, x+5, y+8)
		}
		s.write(d.text, x+signRoom, y+12, room-signRoom, fontSize, "ink", false)
		y += lineStep
	}
	if s.Mesh.On {
		s.path("mesh", "M%g %gV%gH%g", s.meshX, s.meshY, middle, s.groupX)
		s.joint("mesh-joint", s.meshX, middle)
		s.meshY = middle
	}
	for k, l := range b.lines {
		y := middle + (float64(k)-float64(len(b.lines)-1)/2)*port
		s.write(s.lineWords(l), s.wordsX+padding, y-gap, s.curvesX-s.wordsX, fontSize, "ink", false)
		s.ends[l.zone] = append(s.ends[l.zone], end{l.Sessions, y})
	}
}

// rowHeight is that of each reflector of a zone: details need a line of their own.
func (s *sheet) rowHeight(z Zone) float64 {
	if slices.ContainsFunc(z.Reflectors, func(r Reflector) bool { return s.reflectorDetail(r) != "" }) {
		return port + lineStep
	}
	return port
}

func (s *sheet) poolHeight(z Zone) float64 {
	if len(z.Reflectors) == 0 {
		return 0
	}
	return 2*border - gap + float64(len(z.Reflectors))*(s.rowHeight(z)+gap)
}

// pool draws the reflectors of a zone.
func (s *sheet) pool(z Zone, at span) {
	if len(z.Reflectors) > 0 {
		rect(&s.front, s.poolX, at.top, s.poolWidth, at.bottom-at.top, gap, "pool")
	}
	x, y, wide, high := s.poolX+border, at.top+border, s.poolWidth-2*border, s.rowHeight(z)
	from, room := x+border+signRoom, wide-2*border-signRoom
	for _, r := range z.Reflectors {
		is := s.of(r.Sessions)
		rect(&s.front, x, y, wide, high, 5, "reflector edge-"+looks[is].name)
		s.sign(is, x+padding, y+13)
		s.write(r.Name, from, y+17, room-s.sessions-padding, fontSize, "ink", false)
		s.write(s.reflectorWords(r), x+wide-10, y+17, s.sessions, fontSize, "ink", true)
		s.write(s.reflectorDetail(r), from, y+17+lineStep, room, fontSize, "soft", false)
		y += high + gap
	}
}

// connect draws the lines. Each begins level below its words; only then do lines cross
// each other, where no text is.
func (s *sheet) connect() {
	half := (s.curvesX + s.poolX) / 2
	for i, pool := range s.pools {
		for k, e := range s.ends[i] {
			y := pool.top + (pool.bottom-pool.top)*float64(k+1)/float64(len(s.ends[i])+1)
			s.line(s.of(e.Sessions), "M%g %gH%gC%g %g %g %g %g %g", s.wordsX, e.y, s.curvesX, half, e.y, half, y, s.poolX, y)
		}
	}
	for _, l := range s.lines(Group{}) {
		y := (s.pools[l.zone].top + s.pools[l.zone].bottom) / 2
		s.path("trunk", "M%g %gV%g", s.mutualX, s.mutualY, y)
		s.line(s.of(l.Sessions), "M%g %gH%g", s.poolX+s.poolWidth, y, s.mutualX)
		s.joint("joint", s.mutualX, y)
		s.mutualY = y
	}
}

// joint is a dot where lines meet, not merely cross, and ring a circle: each with each.
func (s *sheet) joint(class string, x, y float64) { rect(&s.front, x-3.5, y-3.5, 7, 7, 3.5, class) }

func (s *sheet) ring(class string, x, y float64) {
	s.path(class, "M%g %ga7 7 0 1 1 14 0a7 7 0 1 1 -14 0z", x-7, y)
}

// footer writes the legend and the notes, and gives where they end.
func (s *sheet) footer(y float64) float64 {
	y, what, notes := s.legend(y), "zone", slices.Clone(s.Notes)
	if slices.ContainsFunc(s.Zones, func(z Zone) bool { return z.Kind == rackFrame }) {
		what = "rack"
	}
	if s.curvesX > s.wordsX {
		notes = slices.Insert(notes, 0, fmt.Sprintf("A line is all BGP sessions of a group with a %s's reflectors: clients × sessions.", what))
	}
	if len(s.Zones) == 0 {
		notes = slices.Insert(notes, 0, nothing)
	}
	for _, note := range notes {
		y += s.paragraph(note, margin, y, s.width-2*margin)
	}
	return y
}

// legend explains the states that are drawn.
func (s *sheet) legend(y float64) float64 {
	x := margin
	for i, l := range &looks {
		is := state(i)
		if !s.used[is] {
			continue
		}
		wide := widthOf(l.words, fontSize) + 72
		if x+wide > s.width-margin && x > margin {
			x, y = margin, y+lineStep+4
		}
		s.line(is, "M%g %gh32", x, y+8)
		s.sign(is, x+42, y+8)
		s.write(l.words, x+54, y+12, wide, fontSize, "soft", false)
		x += wide + 8
	}
	if x > margin {
		y += lineStep + 8
	}
	return y
}
