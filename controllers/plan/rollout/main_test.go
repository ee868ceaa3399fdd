package rollout_test

import (
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestMain makes the properties try 25 cases each, and the same ones each time, where nobody asks
// for another number with -rapid.checks or for others with -rapid.seed: what passed yesterday fails
// today because of a change, and of nothing else. make soak draws a thousand new ones. The model
// keeps little memory and throws much away: collected seldom, a third less time goes into it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	if !asked {
		for name, value := range map[string]string{"rapid.checks": "25", "rapid.seed": "1"} {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
