package modelcheck

import (
	"os"
	"strings"
	"testing"
)

func TestFirst(t *testing.T) {
	for _, sc := range Scenarios(false) {
	if only := os.Getenv("ONLY"); only != "" && !strings.Contains(sc.Name, only) { continue }
	sc.Limit = 20000; r := Explore(sc, 2)
	trace := r.Trace
	r.Trace = ""
	t.Logf("%+v", r)
	t.Log(trace)
	}
}
