package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// sheet is a network on its way to a drawing. From left to right a zone has its groups,
// the words on their lines, the lines themselves, and its pool of reflectors.
type sheet struct {
	*Network
	canvas
	mutual   Sessions   // of reflectors with each other
	mutualBy []Sessions // by zone
	boxes    [][]box    // by zone

	width, zoneX, zoneWidth, groupX, groupWidth, wordsX, wordsWidth, curvesX, poolX, poolWidth float64
	// reflector and sessions are the widths of a reflector and of the words about its sessions.
	reflector, sessions float64
	columns             int // of reflectors in a pool
	meshX, endX, endY   float64

	ends     []end
	pools    []span
	meshTaps []float64 // where the mesh joins a group
}

// box is a group with its texts, and with the lines that leave it: one for each zone, or
// where these are many one to the trunk.
type box struct {
	Group
	details      []detail
	lines        []line
	text, height float64
	bar          bool // there are states of clients to show
}

// end is where a line leaves its group.
type end struct {
	line
	y float64
}

type span struct{ top, bottom float64 }

func (s span) middle() float64 { return (s.top + s.bottom) / 2 }

// svg draws a network.
func svg(n *Network) string {
	s := &sheet{Network: n, canvas: canvas{used: map[state]bool{}}}
	s.mutual, s.mutualBy = n.mutual()
	for _, zone := range n.Zones {
		var boxes []box
		for _, g := range zone.Groups {
			b := box{Group: g, details: n.details(zone, g), lines: n.lines(g), bar: n.Live && g.All+g.Some+g.None+g.NotKnown > 0}
			if len(b.lines) >= manyZones {
				b.lines = []line{trunked(b.lines)}
			}
			b.text = 34 + float64(len(b.details))*lineStep
			if b.bar {
				b.text += padding
			}
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
	most, heads, names, lines := 0, 0.0, 0.0, 1
	for i, zone := range s.Zones {
		for _, b := range s.boxes[i] {
			s.groupWidth = max(s.groupWidth, widthOf(s.howMany(b.Clients), fontSize+2))
			for _, d := range b.details {
				s.groupWidth = max(s.groupWidth, signRoom+widthOf(d.text, fontSize))
			}
			for _, l := range b.lines {
				s.wordsWidth = max(s.wordsWidth, widthOf(s.lineWords(l), fontSize)+2*padding)
			}
			lines += len(b.lines)
		}
		most, heads = max(most, len(zone.Reflectors)), max(heads, widthOf(zone.zoneWords(), fontSize))
		for _, r := range zone.Reflectors {
			s.sessions = max(s.sessions, widthOf(s.reflectorWords(r), fontSize))
			names = max(names, min(max(widthOf(r.Name, fontSize), widthOf(s.reflectorDetail(r), fontSize)-s.sessions), longestName))
		}
	}
	left, right, curves := margin, margin, 0.0
	if s.Mesh.On {
		left += lane
	}
	if s.mutual.Expected > 0 {
		right += lane
	}
	if most > 0 {
		s.columns = min(1+(most-1)/6, 3)
		s.reflector = border + signRoom + names + 12 + s.sessions + 10
		s.poolWidth = max(float64(s.columns)*(s.reflector+gap)-gap+2*border, heads)
		s.reflector = (s.poolWidth-2*border+gap)/float64(s.columns) - gap
		curves = 90 + 2*float64(min(lines, 60))
	}
	s.zoneX, s.groupX, s.groupWidth = left, left+padding, s.groupWidth+2*padding
	s.wordsX = s.groupX + s.groupWidth
	s.curvesX = s.wordsX + s.wordsWidth
	s.width = round(max(s.curvesX+curves+s.poolWidth+padding+right, narrowest))
	s.zoneWidth = s.width - right - left
	s.poolX = s.width - right - padding - s.poolWidth
	if most == 0 {
		s.groupWidth = s.zoneWidth - 2*padding // there is nothing beside them
	}
	s.meshX, s.endX = margin+lane/3, s.width-margin-lane/3
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
		s.meshTaps = append(s.meshTaps, y+fontSize/2)
	}
	s.write(s.meshWords(), x, y+ascent*fontSize, s.width-margin-x, fontSize, class, false)
	if words := "between reflectors: " + s.sessionWords(s.mutual); s.mutual.Expected > 0 {
		if x+widthOf(s.meshWords()+words, fontSize)+4*padding > s.endX {
			y += lineStep
		}
		s.write(words, s.endX-padding, y+ascent*fontSize, room-lane, fontSize, "ink", true)
		s.ring("trunk", s.endX, y+fontSize/2)
		s.endY = y + fontSize/2 + 7
	}
	return y + lineStep + border
}

// zone draws a zone from y on, and gives where it ends. The lower of its two sides is in
// the middle.
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
	if b.bar {
		s.bar([]int{b.All, b.Some, b.None, b.NotKnown}, x, y, room)
		y += padding
	}
	for _, d := range b.details {
		s.sign(d.state, x+5, y+8)
		s.write(d.text, x+signRoom, y+12, room-signRoom, fontSize, "ink", false)
		y += lineStep
	}
	if s.Mesh.On {
		s.meshTaps = append(s.meshTaps, middle)
	}
	for k, l := range b.lines {
		y := middle + (float64(k)-float64(len(b.lines)-1)/2)*port
		s.write(s.lineWords(l), s.wordsX+padding, y-gap, s.wordsWidth, fontSize, "ink", false)
		s.ends = append(s.ends, end{l, y})
	}
}

