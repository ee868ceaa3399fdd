package rollout_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes the properties try 25 cases each, less than a minute on two cores, where nobody
// asks for another number with -rapid.checks; make soak does. The model keeps little memory and
// throws much away: collected as seldom as this, a third less time goes into it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
