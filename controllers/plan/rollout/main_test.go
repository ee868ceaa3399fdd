package rollout_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the properties try 25 cases each, less than a minute on two cores, where nobody
// asks for another number with -rapid.checks; make soak does.
func TestMain(m *testing.M) {
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
