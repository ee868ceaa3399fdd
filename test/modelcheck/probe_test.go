package modelcheck

import (
	"fmt"
	"testing"
)

func TestProbe(t *testing.T) {
	m := newModel(Scenario{Name: "first", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true, Stale: 1})
	x := &explorer{m: m, workers: 1}
	first := m.beginning()
	level := []found{{state: first}}
	x.log = append(x.log, entry{})
	cuts := map[string]func(*state){
		"since": func(s *state) { for i := range s.reports { for j := range s.reports[i].sess { s.reports[i].sess[j] &^= 7 << sinceShift } } },
		"updated": func(s *state) { for i := range s.reports { s.reports[i].updated = 0 } },
		"updsince": func(s *state) { for i := range s.reports {s.reports[i].updated = 0; for j := range s.reports[i].sess { s.reports[i].sess[j] &^= 7 << sinceShift } } },
		"cleared": func(s *state) { for i := range s.reports { s.reports[i].cleared = 0 } },
		"learned": func(s *state) { for i := range s.reports { s.reports[i].learned = 0; } },
		"reports": func(s *state) { for i := range s.reports { s.reports[i]=report{} } },
		"up": func(s *state) { s.up = [maxPairs]uint8{} },
		"rowsup": func(s *state) { s.up = [maxPairs]uint8{}; s.rows = [maxNodes]uint16{} },
		"fresh": func(s *state) { s.fresh = 0 },
		"owed": func(s *state) { s.owed = [maxNodes]uint8{} },
		"ex": func(s *state) { s.excused = 0 },
		"lag": func(s *state) { s.lagged = 0 },
		"nodes": func(s *state) { s.nodes = [maxNodes]node{} },
		"mem": func(s *state) { s.meshSince, s.shortSince, s.straySince = 0, 0, 0 },
		"ages": func(s *state) { for i := range s.nodes { s.nodes[i].roleAge = 0 }; for i := range s.peers { s.peers[i].at = 0 } },
		"rows": func(s *state) { s.rows = [maxNodes]uint16{} },
		"hidden": func(s *state) { s.hidden = hidden{} },
		"excuse": func(s *state) { s.excused, s.owed, s.fresh = 0,[maxNodes]uint8{},0 },
		"reports+mem+ages": func(s *state) { for i := range s.reports { s.reports[i]=report{} };s.meshSince, s.shortSince, s.straySince = 0, 0, 0; for i := range s.nodes { s.nodes[i].roleAge = 0 }; for i := range s.peers { s.peers[i].at = 0 }  },
	}
	left := map[string]map[key]bool{}
	for k := range cuts { left[k] = map[key]bool{} }
	total := 0
	for len(level) > 0 && total < 60000 {
		var next []found
		for _, f := range level {
			next, _, _ = x.successors(&f.state, 0, next)
			total++
			for k, cut := range cuts {
				s := f.state
				cut(&s)
				left[k][hash(&s)] = true
			}
		}
		level = next
	}
	fmt.Println("total", total)
	for k, v := range left {
		fmt.Println(k, len(v))
	}
}
