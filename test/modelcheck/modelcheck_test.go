package modelcheck

import (
	"testing"
)

func TestFirst(t *testing.T) {
	for _, sc := range []Scenario{
	{Name: "first0", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true},
	{Name: "first1", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true,Stale:1},
	{Name: "first slow", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true,Stale:1,Slow:true},
	{Name: "first0 late", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true,Late:true},
	{Name: "first flip", Clients: 2, Pool: 2, PerZone: 2, Dedicated: true,Stale:1,Flip:true, Disturbances:[]Disturbance{ModeChanges}},
	}{
	r := Explore(sc, 120000, 2)
	t.Logf("%+v", r)
	t.Log(r.Trace)
	}
}