// bar shows the parts of a group by their states. The fewer sessions are up, the lower
// its part is. Each part has a least width, so that it can be seen.
func (s *sheet) bar(counts []int, x, y, width float64) {
	all, parts := 0, 0
	for _, count := range counts {
		all, parts = all+count, parts+min(count, 1)
	}
	for i, count := range counts {
		wide, high := 4+(width-float64(5*parts-1))*float64(count)/float64(all), 8-2*float64(i)
		if count > 0 {
			rect(&s.front, x, y+8-high, wide, high, 1, "fill-"+looks[states[i]].name)
			x += wide + 1
		}
	}
}

// rows is how many rows the reflectors of a zone take, from top to bottom and then to the
// right, and rowHeight the height of each: details need a line of their own.
func (s *sheet) rows(z Zone) int { return (len(z.Reflectors) + s.columns - 1) / max(s.columns, 1) }

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
	return 2*border - gap + float64(s.rows(z))*(s.rowHeight(z)+gap)
}

// pool draws the reflectors of a zone.
func (s *sheet) pool(z Zone, at span) {
	if len(z.Reflectors) > 0 {
		rect(&s.front, s.poolX, at.top, s.poolWidth, at.bottom-at.top, gap, "pool")
	}
	high := s.rowHeight(z)
	for j, r := range z.Reflectors {
		x, y := s.poolX+border+float64(j/s.rows(z))*(s.reflector+gap), at.top+border+float64(j%s.rows(z))*(high+gap)
		is, from, room := s.of(r.Sessions), x+border+signRoom, s.reflector-2*border-signRoom
		rect(&s.front, x, y, s.reflector, high, 5, "reflector edge-"+looks[is].name)
		s.sign(is, x+padding, y+13)
		s.write(r.Name, from, y+17, room-s.sessions-padding, fontSize, "ink", false)
		s.write(s.reflectorWords(r), x+s.reflector-10, y+17, s.sessions, fontSize, "ink", true)
		s.write(s.reflectorDetail(r), from, y+17+lineStep, room, fontSize, "soft", false)
	}
}

// arrival is where a line comes from to the reflectors of a zone: level from left to x.
type arrival struct {
	Sessions
	left, x, y float64
}

// connect draws the lines. Each begins level below its words; only then do lines cross
// each other, where no text is. Those to many zones go over a trunk.
func (s *sheet) connect() {
	arrivals, trunk := make([][]arrival, len(s.Zones)), make([]Sessions, len(s.Zones))
	x, from, to := s.curvesX+(s.poolX-s.curvesX)/3, math.Inf(1), math.Inf(-1)
	for _, e := range s.ends {
		if len(e.parts) == 0 {
			arrivals[e.zone] = append(arrivals[e.zone], arrival{e.Sessions, s.wordsX, s.curvesX, e.y})
			continue
		}
		s.line(s.of(e.Sessions), "M%g %gH%g", s.wordsX, e.y, x)
		s.joint("joint", x, e.y)
		from, to = min(from, e.y), max(to, e.y)
		for _, l := range e.parts {
			trunk[l.zone].add(l.Sessions)
		}
	}
	for i, pool := range s.pools {
		y := pool.middle()
		if trunk[i].Expected > 0 {
			s.joint("joint", x, y)
			from, to = min(from, y), max(to, y)
			arrivals[i] = append(arrivals[i], arrival{trunk[i], x, x, y})
		}
		slices.SortStableFunc(arrivals[i], func(a, b arrival) int { return cmp.Compare(a.y, b.y) })
		for k, a := range arrivals[i] {
			y, half := pool.top+(pool.bottom-pool.top)*float64(k+1)/float64(len(arrivals[i])+1), (a.x+s.poolX)/2
			s.line(s.of(a.Sessions), "M%g %gH%gC%g %g %g %g %g %g", a.left, a.y, a.x, half, a.y, half, y, s.poolX, y)
		}
		if s.mutualBy[i].Expected > 0 {
			s.path("trunk", "M%g %gV%g", s.endX, s.endY, y)
			s.line(s.of(s.mutualBy[i]), "M%g %gH%g", s.poolX+s.poolWidth, y, s.endX)
			s.joint("joint", s.endX, y)
			s.endY = y
		}
	}
	if to > from {
		s.path("trunk", "M%g %gV%g", x, from, to)
	}
	for _, y := range s.meshTaps[min(1, len(s.meshTaps)):] {
		s.path("mesh", "M%g %gV%gH%g", s.meshX, s.meshTaps[0]+7, y, s.groupX)
		s.joint("mesh-joint", s.meshX, y)
	}
	if s.Mesh.On {
		s.ring("mesh", s.meshX, s.meshTaps[0])
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
	if len(s.ends) > 0 {
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

// legend explains the states that are drawn. Details of a group need none.
func (s *sheet) legend(y float64) float64 {
	x := margin
	idles := slices.ContainsFunc(s.Zones, func(z Zone) bool {
		return slices.ContainsFunc(z.Reflectors, func(r Reflector) bool { return r.Expected == 0 })
	})
	for _, is := range states {
		if !s.used[is] || is == idle && !idles {
			continue
		}
		wide := widthOf(looks[is].words, fontSize) + 72
		if x+wide > s.width-margin && x > margin {
			x, y = margin, y+lineStep+4
		}
		s.line(is, "M%g %gh32", x, y+8)
		s.sign(is, x+42, y+8)
		s.write(looks[is].words, x+54, y+12, wide, fontSize, "soft", false)
		x += wide + 8
	}
	if x > margin {
		y += lineStep + 8
	}
	return y
}
